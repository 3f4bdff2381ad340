import { completer, defaultOf } from './defaults.ts'
import type { AnyNoun } from './define-types.ts'
import { list, type Faults } from './definitionerror.ts'
import type { ManifestNoun } from './manifest.ts'
import { isObject, resolve, type JsonSchema } from './jsonschema.ts'
import { idPrefix, isKebabCase, isPascalCase, kebabPlural, reservedNouns, reservedPlurals } from './names.ts'
import { checkMembers, checkOr, schemaOr } from './compile-schema.ts'
import { isSchema, opened } from './schema.ts'
import type { Check, Noun, Schema } from './startup.ts'

/** Longest beginning of an id: with its 26 further characters an id has at most 64 (§1). */
const idPrefixMax = 38

/** Parameters of a list, which a filter on a field of the same name could not be told from (§3). */
const listParameters = ['limit', 'after']

/** A Noun, and what the store must know of it. */
export interface CompiledNoun {
  readonly noun: Noun
  readonly manifest: ManifestNoun
}

/** Compiles a Noun and notes its faults; null when its fields can't be known, so that nothing more can be said of it. */
export function compileNoun(name: string, definition: AnyNoun, faults: Faults): CompiledNoun | null {
  const { options, line } = definition
  const fault = (sentence: string): void => faults.add(line, sentence)
  const plural = kebabPlural(name, options.plural)
  checkName(name, plural, options.plural !== undefined, fault)
  const fields = compileFields(name, options.fields, fault)
  if (fields === null) return null
  const { index = [], unique = [] } = options
  checkIndexes(name, fields, index, 'index', fault)
  checkIndexes(name, fields, unique, 'unique', fault)
  const noun: Noun = {
    name,
    plural,
    idPrefix: idPrefix(name),
    fieldNames: Object.keys(fields.properties),
    index: new Set(index.filter((field) => !unique.includes(field))),
    unique: new Set(unique),
    check: fields.check,
    complete: completer(fields.input),
    jsonSchema: recordSchema(name, fields),
  }
  return { noun, manifest: manifestOf(noun, fields) }
}

/** A field is required when every record has it, by its default too (N2). */
function manifestOf(
  { name, plural, fieldNames, index, unique }: Noun,
  { input, output }: CompiledFields,
): ManifestNoun {
  const required = requiredOf(output)
  return {
    noun: name,
    plural,
    fields: fieldNames.map((field) => ({
      field,
      required: required.includes(field),
      default: defaultOf(input, field),
    })),
    index: [...index],
    unique: [...unique],
  }
}

type Fault = (sentence: string) => void

function checkName(name: string, plural: string, declared: boolean, fault: Fault): void {
  if (!isPascalCase(name)) fault(`Noun "${name}" must be in PascalCase: write ${pascal(name)}`)
  else if (reservedNouns.has(name)) fault(`Noun "${name}" is built in: choose another name`)
  else if (idPrefix(name).length > idPrefixMax)
    fault(`Noun "${name}" is too long for its records' ids: at most ${idPrefixMax - 1} characters`)
  if (reservedPlurals.has(plural))
    fault(`Noun "${name}" has the plural "${plural}", which is a path of the platform: choose another with plural:`)
  else if (declared && !isKebabCase(plural))
    fault(`the plural "${plural}" of Noun "${name}" must be in kebab-case: "font-licenses"`)
}

/** `"FontLicense"` for `font_license`, quoted; a general hint where nothing can be made of it. */
function pascal(name: string): string {
  const words = name.split(/[^A-Za-z0-9]+/).map((word) => word.charAt(0).toUpperCase() + word.slice(1))
  return isPascalCase(words.join('')) ? `"${words.join('')}"` : 'a capital letter first, then letters and digits only'
}

interface CompiledFields {
  readonly input: JsonSchema
  readonly output: JsonSchema
  readonly properties: JsonSchema
  readonly check: Check
}

function compileFields(name: string, schema: Schema, fault: Fault): CompiledFields | null {
  if (!isSchema(schema)) {
    fault(`Noun "${name}" needs fields: a schema with Standard Schema and its JSON Schema, such as z.object({ … })`)
    return null
  }
  const input = rootOr(schema, 'input', (why) =>
    fault(`the fields of Noun "${name}" can't be told as JSON Schema: ${why}`),
  )
  const check = input && checkOr(schema, input, (why) => fault(`the fields of Noun "${name}" can't be checked: ${why}`))
  if (input === null || check === null) return null
  const output = rootOr(schema, 'output', (why) =>
    fault(`the fields of Noun "${name}" can't be stored as JSON: ${why}; keep them plain, such as text for a date`),
  )
  if (output === null) return null
  const [inputs, properties] = [membersOf(input), membersOf(output)]
  if (inputs === null || properties === null) {
    fault(`the fields of Noun "${name}" must be one object with named members, and no others: z.object({ … })`)
    return null
  }
  checkMembers(`Noun "${name}"`, input, fault)
  for (const field of Object.keys(properties))
    if (shapeText(inputs[field]) !== shapeText(properties[field]))
      fault(
        `field "${field}" of Noun "${name}" is stored otherwise than it is given, and could not be checked again: don't transform it`,
      )
  return { input, output, properties, check: withoutUndefined(check) }
}

