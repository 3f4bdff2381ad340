import { actionJson, type Outcome, type SettledAction } from '../../src/model/action.ts'
import type { Store, StoredEvent } from '../../src/store/store.ts'
import { changed, Prediction, type Expected, type Settled } from './predict.ts'
import { hasHappened, type Fields, type Known, type Oracle, type Space } from './oracle.ts'
import type { Outside } from './outside.ts'

type Say = (sentence: string) => void

/** Follows the Events in their order, runs each Action through the oracle at its place, and compares (E1). */
export class Settler {
  readonly #oracle: Oracle
  readonly #outside: Outside
  readonly #say: Say

  constructor(oracle: Oracle, outside: Outside, say: Say) {
    this.#oracle = oracle
    this.#outside = outside
    this.#say = say
  }

  /** Takes in a namespace's new Events; gives how many. */
  async follow(store: Store, space: Space, isAlone: boolean): Promise<number> {
    const events = await store.events(space.namespace, space.seq, 1000)
    for (const event of events) {
      if (event.seq !== space.seq + 1) this.#say(`the Event after ${space.seq} is ${event.seq} (E1)`)
      space.seq = event.seq
      const action = await store.action(space.namespace, event.action)
      const known = this.#oracle.actions.get(event.action)
      if (known === undefined || action === null)
        this.#say(`Event ${event.seq} is of ${event.action}, which nobody asked for`)
      else if (action.status === 'pending') this.#say(`Event ${event.seq} is of ${action.id}, which is pending`)
      else await this.#settled(store, event, known, action, isAlone)
    }
    await this.#usage(store, space)
    return events.length
  }

