import { METHODS } from 'node:http'
import fc from 'fast-check'
import { paths } from '../../src/http/routes.ts'

/** A request as it goes over the wire. */
export interface Sent {
  readonly bytes: Buffer
  readonly method: string
  /** Its framing is broken on purpose: the server may wait for more, or say nothing. */
  readonly isBroken: boolean
}

/** What the server has, to be asked for by name now and then. */
export interface Known {
  /** By namespace. Each comes with the Worker's token. */
  readonly tokens: Readonly<Record<string, string>>
  readonly ids: readonly string[]
}

const routes = paths.flatMap(({ path, get, post }) => [
  ...(get === undefined ? [] : [{ method: 'GET', path }]),
  ...(post === undefined ? [] : [{ method: 'POST', path }]),
])

/** Parts of a path that somebody might try. Encoded as they go over the wire. */
const oddParts = [
  ...[
    '',
    '.',
    '..',
    '%2e%2e',
    '%2F',
    '%2f..%2f',
    '%00',
    '%0d%0aX-Injected:%201',
    '%',
    '%zz',
    '%ff',
    '%ed%a0%80',
    '*',
    '~',
  ],
  ...['__proto__', 'constructor', 'toString', 'hasOwnProperty', 'prototype', 'null', 'undefined', 'NaN', '-1', '0'],
  ...[
    "'%20OR%201=1--",
    '%22;DROP%20TABLE%20actions;--',
    '%F0%9F%92%A3',
    '%E2%80%AE',
    'a'.repeat(64),
    'a'.repeat(65),
    'a'.repeat(5_000),
  ],
  ...['$id', '{id}', ':id', '<script>', '%3Cscript%3E', 'orders;a=b', 'ORDERS', 'act_', 'item_', 'order_none'],
]
const nouns = ['orders', 'offers', 'customers', 'licenses', 'font-licenses', 'actions', 'inbox', 'events']
const verbs = [
  ...['place', 'say', 'keep', 'bake', 'smelt', 'edit', 'refund', 'remove', 'watch', 'price', 'issue', 'ring'],
  ...['publish', 'reprice', 'retire', 'register', 'cancel', 'transfer', 'retry', 'apply', 'dismiss', 'approve'],
]
const codes = ['forbidden', 'verb-threw', 'throttled']

/** Members of an input that fit somewhere, and values that fit nowhere. */
const members = [
  'total',
  'note',
  'offer',
  'seats',
  'reason',
  'price',
  'title',
  'email',
  'data',
  'then',
  'id',
  'lines',
  'steps',
  'input',
]
const oddMembers = [
  '__proto__',
  'constructor',
  'prototype',
  'toString',
  'then',
  'toJSON',
  '$id',
  '$version',
  '',
  ' ',
  '\u0000',
  'a.b',
  '0',
]
const values = fc.oneof(
  fc.constantFrom<unknown>(
    0,
    -0,
    1,
    4900,
    1.5,
    -1,
    null,
    true,
    '',
    'offer_serif_family',
    'late',
    'a@b.co',
    'refuse',
    'throw',
    '\u0000',
    '\u2028',
  ),
  fc.jsonValue(),
  fc.string({ unit: 'binary', maxLength: 40 }),
  fc.double(),
)

