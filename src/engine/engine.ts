import type { Action } from '../model/action.ts'
import type { Answer, Call } from '../model/call.ts'
import { IdSource } from '../model/ids.ts'
import { drainMs } from '../model/limits.ts'
import type { Startup } from '../model/startup.ts'
import type { Worker } from '../model/worker.ts'
import type { DeployAnswer, Store } from '../store/store.ts'
import { isBuiltin } from './builtin.ts'
import { call } from './call.ts'
import { watchClocks } from './clocks.ts'
import type { Core, EngineOptions, Machine } from './core.ts'
import { enter, operationOf, type From } from './door.ts'
import { HotReplays } from './hot.ts'
import { recover } from './recover.ts'
import { plant } from './seed.ts'
import { counted, type Signals } from './signals.ts'
import { traced } from './spans.ts'
import { Streams, type Following } from './streams.ts'
import { FailedTokens, Throttles, type CalledVerb, type Counted, type Limits } from './throttle.ts'
import { Waiters } from './waiting.ts'

export type { EngineOptions, Log, Machine } from './core.ts'

/** What the edges use: each interface is a client of this one door. */
export interface Engine {
  readonly machine: Machine
  readonly startups: ReadonlyMap<string, Startup>
  readonly store: Store
  /** Null: nothing is counted. */
  readonly signals: Signals | null
  /** Whether a call's span is recorded, so that its caller's is of use. */
  readonly isTraced: boolean
  /** Pending Actions of earlier processes are taken over, seeds have run. */
  readonly ready: boolean
  /**
   * The Worker of a token. 401 `unauthorized`, 403 `wrong-namespace`; a null namespace takes the token's own. Failed tokens
   * are counted by where they come from: beyond the limit 429 `throttled` (§10).
   */
  enter(token: string | null, namespace: string | null, from: From): Worker | Promise<Worker>
  /**
   * Counts a call against the Worker's rate, and against that for the Verb that it calls (§10): 429 `throttled`. Gives the
   * headers of its answer, null where no limit holds.
   */
  throttle(worker: Worker, kind: 'call' | 'read', called?: CalledVerb): Counted | Promise<Counted>
  /** The limits that hold for a Worker (§10). */
  limits(worker: Worker): Limits
  /** One call through the door; rejections are thrown Problems, after which nothing is on record (R1). */
  call(call: Call): Promise<Answer>
  /** Waits until an Action is settled, for at most `ms`; gives it as it then is. */
  waitSettled(action: Action, ms: number): Promise<Action>
  /** Follows a namespace's Events (E1): `onNews` is called when there may be some that `after` did not give yet. */
  follow(namespace: string, onNews: () => void): Following
  /** Await just before an answer leaves: all that it saw is on disk then (R3). Undefined: it is already. */
  durable(): Promise<void> | undefined
  /** Takes pending Actions over and plants seeds. Resolves when calls may come in. */
  start(): Promise<void>
  /** Lets what runs end within `graceMs`; gives the rest back to be resumed (V4). */
  stop(graceMs?: number): Promise<void>
}

export async function createEngine(options: EngineOptions): Promise<Engine> {
  const { store, startups, machine } = options
  const core: Core = {
    ...options,
    ids: new IdSource(
      () => machine.now(),
      (bytes) => machine.randomBytes(bytes),
      (await store.lastId()) ?? undefined,
    ),
    operations: operationsOf(options.deployed),
    flights: new Map(),
    runs: new Map(),
    hot: new HotReplays(),
    waiters: new Waiters(store, machine),
    failedTokens: new FailedTokens(machine),
    stopping: false,
  }
  const throttles = new Throttles(startups, store)
  const streams = new Streams(store, options.log)
  const stopClocks = watchClocks(core)
  const stopCounting = countSettled(core)
  let ready = false
  let begun: () => Promise<void> = () => Promise.resolve()
  return {
    machine,
    startups,
    store,
    signals: core.signals ?? null,
    isTraced: Boolean(core.spans),
    get ready() {
      return ready && !core.stopping
    },
    enter: (token, namespace, from) => enter(core, token, namespace, from),
    throttle: (worker, kind, called) => throttles.take(worker, kind, called ?? null),
    limits: (worker) => throttles.of(worker),
    call: watched(core),
    waitSettled: (action, ms) => core.waiters.settled(action, ms),
    follow: (namespace, onNews) => streams.follow(namespace, onNews),
    durable: () => store.durable(),
    async start() {
      begun = await recover(core)
      for (const startup of startups.values()) await plant(core, startup, (request) => call(core, request))
      ready = true
    },
    async stop(graceMs = drainMs) {
      core.stopping = true
      await begun()
      await drain(core, graceMs)
      stopClocks()
      stopCounting()
      core.waiters.close()
      streams.close()
    },
  }
}

/** The one call, and around it what is handed in to watch it: where nothing is, nothing is around it. */
function watched(core: Core): (request: Call) => Promise<Answer> {
  const { signals, spans } = core
  const bare = (request: Call): Promise<Answer> => call(core, request)
  const inSpan = spans ? traced(spans, (request) => knownOperation(core, request), bare) : bare
  return signals ? counted(signals, inSpan) : inSpan
}

/** The operation that a call names, if there ever was one of this name. */
function knownOperation(core: Core, { route }: Call): string | null {
  if (isBuiltin(route)) return operationOf(core, route)
  return core.operations.get(route.namespace)?.get(`${route.nouns}/${route.verb}`) ?? null
}

/** Settled by whom it may be: a call, a resume, a cancel. What the store tells of is on disk. */
function countSettled({ store, signals }: Core): () => void {
  if (!signals) return () => undefined
  return store.listen((notice) => {
    if (notice.kind === 'settled') signals.settled(notice.action)
  })
}

function operationsOf(deployed: ReadonlyMap<string, DeployAnswer>): Map<string, Map<string, string>> {
  const operations = new Map<string, Map<string, string>>()
  for (const [namespace, { operations: known }] of deployed) {
    operations.set(
      namespace,
      new Map(known.map(({ nouns, operation }) => [`${nouns}/${operation.split('.')[1]}`, operation])),
    )
  }
  return operations
}

/** Waits for what runs; what is left then is named, so that its callers get an answer, and given back unharmed (V4). */
async function drain(core: Core, graceMs: number): Promise<void> {
  const ends = [...core.runs.values()].map((run) => run.done.catch(() => undefined))
  await Promise.race([Promise.all(ends), core.waiters.sleep(graceMs)])
  const left = [...core.runs.values()]
  await Promise.all(left.map((run) => run.giveBack()))
  const leases = left.flatMap((run) => (run.lease === null ? [] : [run.lease]))
  if (leases.length > 0) await core.store.release(leases)
}
