import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { rawMessage, rawRequest } from '../support/raw.ts'
import { root, startServer, type TestServer } from '../support/server.ts'
import { Description, type Document } from './described.ts'
import {
  caller,
  expectProblem,
  newKey,
  reply,
  type ActionView,
  type CallOptions,
  type Json,
  type Reply,
} from './wire.ts'

/** A Worker whose every answer is checked against the document of its namespace, and every request too. */
interface Checked {
  readonly description: Description
  post(path: string, input?: unknown, options?: CallOptions): Promise<Reply>
  action(path: string, input?: unknown, options?: CallOptions): Promise<ActionView>
  get(path: string, headers?: Record<string, string>): Promise<Reply>
}

let server: TestServer

async function checkedCaller(namespace: string, name: string, grants: readonly string[] = ['*']): Promise<Checked> {
  const by = caller(server, namespace, await server.token(name, grants, { namespace }))
  const description = new Description((await by.get('openapi.json')).json<Document>())
  const whole = (path: string) => (path.startsWith('/') ? path : `/${namespace}/${path}`.replace(/\/$/, ''))

  /** What is sent must be told as possible: each header and each member of the query. */
  function checkSent(method: string, path: string, sent: readonly string[]): void {
    const [plain = '', query = ''] = path.split('?')
    const operation = description.operation(method, description.template(method, plain))
    const known = description.parameters(operation)
    for (const name of new URLSearchParams(query).keys()) expect(known, path).toContain(`query ${name}`)
    for (const name of sent) expect(known, path).toContain(`header ${name}`)
  }

  const checked: Checked = {
    description,
    async post(path, input, options = {}) {
      const answer = await by.call(path, input, options)
      const keyed = options.key === null ? [] : ['idempotency-key']
      if (answer.status < 400) checkSent('post', whole(path), [...keyed, ...Object.keys(options.headers ?? {})])
      description.check('post', whole(path), answer)
      if (answer.status < 400)
        expect(description.takes('post', description.template('post', whole(path)), input ?? {})).toBe(true)
      return answer
    },
    async action(path, input, options) {
      const answer = await checked.post(path, input, options)
      expect([200, 202], answer.text).toContain(answer.status)
      return answer.json<ActionView>()
    },
    async get(path, headers = {}) {
      const authorization = { authorization: `Bearer ${by.token}` }
      const answer = await reply(await fetch(server.url + whole(path), { headers: { ...authorization, ...headers } }))
      if (answer.status < 400)
        checkSent(
          'get',
          whole(path),
          Object.keys(headers).filter((name) => name !== 'accept'),
        )
      description.check('get', whole(path).split('?')[0] ?? '', answer)
      return answer
    },
  }
  return checked
}

beforeAll(async () => {
  server = await startServer({ startup: join(root, 'test/startups/shapes.ts') })
})

