import type { Outside } from './outside.ts'
import {
  hasHappened,
  type Chain,
  type Fields,
  type Known,
  type Oracle,
  type Rec,
  type Space,
  type StepMade,
} from './oracle.ts'

/** What the contract lets an Action come to, at its place in the order of Events. */
export interface Expected {
  readonly status: 'succeeded' | 'failed' | 'refused'
  /** Of the error or the fix. */
  readonly code?: string
  /** The output as far as it is determined; `$id` of a new record is taken from the answer. */
  readonly output?: Fields | null
  readonly writes?: readonly Write[]
  readonly units?: number
}

export interface Write {
  readonly noun: string
  /** Null: a new record, whose id the answer tells. */
  readonly id: string | null
  readonly fields: Fields | null
}

/** What settled, as its JSON says. */
export interface Settled {
  readonly status: 'succeeded' | 'failed' | 'refused'
  readonly output: Fields | null
  readonly steps: readonly { readonly step: string; readonly status: string; readonly attempts: number }[]
}

const attempts = 3

/** Runs an Action's Verb on what the oracle knows: first whether what it was decided on stands, then the Verb itself. */
export class Prediction {
  readonly #oracle: Oracle
  readonly #outside: Outside
  readonly #known: Known
  readonly #settled: Settled
  readonly #chain: Chain
  readonly #space: Space
  /** Nothing else happened while it was under way. */
  readonly #isAlone: boolean
  /** What is wrong already, apart from the outcome. */
  readonly wrong: string[] = []
  /** Resources that the Action's chain holds from its first effect on. */
  holds: string[] = []

  constructor(oracle: Oracle, outside: Outside, known: Known, settled: Settled, isAlone: boolean) {
    this.#isAlone = isAlone
    this.#oracle = oracle
    this.#outside = outside
    this.#known = known
    this.#settled = settled
    this.#chain = oracle.chainOf(known)
    this.#space = known.space
  }

  /** Several where it depends on who came first. */
  outcomes(code: string | null): Expected[] {
    const { refusals, mayRun } = this.#decision()
    // Its Verb did not run: nothing is to be said of its steps.
    if (!mayRun || refusals.some((refusal) => refusal.code === code)) return refusals
    const outcome = this.#run()
    const busy = this.#isBusy(outcome)
    return [...refusals, ...(busy === 'yes' ? [] : [outcome]), ...(busy === 'no' ? [] : [busyOutcome])]
  }

