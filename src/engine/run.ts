import type { Action, Outcome } from '../model/action.ts'
import type { ActionId } from '../model/ids.ts'
import type { JournalEntry, Fixed } from '../model/journal.ts'
import {
  claimAheadMs,
  conflictsBeforeTurn,
  faultRetryMs,
  recordBusyMs,
  storeRetryMs,
  waitPollMs,
} from '../model/limits.ts'
import type { Blocked, Lease } from '../store/store.ts'
import { StoreUnavailable } from '../store/store.ts'
import type { VerbContext } from './context.ts'
import type { Core, Ended, RunningAction } from './core.ts'
import { evaluate, type Evaluation } from './evaluate.ts'
import { flightName } from './hot.ts'
import type { Running, RunPlan } from './running.ts'
import type { Wait } from './signals.ts'
import { factsOf, reasonOf, type Span, type Spans } from './spans.ts'
import { busyOutcome, retryAdvice, settlementOf } from './settle.ts'

/**
 * One Action being run in this process: re-run on fresh reads until it settles (V6). It may settle without ever having
 * been claimed (one commit), or be claimed ahead at any moment by whoever must name it (K4, K5).
 */
export class Run implements Running, RunningAction {
  readonly core: Core
  readonly plan: RunPlan
  readonly journal: Map<string, JournalEntry>
  fixed: Fixed | null
  lease: Lease | null
  /** The evaluation under way; null while it waits or settles. */
  context: VerbContext | null = null
  /** Started at, by the machine's clock: what claims ahead after 50 ms. */
  readonly startedMs: number
  #ranMs: number
  #runningSince: number | null = null
  #commit: Promise<unknown> | null = null
  #ended: Ended | null = null
  /** It ended before it was on record: from then on nothing puts it there. */
  #failure: { readonly error: unknown } | null = null
  #givenBack = false
  #isLost = false
  #waitedForRecordMs = 0
  #turn: readonly string[] = []
  #conflicts = 0
  #takenAfterEffect = 0
  #inputMembers: Set<string> | null = null
  #done: Promise<Ended> | null = null
  /** Null: nobody records spans. */
  #span: Span | null = null

  constructor(core: Core, plan: RunPlan) {
    this.core = core
    this.plan = plan
    this.lease = plan.lease
    this.journal = new Map(plan.state?.journal.map((entry) => [entry.step, entry]))
    this.fixed = plan.state?.fixed ?? null
    this.#ranMs = plan.state?.ranMs ?? 0
    this.startedMs = core.machine.now()
  }

