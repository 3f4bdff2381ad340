import { isObject, resolve, type JsonSchema } from './jsonschema.ts'

/**
 * Takes a JSON Schema apart into the shapes that a value may have. Throws for a `$ref` that leads nowhere, and where
 * there are more shapes than anybody means.
 */
export function shapesOf(schema: JsonSchema): Node {
  return new Compiler(schema).node([schema])
}

/** What a value may be, after `$ref`, `allOf` and `anyOf` are taken apart: one of some shapes. */
export interface Node {
  shapes: Shape[]
  /** Nothing in it can be unknown, so that nobody need look. */
  leaf: boolean
}

/** A conjunction of plain schemas. */
export interface Shape {
  readonly parts: readonly JsonSchema[]
  readonly members: ReadonlyMap<string, Node>
  readonly patterns: readonly (readonly [RegExp, Node])[]
  /** Of the members that are not named: null when they are unknown. */
  readonly rest: Node | null
  readonly prefix: readonly Node[]
  readonly items: Node
  /** Names that are required and patterns of a string, for telling shapes apart. */
  readonly required: readonly string[]
  readonly texts: readonly RegExp[]
}

const openLeaf: Node = { shapes: [], leaf: true }

/** More ways to fit than anybody means: an `allOf` of many `anyOf`s multiplies them. */
const shapesMax = 1000

class Compiler {
  readonly #root: JsonSchema
  readonly #ids = new Map<JsonSchema, number>()
  readonly #nodes = new Map<string, Node>()

  constructor(root: JsonSchema) {
    this.#root = root
  }

