import { expect, test } from 'vitest'
import { z } from 'zod'
import { completer, defaultOf } from './defaults.ts'
import { unknownMembers } from './members.ts'
import { checkOf, closed, isSchema, jsonSchemaOf } from './schema.ts'
import type { Schema } from './startup.ts'

/** The faults of a value, as `path: message`; null when there are none. Fails where the check is asynchronous. */
function faultsOf(schema: Schema, value: unknown): string[] | null {
  const checked = checkOf(schema, jsonSchemaOf(schema, 'input'))(value)
  if (checked instanceof Promise) throw new Error('the check is asynchronous')
  return 'faults' in checked ? checked.faults.map(({ path, message }) => `${path.join('.')}: ${message}`) : null
}

/** The paths of the members that a schema does not know. */
function unknownOf(schema: Schema, value: unknown): string[] {
  const found = unknownMembers(jsonSchemaOf(schema, 'input'))(value) ?? []
  return found.map(({ path }) => path.join('.'))
}

const order = z.object({ offer: z.string(), seats: z.int().default(1), note: z.string().optional() })

test('R2: a check gives the value with defaults and coercions applied, without a promise', () => {
  const schema = z.object({ offer: z.string(), seats: z.coerce.number().default(1) })
  expect(checkOf(schema, jsonSchemaOf(schema, 'input'))({ offer: 'o' })).toEqual({ value: { offer: 'o', seats: 1 } })
  expect(checkOf(schema, jsonSchemaOf(schema, 'input'))({ offer: 'o', seats: '3' })).toEqual({
    value: { offer: 'o', seats: 3 },
  })
})

test('R2: a schema that is asynchronous makes a check that is, with the same faults', async () => {
  const schema = z.object({ offer: z.string().refine(async (offer) => offer.startsWith('offer_')) })
  const check = checkOf(schema, jsonSchemaOf(schema, 'input'))
  await expect(check({ offer: 'offer_1' })).resolves.toEqual({ value: { offer: 'offer_1' } })
  await expect(check({ offer: 'x', ofer: 1 })).resolves.toMatchObject({
    faults: [{ path: ['ofer'] }, { path: ['offer'] }],
  })
})

test('R2: a mistyped member is refused though zod strips it, and the name that was meant is told', () => {
  expect(faultsOf(order, { offer: 'o', sets: 2 })).toEqual(['sets: is not known here; did you mean "seats"?'])
  expect(faultsOf(order, { offer: 'o', seast: 2 })).toEqual(['seast: is not known here; did you mean "seats"?'])
  expect(faultsOf(order, { offer: 'o', somethingElse: 2 })).toEqual(['somethingElse: is not known here'])
  expect(faultsOf(order, { offer: 'o', seats: 2 })).toBeNull()
})

test('R2: what the schema faults and what it does not know are told together, each with its path', () => {
  const schema = z.object({ lines: z.array(z.object({ price: z.number() })) })
  expect(faultsOf(schema, { lines: [{ price: 1 }, { price: 'x', pirce: 2 }] })).toEqual([
    'lines.1.pirce: is not known here; did you mean "price"?',
    expect.stringMatching(/^lines\.1\.price: /),
  ])
})

test('R2: a strict schema does not tell of an unknown member twice', () => {
  expect(faultsOf(z.strictObject({ a: z.string() }), { a: 'x', b: 1 })).toEqual(['b: is not known here'])
})

test('R2: unknown members are found at any depth: objects, lists, tuples, maps', () => {
  const inner = z.object({ k: z.number() })
  const schema = z.object({
    object: z.object({ deep: inner }),
    list: z.array(inner),
    tuple: z.tuple([z.string(), inner], inner),
    map: z.record(z.string(), inner),
  })
  const value = {
    object: { deep: { k: 1, x: 1 } },
    list: [{ k: 1 }, { k: 1, x: 1 }],
    tuple: ['a', { k: 1, x: 1 }, { k: 1, y: 1 }],
    map: { any: { k: 1 }, other: { k: 1, x: 1 } },
  }
  expect(unknownOf(schema, value)).toEqual(['object.deep.x', 'list.1.x', 'tuple.1.x', 'tuple.2.y', 'map.other.x'])
})

