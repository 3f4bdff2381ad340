import type { JsonSchema } from '../../model/jsonschema.ts'
import { refTo, type Components } from './components.ts'
import { actionSchema, count, object, orNull, text, textOrNull, time, trySchema, unknown, versions } from './schemas.ts'

const change = object({
  field: text,
  from: unknown('The value before; null where there was none.'),
  to: unknown('The value after; null where there is none.'),
})

/** What is left out for a Worker that may not read the Noun: it is told the field alone (H1). */
const shownValues = {
  from: unknown('Before. Absent for a Worker that may not read the Noun.'),
  to: unknown('After. Absent for a Worker that may not read the Noun.'),
}

const touched = object({ record: text, version: { type: 'integer', minimum: 1 } })

/** Adds the schemas that belong to the platform, not to a definition. */
export function addPlatformSchemas(components: Components, namespace: string): void {
  const schemas: Record<string, JsonSchema> = {
    ActionError: actionError,
    StaleRecord: staleRecord,
    Fix: fix,
    WaitingFor: waitingFor,
    Step: step,
    Change: change,
    Version: object(
      { version: { type: 'integer', minimum: 1 }, changes: listOf('Change'), action: text, at: time },
      'One Version of a record: what an Action changed. The first one lists every field that was set.',
    ),
    WouldBeEvent: object({
      type: text,
      worker: text,
      records: { type: 'array', items: touched },
      data: eventData,
      at: time,
    }),
    WouldBeChange: object({
      record: text,
      version: { type: 'integer', minimum: 1 },
      changes: { type: 'array', items: { ...object({ field: text, ...shownValues }), required: ['field'] } },
    }),
    Action: anyAction,
    DryRun: dryRun,
    Event: event,
    InboxItem: item,
    Usage: object(
      { verb: text, worker: text, day: { type: 'string', format: 'date' }, units: count },
      'Units of one Verb and Worker in one UTC day of settlement.',
    ),
    Worker: worker,
    ErrorPage: errorPage,
    Definition: definitionOf(namespace),
    NoInput: { description: 'No members.', type: 'object', additionalProperties: false },
    StepsSaid: stepsSaid,
    ActionRetryInput: retryInput,
    InboxApplyInput: applyInput,
  }
  for (const [name, schema] of Object.entries(schemas)) components.add(name, schema)
}

const actionError: JsonSchema = object(
  {
    code: { ...text, description: 'A code of the platform, with a page under `/errors/{code}`, or of the author.' },
    message: text,
    retry: {
      type: 'string',
      enum: ['advised', 'pointless', 'unsafe'],
      description:
        'Of `Action.retry`: `unsafe` means that a step has an unknown outcome under no key that holds; look first.',
    },
  },
  'Why an Action failed.',
)

const waitingFor: JsonSchema = {
  description: 'What a pending Action waits for, if it does.',
  enum: ['record', 'predecessor', 'approval', 'definition', null],
  type: ['string', 'null'],
}

const step: JsonSchema = object({
  step: { ...text, description: 'Its name and occurrence: `charge#1`.' },
  status: { type: 'string', enum: ['started', 'done', 'rejected', 'unknown'] },
  attempts: count,
})

const applyInput: JsonSchema = {
  description: 'The input of Inbox.apply: another input for what was refused, or how steps of what failed ended.',
  type: 'object',
  properties: {
    input: { type: 'object', additionalProperties: true, description: 'In place of the input that was refused.' },
    steps: refTo('StepsSaid'),
  },
  additionalProperties: false,
}

const retryInput: JsonSchema = {
  description: 'The input of Action.retry.',
  type: 'object',
  properties: { steps: refTo('StepsSaid') },
  additionalProperties: false,
}

function listOf(name: string): JsonSchema {
  return { type: 'array', items: refTo(name) }
}

const staleRecord = object({
  record: text,
  decidedAgainst: { type: 'integer', minimum: 1 },
  current: { type: ['integer', 'null'], description: 'Null when the record is gone.' },
  changes: {
    type: 'array',
    items: { ...object({ field: text, ...shownValues, action: textOrNull }), required: ['field', 'action'] },
  },
})

const predecessor = object({ action: text, idempotencyKey: text, status: text })

const retryWith = object(
  {
    verb: text,
    target: textOrNull,
    input: { type: 'object', additionalProperties: true },
    decidedAgainst: versions,
  },
  'The call to send, with a new key, once it was decided again.',
)

const fix: JsonSchema = {
  description:
    'What mends a refusal. The author of a Verb adds members of its own; those named here come with codes of the platform.',
  type: 'object',
  properties: {
    code: { ...text, description: 'A code of the platform, such as `stale-decision`, or of the author.' },
    message: text,
    records: { type: 'array', items: refTo('StaleRecord'), description: 'Of `stale-decision`: what changed.' },
    predecessor: { ...orNull(predecessor), description: 'Of `predecessor-not-applied`: the call before this one.' },
    retryWith,
  },
  required: ['code'],
  additionalProperties: true,
}

