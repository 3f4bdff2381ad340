import type { PendingAction } from '../model/action.ts'
import type { ActionId } from '../model/ids.ts'
import {
  crashesMax,
  crashesSuspect,
  resumePlaceMs,
  resumesAtOnceMax,
  resumesMax,
  storeRetryMs,
  suspectsAfterMs,
} from '../model/limits.ts'
import type { Worker } from '../model/worker.ts'
import type { AdoptAnswer, Claim, Lease, PendingListing, RunState } from '../store/store.ts'
import { StoreUnavailable } from '../store/store.ts'
import type { Core } from './core.ts'
import { GivenBack, Run } from './run.ts'

/**
 * Takes over what earlier processes left pending (V4): nobody has to send it again. Actions under which the process died
 * before are suspects and run one at a time, after the others, so that they hold up and condemn nobody. Gives what a stop
 * waits for before it drains: from then on each Action that was adopted runs, or was given back.
 */
export async function recover(core: Core): Promise<() => Promise<void>> {
  const workers = new Map<string, Worker>()
  for (const worker of await core.store.workers(null)) workers.set(worker.id, worker)
  const suspects: PendingListing[] = []
  const lane = new Lane(core)
  const resumed = (listing: PendingListing): Promise<void> => resume(core, workers, listing, lane.beginning)
  const listed = takeOver(core, resumed, suspects, lane)
  // Not awaited: new calls are served meanwhile, and a second request with a pending Action's key waits on it as ever.
  void Promise.race([listed.then(() => lane.empty()), core.waiters.sleep(suspectsAfterMs)])
    .then(() => resumeSuspects(core, resumed, suspects, listed))
    .catch((error: unknown) => core.log.error({ err: String(error) }, 'taking over pending Actions failed'))
  return async () => {
    await Promise.all(lane.beginning)
  }
}

async function takeOver(
  core: Core,
  resumed: (listing: PendingListing) => Promise<void>,
  suspects: PendingListing[],
  lane: Lane,
): Promise<void> {
  let after = 0
  let count = 0
  for (;;) {
    const page = await core.store.pending(after, 256)
    for (const listing of page) {
      if (core.stopping) return
      if (!isOurs(core, listing)) continue
      count++
      if (listing.crashes >= crashesSuspect) suspects.push(listing)
      else await lane.run(() => resumed(listing))
    }
    const last = page.at(-1)
    if (last === undefined) break
    after = last.position
  }
  if (count > 0) core.log.info({ pending: count, suspects: suspects.length }, 'took over pending Actions')
}

/** Not run by this process already, of a namespace that is served, and not waiting for a person (W5). */
function isOurs(core: Core, { action, namespace, waitingFor }: PendingListing): boolean {
  return !core.runs.has(action) && core.startups.has(namespace) && waitingFor !== 'approval'
}

async function resumeSuspects(
  core: Core,
  resumed: (listing: PendingListing) => Promise<void>,
  suspects: PendingListing[],
  listed: Promise<void>,
): Promise<void> {
  let isListed = false
  const whole = listed.finally(() => (isListed = true))
  while (!core.stopping) {
    // Fewest crashes first: what merely ran beside the culprit settles before that takes the process down again.
    suspects.sort((left, right) => left.crashes - right.crashes)
    const next = suspects.shift()
    // One that waits, for a suspect after it say, must not keep that from its turn.
    if (next !== undefined) await Promise.race([resumed(next), core.waiters.sleep(suspectsAfterMs)])
    else if (isListed) return
    else await Promise.race([whole, core.waiters.sleep(suspectsAfterMs)])
  }
}

/** Resumes one Action and waits until its run is over, whatever it comes to. */
async function resume(
  core: Core,
  workers: ReadonlyMap<string, Worker>,
  listing: PendingListing,
  beginning: Set<Promise<unknown>>,
): Promise<void> {
  if (core.stopping) return
  const begun = begin(core, workers, listing)
  const quiet = begun.catch(() => undefined)
  beginning.add(quiet)
  void quiet.then(() => beginning.delete(quiet))
  try {
    await (
      await begun
    )?.done
  } catch (error) {
    if (error instanceof GivenBack) return
    core.log.error({ action: listing.action, err: String(error) }, 'resuming an Action failed')
  }
}

/** Null: it is over already, or a stop came in between. That gives it back, since it is no run that the stop would find. */
async function begin(core: Core, workers: ReadonlyMap<string, Worker>, listing: PendingListing): Promise<Run | null> {
  const adopted = await adopt(core, listing.action)
  if (adopted.kind === 'settled' || adopted.action.status !== 'pending') return null
  const { action, lease, run: state } = adopted
  core.signals?.resumed()
  if (state.crashes >= crashesMax) {
    await condemn(core, action, lease, state, workers)
    return null
  }
  const plan = await planOf(core, action, lease, state, workers)
  if (!core.stopping) return Run.start(core, plan)
  await core.store.release([lease])
  return null
}