test('R2: what a schema leaves open stays open', () => {
  const schema = z.object({
    anything: z.unknown(),
    json: z.json(),
    loose: z.looseObject({ a: z.string() }),
    rest: z.object({ a: z.string() }).catchall(z.object({ k: z.number() })),
  })
  const value = {
    anything: { x: { y: 1 } },
    json: { x: [{ y: 1 }] },
    loose: { a: 'x', b: { c: 1 } },
    rest: { a: 'x', b: { k: 1 } },
  }
  expect(unknownOf(schema, value)).toEqual([])
  expect(unknownOf(schema, { ...value, rest: { a: 'x', b: { k: 1, x: 1 } } })).toEqual(['rest.b.x'])
})

test('R2: of a union the branch that the value fits counts, not the one that knows most', () => {
  const schema = z.object({
    pay: z.discriminatedUnion('by', [
      z.object({ by: z.literal('card'), card: z.string() }),
      z.object({ by: z.literal('invoice'), address: z.object({ city: z.string() }) }),
    ]),
  })
  expect(unknownOf(schema, { pay: { by: 'card', card: 'tok_ok' } })).toEqual([])
  expect(unknownOf(schema, { pay: { by: 'card', card: 'tok_ok', address: { city: 'B' } } })).toEqual(['pay.address'])
  expect(unknownOf(schema, { pay: { by: 'invoice', address: { city: 'B', zip: 1 } } })).toEqual(['pay.address.zip'])
})

test('R2: a union without a discriminator is told apart by types, requirements, bounds and patterns', () => {
  const schema = z.object({
    t: z.union([
      z.object({ n: z.number().max(9), a: z.string().optional() }),
      z.object({ n: z.number().min(10), b: z.string().optional() }),
      z.object({ n: z.string().regex(/^x/), c: z.string().optional() }),
      z.object({ n: z.string().regex(/^y/), d: z.string().optional() }),
    ]),
  })
  expect(unknownOf(schema, { t: { n: 5, a: 'x' } })).toEqual([])
  expect(unknownOf(schema, { t: { n: 5, b: 'x' } })).toEqual(['t.b'])
  expect(unknownOf(schema, { t: { n: 12, a: 'x' } })).toEqual(['t.a'])
  expect(unknownOf(schema, { t: { n: 'y', d: 'x' } })).toEqual([])
  expect(unknownOf(schema, { t: { n: 'y', c: 'x' } })).toEqual(['t.c'])
})

test('R2: an intersection knows the members of all its parts', () => {
  const schema = z.intersection(
    z.union([z.object({ a: z.string() }), z.object({ b: z.string() })]),
    z.object({ c: z.object({ d: z.string() }) }),
  )
  expect(unknownOf(schema, { a: 'x', c: { d: 'x' } })).toEqual([])
  expect(unknownOf(schema, { b: 'x', c: { d: 'x' } })).toEqual([])
  expect(unknownOf(schema, { a: 'x', c: { d: 'x', e: 1 }, f: 1 })).toEqual(['c.e', 'f'])
})

test('R2: a recursive schema is followed as deep as the value goes', () => {
  const Tree = z.object({
    v: z.number(),
    get kids() {
      return z.array(Tree).optional()
    },
  })
  expect(unknownOf(Tree, { v: 1, kids: [{ v: 2, kids: [{ v: 3 }] }] })).toEqual([])
  expect(unknownOf(Tree, { v: 1, kids: [{ v: 2, kids: [{ v: 3, kid: [] }] }] })).toEqual(['kids.0.kids.0.kid'])
  const twice = z.object({ one: Tree, other: Tree })
  expect(unknownOf(twice, { one: { v: 1 }, other: { v: 1, w: 1 } })).toEqual(['other.w'])
})

test('R2: members named as those of Object are no more known than others', () => {
  const value: unknown = JSON.parse('{ "offer": "o", "__proto__": { "x": 1 }, "constructor": 1, "toString": 2 }')
  expect(unknownOf(order, value)).toEqual(['__proto__', 'constructor', 'toString'])
})

test('R2: optional, nullable, read-only, branded and lazy schemas are seen through', () => {
  const inner = z.object({ k: z.number() })
  const schema = z.object({
    optional: inner.optional(),
    nullable: inner.nullable(),
    readonly: inner.readonly(),
    branded: inner.brand('B'),
    lazy: z.lazy(() => inner),
    preset: inner.default({ k: 1 }),
  })
  const value = Object.fromEntries(Object.keys(schema.shape).map((name) => [name, { k: 1, x: 1 }]))
  expect(unknownOf(schema, value)).toEqual(Object.keys(schema.shape).map((name) => `${name}.x`))
  expect(unknownOf(schema, { optional: undefined, nullable: null })).toEqual([])
})

