import type { JsonSchema } from '../../model/jsonschema.ts'
import type { ProblemCode } from '../../model/problem.ts'
import type { Components } from './components.ts'
import { headerRefs } from './headers.ts'
import type { ProblemResponses } from './problems.ts'

/** A document that is being made. */
export interface Draft {
  readonly components: Components
  readonly problems: ProblemResponses
  /** By path, then by method. */
  readonly paths: Record<string, Record<string, object>>
}

export type Responses = Readonly<Record<string, object>>

/** One operation of the document. */
export interface Operation {
  readonly method: 'get' | 'post'
  readonly path: string
  readonly ids: readonly [string, ...string[]]
  readonly tag: string
  readonly summary: string
  readonly description: string
  /** Grants that it takes, told as the roles of the bearer (H1); null for what needs no token. */
  readonly grants: readonly string[] | null
  readonly parameters?: readonly JsonSchema[]
  readonly input?: { readonly schema: JsonSchema; readonly required: boolean }
  readonly answers: Responses
  readonly problems: readonly ProblemCode[]
  /** What the responses that are problems are named after, where several operations share them. */
  readonly group: string
}

export function addOperation({ components, problems, paths }: Draft, operation: Operation): void {
  const { method, path, ids, tag, summary, description, grants, parameters = [], input, answers } = operation
  const id = components.operationId(ids)
  const whole = {
    operationId: id,
    tags: [tag],
    summary,
    description,
    security: grants === null ? [] : [{ bearer: grants }],
    ...(parameters.length === 0 ? {} : { parameters }),
    ...(input === undefined
      ? {}
      : { requestBody: { required: input.required, content: { 'application/json': { schema: input.schema } } } }),
    responses: { ...answers, ...problems.of(operation.problems, [operation.group, id]) },
  }
  paths[path] = { ...paths[path], [method]: whole }
}

/** An answer with JSON. What is left of a Worker's rate can be told with any (§10). */
export function answer(description: string, schema: JsonSchema, ...headers: readonly string[]): object {
  return {
    description,
    headers: headerRefs(...headers, 'RateLimit', 'RateLimit-Policy'),
    content: { 'application/json': { schema } },
  }
}

/** How an Action is answered (§3): 200 once it is settled, however it ended, 202 while it is pending. */
export function actionAnswers(settled: JsonSchema, pending: JsonSchema, isCall: boolean): Responses {
  const call = isCall ? ['Preference-Applied'] : []
  const replayed = isCall ? ['Idempotent-Replayed'] : []
  return {
    200: answer(
      'The settled Action, whatever its final status; a replay shows it as it was recorded, under the schema of its day.',
      settled,
      'Action-Status',
      ...replayed,
      ...call,
    ),
    202: answer('The Action is on record and pending.', pending, 'Location', 'Retry-After', ...call),
  }
}
