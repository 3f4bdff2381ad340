import type { JsonSchema } from '../../model/jsonschema.ts'
import { problemMembers } from '../../model/problem-members.ts'
import { problems, type ProblemCode, type ProblemEntry } from '../../model/problem.ts'
import { refTo, type Components } from './components.ts'
import { headerRef } from './headers.ts'

/** What any request can meet, before anything of it is looked at. */
export const ofAny: readonly ProblemCode[] = [
  'malformed-request',
  'headers-too-large',
  'request-timeout',
  'shutting-down',
  'internal',
]

/** What a request with a token can meet. */
export const ofWorkers: readonly ProblemCode[] = [
  ...ofAny,
  'unauthorized',
  'throttled',
  'invalid-query',
  'busy',
  'store-unavailable',
]

/** What a read under a namespace can meet. */
export const ofReads: readonly ProblemCode[] = [...ofWorkers, 'wrong-namespace']

/** What a list can meet. */
export const ofLists: readonly ProblemCode[] = [...ofReads, 'invalid-limit', 'invalid-cursor']

/** What any durable call can meet, in the door's order (R2). */
export const ofCalls: readonly ProblemCode[] = [
  ...ofReads,
  'idempotency-key-required',
  'invalid-idempotency-key',
  'invalid-mode',
  'invalid-record-version',
  'use-record-version',
  'invalid-decided-after',
  'body-too-large',
  'unsupported-media-type',
  'invalid-json',
  'unsafe-number',
  'input-too-deep',
  'input-not-object',
  'idempotency-mismatch',
  'forbidden',
  'invalid-input',
]

const statusNames: Readonly<Record<number, string>> = {
  400: 'BadRequest',
  401: 'Unauthorized',
  403: 'Forbidden',
  404: 'NotFound',
  408: 'RequestTimeout',
  409: 'Conflict',
  413: 'ContentTooLarge',
  415: 'UnsupportedMediaType',
  428: 'PreconditionRequired',
  429: 'TooManyRequests',
  431: 'HeadersTooLarge',
  500: 'InternalServerError',
  503: 'ServiceUnavailable',
}

/** The answers of operations that are problems, each with the codes that it can have; made from the registry (§11). */
export class ProblemResponses {
  readonly #components: Components
  readonly #schemas = new Map<ProblemCode, JsonSchema>()
  /** The name of the response for each set of codes. */
  readonly #names = new Map<string, string>()

  constructor(components: Components) {
    this.#components = components
  }

  /**
   * By status, the answers that have these codes. Operations that can meet the same share them, named after the first of
   * `owners`, outermost group first, of which that status has no other yet.
   */
  of(codes: readonly ProblemCode[], owners: readonly [string, ...string[]]): Record<string, JsonSchema> {
    const byStatus = Map.groupBy(Object.keys(problems) as ProblemCode[], (code) => problems[code].status)
    const responses: Record<string, JsonSchema> = {}
    for (const [status, all] of [...byStatus].sort(([a], [b]) => a - b)) {
      const some = all.filter((code) => codes.includes(code))
      if (some.length > 0)
        responses[status] = { $ref: `#/components/responses/${this.#response(status, some, owners)}` }
    }
    return responses
  }

  #response(status: number, codes: readonly ProblemCode[], owners: readonly [string, ...string[]]): string {
    const known = this.#names.get(codes.join())
    if (known !== undefined) return known
    const common = statusNames[status] ?? `Status${status}`
    const isOfAll = codes.every((code) => ofWorkers.includes(code))
    const free = ['', ...owners]
      .slice(isOfAll ? 0 : 1)
      .find((owner) => !(`${owner}${common}` in this.#components.responses))
    const name = `${free ?? owners.join('')}${common}`
    this.#names.set(codes.join(), name)
    const schemas = codes.map((code) => this.#schema(code))
    this.#components.responses[name] = {
      description: codes.map((code) => `\`${code}\`: ${problems[code].title}.`).join(' '),
      headers: headersOf(status, codes),
      content: { 'application/problem+json': { schema: schemas.length === 1 ? schemas[0] : { oneOf: schemas } } },
    }
    return name
  }

  #schema(code: ProblemCode): JsonSchema {
    let schema = this.#schemas.get(code)
    if (schema === undefined) {
      const name = this.#components.claim([`${pascal(code)}Problem`])
      this.#components.schemas[name] = problemSchema(code)
      this.#schemas.set(code, (schema = refTo(name)))
    }
    return schema
  }
}

function problemSchema(code: ProblemCode): JsonSchema {
  const { title, status, retryable, meaning }: ProblemEntry = problems[code]
  const { required = [], properties = {} } = problemMembers[code] ?? {}
  return {
    description: `${title}. ${meaning}`,
    type: 'object',
    properties: {
      type: { type: 'string', format: 'uri' },
      title: { type: 'string' },
      status: { type: 'integer', const: status },
      detail: { type: 'string' },
      code: { type: 'string', const: code },
      retryable: { type: 'boolean', const: retryable },
      requestId: { type: 'string' },
      ...properties,
    },
    required: ['type', 'title', 'status', 'detail', 'code', 'retryable', 'requestId', ...required],
  }
}

function headersOf(status: number, codes: readonly ProblemCode[]): Record<string, JsonSchema> {
  const entries: readonly ProblemEntry[] = codes.map((code) => problems[code])
  const names = new Set(entries.flatMap(({ headers = {} }) => Object.keys(headers)))
  if (status === 429) names.add('Retry-After')
  // What is left of a Worker's rate can be told with any answer (§10).
  names.add('RateLimit').add('RateLimit-Policy')
  return Object.fromEntries([...names].map((name) => [name, headerRef(name)]))
}

/** `IdempotencyMismatch` of `idempotency-mismatch`. */
function pascal(code: string): string {
  return code.replace(/(^|-)(\w)/g, (_, __, letter: string) => letter.toUpperCase())
}
