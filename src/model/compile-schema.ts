import { isObject, type JsonSchema } from './jsonschema.ts'
import { checkOf, jsonSchemaOf } from './schema.ts'
import type { Check, Schema } from './startup.ts'

/** The schema's JSON Schema; null, with the library's reason noted, where it has none. */
export function schemaOr(schema: Schema, side: 'input' | 'output', fault: (why: string) => void): JsonSchema | null {
  return attempt(() => jsonSchemaOf(schema, side), fault)
}

/** The check of a schema; null, with the reason noted, where its JSON Schema can't be followed. */
export function checkOr(schema: Schema, input: JsonSchema, fault: (why: string) => void): Check | null {
  return attempt(() => checkOf(schema, input), fault)
}

/** Libraries throw for what JSON Schema can't say, such as a Date; and `checkOf` for a `$ref` that leads nowhere. */
function attempt<T>(make: () => T, fault: (why: string) => void): T | null {
  try {
    return make()
  } catch (error) {
    fault(error instanceof Error ? error.message : String(error))
    return null
  }
}

/** Words whose values are data, whatever their members are called. */
const data = new Set(['default', 'const', 'enum', 'examples'])
/** Words whose members are names, not words. */
const named = new Set(['properties', 'patternProperties', '$defs', 'definitions', 'dependentSchemas'])

/** Notes members that begin with `$`, at any depth (N1): `$id`, `$noun` and `$version` are the platform's. */
export function checkMembers(owner: string, schema: unknown, fault: (sentence: string) => void): void {
  if (Array.isArray(schema)) for (const one of schema) checkMembers(owner, one, fault)
  if (!isObject(schema)) return
  for (const [word, value] of Object.entries(schema)) {
    if (data.has(word)) continue
    if (!named.has(word) || !isObject(value)) {
      checkMembers(owner, value, fault)
      continue
    }
    if (word === 'properties') checkNames(owner, Object.keys(value), fault)
    for (const one of Object.values(value)) checkMembers(owner, one, fault)
  }
}

function checkNames(owner: string, names: readonly string[], fault: (sentence: string) => void): void {
  for (const name of names) {
    if (name.startsWith('$')) fault(`member "${name}" of ${owner} begins with $, as the platform's own do: rename it`)
    if (name === '__proto__') fault(`member "__proto__" of ${owner} is not safe to read: rename it`)
  }
}