/** JSON that a careful writer would never send, each for one of the door's reasons (K3). */
const oddJson = [
  ...[
    '',
    ' ',
    '{',
    '}',
    '{}}',
    '[]',
    'null',
    'true',
    '"x"',
    '1',
    'NaN',
    '{"a":NaN}',
    '{a:1}',
    "{'a':1}",
    '{"a":1,}',
    '{"a":1,"a":1}',
    '{"a":1 "b":2}',
  ],
  ...[
    '{"total":1e300}',
    '{"total":1e999}',
    '{"total":9007199254740993}',
    '{"total":-0}',
    '{"total":01}',
    '{"total":0x1}',
    '{"total":1e-400}',
    '{"total":.5}',
  ],
  ...[
    '{"note":"\\ud800"}',
    '{"note":"\\udc00\\ud800"}',
    '{"note":"\\u0000"}',
    '{"note":"\\x41"}',
    '{"note":"a\nb"}',
    '{"note":"\u0000"}',
    '\ufeff{}',
  ],
  ...[
    '{"__proto__":{"polluted":1}}',
    '{"constructor":{"prototype":{"polluted":1}}}',
    '{"data":{"__proto__":{"polluted":1}}}',
  ],
  ...[
    `{"data":${'['.repeat(63)}${']'.repeat(63)}}`,
    `{"data":${'['.repeat(64)}${']'.repeat(64)}}`,
    '['.repeat(100_000),
    '{"a":'.repeat(50_000),
  ],
  ...[
    `{"note":"${'x'.repeat(200_000)}"}`,
    `{"data":[${'0,'.repeat(50_000)}0]}`,
    `{"total":${'9'.repeat(5_000)}}`,
    `{"total":0.${'1'.repeat(50_000)}}`,
  ],
]
const oddBytes = [
  'c328',
  'eda080',
  'fffe7b007d00',
  '7b22',
  '7b22c0af223a317d',
  '00',
  '7b7d00',
  'efbbbf7b7d',
  'f4908080',
  '1f8b0800',
].map((hex) => Buffer.from(hex, 'hex'))

const input = fc
  .array(
    fc.tuple(
      fc.oneof(
        { weight: 4, arbitrary: fc.constantFrom(...members) },
        { weight: 1, arbitrary: fc.constantFrom(...oddMembers) },
      ),
      values,
    ),
    { maxLength: 4 },
  )
  .map(
    (pairs) =>
      `{${pairs.map(([name, value]) => `${JSON.stringify(name)}:${JSON.stringify(value) ?? 'null'}`).join(',')}}`,
  )

const body: fc.Arbitrary<Buffer | null> = fc.oneof(
  { weight: 2, arbitrary: fc.constant(null) },
  {
    weight: 3,
    arbitrary: fc
      .constantFrom(
        '{}',
        '{"total":1}',
        '{"offer":"offer_serif_family"}',
        '{"note":"n"}',
        '{"reason":"late"}',
        '{"then":"throw"}',
      )
      .map((text) => Buffer.from(text)),
  },
  { weight: 4, arbitrary: input.map((text) => Buffer.from(text)) },
  { weight: 3, arbitrary: fc.constantFrom(...oddJson).map((text) => Buffer.from(text)) },
  { weight: 1, arbitrary: fc.constantFrom(...oddBytes) },
  { weight: 1, arbitrary: fc.uint8Array({ maxLength: 60 }).map((bytes) => Buffer.from(bytes)) },
)

