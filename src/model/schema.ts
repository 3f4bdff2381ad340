import type { StandardSchemaV1 } from '@standard-schema/spec'
import { isObject, type JsonSchema } from './jsonschema.ts'
import { unknownMembers } from './members.ts'
import type { Check, Checked, Fault, Schema } from './startup.ts'

/** Whether a value can define fields or an input: a Standard Schema that also tells its JSON Schema. */
export function isSchema(value: unknown): value is Schema {
  if ((typeof value !== 'object' && typeof value !== 'function') || value === null) return false
  const standard: unknown = Reflect.get(value, '~standard')
  return isObject(standard) && typeof standard['validate'] === 'function' && isObject(standard['jsonSchema'])
}

/**
 * Makes a Check of a schema: its own faults, and each member that it doesn't know, at any depth, however the library
 * treats them (R2). The check is synchronous where the schema is. `input` is the JSON Schema of what is sent.
 */
export function checkOf(schema: Schema, input: JsonSchema): Check {
  const findUnknown = unknownMembers(input)
  const { validate } = schema['~standard']
  return (value) => {
    const unknown = findUnknown(value)
    const result = validate(value)
    return result instanceof Promise ? result.then((late) => checked(late, unknown)) : checked(result, unknown)
  }
}

function checked(result: StandardSchemaV1.Result<unknown>, unknown: readonly Fault[] | null): Checked {
  if (result.issues === undefined) return unknown === null ? { value: result.value } : { faults: unknown }
  if (unknown === null) return { faults: result.issues.map(toFault) }
  // A strict schema tells of unknown members too; ours say where exactly.
  const others = result.issues.filter((issue) => !('code' in issue && issue.code === 'unrecognized_keys'))
  return { faults: [...unknown, ...others.map(toFault)] }
}

function toFault({ path = [], message }: StandardSchemaV1.Issue): Fault {
  const members = path.map((part) => (typeof part === 'object' ? part.key : part))
  return { path: members.map((member) => (typeof member === 'symbol' ? String(member) : member)), message }
}

/**
 * The JSON Schema of what is sent (`input`) or of what comes out of it, with plain defaults only. Throws an Error with the
 * library's reason where there is none: transforms and dates have no output form, custom types neither.
 *
 * A default that is a function is told from a plain one by asking twice, the second time under another clock: chance,
 * counters and dates differ then. A function that always gives the same value counts as that value; one that reads
 * anything else, such as a file, can't be told.
 */
export function jsonSchemaOf(schema: Schema, side: 'input' | 'output'): JsonSchema {
  const convert = (): JsonSchema => schema['~standard'].jsonSchema[side]({ target: 'draft-2020-12' })
  const first = convert()
  if (!JSON.stringify(first).includes('"default"')) return first
  return withPlainDefaults(first, atAnotherTime(convert)) as JsonSchema
}

/** Runs `fn`, which must not await, with a clock that is more than a year ahead. */
function atAnotherTime<T>(fn: () => T): T {
  const Clock = globalThis.Date
  const later = (): number => Clock.now() + 400 * 86_400_000 + 3_723_004
  globalThis.Date = new Proxy(Clock, {
    construct: (_, args: [] | [number]) => (args.length === 0 ? new Clock(later()) : new Clock(...args)),
    apply: () => new Clock(later()).toString(),
    get: (_, name) => (name === 'now' ? later : (Reflect.get(Clock, name) as unknown)),
  })
  try {
    return fn()
  } finally {
    globalThis.Date = Clock
  }
}

function withPlainDefaults(first: unknown, second: unknown, names = false): unknown {
  if (Array.isArray(first))
    return first.map((one, i) => withPlainDefaults(one, Array.isArray(second) ? second[i] : one))
  if (!isObject(first) || !isObject(second)) return first
  const kept: Record<string, unknown> = {}
  for (const [word, value] of Object.entries(first)) {
    const isDefault = word === 'default' && !names // a member may be named so
    if (isDefault && JSON.stringify(value) !== JSON.stringify(second[word])) continue
    kept[word] = withPlainDefaults(value, second[word], !names && named.has(word))
  }
  return kept
}

/**
 * The schema as the namespace page shows it: closed where the door refuses unknown members. The parts of an `allOf` stay
 * open, since each would refuse what the others know; there the whole is closed.
 */
export function closed(schema: JsonSchema): JsonSchema {
  return closedPart(schema, false)
}

function closedPart(schema: JsonSchema, inAllOf: boolean): JsonSchema {
  const copy: Record<string, unknown> = {}
  for (const [word, value] of Object.entries(schema)) copy[word] = closedWord(word, value)
  const open = 'properties' in schema && !('additionalProperties' in schema) && !('unevaluatedProperties' in schema)
  if ('allOf' in schema && !inAllOf) copy['unevaluatedProperties'] ??= false
  else if (open && !inAllOf) copy['additionalProperties'] = false
  return copy
}

/** Words whose values are data, whatever their members are called. */
const data = new Set(['default', 'const', 'enum', 'examples'])

/**
 * The schema without what it says against members that it doesn't name. For what comes out: nothing is taken out of what
 * a Verb returns, nor out of an old record whose Noun has a field no more (N2).
 */
export function opened(schema: JsonSchema): JsonSchema {
  return openedPart(schema, false) as JsonSchema
}

function openedPart(node: unknown, isNames: boolean): unknown {
  if (Array.isArray(node)) return node.map((one) => openedPart(one, false))
  if (!isObject(node)) return node
  const copy: Record<string, unknown> = {}
  for (const [word, value] of Object.entries(node)) {
    if (!isNames && data.has(word)) copy[word] = value
    else if (isNames || value !== false || !closing.has(word))
      copy[word] = openedPart(value, !isNames && named.has(word))
  }
  return copy
}

const closing = new Set(['additionalProperties', 'unevaluatedProperties'])
const named = new Set(['properties', 'patternProperties', '$defs', 'definitions'])
const listed = new Set(['anyOf', 'oneOf', 'prefixItems'])
const single = new Set(['items', 'additionalProperties', 'unevaluatedProperties'])

function closedWord(word: string, value: unknown): unknown {
  const close = (one: unknown): unknown => (isObject(one) ? closedPart(one, false) : one)
  if (named.has(word) && isObject(value))
    return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, close(one)]))
  if (listed.has(word) && Array.isArray(value)) return value.map(close)
  if (word === 'allOf' && Array.isArray(value))
    return value.map((one: unknown) => (isObject(one) ? closedPart(one, true) : one))
  return single.has(word) ? close(value) : value
}
