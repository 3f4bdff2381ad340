import { expect, test } from 'vitest'
import { z } from 'zod'
import glyphs from '../../examples/glyphs.store/startup.ts'
import { noun, startup } from './define.ts'
import type { AnyNoun } from './define-types.ts'
import { DefinitionError } from './definitionerror.ts'
import { timeoutMsDefault } from './limits.ts'
import type { Startup, Throttle } from './startup.ts'

// Definitions are written here as authors without types could write them: the types refuse most of these (test/types).

interface LooseVerb {
  operation: string
  target?: string
  input?: unknown
  output?: unknown
  reads?: unknown
  writes?: unknown
  event?: string
  timeout?: number
  throttle?: unknown
  meter?: unknown
  run?: unknown
}

const run = (): null => null
const empty = z.object({})
const Order = noun({ fields: z.object({ status: z.string(), total: z.int() }) })
const Offer = noun({ fields: z.object({ price: z.int(), sold: z.boolean().default(false) }), index: ['price'] })

/** Serves a definition. The whole is untyped, so that it can be wrong. */
function serve(options: {
  namespace?: string
  nouns?: Record<string, unknown>
  verbs?: LooseVerb[]
  seed?: unknown[]
  throttle?: unknown
}): Startup {
  const nouns = (options.nouns ?? { Order, Offer }) as Record<string, AnyNoun>
  const builder = startup(options.namespace ?? 'kiln.test', { nouns })
  const verb = builder.verb as (operation: string, options: unknown) => never
  const verbs = (options.verbs ?? []).map(({ operation, ...rest }) => verb(operation, { input: empty, run, ...rest }))
  return builder.serve({
    verbs,
    ...(options.seed && { seed: options.seed as never[] }),
    ...(options.throttle !== undefined && { throttle: options.throttle as Throttle }),
  })
}

/** The faults of a definition, without their places; empty when it is served. */
function faultsOf(options: Parameters<typeof serve>[0]): string[] {
  try {
    serve(options)
    return []
  } catch (error) {
    if (!(error instanceof DefinitionError)) throw error
    for (const fault of error.faults) expect(fault).toMatch(/^define\.test\.ts:\d+: /)
    return error.faults.map((fault) => fault.replace(/^define\.test\.ts:\d+: /, ''))
  }
}

const verbFaults = (...verbs: LooseVerb[]): string[] => faultsOf({ verbs })

test('N1: a definition that can work has no fault, and is compiled', () => {
  const kiln = serve({
    verbs: [
      { operation: 'Order.place' },
      {
        operation: 'Order.markPaid',
        target: 'record',
        reads: { Offer: ['price'] },
        writes: ['status'],
        timeout: 5000,
        throttle: { rate: 2, burst: 5 },
      },
    ],
    throttle: { rate: 100, burst: 200 },
  })
  expect(kiln.namespace).toBe('kiln.test')
  expect([...kiln.nouns.keys()]).toEqual(['Order', 'Offer'])
  expect(kiln.nounsByPlural.get('orders')).toBe(kiln.nouns.get('Order'))
  expect(kiln.nouns.get('Offer')).toMatchObject({
    name: 'Offer',
    plural: 'offers',
    idPrefix: 'offer_',
    fieldNames: ['price', 'sold'],
  })
  expect(kiln.throttle).toEqual({ rate: 100, burst: 200 })
  expect(kiln.verbs.get('Order.place')).toMatchObject({
    noun: 'Order',
    verb: 'place',
    target: 'collection',
    timeoutMs: timeoutMsDefault,
    throttle: null,
    outputSchema: null,
    eventTypes: { succeeded: 'Order.placed', failed: 'Order.place.failed', refused: 'Order.place.refused' },
  })
  const paid = kiln.verbs.get('Order.markPaid')
  expect(paid).toMatchObject({ verb: 'markPaid', target: 'record', timeoutMs: 5000, throttle: { rate: 2, burst: 5 } })
  expect(paid?.eventTypes.succeeded).toBe('Order.markedPaid')
  expect(paid?.reads).toEqual(new Map([['Offer', new Set(['price'])]]))
  expect(paid?.writes).toEqual(new Map([['Order', new Set(['status'])]]))
  expect(paid?.run).toBe(run)
})

