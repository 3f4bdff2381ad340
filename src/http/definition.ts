import type { Noun, Startup, Verb } from '../model/startup.ts'

const written = new WeakMap<Startup, string>()

/** The namespace's Nouns, Verbs and JSON Schemas, each with its route (§3), as JSON text. Written once per definition. */
export function definitionJson(startup: Startup): string {
  const known = written.get(startup)
  if (known !== undefined) return known
  const { namespace } = startup
  const json = JSON.stringify({
    namespace,
    nouns: [...startup.nouns.values()].map((noun) => nounView(namespace, noun)),
    verbs: [...startup.verbs.values()].map((verb) => verbView(startup, verb)),
  })
  written.set(startup, json)
  return json
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
