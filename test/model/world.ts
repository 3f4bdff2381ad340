import type { Action } from '../../src/model/action.ts'
import type { Call } from '../../src/model/call.ts'
import type { Worker } from '../../src/model/worker.ts'
import type { Store } from '../../src/store/store.ts'
import type { Crash } from './plan.ts'

/** What a call was answered, or that it never was: the process died. */
export type Reply =
  | {
      readonly kind: 'action'
      readonly id: string
      readonly status: string
      readonly body: string
      readonly replayed: boolean
    }
  | { readonly kind: 'try'; readonly body: string }
  | {
      readonly kind: 'problem'
      readonly status: number
      readonly code: string
      readonly extra: Readonly<Record<string, unknown>>
    }
  | { readonly kind: 'lost' }

/** A server on a store, that a plan is carried out on: an engine in this process, or a process of its own behind HTTP. */
export interface World {
  /** The first start: the Workers come on record. Gives them. */
  open(): Promise<readonly Worker[]>
  /** For reads. */
  readonly store: Store
  call(call: Call): Promise<Reply>
  /** What is on record under a Worker's key: never more than one Action. */
  recorded(worker: Worker, key: string): Promise<readonly Action[]>
  /** Resolves once what the store shows has been told to whom it concerns, too. */
  told(): Promise<void>
  /** It dies at some moment after this. */
  arm(crash: Crash): void
  /** No more, if it has not yet. */
  disarm(): void
  readonly isDead: boolean
  /** As `kill -9`. */
  kill(): Promise<void>
  /** A graceful stop (V4). */
  stop(): Promise<void>
  start(): Promise<void>
  /** By the server's clock. */
  now(): number
  /** Moves the clock, where the world has one of its own. */
  jump(ms: number): void
  end(): Promise<void>
}