  async #settled(
    store: Store,
    event: StoredEvent,
    known: Known,
    action: SettledAction,
    isAlone: boolean,
  ): Promise<void> {
    const say: Say = (sentence) => this.#say(`${known.verb} ${known.id} (${JSON.stringify(known.input)}) ${sentence}`)
    if (known.status !== 'pending') say('settles a second time')
    if (action.event !== event.id || action.seq !== event.seq) say(`has Event ${action.event}, not ${event.id}`)
    known.status = action.status
    known.body = actionJson(action)
    if (known.verb === 'Action.cancel') return this.#cancelled(known, action, event, say)
    if (action.outcome.status === 'refused' && action.outcome.fix.code === 'cancelled')
      return this.#wasCancelled(known, event, say)
    const settled = JSON.parse(known.body) as Settled
    const prediction = new Prediction(this.#oracle, this.#outside, known, settled, isAlone)
    known.status = 'pending'
    const outcomes = prediction.outcomes(codeOf(action.outcome))
    known.status = action.status
    for (const sentence of prediction.wrong) say(sentence)
    const expected = outcomes.find((one) => isMet(one, action.outcome))
    if (expected === undefined)
      return say(
        `came to ${JSON.stringify(action.outcome)}, not to ${outcomes.map((one) => JSON.stringify(one)).join(' or ')}; ${this.#story(known)}`,
      )
    this.#apply(known, expected, settled, event, say)
    for (const step of this.#oracle.chainOf(known).steps.values())
      if (step.status === 'unknown') step.since ??= event.at
    this.#holds(known, prediction.holds)
    this.#items(known, expected)
    meter(known, expected, event.at)
    await this.#records(store, known, event, say)
  }

  /** What it was decided on and after, for who looks into a failure. */
  #story({ versions, after, worker, root, on }: Known): string {
    const named = after === null ? undefined : this.#oracle.bound(worker.id, after)
    const chain = named && this.#oracle.chainOf(named).members.map(({ id, verb, status }) => `${id} ${verb} ${status}`)
    return `versions ${JSON.stringify(versions)}, after ${after}: ${named?.id} of ${chain?.join()}; root ${root}, on ${on}`
  }

  /** A3: an Action of its own, whose output is the cancelled one as it then is. */
  #cancelled(known: Known, action: SettledAction, event: StoredEvent, say: Say): void {
    const target = this.#oracle.actions.get(known.target ?? '')
    const output = action.outcome.status === 'succeeded' ? action.outcome.output : null
    if (target?.status !== 'refused' || output !== target.body) say(`gave ${output}, and its target is ${target?.body}`)
    if (event.type !== 'Action.cancelled' || event.records.length > 0) say(`has Event ${JSON.stringify(event)}`)
  }

  #wasCancelled(known: Known, event: StoredEvent, say: Say): void {
    if (hasHappened(this.#oracle.chainOf(known))) say('was cancelled after an effect (A3)')
    if (
      this.#outside.callsOf(String(known.input['tag']), 'charge') > 0 &&
      known.on === null &&
      known.verb === 'Order.place'
    ) {
      say('was cancelled after its step had started (A3)')
    }
    if (event.type !== `${known.verb}.refused`) say(`has Event ${event.type}`)
    release(known)
  }

  #apply(known: Known, expected: Expected, settled: Settled, event: StoredEvent, say: Say): void {
    const type = expected.status === 'succeeded' ? succeeded[known.verb] : `${known.verb}.${expected.status}`
    if (event.type !== type) say(`has Event ${event.type}, not ${type}`)
    if (event.worker !== known.worker.name) say(`has an Event of ${event.worker}, not of ${known.worker.name}`)
    if (expected.status !== 'succeeded') {
      if (event.records.length > 0) say(`is ${expected.status} and changed ${JSON.stringify(event.records)}`)
      return
    }
    for (const [member, value] of Object.entries(expected.output ?? {})) {
      if (settled.output?.[member] !== value)
        say(`gave ${JSON.stringify(settled.output)}, not ${JSON.stringify(expected.output)}`)
    }
    const changes: string[] = []
    for (const { noun, id, fields } of expected.writes ?? []) {
      const written = id ?? String(settled.output?.['$id'])
      if (id === null && known.space.find(noun, written) !== undefined)
        say(`created ${written}, which there was before`)
      const version = known.space.write(noun, written, fields, known.id)
      changes.push(`${noun === 'Order' ? 'orders' : 'accounts'}/${written}=${version}`)
    }
    const told = event.records.map(({ record, version }) => `${record}=${version}`)
    if (told.sort().join() !== changes.sort().join()) say(`changed ${told.join()}, not ${changes.join()}`)
  }

  /** Who holds what from here on (V6). */
  #holds(known: Known, holds: readonly string[]): void {
    if (known.status !== 'failed' || !hasHappened(this.#oracle.chainOf(known))) return release(known)
    for (const resource of holds) {
      if ((known.space.stuck.get(resource) ?? known.root) === known.root) known.space.stuck.set(resource, known.root)
    }
  }

  /** What lands in an inbox (W4). */
  #items(known: Known, { status, code }: Expected): void {
    const isRefused = status === 'refused' && (code === 'stale-decision' || code === 'predecessor-not-applied')
    const isFailed = status === 'failed' && hasHappened(this.#oracle.chainOf(known))
    if (isRefused || isFailed) known.space.items.push({ kind: status, action: known.id, decision: null })
  }

  async #records(store: Store, known: Known, event: StoredEvent, say: Say): Promise<void> {
    for (const { record } of event.records) {
      const [plural = '', id = ''] = record.split('/')
      const noun = plural === 'orders' ? 'Order' : 'Account'
      const kept = known.space.find(noun, id)
      const history = await store.versions(known.space.namespace, noun, id, 0, 1000)
      const last = kept === undefined ? undefined : history[kept.version - 1]
      if (kept === undefined || last === undefined || last.action !== known.id) {
        say(`made a Version of ${record}, which is not there: ${JSON.stringify(history)}`)
        continue
      }
      const before = kept.history[kept.version - 2]?.fields ?? {}
      const expected = changed(before, kept.fields ?? {}).map(([field, to]) =>
        JSON.stringify([field, before[field] ?? null, to ?? null]),
      )
      const told = last.changes.map(({ field, from, to }) => JSON.stringify([field, from ?? null, to ?? null]))
      const isGone = kept.fields === null && last.deleted
      if (!isGone && told.sort().join() !== expected.sort().join())
        say(`changed ${told.join()} of ${record}, not ${expected.join()}`)
    }
  }

  async #usage(store: Store, space: Space): Promise<void> {
    const rows = await store.usage(space.namespace, '2000-01-01', '2200-01-01')
    const told = rows
      .filter(({ units }) => units > 0)
      .map(({ verb, worker, day, units }) => `${verb} ${worker} ${day}=${units}`)
    const expected = [...space.usage].filter(([, units]) => units > 0).map(([row, units]) => `${row}=${units}`)
    if (told.sort().join() !== expected.sort().join()) this.#say(`usage is ${told.join()}, not ${expected.join()}`)
  }

  /** All that a namespace holds, against all that the oracle knows. */
  async audit(store: Store, space: Space): Promise<void> {
    const page = { after: 0, limit: 100_000 }
    for (const noun of ['Account', 'Order']) {
      const { data } = await store.records(space.namespace, noun, [], page)
      const told = data.map(({ id, version, fields }) => `${id} ${version} ${sorted(fields)}`)
      const expected = [...space.records.values()].filter((rec) => rec.noun === noun && rec.fields !== null)
      const known = expected.map(({ id, version, fields }) => `${id} ${version} ${sorted(fields ?? {})}`)
      if (told.sort().join() !== known.sort().join())
        this.#say(`${noun}s are ${told.join('; ')}, not ${known.join('; ')}`)
    }
    const actions = await store.actions(space.namespace, {}, page)
    const own = [...this.#oracle.actions.values()].filter((one) => one.space === space)
    if (actions.data.length !== own.length) this.#say(`${actions.data.length} Actions are on record, not ${own.length}`)
    const items = await store.inbox(space.namespace, { workerId: '', all: true }, page)
    const inboxes = await Promise.all(
      space.workers.map(({ id }) => store.inbox(space.namespace, { workerId: id, all: false }, page)),
    )
    const told = inboxes
      .flatMap(({ data }) => data)
      .map(({ kind, action, decision }) => `${kind} ${action.id} ${decision?.decision ?? 'open'}`)
    const expected = space.items.map(({ kind, action, decision }) => `${kind} ${action} ${decision ?? 'open'}`)
    if (told.sort().join() !== expected.sort().join())
      this.#say(`the inboxes hold ${told.join()}, not ${expected.join()}`)
    if (items.data.some(({ kind }) => kind !== 'failed')) this.#say('an inbox shows refusals of others')
  }
}