describe('§3: what the kiln answers is what its document says', () => {
  let kiln: Checked
  let order: string

  beforeAll(async () => {
    kiln = await checkedCaller('kiln.test', 'described')
    order = `orders/${String((await kiln.action('orders/place', { total: 4 })).output?.['$id'])}`
  })

  const answers: Record<string, () => Promise<unknown>> = {
    'a call, its replay, and the pending one that is waited on': async () => {
      const key = newKey()
      expect((await kiln.post('orders/place', { note: 'a' }, { key })).header('idempotent-replayed')).toBeNull()
      expect((await kiln.post('orders/place', { note: 'a' }, { key })).header('idempotent-replayed')).toBe('true')
    },
    'Actions that fail and are refused': async () => {
      expect((await kiln.action('orders/bake', { then: 'throw' })).status).toBe('failed')
      expect((await kiln.action('orders/bake', { then: 'refuse' })).status).toBe('refused')
    },
    'send, and what is preferred': async () => {
      const sent = await kiln.post('orders/bake', { ms: 300 }, { mode: 'send' })
      expect([sent.status, sent.header('retry-after')]).toEqual([202, '1'])
      const { id } = sent.json<ActionView>()
      expect((await kiln.get(`actions/${id}`)).status).toBe(202)
      expect((await kiln.get(`actions/${id}?wait=20`)).status).toBe(200)
      const preferred = await kiln.post('orders/bake', { ms: 300 }, { headers: { prefer: 'respond-async, wait=0' } })
      expect(preferred.header('preference-applied')).not.toBeNull()
    },
    'dry runs': async () => {
      for (const then of ['succeed', 'throw', 'refuse'])
        expect((await kiln.post('orders/bake', { then }, { mode: 'try', key: null })).json()['mode']).toBe('try')
      expect((await kiln.post('orders/smelt', {}, { mode: 'try', key: null })).json()['incomplete']).toBe('melt#1')
      expect((await kiln.post(`${order}/edit`, { total: 9 }, { mode: 'try', key: null })).status).toBe(200)
    },
    'a stale decision, and one behind another': async () => {
      await kiln.action(`${order}/edit`, { total: 5 })
      const stale = await kiln.action(`${order}/edit`, { total: 6 }, { headers: { 'record-version': '1' } })
      expect(stale.fix?.code).toBe('stale-decision')
      const before = await kiln.action('orders/bake', { then: 'refuse' })
      const after = { 'decided-after': encodeURIComponent(before.idempotencyKey ?? '') }
      expect((await kiln.action('orders/place', {}, { headers: after })).fix?.code).toBe('predecessor-not-applied')
      const { data } = (await kiln.get('inbox?status=open&limit=1')).json<{ data: Json[] }>()
      expect((await kiln.get(`inbox/${String(data[0]?.['id'])}`)).status).toBe(200)
    },
    'deciding inbox items': async () => {
      const { item, shown } = await staleItem()
      expect((await kiln.action(`inbox/${item}/apply`, { input: { total: 7 } }, shown)).status).toBe('succeeded')
      expect((await kiln.get(`inbox/${item}`)).json()['decision']).toBe('apply')
      const smelted = await kiln.action('orders/smelt', {})
      const { data } = (await kiln.get('inbox?status=open&limit=1000')).json<{ data: Json[] }>()
      const failed = data.find(({ action }) => action === smelted.id)
      expect((await kiln.action(`inbox/${String(failed?.['id'])}/dismiss`, {})).verb).toBe('Inbox.dismiss')
    },
    'retry and cancel': async () => {
      const failed = await kiln.action('orders/bake', { then: 'throw' })
      expect((await kiln.action(`actions/${failed.id}/retry`)).on).toBe(failed.id)
      const pending = await kiln.action('orders/bake', { ms: 5_000 }, { mode: 'send' })
      expect((await kiln.action(`actions/${pending.id}/cancel`)).verb).toBe('Action.cancel')
      const smelted = await kiln.action('orders/smelt', {})
      const steps = { 'melt#1': { outcome: 7 } }
      expect((await kiln.action(`actions/${smelted.id}/retry`, { steps })).output).toEqual({ melted: 7 })
    },
    'records, and their Versions': async () => {
      await kiln.action('font-licenses/issue', { email: 'a@b.test', family: 'Serif', seats: 2 })
      for (const query of ['', '?seats=2&active=true', '?email=a%40b.test&limit=1'])
        expect((await kiln.get(`font-licenses${query}`)).status).toBe(200)
      expect((await kiln.get('orders?status=open&total=4')).status).toBe(200)
      const one = await kiln.get(order)
      expect((await kiln.get(order, { 'if-none-match': one.header('etag') ?? '' })).status).toBe(304)
      expect((await kiln.get(`${order}/versions?limit=1`)).status).toBe(200)
      const { output } = await kiln.action('orders/place', {})
      await kiln.action(`orders/${String(output?.['$id'])}/remove`, {})
      expectProblem(await kiln.get(`orders/${String(output?.['$id'])}`), 'record-not-found')
      expect((await kiln.action(`orders/${String(output?.['$id'])}/edit`, {})).fix?.code).toBe('record-deleted')
    },
    'lists of what happened': async () => {
      for (const path of [
        'actions?status=failed&verb=Order.bake&worker=described&limit=2',
        'actions?key=none',
        'actions?on=act_00000000000000000000000000',
        'events?after=0&limit=3',
        'usage?from=2020-01-01&to=9999-01-01',
        'inbox?limit=1',
      ])
        expect([path, (await kiln.get(path)).status]).toEqual([path, 200])
      expect((await kiln.get('events', { 'last-event-id': '1' })).status).toBe(200)
    },
    'what is told of the server, the Worker and the definition': async () => {
      for (const path of ['', 'openapi.json', '/me', '/healthz', '/readyz', '/errors'])
        expect([path, (await kiln.get(path)).status]).toEqual([path, 200])
      for (const code of ['idempotency-mismatch', 'verb-threw'])
        expect((await kiln.get(`/errors/${code}`)).status).toBe(200)
      for (const path of ['/errors', '/errors/throttled'])
        expect((await kiln.get(path, { accept: 'text/html' })).header('content-type')).toMatch(/^text\/html/)
      const etag = (await kiln.get('openapi.json')).header('etag') ?? ''
      for (const path of ['openapi.json']) expect((await kiln.get(path, { 'if-none-match': etag })).status).toBe(304)
    },
  }
  test.each(Object.entries(answers))('§3: %s', async (_, ask) => {
    await ask()
  })

  /** The item of a write that was refused as stale, and the Versions that it shows. */
  async function staleItem(): Promise<{ item: string; shown: CallOptions }> {
    const { output } = await kiln.action('orders/place', { total: 4 })
    const path = `orders/${String(output?.['$id'])}`
    await kiln.action(`${path}/edit`, { total: 5 })
    const stale = await kiln.action(`${path}/edit`, { total: 6 }, { headers: { 'record-version': '1' } })
    const { data } = (await kiln.get('inbox?status=open&limit=1000')).json<{ data: Json[] }>()
    const item = String(data.find(({ action }) => action === stale.id)?.['id'])
    return { item, shown: { headers: { 'record-version': '2' } } }
  }

  const call = (options: CallOptions) => kiln.post('orders/place', {}, options)
  const problems: Record<string, () => Promise<Reply>> = {
    'idempotency-key-required': () => call({ key: null }),
    'invalid-idempotency-key': () => call({ key: '' }),
    'invalid-mode': () => call({ mode: 'dry' }),
    'invalid-record-version': () => call({ headers: { 'record-version': 'three' } }),
    'use-record-version': () => call({ headers: { 'if-match': '"3"' } }),
    'invalid-decided-after': () => call({ headers: { 'decided-after': '%' } }),
    'body-too-large': () => call({ raw: ' '.repeat(1024 * 1024 + 1) }),
    'unsupported-media-type': () => call({ headers: { 'content-type': 'text/plain' } }),
    'invalid-json': () => call({ raw: '{' }),
    'unsafe-number': () => call({ raw: '{"total":1e300}' }),
    'input-too-deep': () => call({ raw: '{"a":'.repeat(65) + '1' + '}'.repeat(65) }),
    'input-not-object': () => call({ raw: '[]' }),
    'predecessor-unknown': () => call({ headers: { 'decided-after': 'never-sent' } }),
    'record-not-found': () => kiln.post('orders/order_none/edit', {}),
    'invalid-input': () => kiln.post('orders/place', { total: 'much', pirce: 1 }),
    'idempotency-mismatch': async () => {
      const { idempotencyKey } = await kiln.action('orders/place', { total: 1 })
      return kiln.post('orders/place', { total: 2 }, { key: idempotencyKey })
    },
    'not-retryable': async () => kiln.post(`actions/${(await kiln.action('orders/place', {})).id}/retry`),
    'already-retried': async () => {
      const { id } = await kiln.action('orders/bake', { then: 'throw' })
      await kiln.action(`actions/${id}/retry`)
      return kiln.post(`actions/${id}/retry`)
    },
    'outcome-required': async () => kiln.post(`actions/${(await kiln.action('orders/smelt', {})).id}/retry`),
    'not-cancellable': async () => kiln.post(`actions/${(await kiln.action('orders/place', {})).id}/cancel`),
    'action-not-found': () => kiln.get('actions/act_none'),
    'item-not-found': () => kiln.get('inbox/item_none'),
    'version-required': async () => kiln.post(`inbox/${(await staleItem()).item}/apply`, {}),
    'already-decided': async () => {
      const { item, shown } = await staleItem()
      await kiln.action(`inbox/${item}/dismiss`, {})
      return kiln.post(`inbox/${item}/apply`, {}, shown)
    },
    'invalid-cursor': () => kiln.get('orders?after=made-up'),
    'invalid-limit': () => kiln.get('events?limit=0'),
    'invalid-filter': () => kiln.get('orders?note=x'),
    'invalid-wait': () => kiln.get('actions/act_none?wait=soon'),
    'invalid-query': () => kiln.get('usage?nonsense=1'),
    'not-found': () => kiln.get('/errors/no-such-code'),
    internal: () => kiln.post('orders/weigh', { word: 'boom' }),
    forbidden: async () => {
      const nobody = await checkedCaller('kiln.test', 'granted-nothing', [])
      expectProblem(await nobody.get('orders'), 'forbidden')
      return nobody.post('orders/place', {})
    },
    throttled: async () => {
      const toll = await checkedCaller('toll.test', 'toll')
      for (let i = 0; i < 3; i++) await toll.action('orders/say', { any: i })
      return toll.post('orders/say', {})
    },
  }
  test.each(Object.entries(problems))('§11: %s', async (code, ask) => {
    expectProblem(await ask(), code as 'internal')
  })

  test('§11: no token, another namespace, and a request that cannot be read', async () => {
    const document = kiln.description
    const unauthorized = await reply(await fetch(`${server.url}/kiln.test/orders`))
    document.check('get', '/kiln.test/orders', unauthorized)
    const other = await server.token('abroad', ['*'], { namespace: 'forge.test' })
    document.check('get', '/kiln.test/usage', await caller(server, 'kiln.test', other).get('usage'))
    const message = rawMessage('GET', '/healthz', [['X-Long', 'x'.repeat(40_000)]])
    const { status, body, headers } = await rawRequest(server.url, message)
    const header = (name: string) => headers[name.toLowerCase()] ?? null
    document.check('get', '/healthz', { status, text: body, header, json: <Shape>() => JSON.parse(body) as Shape })
    expect(document.checked).toContain('get /healthz 431')
  })

  afterAll(() => {
    // What can be answered with success was, by every operation of the platform and every Verb that ran.
    const { paths } = kiln.description.document
    const unchecked = Object.entries(paths).flatMap(([path, methods]) =>
      Object.keys(methods)
        .map((method) => `${method} ${path}`)
        .filter((name) => !kiln.description.checked.has(`${name} 200`)),
    )
    expect(unchecked.filter((name) => !notAsked.has(name))).toEqual([])
  })
})

