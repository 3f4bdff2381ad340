import type {
  Action,
  ActionMode,
  Bound,
  Outcome,
  SettledAction,
  SettledStatus,
  StepView,
  WaitingFor,
} from '../model/action.ts'
import type { Bucket, Taken } from '../model/buckets.ts'
import type { ActionId, EventId, ItemId } from '../model/ids.ts'
import type { Decided, InboxItem, NewItem } from '../model/item.ts'
import type { Fixed, JournalEntry } from '../model/journal.ts'
import type { Key } from '../model/key.ts'
import type { IndexValue, RecordVersion, RecordWrite, Reads, StoredRecord } from '../model/record.ts'
import type { Manifest } from '../model/manifest.ts'
import type { Throttle } from '../model/startup.ts'
import type { Worker } from '../model/worker.ts'

/**
 * The seam to what is on disk: a domain seam, each method one whole transaction, so that no transaction stays open over
 * somebody else's code. What a commit method answers is on disk when its promise resolves (R3). A read may see what is
 * committed and not yet synced: nothing that came of it leaves the server before `durable()` has resolved.
 *
 * Every method throws `StoreUnavailable` when the store can't do it now and did nothing; when the outcome of a commit
 * is in doubt the store calls `onDoubt` (see `StoreOptions`) and its promises never settle.
 */
export interface Store {
  // --- what is defined, and who may call -----------------------------------------------------------------------------

  /** Records a namespace's definition (N2): registers names for ever, builds new indexes. Faults mean nothing was done. */
  deploy(manifest: Manifest): Promise<DeployAnswer>
  /** The faults that `deploy` would find (N2). Records nothing; while another process serves the store, too. */
  deployFaults(manifest: Manifest): Promise<readonly string[]>
  /** Marks that a namespace's seed has run; `deploy` says whether it has. */
  markSeeded(namespace: string): Promise<void>
  /** Those that have a definition, in the order in which they got it. A Worker alone makes none. */
  namespaces(): Promise<readonly string[]>

  /** The Worker of a live token (its SHA-256), or null. Sees what another process just did to it (V4). */
  workerOfToken(tokenHash: Uint8Array): Worker | null | Promise<Worker | null>
  addWorker(worker: Worker, tokenHash: Uint8Array | null, expiresAt: number | null): Promise<'added' | 'name-taken'>
  addToken(workerId: string, tokenHash: Uint8Array, expiresAt: number | null): Promise<void>
  /** Ends all tokens of a Worker; with `remove` the Worker too, whose name stays taken for ever. */
  revokeWorker(workerId: string, remove: boolean): Promise<void>
  /** Gives a Worker a limit of its own (§10), or takes it away (null): the server obeys from its next call on (V4). */
  limitWorker(workerId: string, throttle: Throttle | null): Promise<void>
  workers(namespace: string | null): Promise<readonly WorkerListing[]>

  /**
   * Counts one call in all buckets, or in none when one of them has no room for it (§10), by the store's clock. Of what
   * is counted nothing need be on disk: after a start each bucket may be full.
   */
  take(buckets: readonly Bucket[]): Taken | Promise<Taken>

  // --- the life of an Action ------------------------------------------------------------------------------------------

  /** The Action that this Worker's key is bound to (K2), or null: one look-up, however many keys there are. */
  lookUp(workerId: string, key: Key): Action | null | Promise<Action | null>

  /** Puts an Action on record ahead of its settlement, or answers the one that the key is bound to already (K5). */
  claim(claim: Claim): Promise<ClaimAnswer>
  /** Takes a pending Action over for a run of its own: a fresh fencing token, one more attempt, a crash counted (V4). */
  adopt(action: ActionId): Promise<AdoptAnswer>
  /**
   * Says why a pending Action waits, or that it runs again (null). While it waits its running mark is cleared: it can't be
   * what crashes the process (V4).
   */
  wait(lease: Lease, waitingFor: WaitingFor | null, ranMs: number): Promise<'ok' | 'lost'>
  /** Gives Actions back unharmed: a graceful stop is no crash (V4). */
  release(leases: readonly Lease[]): Promise<void>
  /** Takes holds without a step's start: an Action that met conflicts takes its turn (V6). Replaces its earlier turn. */
  hold(lease: Lease, resources: readonly string[]): Promise<{ kind: 'held' } | Blocked | Lost>