  /** Registers the run, so that a second request joins it, and begins it. */
  static start(core: Core, plan: RunPlan): Run {
    const run = new Run(core, plan)
    const flight = plan.claim.key === null ? null : flightName(plan.claim.workerId, plan.claim.key)
    core.runs.set(run.id, run)
    if (flight !== null) core.flights.set(flight, run)
    run.#done = (core.spans ? run.#driveInSpan(core.spans) : run.#drive()).finally(() => {
      core.runs.delete(run.id)
      if (flight !== null && core.flights.get(flight) === run) core.flights.delete(flight)
    })
    // Whoever waits on it handles its failure; that nobody does must not end the process.
    run.#done.catch(() => undefined)
    return run
  }

  get done(): Promise<Ended> {
    if (this.#done === null) throw new Error(`${this.id} is a dry run, which never settles`)
    return this.#done
  }

  get id(): ActionId {
    return this.plan.claim.id
  }
  get bound(): Action['bound'] {
    return this.plan.claim.bound
  }

  /** The names of the input's members, as it was sent: fields of these names the Verb depends on (W2). */
  get inputMembers(): ReadonlySet<string> {
    return (this.#inputMembers ??= new Set(Object.keys(JSON.parse(this.plan.claim.input) as object)))
  }

  /** Milliseconds of running so far, waiting and downtime apart (V5). */
  get ranMs(): number {
    return this.#ranMs + (this.#runningSince === null ? 0 : this.core.machine.now() - this.#runningSince)
  }

  /** Whether a step with an effect has started in the chain: its reads, clock and ids are fixed then (V1, V6). */
  get hasEffect(): boolean {
    return this.fixed !== null
  }

  /** Whether a step with an effect is done or unknown in the chain: then nothing settles `refused` (V5). */
  get hasHappened(): boolean {
    for (const entry of this.journal.values()) if (entry.effect && entry.status !== 'rejected') return true
    return false
  }

  /** Puts the Action on record ahead of its settlement, once; false when it has ended instead. */
  async claimAhead(): Promise<boolean> {
    // A commit under way may be its settlement, or this very claim.
    while (this.#commit !== null) await this.#commit.catch(() => undefined)
    if (this.lease !== null) return true
    if (this.#failure !== null) throw this.#failure.error
    if (this.#ended !== null || this.#givenBack) return false
    return this.#exclusive(this.#inSpan(() => this.#claim()))
  }

  /** What a commit came to is kept before it counts as over, so that who waits for it sees it (`giveUp`). */
  async #claim(): Promise<boolean> {
    const answer = await this.core.store.claim({ ...this.plan.claim, running: true })
    if (answer.kind === 'claimed') {
      this.lease = answer.lease
      return true
    }
    if (answer.kind !== 'found') throw new Error(`a claim without a retry was answered ${answer.kind}`)
    this.#ended = { kind: 'found', action: answer.action }
    this.context?.end({ kind: 'lost' })
    return false
  }

  /**
   * Its caller is about to be told that the store is unavailable and nothing is on record (R1). True: so it is, and from
   * now on nothing puts it there. False: it is on record after all, by a commit that was under way.
   */
  async giveUp(error: Error): Promise<boolean> {
    while (this.#commit !== null) await this.#commit.catch(() => undefined)
    if (this.#ended?.kind === 'found') return true // another request's: this one put nothing there
    if (this.lease !== null || this.#ended !== null) return false
    this.#failure ??= { error }
    this.context?.end({ kind: 'unavailable', error })
    return true
  }

  /** The Action as it is on record, put there if need be: what a second request or an ended wait is told (K4). */
  async name(): Promise<Action> {
    if (!(await this.claimAhead())) return (await this.done).action
    // It is on record now: its caller can't be told any more that the store is unavailable (R1).
    const action = await this.#persist(() => this.core.store.action(this.plan.claim.namespace, this.id))
    if (action === null) throw new Error(`${this.id} was claimed and is not on record`)
    return action
  }

  /** Called now and then by the clock: claims ahead what runs long, ends what runs too long (V5). */
  tick(nowMs: number): void {
    if (
      this.lease === null &&
      nowMs - this.startedMs >= claimAheadMs &&
      this.#commit === null &&
      this.#ended === null
    ) {
      // A store that can't take it now is asked again at the next tick; nobody was told anything yet.
      this.claimAhead().catch((error: unknown) => this.#expectUnavailable(error))
    }
    if (this.context !== null && this.ranMs >= (this.plan.verb?.timeoutMs ?? Infinity))
      this.context.end({ kind: 'timed-out' })
  }

  /** The lease is another's, or the Action was settled by somebody else (cancelled): what runs here writes nothing more. */
  lose(): void {
    this.#isLost = true
    this.context?.end({ kind: 'lost' })
  }

  /** Settles it as failed without running it (V4). */
  async condemn(error: { code: string; message: string }): Promise<void> {
    const outcome: Outcome = { status: 'failed', error: { ...error, retry: retryAdvice(this) } }
    await this.#settle({ kind: 'outcome', outcome, context: null, item: null })
  }

  /** A stop: the Action is put on record so that it is resumed, and what runs here writes nothing more (V4). */
  async giveBack(): Promise<void> {
    await this.claimAhead().catch((error: unknown) => this.#expectUnavailable(error))
    this.#givenBack = true
    this.context?.end({ kind: 'given-back' })
  }

  async #driveInSpan(spans: Spans): Promise<Ended> {
    const { namespace, verb } = this.plan.claim
    const facts = { namespace, verb, action: this.id, attempt: this.plan.attempts }
    return spans.within({ kind: 'run', name: `run ${verb}`, facts: factsOf(facts) }, async (span) => {
      this.#span = span
      try {
        const ended = await this.#drive()
        span.tell(factsOf({ status: ended.action.status }))
        return ended
      } catch (error) {
        if (error instanceof GivenBack) span.tell(factsOf({ status: 'pending' }))
        else span.fail(reasonOf(error))
        throw error
      }
    })
  }

  /** A commit below the run, whoever asked for it: the clock, or another request that must name the Action. */
  #inSpan<T>(commit: () => Promise<T>): Promise<T> {
    const parent = this.#span
    if (!this.core.spans || parent === null) return commit()
    return this.core.spans.within({ kind: 'commit', name: 'commit', parent }, async (span) => {
      try {
        return await commit()
      } catch (error) {
        span.fail(reasonOf(error))
        throw error
      }
    })
  }

  async #waiting(wait: Wait, until: Promise<void>): Promise<void> {
    const { signals } = this.core
    if (!signals) return until
    const began = signals.now()
    await until
    signals.waited(wait, signals.now() - began)
  }

  async #drive(): Promise<Ended> {
    for (;;) {
      if (this.#ended !== null) return this.#ended
      if (this.#givenBack) throw new GivenBack()
      if (this.#failure !== null) throw this.#failure.error
      try {
        const ended = await this.#conclude(await this.#evaluate())
        if (ended !== null) return ended
      } catch (error) {
        // A claim under way may put it on record this very moment; after this none does any more.
        while (this.#commit !== null) await this.#commit.catch(() => undefined)
        // Before it is on record its caller learns of it; a fault of ours must not leave one that is on record pending.
        if (this.lease === null || error instanceof GivenBack) {
          this.#failure ??= { error }
          throw error
        }
        this.core.log.error({ action: this.id, err: describe(error) }, 'running an Action failed; trying again')
        await this.core.waiters.sleep(faultRetryMs)
      }
    }
  }

  async #evaluate(): Promise<Evaluation> {
    this.#runningSince = this.core.machine.now()
    try {
      return await evaluate(this, (context) => (this.context = context))
    } finally {
      this.#ranMs = this.ranMs
      this.#runningSince = null
      // What the author's function still does, a step that it forgot say, is over too.
      this.context?.end({ kind: 'lost' })
      this.context = null
    }
  }

  /** What follows from an evaluation: it is settled, or waits and runs again (null). */
  async #conclude(evaluation: Evaluation): Promise<Ended | null> {
    switch (evaluation.kind) {
      case 'outcome':
        return this.#settle(evaluation)
      case 'conflict':
        return this.#afterConflict(evaluation.read)
      case 'unavailable':
        return this.#afterUnavailable(evaluation.error)
      case 'blocked':
        return this.#afterBlock(evaluation.blocked)
      case 'waiting':
        return this.#afterWait(evaluation)
      case 'lost':
        return this.#afterLoss()
      case 'given-back':
        throw new GivenBack()
      default:
        return evaluation satisfies never
    }
  }

  async #settle(evaluation: Evaluation & { kind: 'outcome' }): Promise<Ended | null> {
    const { outcome, context, item } = evaluation
    const answer = await this.#persist(async () => {
      if (this.#ended !== null) return this.#ended
      // Made only here, where no other commit of it is under way: one that was may have been its claim (K5).
      const settled = await this.core.store.settle(settlementOf(this, outcome, context, item))
      if (settled.kind === 'settled' || settled.kind === 'found') this.#ended = settled
      return settled
    })
    switch (answer.kind) {
      case 'settled':
      case 'found':
        return this.#ended
      case 'conflict':
        if (answer.isTaken && this.hasEffect && ++this.#takenAfterEffect >= takenAfterEffectMax)
          return this.#settle(taken(this))
        return this.#afterConflict(context?.resourcesRead() ?? [])
      case 'blocked':
        return this.#afterBlock(answer)
      case 'lost':
        return this.#afterLoss()
      case 'not-cancellable':
      case 'already-decided':
        throw new Error(`${this.id} cancels and dismisses nothing and was answered ${answer.kind}`)
      default:
        return answer satisfies never
    }
  }

  /** Runs again on fresh reads; after 3 conflicts it takes its turn on what it read (V6). */
  async #afterConflict(read: readonly string[]): Promise<Ended | null> {
    this.#conflicts++
    this.core.signals?.conflicted(this.plan.claim.namespace, this.plan.claim.verb)
    // Who holds waits for nobody: after its first effect it runs again on fresh reads, however often.
    if (this.#conflicts < conflictsBeforeTurn || this.hasEffect) return null
    const resources = [...new Set([...this.#turn, ...read])]
    if (resources.length === 0 || !(await this.claimAhead()) || this.lease === null) return null
    const lease = this.lease
    const answer = await this.#persist(() => this.core.store.hold(lease, resources))
    if (answer.kind === 'blocked') return this.#afterBlock(answer, 'turn')
    if (answer.kind === 'lost') return this.#afterLoss()
    this.#turn = resources
    return null
  }

  /** The store is away: before it is on record its caller is told so (R1), after that it is run again. */
  async #afterUnavailable(error: Error): Promise<null> {
    while (this.#commit !== null) await this.#commit.catch(() => undefined)
    if (this.lease === null) throw error
    this.core.log.warn({ action: this.id, err: error.message }, 'the store is unavailable; trying again')
    await this.core.waiters.sleep(storeRetryMs)
    return null
  }

  /** Another chain holds what this one needs: it waits, holding nothing itself, and runs again (V6). */
  async #afterBlock(blocked: Blocked, wait: Wait = 'record'): Promise<Ended | null> {
    const leftMs = recordBusyMs - this.#waitedForRecordMs
    if (blocked.stuck || leftMs <= 0)
      return this.#settle({ kind: 'outcome', outcome: busyOutcome(blocked), context: null, item: null })
    if (!(await this.claimAhead()) || this.lease === null) return null
    const lease = this.lease
    if (this.#turn.length > 0) await this.#persist(() => this.core.store.hold(lease, []))
    this.#turn = []
    if ((await this.#persist(() => this.core.store.wait(lease, 'record', this.ranMs))) === 'lost')
      return this.#afterLoss()
    await this.#waiting(wait, this.#whileBlocked(blocked, leftMs))
    if (this.#givenBack) throw new GivenBack()
    if ((await this.#persist(() => this.core.store.wait(lease, null, this.ranMs))) === 'lost') return this.#afterLoss()
    return null
  }

  /** Waits until a hold has ended. Looked at now and then, since it may have ended before the waiting began. */
  async #whileBlocked(blocked: Blocked, leftMs: number): Promise<void> {
    const { store, waiters, machine } = this.core
    const started = machine.now()
    const untilMs = started + leftMs
    for (let now = started; now < untilMs && !this.#givenBack && !this.#isLost; now = machine.now()) {
      await waiters.subject(blocked.resource, Math.min(untilMs - now, waitPollMs))
      const still = await store.blocker(this.plan.claim.namespace, [blocked.resource], this.plan.origin.id)
      if (still === null || still.stuck) break
    }
    this.#waitedForRecordMs += Math.max(1, machine.now() - started)
  }

  /** It waits for another Action, or for a definition that has its Verb (W3, N2). */
  async #afterWait(evaluation: Evaluation & { kind: 'waiting' }): Promise<Ended | null> {
    if (!(await this.claimAhead()) || this.lease === null) return null
    const lease = this.lease
    if ((await this.#persist(() => this.core.store.wait(lease, evaluation.waitingFor, this.ranMs))) === 'lost')
      return this.#afterLoss()
    if (evaluation.until === null) throw new GivenBack()
    await this.#waiting('predecessor', this.#whilePending(evaluation.until))
    if (this.#givenBack) throw new GivenBack()
    if ((await this.#persist(() => this.core.store.wait(lease, null, this.ranMs))) === 'lost') return this.#afterLoss()
    return null
  }

  async #whilePending(predecessor: ActionId): Promise<void> {
    while (!this.#givenBack && !this.#isLost) {
      await this.core.waiters.subject(predecessor, waitPollMs)
      const action = await this.core.store.action(this.plan.claim.namespace, predecessor)
      if (action?.status !== 'pending') return
    }
  }

  async #afterLoss(): Promise<Ended> {
    if (this.#ended !== null) return this.#ended
    for (;;) {
      const action = await this.core.store.action(this.plan.claim.namespace, this.id)
      if (action === null) throw new Error(`${this.id} was lost and is not on record`)
      if (action.status !== 'pending') return (this.#ended = { kind: 'settled', action })
      if (this.#givenBack || this.core.stopping) throw new GivenBack()
      await this.core.waiters.subject(this.id, waitPollMs)
    }
  }

  /**
   * A commit that must get done once the Action is on record: while the store is full or away it is tried again. Before
   * that the caller is told 503, and nothing is on record (R1).
   */
  async #persist<T>(commit: () => Promise<T>): Promise<T> {
    for (;;) {
      // Looked at again after each wait: from here to `#exclusive` nothing else may come in between.
      while (this.#commit !== null) await this.#idle()
      if (this.#failure !== null) throw this.#failure.error
      try {
        return await this.#exclusive(this.#inSpan(commit))
      } catch (error) {
        if (!(error instanceof StoreUnavailable) || this.lease === null) throw error
        if (this.#givenBack) throw new GivenBack()
        this.core.log.warn({ action: this.id, err: error.message }, 'the store is unavailable; trying again')
        await this.core.waiters.sleep(storeRetryMs)
      }
    }
  }

  /**
   * Waits until no commit of it is under way. A store that could not take its claim is not asked for the next thing at
   * once: its caller waits to be told (R1).
   */
  async #idle(): Promise<void> {
    while (this.#commit !== null) {
      await this.#commit.catch((error: unknown) => {
        if (error instanceof StoreUnavailable && this.lease === null) throw error
      })
    }
  }

  /** One commit of this Action at a time: a claim and a settlement must not cross. */
  async #exclusive<T>(commit: Promise<T>): Promise<T> {
    this.#commit = commit
    try {
      return await commit
    } finally {
      if (this.#commit === commit) this.#commit = null
    }
  }

  /** As `#persist`, for steps: their commits belong to the run's order too. */
  persist<T>(commit: () => Promise<T>): Promise<T> {
    return this.#persist(commit)
  }

  #expectUnavailable(error: unknown): void {
    if (error instanceof StoreUnavailable || error instanceof GivenBack) return
    this.core.log.error({ action: this.id, err: String(error) }, 'a claim ahead failed')
  }
}

/** How often a run looks again before it takes a value that its first effect fixed as free to be taken for good. */
const takenAfterEffectMax = 3

/**
 * What it looked up before its effect stands as it was (V6), so no run would ever see that another record has the id or the
 * unique value by now: it fails, and a person decides.
 */
function taken(run: Running): Evaluation & { kind: 'outcome' } {
  const message = `${run.plan.claim.verb} sets an id or a unique value that another record took after its step had run.`
  const outcome: Outcome = { status: 'failed', error: { code: 'not-unique', message, retry: retryAdvice(run) } }
  return { kind: 'outcome', outcome, context: null, item: null }
}

function describe(error: unknown): string {
  return error instanceof Error ? (error.stack ?? error.message) : String(error)
}

/** The server stops, or the Verb's definition is gone: the Action is on record and will be resumed, not here and now. */
export class GivenBack extends Error {
  override readonly name = 'GivenBack'
  constructor() {
    super('the Action was given back, to be resumed later')
  }
}