/** A header's value as latin1, so that any byte can stand in it but those that end it. */
const anyValue = fc.uint8Array({ maxLength: 80 }).map((bytes) =>
  Buffer.from(bytes)
    .toString('latin1')
    .replaceAll(/[\r\n\0]/g, ' '),
)
const keys = fc.oneof(
  { weight: 5, arbitrary: fc.integer({ min: 0, max: 40 }).map((n) => `cart_${n}`) },
  {
    weight: 1,
    arbitrary: fc.constantFrom(
      '',
      ' ',
      '"quoted"',
      'a,b',
      'k'.repeat(255),
      'k'.repeat(256),
      '\xff',
      '\xc3\xa9',
      '__proto__',
      '%41',
      '\xed\xa0\x80',
    ),
  },
  { weight: 1, arbitrary: anyValue },
)
const valuesOf: Readonly<Record<string, readonly string[]>> = {
  'Content-Type': [
    'application/json',
    'application/json; charset=utf-8',
    'application/json;charset=latin1',
    'text/plain',
    'application/x-www-form-urlencoded',
    'multipart/form-data; boundary=x',
    '',
  ],
  'Content-Encoding': ['gzip', 'identity', 'br', ''],
  'Idempotency-Key-Encoded': ['cart_1', '%C3%A9', '%', '%ff', '%ed%a0%80', '%00', 'a+b', ''],
  'Record-Version': [
    '1',
    '3',
    '0',
    '-1',
    '1e3',
    'orders/x=1',
    'offers/offer_serif_family=1',
    'offers/offer_serif_family=9, offers/offer_serif_family=9',
    '__proto__/x=1',
    'orders/__proto__=1',
    '99999999999999999999',
    '',
  ],
  'Decided-After': ['cart_1', 'never', '%', '%00', ''],
  Prefer: [
    'respond-async',
    'wait=0',
    'wait=1',
    'respond-async, wait=0',
    'wait=-1',
    'wait=1e9',
    'wait="',
    'handling=lenient',
    ';;;',
    '',
  ],
  'If-Match': ['"1"', '*', ''],
  'If-None-Match': ['"1"', 'W/"1"', '*', '"', ''],
  'Last-Event-ID': ['0', '1', '-1', 'x', '99999999999999999999', ''],
  Accept: ['text/html', 'text/event-stream', 'application/json', '*/*', 'text/html;q=2', ',,,;q=', ''],
  Origin: ['https://glyphs.store', 'null', 'https://evil.test', ''],
  'Access-Control-Request-Method': ['POST', 'x', ''],
  'Access-Control-Request-Headers': ['authorization', 'x'.repeat(2_000), ''],
  traceparent: [
    '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01',
    '00-00000000000000000000000000000000-0000000000000000-00',
    'x',
    '',
  ],
  tracestate: ['a=b', '='.repeat(600), ''],
  'X-Forwarded-For': ['127.0.0.1', 'x', "'", '::1, 10.0.0.1'],
  'X-HTTP-Method-Override': ['DELETE'],
  Cookie: ['token=x', 'x'.repeat(3_000)],
  Expect: ['200-ok', ''],
  Host: ['', 'evil.test', '127.0.0.1:1', 'a b', '[::1'],
  Connection: ['close', 'keep-alive, Content-Length', 'Authorization', ''],
  Upgrade: ['websocket', 'h2c'],
  Range: ['bytes=0-1'],
  TE: ['trailers'],
}
const header: fc.Arbitrary<[string, string]> = fc
  .constantFrom(...Object.keys(valuesOf))
  .chain((name) =>
    fc
      .oneof({ weight: 3, arbitrary: fc.constantFrom(...(valuesOf[name] ?? [''])) }, { weight: 1, arbitrary: anyValue })
      .map((value): [string, string] => [name, value]),
  )

const queryValues = fc.oneof(
  fc.constantFrom(
    '',
    '1',
    '0',
    '-1',
    'x',
    '1001',
    '99999999999999999999',
    'do',
    'send',
    'try',
    'succeeded',
    'Order.place',
    'open',
    '2026-11-30',
    '%',
    '%ff',
    '%00',
    "'--",
    'a=b',
    '__proto__',
  ),
  fc.constantFrom('act_00000000000000000000000000', 'cart_1', 'eyJhIjoxfQ', 'AAAA', 'x'.repeat(3_000)),
  fc.string({ maxLength: 20 }).map(encodeURIComponent),
)
const query = fc
  .array(
    fc.tuple(
      fc.constantFrom(
        'mode',
        'limit',
        'after',
        'status',
        'verb',
        'worker',
        'key',
        'on',
        'from',
        'to',
        'email',
        'seats',
        'active',
        'total',
        'x',
        '__proto__',
        '',
        '%',
      ),
      queryValues,
    ),
    { maxLength: 3 },
  )
  .map((pairs) => (pairs.length === 0 ? '' : `?${pairs.map(([name, value]) => `${name}=${value}`).join('&')}`))

/** What is done to the bytes of a request that was whole. */
const damages = fc.record({
  at: fc.nat({ max: 2 ** 20 }),
  how: fc.constantFrom('flip', 'cut', 'insert', 'double', 'end'),
  length: fc.integer({ min: 1, max: 40 }),
  with: fc.uint8Array({ minLength: 1, maxLength: 8 }),
})