  /**
   * A step starts (V2): its journal entry, and with an effect all that this fixes (V1, V6): validates `reads`, takes
   * `fixed.holds` and stores `fixed`, in one commit, or does nothing.
   */
  startStep(start: StepStart): Promise<{ kind: 'started' } | Conflict | Blocked | Lost>
  /** Journals how a step ended, or one more attempt; progress, so that the crash count begins anew. */
  endStep(lease: Lease, entry: JournalEntry, ranMs: number): Promise<'ok' | 'lost'>

  /** Settles an Action, claimed before or by this very commit: records, Action, Event, usage, inbox, holds, or nothing. */
  settle(settlement: Settlement): Promise<SettleAnswer>

  /** Pending Actions that nobody of this process holds, oldest first: what is to be resumed (V4). */
  pending(after: number, limit: number): Promise<readonly PendingListing[]>

  /**
   * How many Actions are pending and inbox items are open, for metrics. Counted in pages, between which others get their
   * turn, so that it holds nobody up however many there are; what changes meanwhile may be counted or not.
   */
  census(): Promise<Census>

  // --- reads ----------------------------------------------------------------------------------------------------------

  /** Resolves once all that any read has seen so far is on disk; undefined when it is already (R3). */
  durable(): Promise<void> | undefined
  /** Whether all that was read still stands, at one moment: a `try`'s snapshot (T1). */
  validate(namespace: string, reads: Reads): Promise<boolean>
  action(namespace: string, id: ActionId): Promise<Action | null>
  /** The chain's Actions, oldest first. */
  chain(root: ActionId): Promise<readonly Action[]>
  journal(root: ActionId): Promise<readonly JournalEntry[]>
  /** Who holds one of these resources against a chain (V6): what a `try` tells without waiting. */
  blocker(namespace: string, resources: readonly string[], root: ActionId | null): Promise<Blocked | null>
  /** The record as it is; deleted ones with a negative version; null when the id was never used. */
  record(namespace: string, noun: string, id: string): Promise<StoredRecord | null>
  /** The record as it was at a Version (1 to the current one), null when there is no such Version. */
  recordAt(namespace: string, noun: string, id: string, version: number): Promise<StoredRecord | null>
  /** Live records by one declared index, oldest first. */
  find(
    namespace: string,
    noun: string,
    field: string,
    value: IndexValue,
    limit: number,
  ): Promise<readonly StoredRecord[]>
  /** A record's Versions above `after`, ascending. */
  versions(namespace: string, noun: string, id: string, after: number, limit: number): Promise<readonly RecordVersion[]>
  /** Live records in order of creation; filters on declared indexes. */
  records(
    namespace: string,
    noun: string,
    filters: readonly { field: string; value: IndexValue }[],
    page: Page,
  ): Promise<Paged<StoredRecord>>
  actions(namespace: string, filter: ActionFilter, page: Page): Promise<Paged<Action>>
  events(namespace: string, after: number, limit: number): Promise<readonly StoredEvent[]>
  /** The greatest seq of a namespace that is committed, 0 when it has no Event (E1). */
  lastSeq(namespace: string): Promise<number>
  /** Items of one Worker (`workerId`), and every failed one of the namespace when `all` (grant `inbox`). */
  inbox(namespace: string, filter: InboxFilter, page: Page): Promise<Paged<InboxItem>>
  item(namespace: string, id: ItemId): Promise<InboxItem | null>
  usage(namespace: string, from: string, to: string): Promise<readonly UsageRow[]>

  /** The greatest unique part (26 characters) of any id on record, so that ids stay monotonic over restarts (§3). */
  lastId(): Promise<string | null>
  /** Tells of what has become durable. Returns the way to stop listening. */
  listen(listener: (notice: Notice) => void): () => void
  /** Every invariant, over the whole store; what is wrong, in sentences (`startup-builder verify`). */
  verify(report: (fault: string) => void): Promise<VerifyCounts>
  close(): Promise<void>
}

