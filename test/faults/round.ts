import type { Call } from '../../src/model/call.ts'
import { kiln } from '../model/kiln.ts'
import type { Method, Moment } from '../model/faulty.ts'
import { Outside, type Port } from '../model/outside.ts'
import { Rig } from '../model/rig.ts'
import type { Reply } from '../model/world.ts'
import { isPending, namespace, worker, type Scenario } from './scenarios.ts'

export interface Fault {
  readonly method: Method
  readonly moment: Moment
  readonly n: number
}

/** What a scenario came to, without ids and times: the same with a fault and without. */
export interface Outcome {
  readonly answers: readonly string[]
  readonly events: readonly string[]
  readonly usage: readonly string[]
  readonly records: readonly string[]
  readonly effects: readonly string[]
  readonly inbox: readonly string[]
}

export interface Round {
  readonly outcome: Outcome
  /** Calls of the store that the scenario's calls made, by method. */
  readonly calls: ReadonlyMap<Method, number>
  /** Whether the fault was come to. */
  readonly reached: boolean
  /** What is wrong, in sentences. */
  readonly wrong: readonly string[]
}

/** Plays a scenario once, with the fault if one is given, and then sends the same calls again. */
export async function play(scenario: Scenario, fault: Fault | null): Promise<Round> {
  const outside = new Outside()
  const wrong: string[] = []
  const onError = (facts: object, message: string): void => {
    const error = `${message} ${JSON.stringify(facts)}`
    if (!error.includes('fails, as it should')) wrong.push(error)
  }
  const define = (port: Port) => [kiln(namespace, port)]
  const rig = new Rig({ define, outside, workers: [worker], seed: 1, onError })
  try {
    await rig.open()
    const calls = await scenario.arrange(rig)
    const before = new Map(rig.faults.calls)
    const trap = fault && rig.faults.failAt([fault.method], fault.moment, fault.n)
    const timer = setTimeout(() => scenario.meanwhile?.(outside), 30)
    const first = await sendAll(rig, scenario, calls, wrong)
    clearTimeout(timer)
    const made = new Map([...rig.faults.calls].map(([method, count]) => [method, count - (before.get(method) ?? 0)]))
    scenario.meanwhile?.(outside)
    if (rig.isDead) {
      await rig.kill()
      await rig.start()
    }
    const again = await sendAll(rig, scenario, calls, wrong)
    checkReplies(calls, first, again, wrong)
    await settled(rig, wrong)
    await rig.store.verify((found) => void wrong.push(`verify: ${found}`))
    return { outcome: await outcomeOf(rig, outside, calls, again), calls: made, reached: trap?.reached ?? false, wrong }
  } finally {
    await rig.end()
  }
}

/** Sends the calls, one after the other unless the scenario says at once. Gives the answers until one is missing. */
async function sendAll(rig: Rig, { atOnce }: Scenario, calls: readonly Call[], wrong: string[]): Promise<Reply[]> {
  if (atOnce === true) {
    const replies = await Promise.all(calls.map((call) => rig.call(call)))
    const isNowhere = replies.every((reply) => reply.kind === 'problem')
    for (const [index, call] of calls.entries()) if (isNowhere) await checkNowhere(rig, call, replies[index], wrong)
    return replies
  }
  const replies: Reply[] = []
  for (const call of calls) {
    const reply = await rig.call(call)
    replies.push(reply)
    if (reply.kind === 'problem') await checkNowhere(rig, call, reply, wrong)
    // Its caller does not send what is queued behind it before it is answered.
    if (reply.kind === 'lost' || reply.kind === 'problem') break
  }
  return replies
}

/** Any other answer than 2xx means that this request put nothing on record (R1). */
async function checkNowhere(rig: Rig, { worker, key }: Call, reply: Reply | undefined, wrong: string[]): Promise<void> {
  const found = key === null ? null : await rig.store.lookUp(worker.id, key)
  if (found !== null) wrong.push(`answered ${JSON.stringify(reply)}, and ${found.verb} is on record, ${found.status}`)
}

function checkReplies(calls: readonly Call[], first: readonly Reply[], again: readonly Reply[], wrong: string[]): void {
  for (const [index, call] of calls.entries()) {
    const [one, two] = [first[index], again[index]]
    if (two?.kind !== 'action') {
      wrong.push(`${call.route.verb} sent again was answered ${JSON.stringify(two)}`)
      continue
    }
    if (isPending(two) && call.mode === 'do') wrong.push(`${call.route.verb} sent again is still pending`)
    if (one?.kind === 'problem' && one.code !== 'store-unavailable') wrong.push(`answered ${one.code}`)
    if (one?.kind !== 'action') continue
    if (one.id !== two.id) wrong.push(`${call.route.verb} was ${one.id} and is ${two.id}`)
    if (!isPending(one) && one.body !== two.body) wrong.push(`the replay differs: ${one.body} ${two.body}`)
    if (!isPending(one) && !two.replayed) wrong.push('the replay does not say that it is one')
  }
}

async function settled(rig: Rig, wrong: string[]): Promise<void> {
  for (let polls = 0; polls < 400; polls++) {
    const { data } = await rig.store.actions(namespace, { status: 'pending' }, { after: 0, limit: 100 })
    if (data.length === 0) return
    await new Promise((resolve) => setTimeout(resolve, 10))
  }
  const { data } = await rig.store.actions(namespace, { status: 'pending' }, { after: 0, limit: 100 })
  wrong.push(`still pending: ${data.map(({ verb, id }) => `${verb} ${id}`).join(', ')}`)
}

const idsAndTimes =
  /\b(account|order|act|evt|item)_[0-9a-z]{26}\b|receipt-[0-9a-f]{32}|\d{4}-\d\d-\d\dT[\d:.]+Z|"attempts":\d+/g

/** Without what differs from run to run. */
function bare(value: unknown): string {
  return JSON.stringify(value).replace(idsAndTimes, '*')
}

async function outcomeOf(
  rig: Rig,
  outside: Outside,
  calls: readonly Call[],
  replies: readonly Reply[],
): Promise<Outcome> {
  const { store } = rig
  const page = { after: 0, limit: 100 }
  const events = await store.events(namespace, 0, 100)
  const inbox = await store.inbox(namespace, { workerId: worker.id, all: true }, page)
  const records = []
  for (const noun of ['Account', 'Order']) records.push(...(await store.records(namespace, noun, [], page)).data)
  const gaps = events.filter(({ seq }, index) => seq !== index + 1)
  return {
    // What a `send` tells depends on how fast the Action is.
    answers: replies.map((reply, index) => {
      if (calls[index]?.mode === 'send') return reply.kind
      return reply.kind === 'action' && !isPending(reply) ? bare(JSON.parse(reply.body)) : 'pending'
    }),
    events: events
      .map(({ type, records: changed }) => bare({ type, changed }))
      .concat(gaps.map(({ seq }) => `gap at ${seq}`)),
    usage: (await store.usage(namespace, '2000-01-01', '2100-01-01')).map((row) => JSON.stringify(row)),
    records: records.map((record) => bare(record)),
    effects: [...outside.effects.values()].map(({ tag, step, facts }) => bare({ tag, step, facts })),
    inbox: inbox.data.map(({ kind, status, decision }) => bare({ kind, status, decision: decision?.decision })),
  }
}
