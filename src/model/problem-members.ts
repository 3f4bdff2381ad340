import type { JsonSchema } from './jsonschema.ts'
import type { ProblemCode } from './problems.ts'

/** What answers with a code have besides the members that all problems have (§11), as JSON Schema. */
export interface ProblemMembers {
  readonly properties: Readonly<Record<string, JsonSchema>>
  /** Those that every answer with the code has. */
  readonly required: readonly string[]
}

const actionId: JsonSchema = { type: 'string', description: 'The id of an Action: `act_…`.' }
const grant: JsonSchema = { type: 'string', description: 'The grant that is missing, such as `Order.place`.' }

export const problemMembers: Readonly<Partial<Record<ProblemCode, ProblemMembers>>> = {
  'idempotency-mismatch': {
    properties: {
      firstAction: { ...actionId, description: 'The Action that the key is bound to.' },
      differs: {
        type: 'array',
        items: { type: 'string', enum: ['operation', 'target', 'input'] },
        minItems: 1,
        description: 'What is not the same as in the first request.',
      },
    },
    required: ['firstAction', 'differs'],
  },
  'invalid-input': {
    properties: {
      errors: {
        type: 'array',
        items: {
          type: 'object',
          properties: {
            path: { type: 'string', description: 'The member, such as `lines.0.sku`; empty for the whole input.' },
            message: { type: 'string' },
          },
          required: ['path', 'message'],
        },
        minItems: 1,
        description: 'Each member of the input that does not fit.',
      },
    },
    required: ['errors'],
  },
  forbidden: { properties: { grant }, required: [] },
  'already-retried': {
    properties: { latest: { ...actionId, description: 'The latest Action of the chain.' } },
    required: ['latest'],
  },
  'outcome-required': {
    properties: { step: { type: 'string', description: 'The step, such as `charge#1`.' } },
    required: ['step'],
  },
  'not-cancellable': {
    properties: { action: { ...actionId, description: 'The Action that stays as it is.' } },
    required: ['action'],
  },
  'already-decided': {
    properties: {
      decision: { type: 'string', description: 'How the item was decided: `apply`, `dismiss` …' },
      decidedBy: { type: 'string', description: 'The Worker who decided it.' },
      action: { ...actionId, description: 'The Action that came of the decision.' },
    },
    required: ['decision', 'decidedBy', 'action'],
  },
  'version-required': {
    properties: {
      shown: {
        type: 'object',
        additionalProperties: { type: 'integer', minimum: 1 },
        description: 'The Versions that the item shows, by record: `offers/offer_serif_family`.',
      },
    },
    required: ['shown'],
  },
  throttled: {
    properties: {
      retryAfter: { type: 'integer', minimum: 1, description: 'Seconds until the call gets in, as in `Retry-After`.' },
    },
    required: ['retryAfter'],
  },
}
