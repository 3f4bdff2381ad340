import type { Action } from '../model/action.ts'
import type { Answer, Call } from '../model/call.ts'
import { IdSource } from '../model/ids.ts'
import { drainMs } from '../model/limits.ts'
import type { Startup } from '../model/startup.ts'
import type { Worker } from '../model/worker.ts'
import type { DeployAnswer, Store } from '../store/store.ts'
import { call } from './call.ts'
import { watchClocks } from './clocks.ts'
import type { Core, EngineOptions, Machine } from './core.ts'
import { enter } from './door.ts'
import { HotReplays } from './hot.ts'
import { recover } from './recover.ts'
import { plant } from './seed.ts'
import { Throttles, type CalledVerb } from './throttle.ts'
import { Waiters } from './waiting.ts'

export type { EngineOptions, Log, Machine } from './core.ts'

/** What the edges use: each interface is a client of this one door. */
export interface Engine {
  readonly machine: Machine
  readonly startups: ReadonlyMap<string, Startup>
  readonly store: Store
  /** Pending Actions of earlier processes are taken over, seeds have run. */
  readonly ready: boolean
  /** The Worker of a token. 401 `unauthorized`, 403 `wrong-namespace`; a null namespace takes the token's own. */
  enter(token: string | null, namespace: string | null): Worker | Promise<Worker>
  /** Counts a call against the Worker's rate, and against that for the Verb that it calls (§10): 429 `throttled`. */
  throttle(worker: Worker, kind: 'call' | 'read', called?: CalledVerb): void
  /** One call through the door; rejections are thrown Problems, after which nothing is on record (R1). */
  call(call: Call): Promise<Answer>
  /** Waits until an Action is settled, for at most `ms`; gives it as it then is. */
  waitSettled(action: Action, ms: number): Promise<Action>
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
    stopping: false,
  }
  const throttles = new Throttles(startups, machine)
  const stopClocks = watchClocks(core)
  let ready = false
  return {
    machine,
    startups,
    store,
    get ready() {
      return ready && !core.stopping
    },
    enter: (token, namespace) => enter(core, token, namespace),
    throttle: (worker, kind, called) => throttles.take(worker, kind, called ?? null),
    call: (request) => call(core, request),
    waitSettled: (action, ms) => core.waiters.settled(action, ms),
    durable: () => store.durable(),
    async start() {
      await recover(core)
      for (const startup of startups.values()) await plant(core, startup, (request) => call(core, request))
      ready = true
    },
    async stop(graceMs = drainMs) {
      core.stopping = true
      await drain(core, graceMs)
      stopClocks()
      core.waiters.close()
    },
  }
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