/** The JSON Schema, with what it refers to as a whole (a schema with an id of its own does) put in its place. */
function rootOr(schema: Schema, side: 'input' | 'output', fault: (why: string) => void): JsonSchema | null {
  const whole = schemaOr(schema, side, fault)
  if (whole === null || typeof whole['$ref'] !== 'string') return whole
  const { $ref, ...rest } = whole
  return { ...rest, ...(resolve(whole, String($ref)) as JsonSchema) }
}

/** The members of a schema that is one object with named members; null for a union, a map or an open object. */
function membersOf(root: JsonSchema): JsonSchema | null {
  const others = root['additionalProperties'] ?? root['unevaluatedProperties'] ?? false
  return root['type'] === 'object' && isObject(root['properties']) && others === false ? root['properties'] : null
}

/** What a schema says of a value's form, without what differs between its two sides by nature. */
function shapeText(schema: unknown): string {
  return JSON.stringify(schema, (word, value: unknown) => {
    if (!isObject(value)) return word === 'default' || word === 'required' ? undefined : value
    const { additionalProperties, default: _, required: __, ...rest } = value
    return additionalProperties === undefined || additionalProperties === false
      ? rest
      : { ...rest, additionalProperties }
  })
}

function checkIndexes(
  name: string,
  fields: CompiledFields,
  named: readonly string[],
  option: string,
  fault: Fault,
): void {
  for (const field of named) {
    const schema = fields.properties[field]
    if (schema === undefined)
      fault(
        `${option} of Noun "${name}" names "${field}", which is none of its fields ${list(Object.keys(fields.properties))}`,
      )
    else if (!isScalar(fields.output, schema))
      fault(`${option} of Noun "${name}" names "${field}", which must be text, a number or a boolean to be found by`)
    else if (listParameters.includes(field))
      fault(
        `${option} of Noun "${name}" names "${field}", which lists take as a parameter of their own: rename the field`,
      )
  }
}

/** Whether every value is text, a number, a boolean or null. */
function isScalar(root: JsonSchema, schema: unknown, depth = 0): boolean {
  if (!isObject(schema) || depth > 20) return false
  if (typeof schema['$ref'] === 'string') return isScalar(root, resolve(root, schema['$ref']), depth + 1)
  const either = schema['anyOf'] ?? schema['oneOf'] ?? schema['allOf']
  if (Array.isArray(either)) return either.every((one) => isScalar(root, one, depth + 1))
  if ('const' in schema) return typeof schema['const'] !== 'object' || schema['const'] === null
  if (Array.isArray(schema['enum'])) return schema['enum'].every((one) => typeof one !== 'object' || one === null)
  const types = Array.isArray(schema['type']) ? schema['type'] : [schema['type']]
  return types.every((type) => ['string', 'number', 'integer', 'boolean', 'null'].includes(String(type)))
}

/** A record as it is read: the fields, and what every record has. An old one may have a field that the Noun has no more (N2). */
function recordSchema(name: string, fields: CompiledFields): JsonSchema {
  const whole = opened(fields.output)
  const own = {
    $id: { type: 'string', pattern: '^[A-Za-z0-9_-]{1,64}$' },
    $noun: { type: 'string', const: name },
    $version: { type: 'integer', minimum: 1 },
  }
  return {
    ...whole,
    properties: { ...own, ...membersOf(whole) },
    required: [...Object.keys(own), ...requiredOf(whole)],
  }
}

function requiredOf(schema: JsonSchema): unknown[] {
  return Array.isArray(schema['required']) ? schema['required'] : []
}

/** A member that is undefined is one that is absent: JSON has no other way to say it. */
function withoutUndefined(check: Check): Check {
  return then(check, (value) => {
    if (!isObject(value) || !Object.values(value).includes(undefined)) return value
    return Object.fromEntries(Object.entries(value).filter(([, member]) => member !== undefined))
  })
}

function then(check: Check, change: (value: unknown) => unknown): Check {
  const map = (checked: Awaited<ReturnType<Check>>): Awaited<ReturnType<Check>> =>
    'value' in checked ? { value: change(checked.value) } : checked
  return (value) => {
    const checked = check(value)
    return checked instanceof Promise ? checked.then(map) : map(checked)
  }
}