  /** What it is refused with before its Verb runs (W2, W3); it may run too where its predecessor was retried meanwhile. */
  #decision(): { refusals: Expected[]; mayRun: boolean } {
    const stands = { refusals: [], mayRun: true }
    if (hasHappened(this.#chain)) return stands
    const { versions, verb } = this.#known
    // The Account isn't held: it was looked at before the till was called, and may have changed since.
    if (verb === 'Order.place' && !this.#isAlone && this.#hasCalled('charge')) return stands
    const isStale = Object.entries(versions).some(([record, version]) => this.#isStale(record, version))
    const stale: Expected[] = isStale ? [{ status: 'refused', code: 'stale-decision' }] : []
    const named = this.#predecessorOf(this.#known)
    if (named === undefined) return { refusals: stale, mayRun: !isStale }
    const { status } = this.#oracle.latestOf(named)
    const notApplied: Expected = { status: 'refused', code: 'predecessor-not-applied' }
    if (status !== 'succeeded' && status !== 'pending') return { refusals: [notApplied], mayRun: false }
    const isUnsure = named.status !== 'succeeded' && !this.#isAlone
    return { refusals: isUnsure ? [notApplied, ...stale] : stale, mayRun: !isStale }
  }

  #isStale(record: string, version: number): boolean {
    const [plural = '', id = ''] = record.split('/')
    const noun = plural === 'orders' ? 'Order' : 'Account'
    const rec = this.#space.find(noun, id)
    if (rec === undefined || rec.fields === null) return true
    const decidedOn = rec.history[version - 1]?.fields
    if (decidedOn === undefined || decidedOn === null) return true
    const expected: Record<string, unknown> = { ...decidedOn }
    const own = this.#predecessors()
    for (let at = version; at < rec.history.length; at++) {
      const [before, now] = [rec.history[at - 1], rec.history[at]]
      if (now === undefined || !own.has(now.action)) continue
      for (const [field, value] of changed(before?.fields ?? {}, now.fields ?? {})) expected[field] = value
    }
    const differing = changed(expected, rec.fields).map(([field]) => field)
    return differing.some((field) => dependsOn(this.#known.verb, noun, field, this.#known.input))
  }

  /** This Worker's own queued writes before this one (W3). */
  #predecessors(): Set<string> {
    const own = new Set<string>()
    for (let known: Known | undefined = this.#predecessorOf(this.#known); known !== undefined;) {
      own.add(this.#oracle.latestOf(known).id)
      known = this.#predecessorOf(known)
    }
    return own
  }

  /** What `Decided-After` names: a key of the Worker who said so, which for a retry is the one of the chain's first Action. */
  #predecessorOf({ after, root }: Known): Known | undefined {
    const said = this.#oracle.actions.get(root)
    return after === null || said === undefined ? undefined : this.#oracle.bound(said.worker.id, after)
  }

  #run(): Expected {
    const { verb, target, input } = this.#known
    const noun = verb.startsWith('Order') ? 'Order' : 'Account'
    const rec = target === null ? null : this.#space.find(noun, target)
    if (rec === undefined) throw new Error(`${this.#known.id} is on ${target}, which never was`)
    if (rec !== null && rec.fields === null) return { status: 'refused', code: 'record-deleted' }
    return this.#verb(verb, input, rec)
  }

  #verb(verb: string, input: Fields, rec: Rec | null): Expected {
    const amount = Number(input['amount'] ?? 0)
    switch (verb) {
      case 'Account.open':
        return this.#create({ owner: input['owner'], balance: input['balance'] })
      case 'Account.deposit':
      case 'Account.ponder':
        return {
          ...this.#change(rec, { balance: Number(rec?.fields?.['balance']) + amount }),
          units: verb === 'Account.ponder' ? 1 : amount,
        }
      case 'Account.annotate':
        return this.#change(rec, { note: input['note'] })
      case 'Account.transfer':
        return this.#transfer(String(input['from']), String(input['to']), amount)
      case 'Account.close':
        return { status: 'succeeded', output: null, writes: [{ noun: 'Account', id: rec?.id ?? '', fields: null }] }
      case 'Account.explode':
        return { status: 'failed', code: 'verb-threw' }
      case 'Account.deny':
        return { status: 'refused', code: 'denied' }
      case 'Account.adopt':
        return this.#adopt(input['owner'])
      case 'Account.tally': {
        const found = this.#space.by('Account', 'note', input['note'])
        return {
          status: 'succeeded',
          output: {
            count: found.length,
            total: found.reduce((sum, { fields }) => sum + Number(fields?.['balance']), 0),
          },
        }
      }
      case 'Account.enroll':
        return this.#enroll(input)
      case 'Order.place':
        return this.#place(input, amount)
      case 'Order.settle':
        return this.#settle(input, rec)
      case 'Order.twice':
        return this.#twice(input, amount)
      default:
        throw new Error(`the oracle knows no ${verb}`)
    }
  }

  #create(fields: Fields): Expected {
    if (this.#space.by('Account', 'owner', fields['owner']).length > 0) return { status: 'failed', code: 'not-unique' }
    return {
      status: 'succeeded',
      output: { $noun: 'Account', $version: 1, ...fields },
      writes: [{ noun: 'Account', id: null, fields }],
    }
  }

  #change(rec: Rec | null, patch: Fields): Expected {
    const before = rec?.fields ?? {}
    const fields = Object.fromEntries(
      Object.entries({ ...before, ...patch }).filter(([, value]) => value !== undefined),
    )
    const changes = changed(before, fields).length > 0
    const version = (rec?.version ?? 0) + (changes ? 1 : 0)
    return {
      status: 'succeeded',
      output: { $id: rec?.id, $version: version },
      writes: changes ? [{ noun: rec?.noun ?? '', id: rec?.id ?? '', fields }] : [],
    }
  }

