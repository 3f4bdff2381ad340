import type { JsonSchema } from '../../model/jsonschema.ts'
import { refTo } from './components.ts'

export const text: JsonSchema = { type: 'string' }
export const time: JsonSchema = { type: 'string', format: 'date-time' }
export const count: JsonSchema = { type: 'integer', minimum: 0 }
export const textOrNull: JsonSchema = { type: ['string', 'null'] }
const timeOrNull: JsonSchema = { type: ['string', 'null'], format: 'date-time' }
export const versions: JsonSchema = {
  type: 'object',
  additionalProperties: { type: 'integer', minimum: 1 },
  description: 'Versions by record: `{ "offers/offer_1": 7 }`.',
}

export function orNull(schema: JsonSchema): JsonSchema {
  return { anyOf: [schema, { type: 'null' }] }
}

/** Any JSON: what is in it is known to whom the sentence names. */
export function unknown(description: string): JsonSchema {
  return { description }
}

/** An object that has all of these members. Members that come later are no fault of an answer, so it stays open. */
export function object(properties: Readonly<Record<string, JsonSchema>>, description?: string): JsonSchema {
  const told = description === undefined ? {} : { description }
  return { ...told, type: 'object', properties, required: Object.keys(properties) }
}

/** A page of a list (§3). */
export function page(member: JsonSchema): JsonSchema {
  return object({
    data: { type: 'array', items: member },
    next: { type: ['string', 'null'], description: 'The `after` of the next page; null on the last one.' },
  })
}

/** What an Action of a Verb has of its own. */
export interface ActionOf {
  readonly verb: JsonSchema
  readonly target: JsonSchema
  readonly input: JsonSchema
  readonly output: JsonSchema
}

/** An Action (§3); of one Verb, or of any. */
export function actionSchema(of: ActionOf, description: string): JsonSchema {
  return object(
    {
      id: text,
      namespace: text,
      verb: of.verb,
      worker: { ...text, description: 'The name of the Worker who called.' },
      idempotencyKey: textOrNull,
      status: { type: 'string', enum: ['pending', 'succeeded', 'failed', 'refused'] },
      mode: { type: 'string', enum: ['do', 'send'] },
      target: of.target,
      input: of.input,
      output: of.output,
      error: orNull(refTo('ActionError')),
      fix: orNull(refTo('Fix')),
      on: { ...textOrNull, description: 'The Action that this one retries or applies.' },
      decidedAgainst: versions,
      decidedAfter: { type: 'array', items: text },
      waitingFor: refTo('WaitingFor'),
      steps: { type: 'array', items: refTo('Step') },
      event: { ...textOrNull, description: 'The Event of its settlement.' },
      attempts: count,
      createdAt: time,
      settledAt: timeOrNull,
    },
    description,
  )
}

/** What a dry run would do (T1). */
export function trySchema(output: JsonSchema, description: string): JsonSchema {
  return object(
    {
      mode: { type: 'string', const: 'try' },
      status: { type: 'string', enum: ['succeeded', 'failed', 'refused'] },
      incomplete: { ...textOrNull, description: 'The step without a stand-in at which the dry run ended.' },
      output,
      error: orNull(refTo('ActionError')),
      fix: orNull(refTo('Fix')),
      waitingFor: refTo('WaitingFor'),
      events: { type: 'array', items: refTo('WouldBeEvent') },
      changes: { type: 'array', items: refTo('WouldBeChange') },
      reads: versions,
      steps: { type: 'array', items: refTo('Step') },
    },
    description,
  )
}