function damaged(
  bytes: Buffer,
  { at, how, length, with: put }: { at: number; how: string; length: number; with: Uint8Array },
): Buffer {
  const from = at % bytes.length
  const [before, after] = [bytes.subarray(0, from), bytes.subarray(from)]
  switch (how) {
    case 'flip':
      return Buffer.concat([before, Buffer.from([(bytes[from] ?? 0) ^ (put[0] ?? 1) || 1]), after.subarray(1)])
    case 'cut':
      return Buffer.concat([before, after.subarray(length)])
    case 'insert':
      return Buffer.concat([before, put, after])
    case 'double':
      return Buffer.concat([before, after.subarray(0, length), after])
    default:
      return Buffer.from(before)
  }
}

/** Calls that succeed as they are: what is done to them is then the only thing that can be wrong. */
const goodCalls: readonly (readonly [namespace: string, path: string, input: string])[] = [
  ['glyphs.store', 'orders/place', '{"offer":"offer_serif_family"}'],
  ['glyphs.store', 'orders/place', '{"offer":"offer_mono_family","seats":2,"card":"tok_declined"}'],
  ['glyphs.store', 'offers/publish', '{"title":"Sans","price":100,"currency":"EUR"}'],
  ['glyphs.store', 'offers/offer_serif_family/reprice', '{"price":5000}'],
  ['kiln.test', 'orders/place', '{"total":1,"note":"n"}'],
  ['kiln.test', 'orders/say', '{"a":[1,"two",{"three":null}]}'],
  ['kiln.test', 'orders/keep', '{"data":{"a":1}}'],
  ['kiln.test', 'orders/bake', '{"then":"throw"}'],
  ['kiln.test', 'orders/bake', '{"ms":5,"then":"refuse"}'],
  ['kiln.test', 'orders/smelt', '{}'],
  ['kiln.test', 'orders/ID/edit', '{"note":"m"}'],
  ['kiln.test', 'orders/ID/watch', '{"ms":1}'],
  ['kiln.test', 'orders/ID/refund', '{"reason":"late"}'],
  ['kiln.test', 'font-licenses/issue', '{"email":"a@b.co","family":"f","seats":1}'],
  ['kiln.test', 'actions/ID/retry', '{}'],
  ['kiln.test', 'actions/ID/cancel', '{}'],
  ['kiln.test', 'inbox/ID/apply', '{}'],
  ['kiln.test', 'inbox/ID/dismiss', '{}'],
]

/** What a request is put together from; null members are those of the request as it should be. */
interface Plan {
  readonly method: string
  readonly target: string
  readonly namespace: string
  readonly key: string | null
  readonly token: string | null
  readonly headers: readonly (readonly [string, string])[]
  readonly body: Buffer | null
  readonly isChunked: boolean
}

function written(
  { method, target, namespace, key, token, headers, body, isChunked }: Plan,
  tokens: Known['tokens'],
): Buffer {
  const lines = [...headers]
  const given = new Set(lines.map(([name]) => name))
  if (!given.has('Host')) lines.unshift(['Host', '127.0.0.1'])
  lines.push(['Authorization', token ?? `Bearer ${tokens[namespace] ?? Object.values(tokens)[0]}`])
  if (key !== null) lines.push(['Idempotency-Key', key])
  if (body !== null && !given.has('Content-Type')) lines.push(['Content-Type', 'application/json'])
  if (body !== null) lines.push(isChunked ? ['Transfer-Encoding', 'chunked'] : ['Content-Length', String(body.length)])
  const head = `${method} ${target} HTTP/1.1\r\n${lines.map(([name, value]) => `${name}: ${value}\r\n`).join('')}\r\n`
  const content = body === null ? Buffer.alloc(0) : isChunked ? inChunks(body) : body
  return Buffer.concat([Buffer.from(head, 'latin1'), content])
}

/** `of` in one case of `outOf`, else the value that changes nothing. */
function seldom<T, U>(of: fc.Arbitrary<T>, otherwise: U, outOf: number): fc.Arbitrary<T | U> {
  return fc.oneof({ weight: outOf - 1, arbitrary: fc.constant(otherwise) }, { weight: 1, arbitrary: of })
}