test('N1: every fault is told at once, each with the line of the call to mend', () => {
  const bad = noun({ fields: z.object({ a: z.string() }) })
  const builder = startup('Kiln', { nouns: { order: bad, Order } })
  const line = Number(/:(\d+):\d+\)?$/.exec(new Error().stack?.split('\n')[1] ?? '')?.[1]) - 2
  const verb = builder.verb('Order.get', { input: empty, run })
  const serveIt = () => builder.serve({ verbs: [verb] })
  expect(serveIt).toThrow(DefinitionError)
  expect(serveIt).toThrow(
    [
      `define.test.ts:${line + 1}: the namespace "Kiln" must be like a domain, in lower case: "glyphs.store"`,
      `define.test.ts:${line}: Noun "order" must be in PascalCase: write "Order"`,
      `define.test.ts:${line}: Nouns`,
    ]
      .slice(0, 2)
      .join('\n'),
  )
  expect(serveIt).toThrow(`define.test.ts:${line + 3}: Verb "Order.get" can't be named get, which the SDK has itself`)
})

test('N1: a namespace is like a domain, and none of the server’s own paths', () => {
  for (const namespace of ['Glyphs.store', 'glyphs store', '', '.store', 'a/b', '-a'])
    expect(faultsOf({ namespace })).toEqual([
      `the namespace "${namespace}" must be like a domain, in lower case: "glyphs.store"`,
    ])
  for (const namespace of ['errors', 'healthz', 'readyz', 'metrics', 'me', 'console'])
    expect(faultsOf({ namespace })).toEqual([`the namespace "${namespace}" is a path of the server: choose another`])
})

test('N1: a Noun is in PascalCase, fits into an id, and is none that is built in', () => {
  expect(faultsOf({ nouns: { font_license: Order } })).toEqual([
    'Noun "font_license" must be in PascalCase: write "FontLicense"',
  ])
  expect(faultsOf({ nouns: { Größe: Order } })[0]).toMatch(/^Noun "Größe" must be in PascalCase/)
  for (const name of ['Action', 'Inbox', 'Script', 'Worker'])
    expect(faultsOf({ nouns: { [name]: Order } })).toContain(`Noun "${name}" is built in: choose another name`)
  expect(faultsOf({ nouns: { [`A${'b'.repeat(36)}`]: Order } })).toEqual([])
  expect(faultsOf({ nouns: { [`A${'b'.repeat(37)}`]: Order } })).toEqual([
    expect.stringContaining("is too long for its records' ids"),
  ])
})

test('N1: a plural is none of the platform’s paths, in kebab case, and of one Noun only', () => {
  for (const [name, plural] of [
    ['Event', 'events'],
    ['Action', 'actions'],
  ] as const)
    expect(faultsOf({ nouns: { [name]: Order } })).toContain(
      `Noun "${name}" has the plural "${plural}", which is a path of the platform: choose another with plural:`,
    )
  for (const plural of ['actions', 'events', 'usage', 'inbox', 'me', 'mcp', 'openapi.json'])
    expect(faultsOf({ nouns: { Thing: noun({ fields: empty, plural }) } })[0]).toMatch(/is a path of the platform/)
  for (const plural of ['Things', 'my things', 'a/b', ''])
    expect(faultsOf({ nouns: { Thing: noun({ fields: empty, plural }) } })).toEqual([
      `the plural "${plural}" of Noun "Thing" must be in kebab-case: "font-licenses"`,
    ])
  expect(
    faultsOf({ nouns: { Person: noun({ fields: empty }), Human: noun({ fields: empty, plural: 'people' }) } }),
  ).toEqual(['Nouns "Person" and "Human" have one plural, "people": give one another with plural:'])
  expect(serve({ nouns: { FontLicense: Order } }).nouns.get('FontLicense')).toMatchObject({
    plural: 'font-licenses',
    idPrefix: 'font_license_',
  })
})