/** While the store is full or away it is tried again: nobody else will ask for it (V4). */
async function adopt(core: Core, id: ActionId): Promise<AdoptAnswer> {
  for (;;) {
    try {
      return await core.store.adopt(id)
    } catch (error) {
      if (!(error instanceof StoreUnavailable) || core.stopping) throw error
      await core.waiters.sleep(storeRetryMs)
    }
  }
}

/** The process died under it 20 times without progress (V4): it is settled, and a person looks at it. */
async function condemn(
  core: Core,
  action: PendingAction,
  lease: Lease,
  state: RunState,
  workers: ReadonlyMap<string, Worker>,
): Promise<void> {
  core.log.error({ action: action.id, crashes: state.crashes }, 'the process died under an Action again and again')
  const run = new Run(core, await planOf(core, action, lease, state, workers))
  await run.condemn({
    code: 'resume-limit',
    message: `The process died ${state.crashes} times while this Action ran, without progress.`,
  })
}

async function planOf(
  core: Core,
  action: PendingAction,
  lease: Lease,
  state: RunState,
  workers: ReadonlyMap<string, Worker>,
) {
  const startup = core.startups.get(action.namespace)
  if (startup === undefined) throw new Error(`${action.namespace} is not served`)
  const root = action.root === action.id ? action : ((await core.store.action(action.namespace, action.root)) ?? action)
  const {
    id,
    namespace,
    workerId,
    worker,
    key,
    bound,
    verb,
    target,
    input,
    mode,
    on,
    decidedAgainst,
    decidedAfter,
    createdAt,
  } = action
  const claim: Claim = {
    id,
    namespace,
    workerId,
    worker,
    key,
    bound,
    verb,
    target,
    input,
    mode,
    on,
    decidedAgainst,
    decidedAfter,
    createdAt,
    waitingFor: action.waitingFor,
    running: true,
  }
  return {
    startup,
    verb: startup.verbs.get(verb) ?? null,
    worker: present(workers.get(workerId), worker),
    claim,
    input: undefined,
    lease,
    state,
    origin: { id: root.id, worker: root.worker, workerId: root.workerId, key: root.key },
    attempts: action.attempts,
  }
}

function present(worker: Worker | undefined, name: string): Worker {
  if (worker === undefined) throw new Error(`an Action names the Worker ${name}, whom the store does not know`)
  return worker
}

/**
 * Places for what is taken over. One that hangs gives its place up after a while and runs on: what waits for a person must
 * not keep the others from being resumed. Only one at a time may wait for a place.
 */
class Lane {
  readonly #core: Core
  /** Those with a place, by when they got it, oldest first. */
  readonly #placed = new Map<Promise<void>, number>()
  readonly #busy = new Set<Promise<void>>()
  /** Adopted, or about to be, and not yet run: a stop waits for them. */
  readonly beginning = new Set<Promise<unknown>>()
  #onEnd: (() => void) | null = null

  constructor(core: Core) {
    this.#core = core
  }

  /** Begins `work` once there is a place; does not wait for its end. */
  async run(work: () => Promise<void>): Promise<void> {
    while (!this.#hasPlace()) await this.#change()
    const busy = work().finally(() => {
      this.#busy.delete(busy)
      this.#placed.delete(busy)
      this.#onEnd?.()
    })
    this.#busy.add(busy)
    this.#placed.set(busy, this.#core.machine.now())
  }

  async empty(): Promise<void> {
    await Promise.all(this.#busy)
  }

  #hasPlace(): boolean {
    if (this.#busy.size >= resumesMax) return false
    const overdueMs = this.#core.machine.now() - resumePlaceMs
    for (const [busy, since] of this.#placed) {
      if (since > overdueMs) break
      this.#placed.delete(busy)
    }
    return this.#placed.size < resumesAtOnceMax
  }

  /** Until one ends, or the oldest has had its place for long. Not a race of promises: that would remember each waiting. */
  #change(): Promise<void> {
    return new Promise((resolve) => {
      const end = (): void => {
        clearTimeout(timer)
        this.#onEnd = null
        resolve()
      }
      const [oldest = this.#core.machine.now()] = this.#placed.values()
      const timer = setTimeout(end, Math.max(1, oldest + resumePlaceMs - this.#core.machine.now()))
      this.#onEnd = end
    })
  }
}