/** What a store is handed: time and chance (house rule 3), and what to do when a commit's outcome is in doubt (R3). */
export interface StoreOptions {
  readonly machine: { now(): number; randomBytes(bytes: number): Uint8Array }
  /** An fsync failed or a connection broke within a commit: end the process, answering nobody. */
  readonly onDoubt: (reason: Error) => void
  /** Told of each group of writes once it is on disk, for metrics. */
  readonly onCommit?: (commit: CommitFacts) => void
}

export interface CommitFacts {
  /** Writes that shared the commit. */
  readonly operations: number
  /** How long it took to make the log durable, in milliseconds. */
  readonly syncMs: number
}

/** The store can't be reached, is full or read-only: nothing was done, and the same call may work later. */
export class StoreUnavailable extends Error {
  override readonly name = 'StoreUnavailable'
}

/** The right to write to a pending Action: every write is compare-and-set on its fencing token (V4). */
export interface Lease {
  readonly action: ActionId
  readonly fence: number
}

export interface Claim {
  readonly id: ActionId
  readonly namespace: string
  readonly workerId: string
  readonly worker: string
  readonly key: Key | null
  readonly bound: Bound
  readonly verb: string
  readonly target: string | null
  readonly input: string
  readonly mode: ActionMode
  readonly on: ActionId | null
  readonly decidedAgainst: Readonly<Record<string, number>>
  readonly decidedAfter: readonly string[]
  readonly createdAt: number
  readonly waitingFor: WaitingFor | null
  /** A run of it begins at once: should the process die, that counts as a crash (V4). False for what only waits. */
  readonly running: boolean
  /** A retry of a failed Action: checked in this very transaction (A2, V3). `on` is that Action. */
  readonly retry?: {
    /** What a Worker with the grant `inbox` says of unknown outcomes, by step (V3). Null: has no such right or said nothing. */
    readonly steps: Readonly<Record<string, { readonly outcome: string } | { readonly runAgain: true }>> | null
  }
  /** The open inbox item that this call decides, by `apply` (W4): decided in this very transaction, or nothing is claimed. */
  readonly applies?: ItemId
}

export type ClaimAnswer =
  | { readonly kind: 'claimed'; readonly lease: Lease; readonly run: RunState }
  | { readonly kind: 'found'; readonly action: Action }
  /** Retry only. */
  | { readonly kind: 'not-retryable'; readonly status: string }
  | { readonly kind: 'already-retried'; readonly latest: ActionId }
  | { readonly kind: 'outcome-required'; readonly step: string }
  /** Its outcome was told, and no such step of the chain has an unknown one. */
  | { readonly kind: 'step-not-unknown'; readonly step: string }
  | AlreadyDecided

/** All that a run must know of what its chain did before. */
export interface RunState {
  readonly journal: readonly JournalEntry[]
  readonly fixed: Fixed | null
  /** Time that it ran already, in milliseconds (V5): the timeout counts it. */
  readonly ranMs: number
  /** Processes that died under it without progress (V4). */
  readonly crashes: number
}

export type AdoptAnswer =
  | { readonly kind: 'adopted'; readonly action: Action; readonly lease: Lease; readonly run: RunState }
  | { readonly kind: 'settled' }

export interface StepStart {
  readonly lease: Lease
  /** Status `started`. An entry of the same step is replaced. */
  readonly entry: JournalEntry
  /** With an effect: what to validate, and what to fix and hold from here on. Null for `effect: false`. */
  readonly effect: {
    readonly reads: Reads
    readonly fixed: Fixed
    /** Entries without an effect to keep; others of these are dropped. Null: all. */ readonly keep:
      readonly string[] | null
  } | null
  readonly ranMs: number
}

export interface Settlement {
  /** A claim of its own (one commit for claim and settlement), or the lease of an earlier one. */
  readonly by: { readonly claim: Claim } | { readonly lease: Lease }
  readonly outcome: Outcome
  /** `Order.placed`, `Order.place.failed` … */
  readonly eventType: string
  readonly steps: readonly StepView[]
  readonly reads: Reads
  readonly writes: readonly RecordWrite[]
  readonly units: number
  readonly item: NewItem | null
  /** What becomes of the chain's holds (V6): kept by one that failed with an effect done or unknown. */
  readonly holds: 'release' | 'keep'
  /** `Action.cancel`: this Action is settled too, `refused` with `cancelled`, if it may be; its JSON becomes the output (A3). */
  readonly cancels?: {
    readonly action: ActionId
    readonly fix: Outcome & { status: 'refused' }
    readonly eventType: string
  }
  /** `Inbox.dismiss`: this open item is closed, what its chain holds ends, and the item's JSON becomes the output (W4, V6). */
  readonly dismisses?: ItemId
}

