import type { ActionStatus } from './action.ts'
import type { ActionId } from './ids.ts'
import type { Key } from './key.ts'
import type { Worker } from './worker.ts'

/** What the door receives: headers parsed, the body still as it came (R2). */
export interface Call {
  readonly worker: Worker
  readonly route: Route
  /** Null on `try`, and where a call must have one it is 400 before it gets here. */
  readonly key: Key | null
  readonly mode: 'do' | 'send' | 'try'
  /** How long a pending Action is waited on, milliseconds; 0 for `send`. */
  readonly waitMs: number
  readonly versions: RecordVersions
  readonly decidedAfter: Key | null
  readonly body: Uint8Array
  /** The caller's span, where spans are recorded. Not part of what the key binds. */
  readonly trace?: TraceHeaders | undefined
}

/** W3C Trace Context, as it came. */
export interface TraceHeaders {
  readonly traceparent?: string
  readonly tracestate?: string
}

/** `POST /{ns}/{nouns}/{verb}` or `/{ns}/{nouns}/{id}/{verb}`, decoded. Built-in ones: `actions/{id}/retry`, `inbox/{id}/apply`. */
export interface Route {
  readonly namespace: string
  readonly nouns: string
  readonly id: string | null
  readonly verb: string
}

/** `Record-Version` (W1): the target's, and others by `offers/offer_x`. */
export interface RecordVersions {
  readonly target?: number
  readonly records: ReadonlyMap<string, number>
}

/** What the door gives; a rejection is a thrown `Problem`. */
export type Answer =
  | {
      readonly kind: 'action'
      readonly id: ActionId
      readonly status: ActionStatus
      /** UTF-8 JSON of the Action. */
      readonly body: Uint8Array
      /** A settled Action that an earlier request had made: `Idempotent-Replayed: true` (K4). */
      readonly replayed: boolean
    }
  | { readonly kind: 'try'; readonly body: string }
