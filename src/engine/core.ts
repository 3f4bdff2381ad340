import type { Action, SettledAction } from '../model/action.ts'
import type { ActionId, IdSource } from '../model/ids.ts'
import type { Startup } from '../model/startup.ts'
import type { DeployAnswer, Lease, Store } from '../store/store.ts'
import type { HotReplays } from './hot.ts'
import type { Signals } from './signals.ts'
import type { Spans } from './spans.ts'
import type { FailedTokens } from './throttle.ts'
import type { Waiters } from './waiting.ts'

/** Time and chance, handed in (house rule 3). */
export interface Machine {
  /** Milliseconds since the epoch. */
  now(): number
  randomBytes(bytes: number): Uint8Array
}

/** Where the engine reports to: ids and codes, never an input or a token. */
export interface Log {
  info(facts: object, message: string): void
  warn(facts: object, message: string): void
  error(facts: object, message: string): void
}

export interface EngineOptions {
  readonly store: Store
  readonly startups: ReadonlyMap<string, Startup>
  /** What `store.deploy` answered for each namespace. */
  readonly deployed: ReadonlyMap<string, DeployAnswer>
  readonly machine: Machine
  readonly log: Log
  /** None: nothing is counted. */
  readonly signals?: Signals | null
  /** None: nothing is traced. */
  readonly spans?: Spans | null
}

/** What the engine's parts share. */
export interface Core extends EngineOptions {
  readonly ids: IdSource
  /** Every operation that a namespace ever had, by `orders/place` (R2). */
  readonly operations: ReadonlyMap<string, ReadonlyMap<string, string>>
  /** Actions of this process by key, from before they are on record until they are settled (K5). */
  readonly flights: Map<string, Flight>
  /** Actions that run in this process. */
  readonly runs: Map<ActionId, RunningAction>
  readonly hot: HotReplays
  readonly waiters: Waiters
  readonly failedTokens: FailedTokens
  /** Set once a stop has begun; what still runs then is given back. */
  stopping: boolean
}

/** A call under way in this process, which a second request with the same key joins. */
export interface Flight {
  readonly id: ActionId
  readonly bound: Action['bound']
  /** Settled by this flight, or found to be another's; rejects when nothing came on record. */
  readonly done: Promise<Ended>
  /** Puts it on record if it isn't yet, so that it can be named; gives the Action as it then is. */
  name(): Promise<Action>
}

/** How a call's run ended: with its own settled Action, or with the one its key turned out to be bound to. */
export type Ended =
  { readonly kind: 'settled'; readonly action: SettledAction } | { readonly kind: 'found'; readonly action: Action }

/** A run as the rest of the engine sees it. */
export interface RunningAction extends Flight {
  readonly lease: Lease | null
  /** Called now and then by the clock: claims ahead what runs long, ends what runs too long (V5). */
  tick(nowMs: number): void
  /** The lease is another's, or the Action was settled by somebody else: what runs here writes nothing more (V4). */
  lose(): void
  /** A stop: the Action is put on record so that it is resumed, and what runs here writes nothing more (V4). */
  giveBack(): Promise<void>
}