export type SettleAnswer =
  | { readonly kind: 'settled'; readonly action: SettledAction }
  /** The key is another Action's: found in this very transaction (K5). */
  | { readonly kind: 'found'; readonly action: Action }
  | Conflict
  | Blocked
  | Lost
  | { readonly kind: 'not-cancellable'; readonly reason: string }
  | AlreadyDecided

/** The inbox item was decided before (W4): it is decided once. */
export interface AlreadyDecided {
  readonly kind: 'already-decided'
  readonly item: ItemId
  readonly decided: Decided
}

/** Something that was read has changed: run again on fresh reads (V6). */
export interface Conflict {
  readonly kind: 'conflict'
  /** All that was read stands; an id or a unique value that a write takes is another record's. */
  readonly isTaken?: true
}
/** Another chain holds a resource (V6). `stuck`: by an Action that failed with an effect done or unknown. */
export interface Blocked {
  readonly kind: 'blocked'
  readonly resource: string
  readonly by: ActionId
  readonly stuck: boolean
}
/** The fencing token is no longer the Action's: it was settled, cancelled or taken over. */
export interface Lost {
  readonly kind: 'lost'
}

export interface PendingListing {
  readonly action: ActionId
  /** Position for the next page. */
  readonly position: number
  readonly namespace: string
  readonly verb: string
  readonly waitingFor: WaitingFor | null
  /** As `adopt` would count it. */
  readonly crashes: number
}

export interface Census {
  readonly pending: readonly PendingCount[]
  readonly inbox: readonly { readonly namespace: string; readonly open: number }[]
}
export interface PendingCount {
  readonly namespace: string
  readonly waitingFor: WaitingFor | null
  readonly count: number
  /** Of the one that came on record first, by its own time. */
  readonly oldestAt: number
}

export interface StoredEvent {
  readonly id: EventId
  readonly seq: number
  readonly type: string
  readonly action: ActionId
  readonly worker: string
  readonly records: readonly { readonly record: string; readonly version: number }[]
  readonly outcome: Outcome
  readonly at: number
}

/** `after` is a position that an earlier page gave as `next`; 0 begins. */
export interface Page {
  readonly after: number
  readonly limit: number
}
export interface Paged<T> {
  readonly data: readonly T[]
  readonly next: number | null
}
export interface ActionFilter {
  readonly status?: 'pending' | SettledStatus
  readonly verb?: string
  /** Workers by name. */
  readonly worker?: string
  readonly key?: string
  readonly on?: ActionId
}
export interface InboxFilter {
  readonly workerId: string
  readonly all: boolean
  readonly status?: 'open' | 'decided'
}
export interface UsageRow {
  readonly verb: string
  readonly worker: string
  /** `2026-11-30`, UTC day of settlement. */
  readonly day: string
  readonly units: number
}
export interface WorkerListing extends Worker {
  readonly createdAt: number
  readonly removed: boolean
  readonly tokens: readonly {
    readonly createdAt: number
    readonly expiresAt: number | null
    readonly revoked: boolean
  }[]
}
export interface DeployAnswer {
  /** Sentences that name the line to mend; none: it is deployed. */
  readonly faults: readonly string[]
  readonly seeded: boolean
  /** Every operation that the namespace ever had, so that a replay finds one whose Verb was removed (R2). */
  readonly operations: readonly { readonly nouns: string; readonly operation: string }[]
}
export type Notice =
  | { readonly kind: 'settled'; readonly action: SettledAction }
  | { readonly kind: 'released'; readonly resources: readonly string[] }
export interface VerifyCounts {
  readonly actions: number
  readonly pending: number
  readonly records: number
  readonly events: number
  readonly keys: number
}