  node(schemas: readonly unknown[]): Node {
    const parts = schemas.filter(isObject)
    if (parts.length === 0) return openLeaf
    const name = parts.map((part) => this.#id(part)).join()
    const known = this.#nodes.get(name)
    if (known !== undefined) return known
    const node: Node = { shapes: [], leaf: false }
    this.#nodes.set(name, node) // before its shapes: a recursive schema comes back here
    node.shapes = cross(parts.map((part) => this.#ways(part, []))).map((way) => this.#shape(way))
    node.leaf = node.shapes.every(isLeaf)
    return node
  }

  #id(schema: JsonSchema): number {
    let id = this.#ids.get(schema)
    if (id === undefined) this.#ids.set(schema, (id = this.#ids.size))
    return id
  }

  /** The ways in which a value can fit, each a list of schemas that it then fits all of. */
  #ways(schema: unknown, within: readonly unknown[]): JsonSchema[][] {
    if (!isObject(schema) || within.includes(schema)) return [[]]
    const inner = [...within, schema]
    const all: JsonSchema[][][] = [[[schema]]]
    const each = (list: unknown): JsonSchema[][][] => asArray(list).map((one) => this.#ways(one, inner))
    if (typeof schema['$ref'] === 'string') all.push(this.#ways(resolve(this.#root, schema['$ref']), inner))
    all.push(...each(schema['allOf']))
    for (const either of [schema['anyOf'], schema['oneOf']]) if (Array.isArray(either)) all.push(each(either).flat())
    if ('if' in schema) all.push([...this.#ways(schema['then'], inner), ...this.#ways(schema['else'], inner)])
    const dependent = schema['dependentSchemas']
    if (isObject(dependent)) all.push(...Object.values(dependent).map((one) => [...this.#ways(one, inner), []]))
    return cross(all)
  }

  #shape(parts: readonly JsonSchema[]): Shape {
    const objects = parts.filter(describesMembers)
    const names = new Set(objects.flatMap((part) => Object.keys(object(part['properties']))))
    const patterns = new Set(objects.flatMap((part) => Object.keys(object(part['patternProperties']))))
    const rests = objects.map(restOf).filter((rest) => rest !== false)
    const closed = objects.length > 0 && rests.length === 0
    return {
      parts,
      members: new Map(
        [...names].map((name) => [name, this.node(objects.flatMap((part) => memberSchemas(part, name)))]),
      ),
      patterns: [...patterns].map((pattern) => [
        regExp(pattern),
        this.node(objects.map((part) => object(part['patternProperties'])[pattern])),
      ]),
      rest: closed ? null : this.node(rests),
      prefix: longest(parts.map((part) => asArray(part['prefixItems']))).map((_, i) =>
        this.node(parts.map((part) => asArray(part['prefixItems'])[i])),
      ),
      items: this.node(parts.map((part) => part['items'])),
      required: parts.flatMap((part) => asArray(part['required']).filter(isText)),
      texts: parts
        .map((part) => part['pattern'])
        .filter(isText)
        .map(regExp),
    }
  }
}

function cross(all: readonly JsonSchema[][][]): JsonSchema[][] {
  let ways: JsonSchema[][] = [[]]
  for (const one of all) {
    if (ways.length * one.length > shapesMax) throw new Error('it has too many alternatives')
    ways = ways.flatMap((way) => one.map((more) => [...way, ...more]))
  }
  return ways
}

function describesMembers(schema: JsonSchema): boolean {
  return ['properties', 'patternProperties', 'additionalProperties', 'unevaluatedProperties'].some(
    (word) => word in schema,
  )
}

function restOf(schema: JsonSchema): unknown {
  return schema['additionalProperties'] ?? schema['unevaluatedProperties'] ?? false
}

/** The schemas that a part has for a member: its own one, or else that of further members. */
function memberSchemas(part: JsonSchema, name: string): unknown[] {
  const properties = object(part['properties'])
  return Object.hasOwn(properties, name) ? [properties[name]] : [restOf(part)]
}

function isLeaf(shape: Shape): boolean {
  const nodes = [...shape.members.values(), ...shape.patterns.map(([, node]) => node), ...shape.prefix, shape.items]
  return shape.rest?.leaf === true && nodes.every((node) => node.leaf)
}

export function memberNode(shape: Shape, name: string): Node | null {
  const node = shape.members.get(name)
  if (node !== undefined) return node
  for (const [pattern, node] of shape.patterns) if (pattern.test(name)) return node
  return shape.rest
}

/** Whether a value can be of a shape: enough of JSON Schema to tell the branches of a union apart. */
export function fits(shape: Shape, value: unknown): boolean {
  if (!isOfType(shape, value) || !shape.parts.every((part) => isWithin(part, value))) return false
  if (typeof value === 'string') return shape.texts.every((text) => text.test(value))
  if (Array.isArray(value)) return value.every((item, i) => fitsNode(shape.prefix[i] ?? shape.items, item))
  if (!isObject(value)) return true
  return (
    shape.required.every((name) => Object.hasOwn(value, name)) &&
    Object.keys(value).every((name) => fitsNode(memberNode(shape, name) ?? openLeaf, value[name]))
  )
}

function fitsNode(node: Node, value: unknown): boolean {
  return node.shapes.length === 0 || node.shapes.some((shape) => fits(shape, value))
}

export function isOfType(shape: Shape, value: unknown): boolean {
  return shape.parts.every(
    ({ type }) =>
      type === undefined ||
      asArray(type)
        .concat(type)
        .some((one) => isA(one, value)),
  )
}

function isA(type: unknown, value: unknown): boolean {
  if (type === 'null') return value === null
  if (type === 'array') return Array.isArray(value)
  if (type === 'object') return isObject(value)
  if (type === 'integer') return Number.isInteger(value)
  return typeof value === type
}

function isWithin(schema: JsonSchema, value: unknown): boolean {
  if ('const' in schema && !same(schema['const'], value)) return false
  if (Array.isArray(schema['enum']) && !schema['enum'].some((one) => same(one, value))) return false
  if (typeof value !== 'number') return true
  const { minimum, maximum, exclusiveMinimum, exclusiveMaximum } = schema
  return (
    value >= number(minimum, -Infinity) &&
    value <= number(maximum, Infinity) &&
    value > number(exclusiveMinimum, -Infinity) &&
    value < number(exclusiveMaximum, Infinity)
  )
}

/** A pattern as JSON Schema has it. Some libraries write escapes that only a RegExp without `u` knows. */
function regExp(pattern: string): RegExp {
  try {
    return new RegExp(pattern, 'u')
  } catch {
    return new RegExp(pattern) // a SyntaxError here too: the definition is refused
  }
}

function isText(value: unknown): value is string {
  return typeof value === 'string'
}

function same(a: unknown, b: unknown): boolean {
  return a === b || (isObject(a) && JSON.stringify(a) === JSON.stringify(b))
}

function number(value: unknown, otherwise: number): number {
  return typeof value === 'number' ? value : otherwise
}

function object(value: unknown): Record<string, unknown> {
  return isObject(value) ? value : {}
}

function asArray(value: unknown): unknown[] {
  return Array.isArray(value) ? value : []
}

function longest(lists: unknown[][]): unknown[] {
  return lists.reduce((a, b) => (b.length > a.length ? b : a), [])
}
