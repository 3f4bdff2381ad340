import { beforeAll, describe, expect, test } from 'vitest'
import { outcomes, problems } from '../../src/model/problem.ts'
import type { ProblemCode } from '../../src/model/problem.ts'
import { rawMessage, rawRequest } from '../support/raw.ts'
import type { RawResponse } from '../support/raw.ts'
import type { TestServer } from '../support/server.ts'
import { caller, eventually, expectProblem, newKey, reply, startKiln, stores } from './wire.ts'
import type { Caller, Json, Reply } from './wire.ts'

/** Codes that deciding inbox items will give (W4). */
type Later = 'already-decided' | 'version-required'
/** Codes whose cause is a fault of the surroundings: each has a test and a server of its own in r-faults.test.ts. */
type OfFaults = 'store-unavailable' | 'shutting-down' | 'request-timeout'
/** What `dev` alone gives: test/cli/dev.test.ts. */
type OfDev = 'no-definition'
/** What takes many streams: e1-stream-load.test.ts. */
type OfStreams = 'too-many-streams'
/** What takes a test of its own, below. */
type OfTime = 'busy'

const sleep = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms))

describe.each(stores)('errors, over %s', (store) => {
  let server: TestServer
  let kiln: Caller

  beforeAll(async () => {
    server = await startKiln(store)
    kiln = caller(server, 'kiln.test', await server.token('erring', ['*'], { namespace: 'kiln.test' }))
  })

  const raw = (bytes: string | Uint8Array) => rawRequest(server.url, bytes)
  const place = (headers: Record<string, string>, options = {}) =>
    kiln.call('orders/place', {}, { headers, ...options })
  const failed = (path = 'orders/bake', input: Json = { then: 'throw' }) => kiln.action(path, input)

  /** One way to each code of the door, in the order of the registry: a code without one does not compile. */
  const provoke: Record<
    Exclude<ProblemCode, Later | OfFaults | OfDev | OfStreams | OfTime>,
    () => Promise<Reply | RawResponse>
  > = {
    'not-found': () => kiln.get('orders/a/b/c'),
    'method-not-allowed': () => raw(rawMessage('DELETE', '/kiln.test/orders/order_1')),
    unauthorized: () => caller(server, 'kiln.test', 'nonsense').get(),
    'wrong-namespace': () => caller(server, 'forge.test', kiln.token).get(),
    'idempotency-key-required': () => place({}, { key: null }),
    'invalid-idempotency-key': () => place({}, { key: '' }),
    'invalid-mode': () => place({}, { mode: 'dry' }),
    'invalid-record-version': () => place({ 'record-version': 'three' }),
    'use-record-version': () => place({ 'if-match': '"3"' }),
    'invalid-decided-after': () => place({ 'decided-after': '%' }),
    throttled: async () => {
      const toll = caller(server, 'toll.test', await server.token('toll', ['*'], { namespace: 'toll.test' }))
      for (let i = 0; i < 3; i++) await toll.action('orders/say', {})
      return toll.call('orders/say', {})
    },
    'body-too-large': () => place({}, { raw: ' '.repeat(1024 * 1024 + 1) }),
    'unsupported-media-type': () => place({ 'content-type': 'text/plain' }),
    'invalid-json': () => place({}, { raw: '{' }),
    'unsafe-number': () => place({}, { raw: '{"total":1e300}' }),
    'input-too-deep': () => place({}, { raw: '{"a":'.repeat(65) + '1' + '}'.repeat(65) }),
    'input-not-object': () => place({}, { raw: '[]' }),
    'malformed-request': () => raw('NONSENSE\r\n\r\n'),
    'headers-too-large': () => raw(rawMessage('GET', '/healthz', [['X-Long', 'x'.repeat(40_000)]])),
    'operation-not-found': () => kiln.call('orders/vanish', {}),
    forbidden: async () => {
      const token = await server.token('granted-nothing', [], { namespace: 'kiln.test' })
      return caller(server, 'kiln.test', token).call('orders/place', {})
    },
    'record-not-found': () => kiln.call('orders/order_none/edit', {}),
    'invalid-input': () => kiln.call('orders/place', { total: 'much' }),
    'idempotency-mismatch': async () => {
      const { idempotencyKey } = await kiln.action('orders/place', { total: 1 })
      return kiln.call('orders/place', { total: 2 }, { key: idempotencyKey })
    },
    'predecessor-unknown': () => place({ 'decided-after': 'never-sent' }),
    'not-retryable': async () => kiln.call(`actions/${(await failed('orders/place', {})).id}/retry`),
    'already-retried': async () => {
      const { id } = await failed()
      await kiln.action(`actions/${id}/retry`)
      return kiln.call(`actions/${id}/retry`)
    },
    'outcome-required': async () => kiln.call(`actions/${(await failed('orders/smelt', {})).id}/retry`),
    'not-cancellable': async () => kiln.call(`actions/${(await failed()).id}/cancel`),
    'action-not-found': () => kiln.get('actions/act_none'),
    'item-not-found': () => kiln.get('inbox/item_none'),
    'invalid-cursor': () => kiln.get('orders?after=made-up'),
    'invalid-limit': () => kiln.get('orders?limit=0'),
    'invalid-filter': () => kiln.get('orders?note=x'),
    'invalid-wait': () => kiln.get('actions/act_none?wait=soon'),
    'invalid-query': () => kiln.get('events?nonsense=1'),
    internal: () => kiln.call('orders/weigh', { word: 'boom' }),
  }

  test.each(Object.entries(provoke))(
    '§11: %s is a problem of RFC 9457, and tells nothing of the inside',
    async (code, ask) => {
      const answer = await ask()
      const told = expectProblem(answer, code as ProblemCode)
      if (told['retryable'] === true) return
      // Where the same request fails again, nobody is told to come back.
      const retryAfter = 'header' in answer ? answer.header('retry-after') : answer.headers['retry-after']
      expect(retryAfter ?? null).toBeNull()
    },
  )

  test('T1: a try whose reads change faster than it can run is 503 busy, and may come again', async () => {
    const { output } = await kiln.action('orders/place', {})
    const order = `orders/${String(output?.['$id'])}`
    let isOver = false
    const write = async () => {
      for (let total = 0; !isOver; total++) await kiln.action(`${order}/edit`, { total })
    }
    const writing = Promise.all([write(), write(), write()])
    const dryRun = () => kiln.call(`${order}/watch`, { ms: 80 }, { key: null, mode: 'try' })
    let answer = await dryRun()
    // A stall of the disk can be long enough for one look at an Order that does not change.
    for (let i = 0; i < 4 && answer.status === 200; i++) answer = await dryRun()
    isOver = true
    await writing
    expectProblem(answer, 'busy')
    expect(answer.header('retry-after')).toMatch(/^\d+$/)
    expect((await dryRun()).json()).toMatchObject({ mode: 'try', status: 'succeeded' })
  })

  test('R1: after 500 internal the same key runs, for nothing was recorded', async () => {
    const key = newKey()
    const told = expectProblem(await kiln.call('orders/weigh', { word: 'boom' }, { key }), 'internal')
    expect(await kiln.recorded(key)).toEqual([])
    const again = await kiln.call('orders/weigh', { word: 'fine' }, { key })
    expect([again.header('idempotent-replayed'), again.json()['output']]).toEqual([null, { weight: 4 }])
    await eventually(async () => expect(JSON.stringify(server.logs)).toContain('the scales at /srv/secret broke'))
    expect(server.logs.some(({ requestId, level }) => requestId === told['requestId'] && level === 'error')).toBe(true)
  })

  test('§10: durable calls, replays and try count, reads have a bucket of their own', async () => {
    const toll = caller(server, 'toll.test', await server.token('payer', ['*'], { namespace: 'toll.test' }))
    const key = newKey()
    await toll.action('orders/say', {}, { key })
    await toll.action('orders/say', {}, { key })
    expect((await toll.call('orders/say', {}, { key: null, mode: 'try' })).status).toBe(200)
    const answer = await toll.call('orders/say', {}, { key })
    expectProblem(answer, 'throttled')
    expect(answer.header('retry-after')).toMatch(/^([1-9]|10)$/) // one call in ten seconds
    expect(answer.header('ratelimit')).toMatch(/\br=0\b/)
    expect(answer.header('ratelimit-policy')).toMatch(/\bq=3\b/)
    expectProblem(await toll.call('orders/say', {}, { key: null, mode: 'try' }), 'throttled')
    for (let i = 0; i < 3; i++) expect((await toll.get('orders')).status).toBe(200)
    expectProblem(await toll.get('orders'), 'throttled')
  })

  test("§10: a Verb's own limit is for it alone, and a call that it turns away counts nowhere", async () => {
    const toll = caller(server, 'toll.test', await server.token('ringer', ['*'], { namespace: 'toll.test' }))
    const ring = toll.call('orders/ring', {})
    expect((await ring).status).toBe(200)
    expect(expectProblem(await toll.call('orders/ring', {}), 'throttled')['detail']).toContain('Order.ring')
    // Of the three calls that this namespace lets in, the second ring was none.
    for (let i = 0; i < 2; i++) expect((await toll.call('orders/place', {})).status).toBe(200)
    expectProblem(await toll.call('orders/place', {}), 'throttled')
  })

  test('§10: a client that waits as it was told gets in, with the same key, and each Worker has a bucket of its own', async () => {
    const ringer = caller(server, 'kiln.test', await server.token('ringer', ['*'], { namespace: 'kiln.test' }))
    await ringer.action('orders/ring', {})
    const key = newKey()
    const answer = await ringer.call('orders/ring', {}, { key })
    expectProblem(answer, 'throttled')
    const seconds = answer.header('retry-after') ?? ''
    expect(seconds).toMatch(/^[12]$/) // one call in two seconds
    expect((await ringer.call('orders/place', {})).status).toBe(200)
    expect((await kiln.call('orders/ring', {})).status).toBe(200)
    await sleep(Number(seconds) * 1000)
    const again = await ringer.call('orders/ring', {}, { key })
    expect([again.status, again.header('idempotent-replayed')]).toEqual([200, null])
  })

  test('§11: what is no HTTP at all is told so as a problem, and the connection ends', async () => {
    for (const bytes of [
      'NONSENSE\r\n\r\n',
      'GET / HTTP/9.9\r\nHost: x\r\n\r\n',
      'GET /healthz HTTP/1.1\r\n\r\n', // no Host
      'POST /kiln.test/orders/place HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}',
      'POST /kiln.test/orders/place HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n{}',
      'POST /kiln.test/orders/place HTTP/1.1\r\nHost: x\r\nContent-Length: -2\r\n\r\n{}',
      'GET /healthz HTTP/1.1\r\nHost: x\r\nX: a\0b\r\n\r\n',
      'GET /heal thz HTTP/1.1\r\nHost: x\r\n\r\n',
    ]) {
      expectProblem(await raw(bytes), 'malformed-request')
    }
    const key = newKey()
    const chunked = [
      ['Transfer-Encoding', 'chunked'],
      ['Idempotency-Key', key],
    ] as const
    expectProblem(await kiln.raw('orders/place', chunked, '2\r\n{}\r\nzz\r\n\r\n'), 'malformed-request')
    expect(await kiln.recorded(key)).toEqual([])
  })

  test('§3: each code has a page: HTML for browsers, a problem in JSON otherwise', async () => {
    const browser = { accept: 'text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8' }
    for (const code of [...Object.keys(problems), ...Object.keys(outcomes)]) {
      const page = await reply(await fetch(`${server.url}/errors/${code}`, { headers: browser }))
      expect([page.status, page.header('content-type')], code).toEqual([200, 'text/html; charset=utf-8'])
      expect(page.text).toContain(`<code>${code}</code>`)
      expect(page.text).not.toMatch(/<script|undefined|\[object/)
      const headings = page.text.match(/<h2>[^<]+/g) ?? []
      expect(headings.length).toBeGreaterThanOrEqual(3) // what it means, whether and when to retry, how to mend it
      for (const accept of [
        '*/*',
        'application/json',
        'application/problem+json',
        'text/html;q=0.1, application/json',
      ]) {
        const plain = await reply(await fetch(`${server.url}/errors/${code}`, { headers: { accept } }))
        expect([plain.status, plain.header('content-type')?.split(';')[0]]).toEqual([200, 'application/problem+json'])
        expect(plain.json()).toMatchObject({
          code,
          type: `${server.url}/errors/${code}`,
          title: expect.stringMatching(/\S/),
        })
      }
    }
    for (const wrong of ['nonsense', 'toString', '__proto__', 'constructor', '%3Cscript%3E']) {
      const answer = await reply(await fetch(`${server.url}/errors/${wrong}`, { headers: browser }))
      expectProblem(answer, 'not-found')
      expect(answer.text).not.toContain('<script>')
    }
    const index = await reply(await fetch(`${server.url}/errors`, { headers: browser }))
    for (const code of Object.keys(problems)) expect(index.text).toContain(`/errors/${code}"`)
  })

  test("§11: a problem's type leads to the page of its code", async () => {
    const { type, code, title } = expectProblem(await kiln.call('orders/vanish', {}), 'operation-not-found')
    const page = await reply(await fetch(String(type)))
    expect(page.json()).toMatchObject({ type, code, title })
  })
})