/** A library that keeps unknown members, as some do, and tells the JSON Schema that is given. */
function keeping(json: Record<string, unknown>): Schema {
  return {
    '~standard': {
      version: 1,
      vendor: 'keeping',
      validate: (value) => ({ value }),
      jsonSchema: { input: () => json, output: () => json },
    },
  }
}

test('R2: a library that keeps unknown members is looked after just the same', () => {
  const schema = keeping({
    type: 'object',
    properties: { a: { type: 'string' } },
    patternProperties: { '^x-': { type: 'object', properties: { k: {} } } },
  })
  expect(faultsOf(schema, { a: 'x', 'x-1': { k: 1 } })).toBeNull()
  expect(unknownOf(schema, { a: 'x', 'x-1': { l: 1 }, y: 1 })).toEqual(['x-1.l', 'y'])
})

test('R2: conditional and dependent parts know their members too', () => {
  const schema = keeping({
    type: 'object',
    properties: { kind: { type: 'string' } },
    if: { properties: { kind: { const: 'a' } } },
    then: { properties: { a: {} } },
    else: { properties: { b: {} } },
    dependentSchemas: { kind: { properties: { more: { type: 'object', properties: { k: {} } } } } },
  })
  expect(unknownOf(schema, { kind: 'a', a: 1, more: { k: 1 } })).toEqual([])
  expect(unknownOf(schema, { kind: 'a', a: 1, more: { l: 1 }, c: 1 })).toEqual(['more.l', 'c'])
})

test('N1: a JSON Schema that refers to nothing, or multiplies without bound, can not be followed', () => {
  expect(() => unknownMembers({ $ref: '#/$defs/None' })).toThrow('it refers to #/$defs/None, which is not in it')
  expect(() => unknownMembers({ $ref: 'https://schemas.test/order' })).toThrow('which is not in it')
  const many = { anyOf: Array.from({ length: 11 }, (_, i) => ({ properties: { [`m${i}`]: {} } })) }
  expect(() => unknownMembers({ allOf: [many, { ...many }, { ...many }] })).toThrow('too many alternatives')
})

test('N1: a schema is one only with both the Standard Schema and its JSON Schema', () => {
  expect(isSchema(order)).toBe(true)
  expect(isSchema(Object.assign(() => undefined, keeping({})))).toBe(true)
  expect(isSchema({ '~standard': { version: 1, vendor: 'old', validate: () => ({ value: 1 }) } })).toBe(false)
  for (const value of [undefined, null, {}, 'z', { type: 'object' }]) expect(isSchema(value)).toBe(false)
})

test('N2: a plain default is told from a function that gives chance, a count, a time or a day', () => {
  let count = 0
  const schema = z.object({
    plain: z.string().default('x'),
    list: z.array(z.string()).default([]),
    zero: z.number().default(0),
    none: z.string().nullable().default(null),
    constant: z.string().default(() => 'always'),
    before: z.string().prefault('p'),
    chance: z.uuid().default(() => crypto.randomUUID()),
    counted: z.number().default(() => ++count),
    time: z.number().default(() => Date.now()),
    moment: z.iso.datetime().default(() => new Date().toISOString()),
    day: z.iso.date().prefault(() => new Date().toISOString().slice(0, 10)),
    year: z.number().default(() => new Date().getUTCFullYear()),
    called: z.string().default(() => String(Reflect.apply(Date, undefined, []))),
    required: z.string(),
    optional: z.string().optional(),
  })
  const json = jsonSchemaOf(schema, 'input')
  const defaults = Object.fromEntries(Object.keys(schema.shape).map((field) => [field, defaultOf(json, field)]))
  expect(defaults).toEqual({
    plain: '"x"',
    list: '[]',
    zero: '0',
    none: 'null',
    constant: '"always"',
    before: '"p"',
    chance: null,
    counted: null,
    time: null,
    moment: null,
    day: null,
    year: null,
    called: null,
    required: null,
    optional: null,
  })
})

