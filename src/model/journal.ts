import type { ActionId } from './ids.ts'
import type { StepStatus } from './action.ts'
import type { Reads } from './record.ts'

/** A step's journal entry. The journal belongs to the chain: retries inherit it (A1, V2). */
export interface JournalEntry {
  /** `charge#1`: its name and its occurrence. */
  readonly step: string
  /** Counts how often a rejected step was begun anew by `Action.retry`; part of the derived key. From 0. */
  readonly generation: number
  readonly status: StepStatus
  /** JSON text of the step's input; null when it has none. */
  readonly input: string | null
  /** Done: JSON text of what `fn` returned. Rejected: JSON text of `{ code, message }`. Otherwise null. */
  readonly outcome: string | null
  readonly attempts: number
  /** When this generation was first started, milliseconds of the store's clock: `keyHolds` counts from here. */
  readonly startedAt: number
  readonly effect: boolean
  readonly atMostOnce: boolean
  readonly keyHoldsMs: number
  /**
   * The Action of the chain that started it last. An unknown outcome that an earlier Action left is one that its retry may
   * ask again: the claim of the retry saw to it that it may (V3).
   */
  readonly action: ActionId
}

/**
 * What the start of a step with an effect fixes for every re-run, resume and retry after it (V1, V6): the Verb's clock,
 * chance and ids, what it read, and what the chain holds. Each later start of such a step adds what was read since.
 */
export interface Fixed {
  readonly seed: Seed
  readonly reads: Reads
  /** Resources held by the chain, see `recordResource` and `lookupResource`. */
  readonly holds: readonly string[]
}

export interface Seed {
  /** The Verb's clock, milliseconds. */
  readonly now: number
  /** 26 characters: the base of the ids of new records. */
  readonly base: string
  /** 32 hex characters: the seed of `random()`. */
  readonly random: string
}