test('N1: the fields of a Noun are one closed object of plain JSON', () => {
  const of = (fields: unknown): string[] => faultsOf({ nouns: { Thing: noun({ fields: fields as typeof empty }) } })
  expect(of(undefined)[0]).toMatch(/^Noun "Thing" needs fields: a schema with Standard Schema/)
  expect(of({ title: z.string() })[0]).toMatch(/^Noun "Thing" needs fields/)
  const closedOne = 'the fields of Noun "Thing" must be one object with named members, and no others: z.object({ … })'
  for (const fields of [
    z.string(),
    z.record(z.string(), z.int()),
    z.looseObject({ a: z.int() }),
    z.array(z.int()),
    z.union([z.object({ a: z.int() }), z.object({ b: z.int() })]),
  ])
    expect(of(fields)).toEqual([closedOne])
  expect(of(z.object({ at: z.date() }))).toEqual([
    `the fields of Noun "Thing" can't be told as JSON Schema: Date cannot be represented in JSON Schema`,
  ])
  expect(of(z.object({ at: z.string().transform((at) => at.length) }))[0]).toMatch(
    /^the fields of Noun "Thing" can't be stored as JSON: Transforms cannot/,
  )
  expect(of(z.object({ on: z.stringbool() }))).toEqual([
    `field "on" of Noun "Thing" is stored otherwise than it is given, and could not be checked again: don't transform it`,
  ])
  expect(
    of(
      z.object({
        a: z.string().trim().default('x'),
        b: z.coerce.number().prefault(1),
        c: z.object({ d: z.string().default('x') }).optional(),
      }),
    ),
  ).toEqual([])
  expect(faultsOf({ nouns: { Thing: { fields: empty } } })).toEqual([
    'Noun "Thing" must be made with noun({ fields: … })',
  ])
})

test('N1: a schema with an id of its own can define a Noun like any other', () => {
  const fields = z.object({ title: z.string(), note: z.string().default('none') }).meta({ id: 'Titled' })
  const kiln = serve({ nouns: { Book: noun({ fields, index: ['title'] }) } })
  expect(kiln.nouns.get('Book')?.fieldNames).toEqual(['title', 'note'])
  expect(kiln.nouns.get('Book')?.complete({ title: 'x' })).toEqual({ title: 'x', note: 'none' })
  expect(kiln.manifest.nouns[0]?.fields).toEqual([
    { field: 'title', required: true, default: null },
    { field: 'note', required: true, default: '"none"' },
  ])
})

test('N1: no member begins with $, in fields and inputs, at any depth', () => {
  const deep = z.object({ list: z.array(z.object({ $id: z.string() })) })
  expect(faultsOf({ nouns: { Thing: noun({ fields: z.object({ $price: z.int() }) }) } })).toEqual([
    `member "$price" of Noun "Thing" begins with $, as the platform's own do: rename it`,
  ])
  expect(faultsOf({ nouns: { Thing: noun({ fields: deep }) } })[0]).toMatch(/^member "\$id" of Noun "Thing"/)
  expect(verbFaults({ operation: 'Order.place', input: deep })[0]).toMatch(
    /^member "\$id" of the input of Order\.place/,
  )
  const data = z.object({ a: z.record(z.string(), z.string()).default({ $x: '1' }), $: z.string().optional() })
  expect(verbFaults({ operation: 'Order.place', input: data })).toEqual([expect.stringContaining('member "$" of')])
})