/** Verbs like those that are called. */
const notAsked = new Set([
  ...['say', 'keep', 'weigh', 'ring'].map((verb) => `post /kiln.test/orders/${verb}`),
  ...['refund', 'watch'].map((verb) => `post /kiln.test/orders/{id}/${verb}`),
  ...['post /kiln.test/offers/price', 'get /kiln.test/offers', 'get /kiln.test/offers/{id}'],
  ...['get /kiln.test/offers/{id}/versions', 'get /kiln.test/font-licenses/{id}'],
  ...['get /kiln.test/font-licenses/{id}/versions'],
])

describe('§3: schemas of every form hold for what is sent and for what comes back', () => {
  let shapes: Checked
  beforeAll(async () => {
    shapes = await checkedCaller('shapes.test', 'shaper')
  })

  const tree = { name: 'root', parts: [{ name: 'leaf', parts: [] }] }
  const from = { street: 'Kiln Lane' }
  const inputs: [path: string, input: Json, fits: boolean][] = [
    ['concerts/announce', { title: 'one' }, true],
    ['concerts/announce', { title: 'two', level: 3 }, true],
    ['concerts/announce', { title: 'three', level: null }, true],
    ['concerts/announce', { level: 3 }, false],
    ['concerts/announce', { title: 'four', level: 1.5 }, false],
    ['concerts/announce', { title: 'five', lvl: 1 }, false],
    ['orders/send', { from }, true],
    ['orders/send', { from, to: { street: 'Forge Lane', zip: '12345' }, tree }, true],
    ['orders/send', { from: { ...from, town: 'x' } }, false],
    ['orders/send', { from, tree: { name: 'root', parts: [{ nmae: 'leaf' }] } }, false],
    ['orders/placeItem', {}, true],
    ['orders/placeItem', { x: 1 }, false],
    ['order-places/item', {}, true],
    ['{order}/pay', { by: 'card', card: 'tok_ok' }, true],
    ['{order}/pay', { by: 'bank', iban: 'x' }, true],
    ['{order}/pay', { by: 'bank', card: 'x' }, false],
    ['{order}/pay', { by: 'card', card: 'x', iban: 'x' }, false],
    ['{order}/mark', { color: 'red' }, true],
    ['{order}/mark', { color: 'red', size: 2 }, true],
    ['{order}/mark', { size: 2 }, false],
    ['{order}/mark', { color: 'red', colour: 'red' }, false],
  ]

  test.each(inputs)('§3: %s takes %j: %s', async (path, input, fits) => {
    let place = path
    if (path.startsWith('{order}')) {
      await shapes.action('orders/send', { from })
      const { data } = (await shapes.get('orders?limit=1')).json<{ data: { $id: string }[] }>()
      place = path.replace('{order}', `orders/${data[0]?.$id}`)
    }
    const template = shapes.description.template('post', `/shapes.test/${place}`)
    // What the document takes is what the door takes.
    expect(shapes.description.takes('post', template, input)).toBe(fits)
    const answer = await shapes.post(place, input)
    if (!fits) expectProblem(answer, 'invalid-input')
    else expect(answer.json(), answer.text).toMatchObject({ status: 'succeeded' })
  })

  test('§3: records with nested schemas, found by fields that may be null', async () => {
    for (const path of ['concerts?level=3&open=true', 'orders', 'order-places', 'events', 'actions', ''])
      expect((await shapes.get(path)).status).toBe(200)
  })
})