const eventData = unknown('The output when it succeeded, else the error or the fix.')

const event = object(
  {
    id: text,
    seq: { type: 'integer', minimum: 1, description: 'Its place in the one order of the namespace, without gaps.' },
    type: { ...text, description: '`Order.placed`, `Order.place.failed` or `Order.place.refused`.' },
    action: text,
    worker: text,
    records: { type: 'array', items: touched },
    data: eventData,
    at: time,
  },
  'What happened: one for each settled Action.',
)

const item = object(
  {
    id: text,
    kind: { type: 'string', enum: ['refused', 'failed', 'approval'] },
    action: text,
    fix: orNull(refTo('Fix')),
    error: orNull(refTo('ActionError')),
    records: { ...versions, description: 'The Versions that the item shows: what a decision is bound to.' },
    would: orNull(refTo('DryRun')),
    status: { type: 'string', enum: ['open', 'decided'] },
    decision: { ...textOrNull, description: '`apply`, `dismiss`, `retry` …' },
    decidedBy: textOrNull,
    at: time,
  },
  'What waits for a Worker to decide.',
)

const anyAction = actionSchema(
  {
    verb: text,
    target: { ...textOrNull, description: 'The id of the record, Action or inbox item that it is about.' },
    input: { type: 'object', additionalProperties: true, description: 'As it was sent, under the schema of its day.' },
    output: unknown('What the Verb returned, under the schema of its day; null unless it succeeded.'),
  },
  'The durable record of one call of any operation.',
)

/** What a person says of steps whose outcome nobody knows (V3). */
const stepsSaid: JsonSchema = {
  description: 'How steps ended, by step, such as `charge#1`. Saying so takes the grant `inbox`.',
  type: 'object',
  additionalProperties: {
    oneOf: [
      { ...object({ outcome: unknown('What the step returned: it happened.') }), additionalProperties: false },
      { ...object({ runAgain: { type: 'boolean', const: true } }, 'It did not happen.'), additionalProperties: false },
    ],
  },
}

const dryRun = trySchema(unknown('What the Verb would return; null unless it would succeed.'), 'What a call would do.')

const throttle = object(
  {
    rate: { type: 'number', exclusiveMinimum: 0, description: 'Calls a second on average.' },
    burst: { type: 'integer', minimum: 1, description: 'Calls at once.' },
  },
  'A limit.',
)

const worker = object(
  {
    id: text,
    name: text,
    kind: { type: 'string', enum: ['agent', 'human', 'app'] },
    namespace: text,
    grants: { type: 'array', items: text },
    limits: object(
      {
        calls: orNull(throttle),
        reads: orNull(throttle),
        verbs: { type: 'object', additionalProperties: throttle },
      },
      'What it may do, of calls, of reads, and of each Verb that has a limit of its own; null is as much as it likes.',
    ),
  },
  'Who calls.',
)

const errorPage: JsonSchema = {
  description:
    'What a code means, whether to retry, and how to mend it. `status` and `retryable` are of codes of the door, `settles` of those of an Action.',
  type: 'object',
  properties: {
    type: { type: 'string', format: 'uri' },
    code: text,
    title: text,
    status: { type: 'integer' },
    retryable: { type: 'boolean' },
    settles: { type: 'string', enum: ['failed', 'refused'] },
    meaning: text,
    retry: text,
    mend: text,
    detail: text,
  },
  required: ['type', 'code', 'title', 'meaning', 'retry', 'mend'],
}

function definitionOf(namespace: string): JsonSchema {
  const fields: JsonSchema = { type: 'object', additionalProperties: { type: 'array', items: text } }
  const jsonSchema: JsonSchema = {
    type: 'object',
    additionalProperties: true,
    description: 'A JSON Schema, draft 2020-12.',
  }
  return object({
    namespace: { type: 'string', const: namespace },
    nouns: {
      type: 'array',
      items: object({
        noun: text,
        plural: text,
        path: text,
        index: { type: 'array', items: text },
        unique: { type: 'array', items: text },
        schema: jsonSchema,
      }),
    },
    verbs: {
      type: 'array',
      items: object({
        verb: text,
        target: { type: 'string', enum: ['record', 'collection'] },
        method: { type: 'string', const: 'POST' },
        path: text,
        input: jsonSchema,
        output: orNull(jsonSchema),
        reads: fields,
        writes: fields,
        events: object({ succeeded: text, failed: text, refused: text }),
      }),
    },
  })
}