test('N2: the look under another clock leaves the clock as it was, also when the library throws', () => {
  const Clock = Date
  jsonSchemaOf(z.object({ a: z.string().default('x') }), 'input')
  let calls = 0
  const schema = z.object({ a: z.string().default(() => (calls++ === 0 ? 'x' : ([].at(0) ?? JSON.parse('{')))) })
  expect(() => jsonSchemaOf(schema, 'input')).toThrow()
  expect(Date).toBe(Clock)
  expect(new Date() instanceof Clock).toBe(true)
})

test('N2: a member named "default" is a member', () => {
  const schema = z.object({ default: z.string().default(() => crypto.randomUUID()), other: z.string().default('x') })
  const json = jsonSchemaOf(schema, 'input')
  expect(Object.keys(json['properties'] as object)).toEqual(['default', 'other'])
  expect([defaultOf(json, 'default'), defaultOf(json, 'other')]).toEqual([null, '"x"'])
})

test('N2: a default that a required member only claims to have is none', () => {
  expect(defaultOf(jsonSchemaOf(z.object({ a: z.string().meta({ default: 'x' }) }), 'input'), 'a')).toBeNull()
  expect(defaultOf(jsonSchemaOf(z.object({ a: z.string().catch('x') }), 'input'), 'a')).toBeNull()
})

test('N2: an old record takes the plain defaults of the fields that it lacks, inside objects and lists too', () => {
  const address = z.object({ city: z.string(), country: z.string().default('DE') })
  const schema = z.object({
    name: z.string(),
    active: z.boolean().default(true),
    tags: z.array(z.string()).default(['new']),
    address: address.optional(),
    others: z.array(address).default([]),
    at: z.string().default(() => crypto.randomUUID()),
  })
  const complete = completer(jsonSchemaOf(schema, 'input'))
  expect(complete({ name: 'A', active: false, address: { city: 'B' }, others: [{ city: 'C' }] })).toEqual({
    name: 'A',
    active: false,
    tags: ['new'],
    address: { city: 'B', country: 'DE' },
    others: [{ city: 'C', country: 'DE' }],
  })
})

test('N2: a record that lacks nothing is given back itself, and defaults are not shared between records', () => {
  const complete = completer(
    jsonSchemaOf(z.object({ tags: z.array(z.string()).default([]), n: z.number().default(1) }), 'input'),
  )
  const whole = { tags: ['a'], n: 0 }
  expect(complete(whole)).toBe(whole)
  const old = {}
  expect(complete(old)).toEqual({ tags: [], n: 1 })
  expect(old).toEqual({})
  expect(complete({})['tags']).not.toBe(complete({})['tags'])
  const none = completer(jsonSchemaOf(z.object({ a: z.string() }), 'input'))
  expect(none(old)).toBe(old)
})

test('N2: defaults in a recursive schema reach every level', () => {
  const Tree = z.object({
    v: z.number().default(0),
    get kids() {
      return z.array(Tree).optional()
    },
  })
  const complete = completer(jsonSchemaOf(Tree, 'input'))
  expect(complete({ kids: [{ kids: [{}] }] })).toEqual({ v: 0, kids: [{ v: 0, kids: [{ v: 0 }] }] })
})

test('§3: the schema that is shown refuses what the door refuses', () => {
  const open = z.looseObject({ a: z.string() })
  const schema = z.object({ list: z.array(z.union([z.object({ b: z.string() }), open])) })
  expect(closed(jsonSchemaOf(schema, 'input'))).toMatchObject({
    additionalProperties: false,
    properties: { list: { items: { anyOf: [{ additionalProperties: false }, { additionalProperties: {} }] } } },
  })
})

test('§3: the parts of an allOf are shown open, and the whole closed', () => {
  const inner = { properties: { x: {} } }
  expect(closed({ allOf: [{ properties: { a: inner } }, { properties: { b: {} } }] })).toEqual({
    allOf: [{ properties: { a: { ...inner, additionalProperties: false } } }, { properties: { b: {} } }],
    unevaluatedProperties: false,
  })
})

test('R2: a look for unknown members allocates nothing where all are known, and costs a few microseconds at most', () => {
  const find = unknownMembers(jsonSchemaOf(order, 'input'))
  const value = { offer: 'offer_serif_family', seats: 2, note: 'x' }
  for (let i = 0; i < 20_000; i++) find(value)
  const start = performance.now()
  for (let i = 0; i < 100_000; i++) find(value)
  expect((performance.now() - start) / 100).toBeLessThan(5) // microseconds a call; measured: 0.1
})
