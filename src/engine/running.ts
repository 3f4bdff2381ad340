import type { ActionId } from '../model/ids.ts'
import type { Fixed, JournalEntry } from '../model/journal.ts'
import type { Startup, Verb } from '../model/startup.ts'
import type { Worker } from '../model/worker.ts'
import type { Claim, Lease, RunState } from '../store/store.ts'
import type { Core } from './core.ts'

/** What a run is made from: a call that passed the door, a retry, or a pending Action that was taken over. */
export interface RunPlan {
  readonly startup: Startup
  /** Null when the definition no longer has it (N2). */
  readonly verb: Verb | null
  readonly worker: Worker
  readonly claim: Claim
  /** The validated input; undefined: to be validated anew from the recorded text. */
  readonly input: unknown
  /** On record already: a retry's claim, a send, a resume. */
  readonly lease: Lease | null
  readonly state: RunState | null
  /** The chain's first Action: what derived keys are made from (V2). */
  readonly origin: {
    readonly id: ActionId
    readonly worker: string
    readonly workerId: string
    readonly key: string | null
  }
  /** Attempts so far, this one included. */
  readonly attempts: number
}

/** A run as its evaluations see it. */
export interface Running {
  readonly core: Core
  readonly plan: RunPlan
  readonly id: ActionId
  /** The chain's journal, kept in step with what is on disk. */
  readonly journal: Map<string, JournalEntry>
  /** What the chain's first step with an effect fixed; null before (V1, V6). */
  fixed: Fixed | null
  readonly lease: Lease | null
  /** Milliseconds of running so far, waiting and downtime apart (V5). */
  readonly ranMs: number
  /** Whether a step with an effect has started in the chain. */
  readonly hasEffect: boolean
  /** Whether a step with an effect is done or unknown in the chain: then nothing settles `refused` (V5). */
  readonly hasHappened: boolean
  /** The names of the input's members, as it was sent: fields of these names the Verb depends on (W2). */
  readonly inputMembers: ReadonlySet<string>
  /** Puts the Action on record ahead of its settlement, once; false when it has ended instead. */
  claimAhead(): Promise<boolean>
  /** A commit that must get done once the Action is on record: tried again while the store is away. */
  persist<T>(commit: () => Promise<T>): Promise<T>
}
