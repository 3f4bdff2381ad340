import type { ActionId, EventId } from './ids.ts'
import type { Key } from './key.ts'

/** How a durable call was made (SPEC §1). `try` stores nothing, so no Action ever has it. */
export type ActionMode = 'do' | 'send'

/** An Action is `pending`, then settled for good. */
export type SettledStatus = 'succeeded' | 'failed' | 'refused'
export type ActionStatus = 'pending' | SettledStatus

/** Why a pending Action does not run right now (V6, W3, W5, N2). */
export type WaitingFor = 'record' | 'predecessor' | 'approval' | 'definition'

/** Whether a retry of a failed Action makes sense (V5). */
export type RetryAdvice = 'advised' | 'pointless' | 'unsafe'

export interface ActionError {
  readonly code: string
  readonly message: string
  readonly retry: RetryAdvice
}

/** What mends a refusal. `code` is the author's, or one of the contract's (`stale-decision`, `cancelled` …). */
export interface Fix {
  readonly code: string
  readonly message?: string
  readonly [member: string]: unknown
}

/** A step as an Action shows it: `started` is one whose outcome is not journaled yet. */
export interface StepView {
  readonly step: string
  readonly status: StepStatus
  readonly attempts: number
}
export type StepStatus = 'started' | 'done' | 'rejected' | 'unknown'

/**
 * What a key binds (K3): the operation, the target's id and the fingerprint of the input as it was sent. For a built-in
 * call (`Action.retry`) the operation and target are the call's own, not those of the Action that it made.
 */
export interface Bound {
  readonly operation: string
  readonly target: string | null
  /** One byte for the fingerprint's scheme, then its 32 bytes. */
  readonly fingerprint: Uint8Array
}

interface ActionCommon {
  readonly id: ActionId
  readonly namespace: string
  /** The operation that runs: `Order.place`. */
  readonly verb: string
  readonly worker: string
  readonly workerId: string
  /** Null for a script's keyless call only (§14). */
  readonly key: Key | null
  readonly bound: Bound
  readonly mode: ActionMode
  /** The target's id: a record's (`order_…`), an Action's for built-in calls; null for a collection Verb. */
  readonly target: string | null
  /** JSON text, as it was sent. */
  readonly input: string
  readonly on: ActionId | null
  /** The chain's first Action; itself unless it is a retry. */
  readonly root: ActionId
  readonly decidedAgainst: Readonly<Record<string, number>>
  readonly decidedAfter: readonly string[]
  readonly steps: readonly StepView[]
  /** How often a run of it began: 1, and one more for each resume. */
  readonly attempts: number
  /** Milliseconds since the epoch. */
  readonly createdAt: number
}

export interface PendingAction extends ActionCommon {
  readonly status: 'pending'
  readonly waitingFor: WaitingFor | null
}

export interface SettledAction extends ActionCommon {
  readonly status: SettledStatus
  readonly outcome: Outcome
  readonly event: EventId
  readonly seq: number
  readonly settledAt: number
}

export type Action = PendingAction | SettledAction

/** How an Action ends. `output` is JSON text, so that a replay is the very bytes of the first answer. */
export type Outcome =
  | { readonly status: 'succeeded'; readonly output: string }
  | { readonly status: 'failed'; readonly error: ActionError }
  | { readonly status: 'refused'; readonly fix: Fix }

/** The Action as JSON text, as every interface shows it (§3). */
export function actionJson(action: Action): string {
  const outcome = action.status === 'pending' ? null : action.outcome
  const output = outcome?.status === 'succeeded' ? outcome.output : 'null'
  const error = outcome?.status === 'failed' ? JSON.stringify(outcome.error) : 'null'
  const fix = outcome?.status === 'refused' ? JSON.stringify(outcome.fix) : 'null'
  const waitingFor = action.status === 'pending' && action.waitingFor !== null ? `"${action.waitingFor}"` : 'null'
  const event = action.status === 'pending' ? 'null' : `"${action.event}"`
  const settledAt = action.status === 'pending' ? 'null' : `"${isoTime(action.settledAt)}"`
  const target = action.target === null ? 'null' : JSON.stringify(action.target)
  const key = action.key === null ? 'null' : JSON.stringify(action.key)
  const on = action.on === null ? 'null' : `"${action.on}"`
  const steps = action.steps.length === 0 ? '[]' : JSON.stringify(action.steps)
  const decidedAfter = action.decidedAfter.length === 0 ? '[]' : JSON.stringify(action.decidedAfter)
  return (
    `{"id":"${action.id}","namespace":"${action.namespace}","verb":"${action.verb}",` +
    `"worker":${JSON.stringify(action.worker)},"idempotencyKey":${key},"status":"${action.status}",` +
    `"mode":"${action.mode}","target":${target},"input":${action.input},"output":${output},"error":${error},` +
    `"fix":${fix},"on":${on},"decidedAgainst":${JSON.stringify(action.decidedAgainst)},` +
    `"decidedAfter":${decidedAfter},"waitingFor":${waitingFor},"steps":${steps},"event":${event},` +
    `"attempts":${action.attempts},"createdAt":"${isoTime(action.createdAt)}","settledAt":${settledAt}}`
  )
}

/** ISO 8601 UTC with milliseconds (§3). */
export function isoTime(ms: number): string {
  return new Date(ms).toISOString()
}