function isMet(expected: Expected, outcome: Outcome): boolean {
  if (expected.status !== outcome.status) return false
  return outcome.status === 'succeeded' || expected.code === codeOf(outcome)
}

function codeOf(outcome: Outcome): string | null {
  if (outcome.status === 'succeeded') return null
  return outcome.status === 'failed' ? outcome.error.code : outcome.fix.code
}

function release({ space, root }: Known): void {
  for (const [resource, holder] of space.stuck) {
    if (holder !== root) continue
    space.stuck.delete(resource)
    space.stuckLately.add(resource)
  }
}

function meter({ space, verb, worker }: Known, { status, units = 1 }: Expected, at: number): void {
  if (status !== 'succeeded') return
  const row = `${verb} ${worker.name} ${new Date(at).toISOString().slice(0, 10)}`
  space.usage.set(row, (space.usage.get(row) ?? 0) + units)
}

function sorted(fields: Fields): string {
  return JSON.stringify(Object.entries(fields).sort(([left], [right]) => (left < right ? -1 : 1)))
}

/** Past participles (E1), as a person writes them. */
const succeeded: Readonly<Record<string, string>> = {
  'Account.open': 'Account.opened',
  'Account.deposit': 'Account.deposited',
  'Account.annotate': 'Account.annotated',
  'Account.ponder': 'Account.pondered',
  'Account.transfer': 'Account.transferred',
  'Account.close': 'Account.closed',
  'Account.adopt': 'Account.adopted',
  'Account.tally': 'Account.tallied',
  'Account.enroll': 'Account.enrolled',
  'Order.place': 'Order.placed',
  'Order.settle': 'Order.settled',
  'Order.twice': 'Order.doubled',
}