const oddTokens = fc.constantFrom('', 'Bearer', 'Bearer  x', 'Basic eDp5', 'bearer a b', 'Bearer \xff')
const oddMethods = fc.constantFrom(...METHODS.filter((method) => method !== 'CONNECT'))

/** Any route, with any parts in its path. */
function anywhere({ tokens, ids }: Known): fc.Arbitrary<Plan> {
  const odd = fc.constantFrom(...oddParts)
  const mostly = (good: readonly string[]) => seldomOdd(fc.constantFrom(...good), odd)
  const parts = fc.record({
    namespace: mostly(Object.keys(tokens)),
    nouns: mostly(nouns),
    id: mostly([...ids, ...verbs]),
    verb: mostly(verbs),
    code: mostly(codes),
  })
  return fc
    .record({
      route: fc.constantFrom(...routes),
      parts,
      other: seldom(oddMethods, null, 10),
      query: seldom(query, '', 2),
      key: fc.option(keys, { freq: 6 }),
      token: seldom(oddTokens, null, 60),
      headers: fc.array(header, { maxLength: 3 }),
      body,
      isChunked: fc.boolean(),
    })
    .map(({ route, parts, other, query, key, body, ...rest }) => {
      const target = route.path.replaceAll(/:(\w+)/g, (_, name: keyof typeof parts) => parts[name]) + query
      const isPost = route.method === 'POST'
      const { namespace } = parts
      return {
        method: other ?? route.method,
        target,
        namespace,
        key: isPost ? key : null,
        body: isPost ? body : null,
        ...rest,
      }
    })
}

function seldomOdd(good: fc.Arbitrary<string>, odd: fc.Arbitrary<string>): fc.Arbitrary<string> {
  return fc.oneof({ weight: 6, arbitrary: good }, { weight: 1, arbitrary: odd })
}

/** A call that would succeed, with a few things seldom done to it. */
function nearlyRight({ ids }: Known): fc.Arbitrary<Plan> {
  return fc
    .record({
      call: fc.constantFrom(...goodCalls),
      id: fc.constantFrom(...ids),
      query: seldom(fc.oneof(fc.constantFrom('?mode=try', '?mode=send', '?mode=do'), query), '', 5),
      key: fc.oneof(
        { weight: 12, arbitrary: fc.nat({ max: 2_000 }).map((n) => `order_${n}`) },
        { weight: 1, arbitrary: keys },
      ),
      headers: seldom(fc.array(header, { minLength: 1, maxLength: 2 }), [], 3),
      other: seldom(body, undefined, 4),
      isChunked: seldom(fc.constant(true), false, 4),
    })
    .map(({ call: [namespace, path, input], id, query, other, ...rest }) => ({
      method: 'POST',
      target: `/${namespace}/${path.replace('ID', id)}${query}`,
      namespace,
      token: null,
      body: other === undefined ? Buffer.from(input) : other,
      ...rest,
    }))
}

/** Any request to any route; half of them nearly right, so that they come far before they are found wrong. */
export function requests(known: Known): fc.Arbitrary<Sent> {
  return fc
    .record({ plan: fc.oneof(anywhere(known), nearlyRight(known)), damage: seldom(damages, null, 8) })
    .map(({ plan, damage }) => {
      const whole = written(plan, known.tokens)
      const bytes = damage === null ? whole : damaged(whole, damage)
      return { bytes, method: plan.method, isBroken: damage !== null }
    })
}

function inChunks(body: Buffer): Buffer {
  const half = body.subarray(0, Math.ceil(body.length / 2))
  const chunks = [half, body.subarray(half.length)].filter(({ length }) => length > 0)
  const framed = chunks.flatMap((chunk) => [
    Buffer.from(`${chunk.length.toString(16)}\r\n`),
    chunk,
    Buffer.from('\r\n'),
  ])
  return Buffer.concat([...framed, Buffer.from('0\r\n\r\n')])
}
