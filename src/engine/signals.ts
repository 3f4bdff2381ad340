import type { SettledAction, StepStatus } from '../model/action.ts'
import type { Answer, Call } from '../model/call.ts'
import { Problem, type ProblemCode } from '../model/problem.ts'
import { StoreUnavailable } from '../store/store.ts'

/** How a call was answered. `rejected`: nothing is on record; `unanswered`: its outcome is in doubt (R1). */
export type CallAnswer = 'settled' | 'pending' | 'replayed' | 'tried' | 'rejected' | 'unanswered'

/** What an Action waited for before it ran on: a held record, its turn on what it read (V6), or its predecessor (W3). */
export type Wait = 'record' | 'turn' | 'predecessor'

/**
 * What happens in the engine, for an operator's metrics. Handed in like the log (house rule 3); without it each of these is
 * one comparison. What is told has bounded names only: of Verbs that exist, and codes; never an id, a key or an input.
 */
export interface Signals {
  /** A steady clock, in milliseconds with fractions. */
  now(): number
  /** A call of the engine is over; `code` is that of the Problem it was rejected with. Its time holds the waiting too. */
  called(mode: Call['mode'], answer: CallAnswer, code: ProblemCode | null, ms: number): void
  /** A request was answered with a problem, by whichever part of the door. */
  rejected(code: ProblemCode): void
  /** A connection was closed unanswered, since the outcome of its call is in doubt (R1). */
  unanswered(): void
  /** An Action settled, by whom it may be, and that is on disk. */
  settled(action: SettledAction): void
  /** What a run had read changed before it could commit: it runs again (V6). */
  conflicted(namespace: string, verb: string): void
  waited(wait: Wait, ms: number): void
  /** A pending Action of an earlier process was taken over (V4). */
  resumed(): void
  /** One attempt of a step ended (V2): done, rejected, or unknown. */
  stepped(namespace: string, verb: string, status: StepStatus): void
}

/** Calls with their times told. */
export function counted(signals: Signals, call: (request: Call) => Promise<Answer>): typeof call {
  return async (request) => {
    const began = signals.now()
    try {
      const answer = await call(request)
      signals.called(request.mode, answered(answer), null, signals.now() - began)
      return answer
    } catch (error) {
      const code = error instanceof Problem ? error.code : null
      signals.called(request.mode, unmade(error), code, signals.now() - began)
      throw error
    }
  }
}

/** What an error says became of its call. */
export function unmade(error: unknown): 'rejected' | 'unanswered' {
  return error instanceof Problem || error instanceof StoreUnavailable ? 'rejected' : 'unanswered'
}

/** What an answer says became of its call. */
export function answered(answer: Answer): CallAnswer {
  if (answer.kind === 'try') return 'tried'
  if (answer.status === 'pending') return 'pending'
  return answer.replayed ? 'replayed' : 'settled'
}