  #transfer(from: string, to: string, amount: number): Expected {
    const [source, sink] = [this.#space.find('Account', from), this.#space.find('Account', to)]
    if (!source?.fields || !sink?.fields) return { status: 'refused', code: 'record-not-found' }
    if (source === sink) return { status: 'refused', code: 'one-account' }
    const left = Number(source.fields['balance']) - amount
    if (left < 0) return { status: 'refused', code: 'too-little' }
    const got = Number(sink.fields['balance']) + amount
    const writes = [
      ...(this.#change(source, { balance: left }).writes ?? []),
      ...(this.#change(sink, { balance: got }).writes ?? []),
    ]
    return { status: 'succeeded', output: { from: left, to: got }, writes }
  }

  #adopt(owner: unknown): Expected {
    const [known] = this.#space.by('Account', 'owner', owner)
    if (known === undefined) return this.#create({ owner, balance: 0 })
    return { status: 'succeeded', output: { $id: known.id, $version: known.version, ...known.fields }, writes: [] }
  }

  #enroll(input: Fields): Expected {
    const { owner } = input
    if (!hasHappened(this.#chain) && this.#space.by('Account', 'owner', owner).length > 0)
      return { status: 'refused', code: 'taken' }
    this.holds = [`Account.owner=${JSON.stringify(owner)}`]
    if (this.#isBlocked(this.holds)) return busyOutcome
    return this.#step('fee', input['mood']) ?? this.#create({ owner, balance: 0 })
  }

  #place(input: Fields, amount: number): Expected {
    const account = String(input['account'])
    const rec = this.#space.find('Account', account)
    // What the till was told is what was read before it was called: that stands, whatever became of the Account since (V6).
    const told = this.#outside.effectsOf(String(input['tag']), 'charge')[0]?.facts['seen']
    const then = (rec?.history ?? []).some(({ fields }) => fields?.['balance'] === told)
    const isRead = told !== undefined || hasHappened(this.#chain) || this.#hasCalled('charge')
    if (!isRead && !rec?.fields) return { status: 'refused', code: 'record-not-found' }
    const failed = this.#step('charge', input['mood'])
    if (failed !== null) return failed
    if (!then) this.wrong.push(`the till was told a balance of ${String(told)}, which ${account} never had`)
    const fields = { account, amount, seen: told, receipt: this.#receipt('charge'), state: 'placed' }
    return {
      status: 'succeeded',
      output: { $noun: 'Order', $version: 1, ...fields },
      writes: [{ noun: 'Order', id: null, fields }],
    }
  }

  #settle(input: Fields, rec: Rec | null): Expected {
    if (rec?.fields?.['state'] !== 'placed') return { status: 'refused', code: 'not-placed' }
    this.holds = [`Order/${rec.id}`]
    if (this.#isBlocked(this.holds)) return busyOutcome
    const failed = this.#step('payout', input['mood'])
    if (failed !== null) return failed
    if (input['bomb'] === true && this.#outside.firstOf(String(input['tag'])) === this.#known.id)
      return { status: 'failed', code: 'verb-threw' }
    return this.#change(rec, { state: 'settled' })
  }

  #twice(input: Fields, amount: number): Expected {
    const account = String(input['account'])
    const rec = this.#space.find('Account', account)
    if (!rec?.fields) return { status: 'refused', code: 'record-not-found' }
    const seen = Number(rec.fields['balance'])
    if (seen < amount) return { status: 'refused', code: 'too-little' }
    this.holds = [`Account/${account}`]
    if (this.#isBlocked(this.holds)) return busyOutcome
    const failed = this.#step('one', input['mood']) ?? this.#step('two', input['moodB'])
    if (failed !== null) return failed
    const fields = { account, amount, seen, receipt: this.#receipt('two'), state: 'placed' }
    const paid = this.#change(rec, { balance: seen - amount }).writes ?? []
    return {
      status: 'succeeded',
      output: { $noun: 'Order', $version: 1, ...fields },
      writes: [...paid, { noun: 'Order', id: null, fields }],
    }
  }

  /** Whether this very Action has called the till. */
  #hasCalled(step: string): boolean {
    const before = this.#chain.steps.get(step)?.calls ?? 0
    return this.#outside.callsOf(String(this.#known.input['tag']), step) > before
  }

  #receipt(step: string): string | undefined {
    const [effect] = this.#outside.effectsOf(String(this.#known.input['tag']), step)
    return effect === undefined ? undefined : `receipt-${effect.key}`
  }

  /** A step of this Action: null when it is done, else what the Action comes to. */
  #step(name: string, given: unknown): Expected | null {
    const mood = typeof given === 'string' ? given : ''
    const tag = String(this.#known.input['tag'])
    const before = this.#chain.steps.get(name) ?? fresh
    if (this.#chain.steps.has(name) && before.status === 'done') return null
    const made = simulate(mood, before)
    const shown = this.#settled.steps.find(({ step }) => step === `${name}#1`)?.status
    if (this.#known.shaken && (shown === 'done' || shown === 'rejected' || shown === 'unknown')) made.status = shown
    else if (made.calls !== this.#outside.callsOf(tag, name)) {
      this.wrong.push(
        `the till was called ${this.#outside.callsOf(tag, name)} times for ${tag} ${name}, not ${made.calls}`,
      )
    }
    made.calls = this.#outside.callsOf(tag, name)
    if (before.status === 'unknown') made.since = before.since
    const effects = this.#outside.effectsOf(tag, name).length
    made.isTaken = effects > 0
    this.#chain.steps.set(name, made)
    if (effects > 1) this.wrong.push(`${tag} ${name} took effect ${effects} times`)
    if (made.status === 'done') {
      if (effects !== 1) this.wrong.push(`${tag} ${name} is done and took effect ${effects} times`)
      return null
    }
    if (made.status === 'rejected' && effects > 0) this.wrong.push(`${tag} ${name} is rejected and took effect`)
    return { status: 'failed', code: made.status === 'rejected' ? 'till-declined' : 'step-unresolved' }
  }

  #isBlocked(resources: readonly string[]): boolean {
    return resources.some((resource) => (this.#space.stuck.get(resource) ?? this.#known.root) !== this.#known.root)
  }

  /** Whether it changes what a chain holds that failed after an effect (V6). */
  #isBusy({ status, code, writes = [] }: Expected): 'yes' | 'no' | 'perhaps' {
    if (code === 'record-busy') return 'yes'
    const resources = status === 'succeeded' ? writes.flatMap((write) => resourcesOf(this.#space, write)) : []
    if (this.#isBlocked(resources)) return 'yes'
    return [...resources, ...this.holds].some((resource) => this.#space.stuckLately.has(resource)) ? 'perhaps' : 'no'
  }
}

const fresh: StepMade = { status: 'unknown', calls: 0, isTaken: false }
const busyOutcome: Expected = { status: 'failed', code: 'record-busy' }

/** How the attempts of one Action go: three at most, under one derived key. */
function simulate(mood: string, before: StepMade): StepMade {
  let { calls } = before
  let isTaken = before.isTaken && before.status !== 'rejected'
  for (let attempt = 1; attempt <= attempts; attempt++) {
    const letter = mood[calls++]
    if (letter === 'B') continue
    if (letter === 'D' && !isTaken) return { status: 'rejected', calls, isTaken }
    isTaken = true
    if (letter !== 'L') return { status: 'done', calls, isTaken }
  }
  return { status: 'unknown', calls, isTaken }
}

function resourcesOf(space: Space, { noun, id, fields }: Write): string[] {
  const before = id === null ? null : (space.find(noun, id)?.fields ?? null)
  const resources = id === null ? [] : [`${noun}/${id}`]
  const owners = [before?.['owner'], fields?.['owner']]
  if (noun === 'Account' && owners[0] !== owners[1]) {
    for (const owner of owners) if (owner !== undefined) resources.push(`Account.owner=${JSON.stringify(owner)}`)
  }
  return resources
}

export function changed(before: Fields, after: Fields): [field: string, value: unknown][] {
  const fields = new Set([...Object.keys(before), ...Object.keys(after)])
  return [...fields].filter((field) => before[field] !== after[field]).map((field) => [field, after[field]])
}

/** What each Verb declares of each Noun, in kiln.ts; what is not here depends on every field (W2). */
const declared: Readonly<Record<string, readonly string[]>> = {
  'Account.deposit Account': ['balance'],
  'Account.ponder Account': ['balance'],
  'Account.annotate Account': ['note'],
  'Order.place Account': ['balance'],
  'Order.settle Order': ['amount', 'state'],
}

function dependsOn(verb: string, noun: string, field: string, input: Fields): boolean {
  const fields = declared[`${verb} ${noun}`]
  return fields === undefined || fields.includes(field) || field in input
}
