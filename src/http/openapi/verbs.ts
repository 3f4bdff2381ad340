import type { JsonSchema } from '../../model/jsonschema.ts'
import type { Noun, Startup, Verb } from '../../model/startup.ts'
import { refTo } from './components.ts'
import { parameterRefs } from './headers.ts'
import { actionAnswers, addOperation, type Draft } from './operations.ts'
import { ofCalls } from './problems.ts'
import { actionSchema, orNull, trySchema, unknown } from './schemas.ts'

/** Adds the call of a Verb (§3): `POST /{ns}/{nouns}/{verb}`, or on one record. */
export function addVerb(draft: Draft, { namespace }: Startup, noun: Noun, verb: Verb): void {
  const { operation, target } = verb
  const onRecord = target === 'record'
  const id = `${noun.name}${capital(verb.verb)}`
  const input = inputOf(draft, verb, id)
  const { action, dryRun } = resultsOf(draft, verb, id, input)
  addOperation(draft, {
    method: 'post',
    path: `/${namespace}/${noun.plural}${onRecord ? '/{id}' : ''}/${verb.verb}`,
    ids: [id, `${noun.name}_${verb.verb}`],
    tag: noun.name,
    summary: operation,
    description: descriptionOf(verb),
    grants: [operation],
    parameters: parameterRefs(
      ...(onRecord ? (['RecordId'] as const) : []),
      ...(['Mode', 'IdempotencyKey', 'IdempotencyKeyEncoded', 'Prefer', 'RecordVersion', 'DecidedAfter'] as const),
    ),
    input: { schema: input, required: needsBody(verb.inputSchema) },
    answers: actionAnswers({ oneOf: [action, dryRun] }, action, true),
    problems: [
      ...ofCalls,
      'operation-not-found',
      'predecessor-unknown',
      ...(onRecord ? (['record-not-found'] as const) : []),
    ],
    group: 'Call',
  })
}

function inputOf({ components }: Draft, { operation, inputSchema, noun, verb }: Verb, id: string): JsonSchema {
  return components.adopt(
    [`${id}Input`, `${noun}_${verb}_Input`],
    inputSchema,
    `The input of ${operation}, as it is sent.`,
  )
}

/** What a call and a dry run of the Verb give. */
function resultsOf({ components }: Draft, verb: Verb, id: string, input: JsonSchema) {
  const { operation, outputSchema, target } = verb
  const names = (what: string): [string, string] => [`${id}${what}`, `${verb.noun}_${verb.verb}_${what}`]
  const output =
    outputSchema === null
      ? unknown(`What ${operation} returns, which it does not declare; null unless it succeeded.`)
      : orNull(components.adopt(names('Output'), outputSchema, `What ${operation} returns.`))
  const action = components.claim(names('Action'))
  const of = {
    verb: { type: 'string', const: operation },
    target: target === 'record' ? { type: 'string', description: 'The id of the record.' } : { type: 'null' },
    input,
    output,
  }
  components.schemas[action] = actionSchema(of, `An Action of ${operation}.`)
  const dryRun = components.claim(names('Try'))
  components.schemas[dryRun] = trySchema(output, `What ${operation} would do.`)
  return { action: refTo(action), dryRun: refTo(dryRun) }
}

function descriptionOf({ operation, eventTypes, target, reads, writes, noun }: Verb): string {
  const depends = [...new Set([...reads.keys(), ...writes.keys()])].map((name) => {
    const fields = [...new Set([...(reads.get(name) ?? []), ...(writes.get(name) ?? [])])]
    return fields.length === 0 ? `nothing of ${name}` : `${fields.join(', ')} of ${name}`
  })
  const on = target === 'record' ? ` on one ${noun}` : ''
  const on$ = depends.length === 0 ? '' : ` It depends on ${depends.join('; ')}.`
  return `Calls ${operation}${on}: a durable call, which its key binds to one Action for ever. Its Event is ${eventTypes.succeeded}.${on$}`
}

/** No body means `{}`, which is enough where nothing is required (K3). */
function needsBody(schema: JsonSchema): boolean {
  const required = schema['required']
  const isPlain =
    schema['type'] === 'object' && !['anyOf', 'oneOf', 'allOf', '$ref', 'minProperties'].some((word) => word in schema)
  return !isPlain || (Array.isArray(required) && required.length > 0)
}

function capital(name: string): string {
  return name.charAt(0).toUpperCase() + name.slice(1)
}
