import { isObject, resolve, type JsonSchema } from './jsonschema.ts'
import type { Fields } from './record.ts'

/** Adds what an old value lacks. Gives the same object when it lacks nothing. */
type Complete = (value: unknown) => unknown

/**
 * Makes the function that adds the plain defaults of the fields that an old record lacks (N2), in objects and lists
 * inside it too. A default that the schema works on further (zod's `prefault` with a transform) is added as it is written.
 */
export function completer(schema: JsonSchema): (fields: Fields) => Fields {
  if (!JSON.stringify(schema).includes('"default"')) return (fields) => fields
  const complete = new Completer(schema).of(schema)
  return complete === null ? (fields) => fields : (fields) => complete(fields) as Fields
}

/** JSON text of the default that a field has in its JSON Schema, null when it has none or is required all the same. */
export function defaultOf(schema: JsonSchema, field: string): string | null {
  const member = isObject(schema['properties']) ? schema['properties'][field] : undefined
  const required = Array.isArray(schema['required']) && schema['required'].includes(field)
  return isObject(member) && 'default' in member && !required ? JSON.stringify(member['default']) : null
}

class Completer {
  readonly #root: JsonSchema
  /** By schema; undefined while it is being made. */
  readonly #made = new Map<JsonSchema, Complete | null | undefined>()

  constructor(root: JsonSchema) {
    this.#root = root
  }

  of(schema: unknown): Complete | null {
    if (!isObject(schema)) return null
    if (typeof schema['$ref'] === 'string') return this.of(resolve(this.#root, schema['$ref']))
    const made = this.#made.get(schema)
    if (made !== undefined) return made
    if (this.#made.has(schema)) return (value) => this.#made.get(schema)?.(value) ?? value // within itself
    this.#made.set(schema, undefined)
    const complete = isObject(schema['properties']) ? this.#members(schema, schema['properties']) : this.#items(schema)
    this.#made.set(schema, complete)
    return complete
  }

  #members(schema: JsonSchema, properties: JsonSchema): Complete | null {
    const members = Object.keys(properties)
      .map((name) => ({ name, text: defaultOf(schema, name), inner: this.of(properties[name]) }))
      .filter(({ text, inner }) => text !== null || inner !== null)
    if (members.length === 0) return null
    return (value) => {
      if (!isObject(value)) return value
      let copy: Record<string, unknown> | null = null
      for (const { name, text, inner } of members) {
        const had = value[name]
        // Parsed anew each time, so that nobody's change reaches another record.
        const base: unknown = had === undefined && text !== null ? JSON.parse(text) : had
        const whole = inner === null ? base : inner(base)
        if (whole !== had) (copy ??= { ...value })[name] = whole
      }
      return copy ?? value
    }
  }

  #items(schema: JsonSchema): Complete | null {
    const inner = this.of(schema['items'])
    if (inner === null) return null
    return (value) => {
      if (!Array.isArray(value)) return value
      const whole: unknown[] = value.map(inner)
      return whole.some((one, i) => one !== value[i]) ? whole : (value as unknown)
    }
  }
}