test('N1: indexes and unique fields are fields that can be looked up', () => {
  const fields = z.object({
    text: z.string(),
    maybe: z.int().nullish(),
    kind: z.enum(['a', 'b']),
    either: z.union([z.string(), z.literal(1)]),
    flag: z.boolean(),
    list: z.array(z.string()),
    object: z.object({}),
    anything: z.unknown(),
    limit: z.int(),
    after: z.string(),
  })
  const of = (index: string[], unique: string[] = []): string[] =>
    faultsOf({ nouns: { Thing: noun({ fields, index: index as [], unique: unique as [] }) } })
  expect(of(['text', 'maybe', 'kind'], ['either', 'flag'])).toEqual([])
  expect(of(['txet'])).toEqual([
    expect.stringMatching(/^index of Noun "Thing" names "txet", which is none of its fields "text", "maybe"/),
  ])
  expect(of([], ['none'])).toEqual([expect.stringMatching(/^unique of Noun "Thing" names "none"/)])
  for (const field of ['list', 'object', 'anything'])
    expect(of([field])).toEqual([
      `index of Noun "Thing" names "${field}", which must be text, a number or a boolean to be found by`,
    ])
  for (const field of ['limit', 'after']) expect(of([field])[0]).toMatch(/which lists take as a parameter of their own/)
})

test('§3: a field that is both indexed and unique is unique', () => {
  const Thing = noun({ fields: z.object({ a: z.string() }), index: ['a'], unique: ['a'] })
  const compiled = serve({ nouns: { Thing } }).nouns.get('Thing')
  expect([compiled?.index, compiled?.unique]).toEqual([new Set(), new Set(['a'])])
})

