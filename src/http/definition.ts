import { createHash } from 'node:crypto'
import type { Noun, Startup, Verb } from '../model/startup.ts'
import { openapiDocument } from './openapi/document.ts'

/** What is told of a definition, as JSON text, and the tag that changes with it. */
export interface Told {
  readonly json: string
  readonly etag: string
}

/** Written once per definition, and anew when the server turns out to have another address. */
const definitions = new WeakMap<Startup, Told>()
const documents = new WeakMap<Startup, Told & { readonly origin: string }>()

/** The namespace's Nouns, Verbs and JSON Schemas, each with its route (§3). */
export function toldDefinition(startup: Startup): Told {
  let told = definitions.get(startup)
  if (told === undefined) {
    const { namespace } = startup
    told = tagged({
      namespace,
      nouns: [...startup.nouns.values()].map((noun) => nounView(namespace, noun)),
      verbs: [...startup.verbs.values()].map((verb) => verbView(startup, verb)),
    })
    definitions.set(startup, told)
  }
  return told
}

/** The namespace's OpenAPI document for the server at this address (§3). */
export function toldOpenapi(startup: Startup, origin: string): Told {
  let told = documents.get(startup)
  if (told?.origin !== origin) {
    told = { ...tagged(openapiDocument(startup, origin)), origin }
    documents.set(startup, told)
  }
  return told
}

function tagged(value: object): Told {
  const json = JSON.stringify(value)
  return { json, etag: `"${createHash('sha256').update(json).digest('base64url').slice(0, 22)}"` }
}

function nounView(namespace: string, { name, plural, index, unique, jsonSchema }: Noun): object {
  return {
    noun: name,
    plural,
    path: `/${namespace}/${plural}`,
    index: [...index],
    unique: [...unique],
    schema: jsonSchema,
  }
}

function verbView({ namespace, nouns }: Startup, verb: Verb): object {
  const { operation, noun, target, inputSchema, outputSchema, eventTypes } = verb
  const plural = nouns.get(noun)?.plural ?? ''
  const id = target === 'record' ? '/{id}' : ''
  return {
    verb: operation,
    target,
    method: 'POST',
    path: `/${namespace}/${plural}${id}/${verb.verb}`,
    input: inputSchema,
    output: outputSchema,
    reads: declared(verb.reads),
    writes: declared(verb.writes),
    events: eventTypes,
  }
}

/** Declared fields by Noun; a Noun that isn't named is undeclared (W2). */
function declared(fields: ReadonlyMap<string, ReadonlySet<string>>): Record<string, string[]> {
  return Object.fromEntries([...fields].map(([noun, names]) => [noun, [...names]]))
}
