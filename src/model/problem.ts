import { faultTextMax } from './limits.ts'
import { problems, type ProblemCode, type ProblemEntry } from './problems.ts'

export { problems, type ProblemCode, type ProblemEntry } from './problems.ts'
export { outcomes, type OutcomeEntry } from './outcomes.ts'

/**
 * A request turned away at the door, with a code of the registry (§11). Thrown, never returned; `http/` turns it into an
 * answer. Whoever throws one promises that the request put nothing on record (R1).
 */
export class Problem extends Error {
  override readonly name = 'Problem'
  readonly code: ProblemCode
  readonly status: number
  /** What is wrong with this very request, for people. Never a secret, a stack trace or somebody else's id. */
  readonly detail: string
  /** Further members of the answer, such as `firstAction` and `differs`. */
  readonly extra: Readonly<Record<string, unknown>>
  /** Headers of the answer, such as `Retry-After`; those of the registry are among them. */
  readonly headers: Readonly<Record<string, string>>

  constructor(
    code: ProblemCode,
    detail: string,
    extra: Readonly<Record<string, unknown>> = {},
    headers: Readonly<Record<string, string>> = {},
  ) {
    super(detail)
    const entry: ProblemEntry = problems[code]
    this.code = code
    this.status = entry.status
    this.detail = detail
    this.extra = extra
    this.headers = entry.headers ? { ...entry.headers, ...headers } : headers
  }

  /** Whether the same request with the same key may succeed later (§11). */
  get retryable(): boolean {
    return problems[this.code].retryable
  }
}

/**
 * Makes a Problem to throw: `throw problem('idempotency-mismatch', 'The key …', { firstAction, differs: ['input'] })`.
 * `headers` are added to those that the registry gives the code, and win over them.
 */
export function problem(
  code: ProblemCode,
  detail: string,
  extra?: Readonly<Record<string, unknown>>,
  headers?: Readonly<Record<string, string>>,
): Problem {
  return new Problem(code, detail, extra, headers)
}

/** Whether a caught value is a Problem with this code (with any, when none is given). */
export function isProblem(error: unknown, code?: ProblemCode): error is Problem {
  return error instanceof Problem && (code === undefined || error.code === code)
}

/** An answer's body as RFC 9457 has it, with this platform's own members (§11). */
export interface ProblemJson {
  /** Absolute address of the code's page. */
  type: string
  title: string
  status: number
  detail: string
  code: ProblemCode
  retryable: boolean
  requestId: string
  [extra: string]: unknown
}

/**
 * The body of the answer to a request that met this problem (RFC 9457). `origin` is the server's own, without a slash at
 * the end: `http://127.0.0.1:4000`. A member of `extra` never replaces a standard one.
 */
export function toProblemJson(problem: Problem, at: { origin: string; requestId: string }): ProblemJson {
  const { code, status, detail, extra } = problem
  const { title, retryable } = problems[code]
  const standard = {
    type: errorPageUrl(at.origin, code),
    title,
    status,
    detail,
    code,
    retryable,
    requestId: at.requestId,
  }
  return { ...standard, ...extra, ...standard }
}

/** The absolute address of a code's page: `http://127.0.0.1:4000/errors/idempotency-mismatch`. */
export function errorPageUrl(origin: string, code: string): string {
  return `${origin}/errors/${encodeURIComponent(code)}`
}

/** A text of the client's own, as far as an answer repeats it. */
export function shortened(text: string): string {
  return text.length > faultTextMax ? `${text.slice(0, faultTextMax)}…` : text
}