test('N1: a Verb is of a Noun that there is, in camelCase, and none of the SDK’s own', () => {
  expect(verbFaults({ operation: 'Ofer.place' })).toEqual([
    'Verb "Ofer.place" is of a Noun that there isn\'t: did you mean "Offer.place"?',
  ])
  expect(verbFaults({ operation: 'Customer.place' })).toEqual([
    'Verb "Customer.place" is of a Noun that there isn\'t: the Nouns are "Order" and "Offer"',
  ])
  for (const operation of ['Order.Place', 'Order.mark-paid', 'Order.', 'Order.a.b', 'Order.a/b'])
    expect(verbFaults({ operation })).toContain(
      `Verb "${operation}" must be a Noun, a dot and a name in camelCase: "Order.markPaid"`,
    )
  expect(verbFaults({ operation: 'place' })[0]).toMatch(/^Verb "place" is of a Noun that there isn't/)
  for (const verb of ['get', 'list', 'versions', 'find', 'then', 'catch', 'finally', 'toJSON', 'constructor'])
    expect(verbFaults({ operation: `Order.${verb}` })).toEqual([
      `Verb "Order.${verb}" can't be named ${verb}, which the SDK has itself: choose another`,
    ])
})

test('N1: a Verb is defined once, and has a route and Events of its own', () => {
  expect(verbFaults({ operation: 'Order.place' }, { operation: 'Order.place' })).toEqual([
    'Verb "Order.place" is defined twice',
  ])
  expect(verbFaults({ operation: 'Order.place' }, { operation: 'Order.put', event: 'Order.placed' })).toEqual([
    'Order.place and Order.put have both the Event type "Order.placed": give one another name, or event:',
  ])
  expect(
    verbFaults({ operation: 'Order.sell', event: 'Order.sold' }, { operation: 'Order.place', target: 'record' }),
  ).toEqual([])
})

test('N1: an event is the Noun and a participle', () => {
  for (const event of ['sold', 'Offer.sold', 'Order.Sold', 'Order.sell.done', 'Order.'])
    expect(verbFaults({ operation: 'Order.sell', event })).toEqual([
      `the event "${event}" of Order.sell must be "Order." and a past participle: "Order.sold"`,
    ])
})

test('N1: reads and writes name Nouns and fields that there are', () => {
  const of = (verb: Partial<LooseVerb>): string[] =>
    verbFaults({ operation: 'Order.refund', target: 'record', ...verb })
  expect(of({ reads: ['status'], writes: { Order: ['total'], Offer: ['price'] } })).toEqual([])
  expect(of({ reads: ['statsu'] })).toEqual([
    'reads of Order.refund names "statsu", which Noun "Order" doesn\'t have: did you mean "status"?',
  ])
  expect(of({ writes: { Offer: ['active'] } })).toEqual([
    'writes of Order.refund names "active", which Noun "Offer" doesn\'t have: its fields are "price" and "sold"',
  ])
  expect(of({ reads: { Customer: ['name'] } })).toEqual([
    'reads of Order.refund names Noun "Customer", which there isn\'t',
  ])
  expect(verbFaults({ operation: 'Order.place', reads: ['status'] })).toEqual([
    'reads of Order.place must be by Noun, since it has no target: reads: { Order: […] }',
  ])
})

test('N1: an input is an object that JSON Schema can tell', () => {
  const of = (input: unknown): string[] => verbFaults({ operation: 'Order.place', input })
  for (const input of [z.string(), z.array(z.string()), z.union([z.object({}), z.null()]), z.unknown()])
    expect(of(input)).toEqual(['the input of Order.place must be an object: z.object({ … })'])
  for (const input of [undefined, null, { offer: 'string' }])
    expect(of(input)[0]).toMatch(/^Order\.place needs an input: a schema with Standard Schema and its JSON Schema/)
  expect(of(z.object({ at: z.date() }))).toEqual([
    "the input of Order.place can't be told as JSON Schema: Date cannot be represented in JSON Schema; take what JSON has, such as text for a date",
  ])
  const good = [
    z.object({ at: z.iso.datetime().transform((at) => new Date(at)) }),
    z.record(z.string(), z.int()),
    z.discriminatedUnion('by', [z.object({ by: z.literal('a') }), z.object({ by: z.literal('b') })]),
    z.intersection(z.object({ a: z.int() }), z.object({ b: z.int() })),
    z.object({ a: z.int() }).refine(() => true),
    z.object({ a: z.int() }).meta({ id: 'A' }),
  ]
  for (const input of good) expect(of(input)).toEqual([])
  expect(verbFaults({ operation: 'Order.place', output: z.object({ at: z.date() }) })[0]).toMatch(
    /^the output of Order\.place can't be told/,
  )
  expect(verbFaults({ operation: 'Order.place', output: 'Order' })[0]).toMatch(
    /^the output of Order\.place must be a schema/,
  )
})

test('N1: run, target, timeout and throttle are what they can be', () => {
  const of = (verb: Partial<LooseVerb>): string[] => verbFaults({ operation: 'Order.place', ...verb })
  expect(of({ run: 'later' })).toEqual(['Order.place needs a function run(context)'])
  expect(of({ target: 'order' })).toEqual(["the target of Order.place must be 'record' or 'collection'"])
  for (const timeout of [0, -1, 1.5, NaN, Infinity, 86_400_001])
    expect(of({ timeout })).toEqual([
      `the timeout of Order.place is ${timeout}; it must be whole milliseconds from 1 to 86400000`,
    ])
  expect([...of({ timeout: 1 }), ...of({ timeout: 86_400_000 })]).toEqual([])
  for (const throttle of [
    { rate: 0, burst: 1 },
    { rate: -1, burst: 1 },
    { rate: NaN, burst: 1 },
    { rate: '1', burst: 1 },
  ])
    expect(of({ throttle })).toEqual([
      'throttle.rate of Order.place must be calls a second, above 0 and at most 1,000,000',
    ])
  for (const burst of [0, 1.5, Infinity, undefined])
    expect(of({ throttle: { rate: 1, burst } })).toEqual([
      'throttle.burst of Order.place must be a whole number of calls from 1 to 1,000,000',
    ])
  expect(faultsOf({ throttle: 5 })).toHaveLength(2)
  expect(of({ throttle: { rate: 0.1, burst: 1 } })).toEqual([])
})

test('N1: a Noun whose fields are at fault is told once, not with each of its Verbs', () => {
  expect(
    faultsOf({
      nouns: { Order: noun({ fields: z.record(z.string(), z.int()) }) },
      verbs: [{ operation: 'Order.place' }],
    }),
  ).toHaveLength(1)
})

test('N1: serve lists Verbs of this Startup', () => {
  const other = startup('loom.test', { nouns: { Order } })
  const kiln = startup('kiln.test', { nouns: { Order } })
  const place = other.verb('Order.place', { input: empty, reads: {}, run })
  expect(() => kiln.serve({ verbs: [place] })).toThrow(
    'verbs lists what is not a Verb of this Startup: define it with .verb(…)',
  )
  expect(() => kiln.serve({ verbs: [undefined as unknown as typeof place] })).toThrow(DefinitionError)
})

test('N1: the seed calls Verbs that are served, with inputs that fit', () => {
  const verbs = [
    { operation: 'Order.place', input: z.object({ total: z.int().default(1) }) },
    { operation: 'Order.refund', target: 'record' },
  ]
  const of = (...seed: unknown[]): string[] => faultsOf({ verbs, seed })
  expect(
    serve({ verbs, seed: [['Order.place', { total: 2 }], ['Order.place'], ['Order.refund', 'order_1']] }).seed,
  ).toEqual([
    { operation: 'Order.place', target: null, input: { total: 2 } },
    { operation: 'Order.place', target: null, input: {} },
    { operation: 'Order.refund', target: 'order_1', input: {} },
  ])
  expect(of(['Order.cancel', 'order_1'])).toEqual(['seed 1: "Order.cancel" is none of the Verbs that are served'])
  expect(of('Order.place')).toEqual([expect.stringContaining('is none of the Verbs')])
  expect(of(['Order.place'], ['Order.refund'])).toEqual([
    'seed 2: Order.refund is called on a record: its id comes second',
  ])
  expect(of(['Order.refund', 'order 1'])).toEqual(['seed 1: Order.refund is called on a record: its id comes second'])
  expect(of(['Order.place', 'order_1', {}])).toEqual(['seed 1: Order.place takes one input, which is an object'])
  expect(of(['Order.place', { totla: 2 }])).toEqual([
    'seed 1: Order.place: input.totla: is not known here; did you mean "total"?',
  ])
})

test('W2: a Verb that declares nothing where it should is warned of, in a sentence', () => {
  const of = (verb: Partial<LooseVerb>): readonly string[] =>
    serve({ verbs: [{ operation: 'Order.edit', ...verb }] }).warnings
  expect(of({})).toEqual([
    expect.stringMatching(
      /^define\.test\.ts:\d+: Order\.edit declares no fields that it reads or writes, so it depends on every one/,
    ),
  ])
  expect(of({ target: 'record', reads: { Offer: ['price'] } })).toEqual([
    expect.stringContaining('Order.edit declares no fields of Order that'),
  ])
  for (const declared of [
    { reads: {} },
    { writes: { Offer: ['price'] } },
    { target: 'record', writes: ['status'] },
    { target: 'record', reads: [] },
  ])
    expect(of(declared)).toEqual([])
})

test('N1: a Verb that is defined and not served is warned of', () => {
  const kiln = startup('kiln.test', { nouns: { Order } })
  kiln.verb('Order.place', { input: empty, reads: {}, run })
  expect(kiln.serve({ verbs: [] }).warnings).toEqual([
    expect.stringMatching(/^define\.test\.ts:\d+: Order\.place is defined, but serve does not list it$/),
  ])
})

test('N2: the manifest tells what the next deploy is compared with', () => {
  const Book = noun({
    fields: z.object({
      title: z.string(),
      note: z.string().optional(),
      pages: z.int().default(0),
      added: z.iso.datetime().default(() => new Date().toISOString()),
      at: z.string().nullable(),
    }),
    index: ['title'],
  })
  expect(serve({ nouns: { Book }, verbs: [{ operation: 'Book.add' }] }).manifest).toEqual({
    namespace: 'kiln.test',
    nouns: [
      {
        noun: 'Book',
        plural: 'books',
        fields: [
          { field: 'title', required: true, default: null },
          { field: 'note', required: false, default: null },
          { field: 'pages', required: true, default: '0' },
          { field: 'added', required: true, default: null },
          { field: 'at', required: true, default: null },
        ],
        index: ['title'],
        unique: [],
      },
    ],
    verbs: [{ operation: 'Book.add', noun: 'Book', verb: 'add', target: 'collection' }],
  })
})

test('V6: the check of a Noun refuses unknown fields, applies defaults, and leaves out what is undefined', async () => {
  const offer = serve({}).nouns.get('Offer')
  expect(offer?.check({ price: 1 })).toEqual({ value: { price: 1, sold: false } })
  expect(offer?.check({ price: 1, pirce: 2 })).toMatchObject({ faults: [{ path: ['pirce'] }] })
  const Thing = noun({ fields: z.object({ a: z.string().optional(), b: z.string().refine(async () => true) }) })
  const checked = await serve({ nouns: { Thing } }).nouns.get('Thing')?.check({ a: undefined, b: 'x' })
  expect(checked && 'value' in checked && Object.keys(checked.value as object)).toEqual(['b'])
})

test('E2: a Verb meters one unit unless it says, and what is no number of units is its fault', () => {
  const meterOf = (meter?: unknown) =>
    serve({ verbs: [{ operation: 'Order.place', ...(meter !== undefined && { meter }) }] }).verbs.get('Order.place')
      ?.meter
  expect(meterOf()?.({}, null)).toBe(1)
  expect(
    meterOf((input: { seats: number }, output: { more: number }) => input.seats + output.more)?.(
      { seats: 2 },
      { more: 3 },
    ),
  ).toBe(5)
  expect(meterOf(() => 0)?.({}, null)).toBe(0)
  for (const units of [-1, 0.5, NaN, Infinity, 1e9 + 1, '1', undefined])
    expect(() => meterOf(() => units)?.({}, null)).toThrow('meter of Order.place gave')
})

test('§3: the JSON Schema of a Noun is that of its records', () => {
  expect(serve({}).nouns.get('Offer')?.jsonSchema).toEqual({
    $schema: 'https://json-schema.org/draft/2020-12/schema',
    type: 'object',
    properties: {
      $id: { type: 'string', pattern: '^[A-Za-z0-9_-]{1,64}$' },
      $noun: { type: 'string', const: 'Offer' },
      $version: { type: 'integer', minimum: 1 },
      price: expect.objectContaining({ type: 'integer' }),
      sold: { type: 'boolean', default: false },
    },
    required: ['$id', '$noun', '$version', 'price', 'sold'],
  })
})

test('§3: glyphs.store is served without a warning, and its seed puts the Serif Family on sale', () => {
  expect(glyphs.warnings).toEqual([])
  expect([...glyphs.nounsByPlural.keys()]).toEqual(['customers', 'offers', 'orders', 'licenses'])
  expect([...glyphs.verbs.values()].map(({ eventTypes }) => eventTypes.succeeded)).toEqual([
    'Customer.registered',
    'Offer.published',
    'Offer.repriced',
    'Offer.retired',
    'Order.placed',
    'Order.refunded',
    'Order.cancelled',
    'License.transferred',
  ])
  expect(glyphs.seed[0]).toEqual({
    operation: 'Offer.publish',
    target: null,
    input: { id: 'offer_serif_family', title: 'Serif Family', price: 4900, currency: 'EUR' },
  })
  expect(glyphs.throttle).toBeNull()
  expect(glyphs.verbs.get('Order.place')?.check({ offer: 'offer_serif_family' })).toEqual({
    value: { offer: 'offer_serif_family', card: 'tok_ok', seats: 1 },
  })
})
