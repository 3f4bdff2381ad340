import type { PendingAction } from '../model/action.ts'
import { crashesMax, crashesSuspect, resumesAtOnceMax, suspectsAfterMs } from '../model/limits.ts'
import type { Worker } from '../model/worker.ts'
import type { Claim, Lease, PendingListing, RunState } from '../store/store.ts'
import type { Core } from './core.ts'
import { GivenBack, Run } from './run.ts'

/**
 * Takes over what earlier processes left pending (V4): nobody has to send it again. Actions under which the process died
 * before are suspects and run one at a time, after the others, so that they hold up and condemn nobody.
 */
export async function recover(core: Core): Promise<void> {
  const workers = new Map<string, Worker>()
  for (const worker of await core.store.workers(null)) workers.set(worker.id, worker)
  const suspects: PendingListing[] = []
  const lane = new Lane(resumesAtOnceMax)
  const listed = takeOver(core, workers, suspects, lane)
  // Not awaited: new calls are served meanwhile, and a second request with a pending Action's key waits on it as ever.
  void listed
    .then(() => Promise.race([lane.empty(), core.waiters.sleep(suspectsAfterMs)]))
    .then(() => resumeSuspects(core, workers, suspects))
    .catch((error: unknown) => core.log.error({ err: String(error) }, 'taking over pending Actions failed'))
}

async function takeOver(
  core: Core,
  workers: ReadonlyMap<string, Worker>,
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
      else await lane.run(() => resume(core, workers, listing))
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
  workers: ReadonlyMap<string, Worker>,
  suspects: PendingListing[],
): Promise<void> {
  // Fewest crashes first: what merely ran beside the culprit settles before that takes the process down again.
  suspects.sort((left, right) => left.crashes - right.crashes)
  for (const listing of suspects) {
    if (core.stopping) return
    await resume(core, workers, listing)
  }
}

/** Resumes one Action and waits until its run is over, whatever it comes to. */
async function resume(core: Core, workers: ReadonlyMap<string, Worker>, listing: PendingListing): Promise<void> {
  try {
    const adopted = await core.store.adopt(listing.action)
    if (adopted.kind === 'settled' || adopted.action.status !== 'pending') return
    const { action, lease, run: state } = adopted
    if (state.crashes >= crashesMax) await condemn(core, action, lease, state, workers)
    else await Run.start(core, await planOf(core, action, lease, state, workers)).done
  } catch (error) {
    if (error instanceof GivenBack) return
    core.log.error({ action: listing.action, err: String(error) }, 'resuming an Action failed')
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

/** At most so many at once; `run` waits for a place, not for the end. */
class Lane {
  readonly #places: number
  readonly #busy = new Set<Promise<void>>()

  constructor(places: number) {
    this.#places = places
  }

  async run(work: () => Promise<void>): Promise<void> {
    while (this.#busy.size >= this.#places) await Promise.race(this.#busy)
    const busy = work().finally(() => this.#busy.delete(busy))
    this.#busy.add(busy)
  }

  async empty(): Promise<void> {
    await Promise.all(this.#busy)
  }
}
