import { keyCodePointsMax, listLimitDefault, listLimitMax, waitSecondsMax } from '../../model/limits.ts'
import type { JsonSchema } from '../../model/jsonschema.ts'

/** Headers of answers, as components. */
export const headers: Readonly<Record<string, object>> = {
  'Idempotent-Replayed': {
    description: 'The Action was settled by an earlier request with this key; nothing ran again. Absent otherwise.',
    schema: { type: 'string', const: 'true' },
  },
  'Action-Status': {
    description: 'The final status of a settled Action, so that a proxy or a dashboard sees it.',
    schema: { type: 'string', enum: ['succeeded', 'failed', 'refused'] },
  },
  Location: { description: 'The path of the pending Action.', schema: { type: 'string' } },
  'Retry-After': { description: 'Whole seconds to wait before the next request.', schema: { type: 'integer' } },
  RateLimit: {
    description: 'What is left of the rate, where there is one, as the IETF draft has it.',
    schema: { type: 'string' },
  },
  'RateLimit-Policy': {
    description: 'The rate, where there is one, as the IETF draft has it.',
    schema: { type: 'string' },
  },
  'Preference-Applied': { description: 'What of `Prefer` was applied.', schema: { type: 'string' } },
  ETag: { description: 'Changes when what is shown does.', schema: { type: 'string' } },
  'WWW-Authenticate': { description: 'How to authenticate.', schema: { type: 'string' } },
}

export function headerRef(name: string): JsonSchema {
  return { $ref: `#/components/headers/${name}` }
}

export function headerRefs(...names: readonly string[]): Record<string, JsonSchema> {
  return Object.fromEntries(names.map((name) => [name, headerRef(name)]))
}

const seconds = `at most ${waitSecondsMax} seconds`

/** Parameters that several operations take, as components. */
export const parameters = {
  IdempotencyKey: {
    name: 'Idempotency-Key',
    in: 'header',
    required: true,
    description:
      'Binds the call to exactly one Action, for ever. Derive it from the business event, such as the cart id. With `mode=try` none is needed. A key with control characters, commas, spaces at an end or anything outside printable ASCII travels in `Idempotency-Key-Encoded` instead.',
    schema: { type: 'string', minLength: 1, maxLength: keyCodePointsMax },
  },
  IdempotencyKeyEncoded: {
    name: 'Idempotency-Key-Encoded',
    in: 'header',
    description:
      'The key as percent-encoded UTF-8. It means the same key as `Idempotency-Key`, and is sent instead of it, never with it.',
    schema: { type: 'string', minLength: 1 },
  },
  Mode: {
    name: 'mode',
    in: 'query',
    description:
      '`do` waits until the Action is settled, within a bound; `send` returns once it is on record; `try` is a dry run that stores nothing.',
    schema: { type: 'string', enum: ['do', 'send', 'try'], default: 'do' },
  },
  DurableMode: {
    name: 'mode',
    in: 'query',
    description: '`do` waits until the Action is settled, within a bound; `send` returns once it is on record.',
    schema: { type: 'string', enum: ['do', 'send'], default: 'do' },
  },
  Prefer: {
    name: 'Prefer',
    in: 'header',
    description: `As RFC 7240 has it. \`respond-async\` alone is \`mode=send\`; \`wait=N\` bounds the waiting to N seconds, ${seconds}.`,
    schema: { type: 'string' },
    example: 'wait=10',
  },
  RecordVersion: {
    name: 'Record-Version',
    in: 'header',
    description:
      'The Versions that the caller decided against: `3` for the target record, `offers/offer_1=7, orders/order_1=3` for records by name. The Action is refused when they changed since in what the Verb depends on.',
    schema: { type: 'string' },
  },
  ShownVersions: {
    name: 'Record-Version',
    in: 'header',
    description: 'The Versions that the item showed, its `records`: `offers/offer_1=7, orders/order_1=3`.',
    schema: { type: 'string' },
  },
  DecidedAfter: {
    name: 'Decided-After',
    in: 'header',
    description:
      'The key, percent-encoded, of the call of the same Worker just before this one in its queue: this one runs only after that one succeeded.',
    schema: { type: 'string' },
  },
  Limit: {
    name: 'limit',
    in: 'query',
    description: 'How many members a page has at most.',
    schema: { type: 'integer', minimum: 1, maximum: listLimitMax, default: listLimitDefault },
  },
  After: {
    name: 'after',
    in: 'query',
    description: 'The `next` of the page before, unchanged and with the same filters. Without it, the first page.',
    schema: { type: 'string' },
  },
  AfterSeq: {
    name: 'after',
    in: 'query',
    description: 'The `seq` after which the Events begin. Without it, the first one.',
    schema: { type: 'integer', minimum: 0 },
  },
  LastEventId: {
    name: 'Last-Event-ID',
    in: 'header',
    description: 'The `seq` of the last Event that was seen, as a client that resumes a stream sends it.',
    schema: { type: 'integer', minimum: 0 },
  },
  Wait: {
    name: 'wait',
    in: 'query',
    description: `Waits until the Action is settled, for so many seconds, ${seconds}.`,
    schema: { type: 'integer', minimum: 0, default: 0 },
  },
  IfNoneMatch: {
    name: 'If-None-Match',
    in: 'header',
    description: 'The `ETag` that the client has: the answer is 304 while it is still right.',
    schema: { type: 'string' },
  },
  RecordId: {
    name: 'id',
    in: 'path',
    required: true,
    description: 'The id of the record.',
    schema: { type: 'string', pattern: '^[A-Za-z0-9_-]{1,64}$' },
  },
  ActionId: {
    name: 'id',
    in: 'path',
    required: true,
    description: 'The id of the Action.',
    schema: { type: 'string', pattern: '^[A-Za-z0-9_-]{1,64}$' },
  },
  ItemId: {
    name: 'id',
    in: 'path',
    required: true,
    description: 'The id of the inbox item.',
    schema: { type: 'string', pattern: '^[A-Za-z0-9_-]{1,64}$' },
  },
} as const satisfies Readonly<Record<string, JsonSchema>>

export function parameterRefs(...names: readonly (keyof typeof parameters)[]): JsonSchema[] {
  return names.map((name) => ({ $ref: `#/components/parameters/${name}` }))
}
