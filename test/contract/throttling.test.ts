import { setTimeout as sleep } from 'node:timers/promises'
import { join } from 'node:path'
import { beforeAll, describe, expect, test } from 'vitest'
import { failedTokensBurst } from '../../src/model/limits.ts'
import { rawMessage, rawRequest } from '../support/raw.ts'
import { root, startServer } from '../support/server.ts'
import type { TestServer } from '../support/server.ts'
import { caller, eventually, expectProblem, newKey, reply, stores } from './wire.ts'
import type { Caller, CallOptions, Json, Reply } from './wire.ts'

const definition = join(root, 'test/startups/gate.ts')

/** `"calls";r=2;t=1, "Order.ring";r=0` → `{ calls: { r: 2, t: 1 }, 'Order.ring': { r: 0 } }` */
function members(field: string | null): Record<string, Record<string, number>> {
  expect(field).toMatch(/^"[\w.]+"(;[a-z]=\d+)+(, "[\w.]+"(;[a-z]=\d+)+)*$/)
  return Object.fromEntries(
    (field ?? '').split(', ').map((member) => {
      const [name = '', ...parameters] = member.split(';')
      const pairs = parameters.map((one) => one.split('='))
      return [name.slice(1, -1), Object.fromEntries(pairs.map(([key = '', value]) => [key, Number(value)]))]
    }),
  )
}

const left = (answer: Reply) => members(answer.header('ratelimit'))
const policy = (answer: Reply) => members(answer.header('ratelimit-policy'))

describe.each(stores)('throttling, over %s', () => {
  let server: TestServer
  let names = 0
  const worker = async (namespace: string, ...args: string[]): Promise<Caller & { readonly name: string }> => {
    const name = `w${names++}`
    const ran = await server.cli(
      'worker',
      'add',
      name,
      '--kind',
      'app',
      '--grant',
      '*',
      '--namespace',
      namespace,
      ...args,
    )
    expect(ran.stderr).toBe('')
    const { token } = JSON.parse(ran.stdout) as { token: string }
    // The address of the server changes when it starts again.
    const calls = () => caller(server, namespace, token)
    return { ...calls(), name, call: (...of) => calls().call(...of), get: (...of) => calls().get(...of) }
  }
  const me = async ({ token }: Caller): Promise<Reply> =>
    reply(await fetch(`${server.url}/me`, { headers: { authorization: `Bearer ${token}` } }))
  const limit = async (name: string, namespace: string, ...args: string[]) => {
    const ran = await server.cli('worker', 'limit', name, '--namespace', namespace, ...args)
    expect(ran.stderr).toBe('')
    return JSON.parse(ran.stdout) as Json
  }

  beforeAll(async () => {
    server = await startServer({ startup: definition })
  })

  test('§10: whatever was counted tells what is left with its answer, and nothing else is counted', async () => {
    const wide = await worker('wide.test')
    const key = newKey()
    const call = (path = 'orders/place', input: unknown = {}, options: CallOptions = {}) =>
      wide.call(path, input, options)
    const counted: [string, number, () => Promise<Reply>][] = [
      ['a first call', 200, () => call('orders/place', {}, { key })],
      ['a replay', 200, () => call('orders/place', {}, { key })],
      ['a mismatch', 409, () => call('orders/place', { note: 'x' }, { key })],
      ['a try', 200, () => call('orders/place', {}, { key: null, mode: 'try' })],
      ['send', 202, () => call('orders/place', {}, { mode: 'send' })],
      ['a body that is too large', 413, () => call('orders/place', {}, { raw: ' '.repeat(1024 * 1024 + 1) })],
      ['no JSON', 400, () => call('orders/place', {}, { raw: '{' })],
      ['another content type', 415, () => call('orders/place', {}, { headers: { 'content-type': 'text/plain' } })],
      ['no such operation', 404, () => call('orders/fly')],
      ['an input that does not fit', 400, () => call('orders/place', { pirce: 1 })],
      ['a retry of nothing', 404, () => call('actions/act_none/retry')],
    ]
    let calls = 1000
    for (const [what, status, ask] of counted) {
      const answer = await ask()
      expect([what, answer.status, left(answer)]).toEqual([
        what,
        status,
        { calls: { r: --calls, t: expect.any(Number) } },
      ])
      expect(policy(answer)).toEqual({ calls: { q: 1000, w: 1_000_000 } })
    }
    const etag = (await wide.get()).header('etag') ?? ''
    let reads = 999
    for (const [what, status, ask] of [
      ['a list', 200, () => wide.get('orders')],
      ['a record that is not there', 404, () => wide.get('orders/order_none')],
      ['what the client has', 304, () => wide.get(undefined, { 'if-none-match': etag })],
      ['a bad cursor', 400, () => wide.get('orders?after=x')],
      ['/me', 200, () => me(wide)],
    ] as const) {
      const answer = await ask()
      expect([what, answer.status, left(answer)]).toEqual([
        what,
        status,
        { reads: { r: --reads, t: expect.any(Number) } },
      ])
      expect(policy(answer)).toEqual({ reads: { q: 1000, w: 1_000_000 } })
    }
    for (const [what, status, ask] of [
      ['a bad key', 400, () => call('orders/place', {}, { key: '' })],
      ['a bad Mode', 400, () => call('orders/place', {}, { mode: 'dry' })],
      ['no such path', 404, () => call('orders/a/b/c')],
      ['another namespace', 403, () => caller(server, 'gate.test', wide.token).call('orders/place', {})],
      ['an error page', 200, async () => reply(await fetch(`${server.url}/errors/throttled`))],
    ] as const) {
      const answer = await ask()
      expect([what, answer.status, answer.header('ratelimit')]).toEqual([what, status, null])
    }
    expect(left(await call())).toEqual({ calls: { r: --calls, t: expect.any(Number) } })
  })

  test('§10: where there is no limit nothing is told, and a Verb of its own has one alone', async () => {
    const open = await worker('open.test')
    for (const answer of [await open.call('orders/place', {}), await open.get('orders'), await me(open)])
      expect([answer.status, answer.header('ratelimit'), answer.header('ratelimit-policy')]).toEqual([200, null, null])
    const bell = await worker('bell.test')
    expect((await bell.call('orders/place', {})).header('ratelimit')).toBeNull()
    expect(left(await bell.call('orders/ring', {}))).toEqual({ 'Order.ring': { r: 0, t: 1000 } })
    expectProblem(await bell.call('orders/ring', {}), 'throttled')
    expect((await bell.get('orders')).header('ratelimit')).toBeNull()
    expect((await me(bell)).json()['limits']).toEqual({
      calls: null,
      reads: null,
      verbs: { 'Order.ring': { rate: 0.001, burst: 1 } },
    })
  })

  test('§10: the bucket of the Worker and that of the Verb both count a call, or neither does', async () => {
    const gate = await worker('gate.test')
    const rung = await gate.call('orders/ring', {})
    expect(left(rung)).toEqual({ calls: { r: 2, t: 1000 }, 'Order.ring': { r: 0, t: 500 } })
    expect(policy(rung)).toEqual({ calls: { q: 3, w: 3000 }, 'Order.ring': { q: 1, w: 500 } })
    for (let i = 0; i < 3; i++) {
      const again = await gate.call('orders/ring', {})
      expect(expectProblem(again, 'throttled')).toMatchObject({ retryAfter: expect.any(Number) })
      // `t` is only where `Retry-After` is not the earlier one of the two.
      expect(left(again)).toEqual({ calls: { r: 2 }, 'Order.ring': { r: 0, t: Number(again.header('retry-after')) } })
      expect(policy(again)).toEqual(policy(rung))
    }
    expect((await gate.call('orders/place', {})).status).toBe(200)
    expect((await gate.call('orders/place', {})).status).toBe(200)
    const over = await gate.call('orders/place', {})
    expectProblem(over, 'throttled')
    expect(left(over)).toEqual({ calls: { r: 0, t: Number(over.header('retry-after')) } })
    // What waits for both waits for the one that takes longer.
    const both = await gate.call('orders/ring', {})
    expect(Number(both.header('retry-after'))).toBe(Math.max(...Object.values(left(both)).map(({ t = 0 }) => t)))
    // Reads have tokens of their own, and each Worker has.
    expect((await gate.get('orders')).status).toBe(200)
    expect(left(await (await worker('gate.test')).call('orders/place', {}))).toMatchObject({ calls: { r: 2 } })
  })

  test('§10: of many calls at once as many get in as may, replays of one key among them', async () => {
    const gate = await worker('gate.test')
    const key = newKey()
    const all = await Promise.all(Array.from({ length: 40 }, () => gate.call('orders/place', {}, { key })))
    const inside = all.filter(({ status }) => status === 200)
    expect([inside.length, all.filter(({ status }) => status === 429).length]).toEqual([3, 37])
    expect(new Set(inside.map((answer) => answer.json()['id'])).size).toBe(1)
    expect(inside.map((answer) => left(answer)['calls']?.['r']).sort()).toEqual([0, 1, 2])
  })

  test('§10: a call that is turned away is not on record, and a start forgets what was counted', async () => {
    const gate = await worker('gate.test')
    for (let i = 0; i < 3; i++) await gate.call('orders/place', {})
    const key = newKey()
    expectProblem(await gate.call('orders/place', {}, { key }), 'throttled')
    expect((await gate.get(`actions?key=${key}`)).json()['data']).toEqual([])
    await server.stop()
    await server.start()
    const first = await gate.call('orders/place', {}, { key })
    expect([first.status, first.header('idempotent-replayed')]).toEqual([200, null])
    expect(left(first)).toMatchObject({ calls: { r: 2 } })
  })

  test('§10: a limit for one Worker takes the place of the definition’s, and the server obeys at its next call (V4)', async () => {
    const slow = await worker('open.test', '--rate', '0.01', '--burst', '2')
    expect((await me(slow)).json()['limits']).toEqual({
      calls: { rate: 0.01, burst: 2 },
      reads: { rate: 0.01, burst: 2 },
      verbs: {},
    })
    expect(policy(await slow.call('orders/place', {}))).toEqual({ calls: { q: 2, w: 200 } })
    expect((await slow.call('orders/place', {})).status).toBe(200)
    expectProblem(await slow.call('orders/place', {}), 'throttled')
    expect(await limit(slow.name, 'open.test', '--rate', '50', '--burst', '1000')).toMatchObject({
      name: slow.name,
      throttle: { rate: 50, burst: 1000 },
    })
    expect((await slow.call('orders/place', {})).status).toBe(200)
    await limit(slow.name, 'open.test', '--none')
    expect((await slow.call('orders/place', {})).header('ratelimit')).toBeNull()

    const gate = await worker('gate.test', '--rate', '100', '--burst', '500')
    for (let i = 0; i < 5; i++) expect((await gate.call('orders/place', {})).status).toBe(200)
    // A Verb's own limit is for each Worker all the same.
    expect((await gate.call('orders/ring', {})).status).toBe(200)
    expect(expectProblem(await gate.call('orders/ring', {}), 'throttled')['detail']).toContain('Order.ring')
    await limit(gate.name, 'gate.test', '--none')
    expect(policy(await gate.call('orders/place', {}))).toEqual({ calls: { q: 3, w: 3000 } })
    const listed = await server.cli('worker', 'list', '--namespace', 'gate.test')
    expect((JSON.parse(listed.stdout) as { data: Json[] }).data.find(({ name }) => name === gate.name)).toMatchObject({
      throttle: null,
    })
  })

  test.each([
    ['seldom.test', 1, { q: 1, w: 4 }],
    ['brisk.test', 2, { q: 7, w: 1 }],
  ])('§10: a single client of %s that waits as told gets in, each time', async (namespace, rounds, pace) => {
    const one = await worker(namespace)
    let last = await one.call('orders/place', {})
    expect(policy(last)).toEqual({ calls: pace })
    for (let i = 0; i < rounds; i++) {
      const key = newKey()
      // As a client does that has nothing else to go by.
      while (last.status === 200) last = await one.call('orders/place', {}, { key })
      expectProblem(last, 'throttled')
      await sleep(Number(last.header('retry-after')) * 1000)
      last = await one.call('orders/place', {}, { key })
      expect(last.status).toBe(200)
    }
  })
})

describe('§10: failed tokens, by address', () => {
  const bearer = (token: string) => ['Authorization', `Bearer ${token}`] as const
  const ask = (url: string, token: string, forwarded?: string) =>
    rawRequest(
      url,
      rawMessage('GET', '/me', [
        bearer(token),
        ...(forwarded === undefined ? [] : [['X-Forwarded-For', forwarded] as const]),
      ]),
    )
  /** Statuses of so many tokens that nobody has. */
  const guess = async (url: string, count: number, forwarded?: string): Promise<number[]> => {
    const statuses: number[] = []
    for (let i = 0; i < count; i++) statuses.push((await ask(url, `guess-${i}`, forwarded)).status)
    return statuses
  }

  test('§10: past the limit a failed token is 429 and a good one goes on; nobody says where he comes from', async () => {
    const server = await startServer({ startup: definition })
    const token = await server.token('good', ['*'], { namespace: 'open.test' })
    // An untrusted peer can't pass for many.
    const statuses: number[] = []
    for (let i = 0; i < failedTokensBurst; i++)
      statuses.push((await ask(server.url, `guess-${i}`, `203.0.113.${i}`)).status)
    expect(new Set(statuses)).toEqual(new Set([401]))
    await eventually(async () => expectProblem(await ask(server.url, 'one-more'), 'throttled'))
    const over = await ask(server.url, 'and-more')
    expectProblem(over, 'throttled')
    expect(over.headers['retry-after']).toMatch(/^[1-9]\d*$/)
    // A call with its body, too, and before its headers are looked at (R2).
    const call = rawMessage('POST', '/open.test/orders/place', [bearer('guess'), ['Idempotency-Key', '']], '{}')
    expectProblem(await rawRequest(server.url, call), 'throttled')
    // Without a token nothing is guessed.
    expectProblem(await rawRequest(server.url, rawMessage('GET', '/me', [])), 'unauthorized')
    for (let i = 0; i < 3; i++) expect((await ask(server.url, token)).status).toBe(200)
    expect((await caller(server, 'open.test', token).call('orders/place', {})).status).toBe(200)
    // And whoever waits as told is told the truth again.
    await sleep(Number(over.headers['retry-after']) * 1000)
    expectProblem(await ask(server.url, 'guess-again'), 'unauthorized')
    await server.stop()
  })

  test('§10: behind trusted proxies it is the address that they tell of; IPv6 counts by its network', async () => {
    const args = ['--trusted-proxy', '127.0.0.0/8', '--trusted-proxy', '2001:db8:ffff::/48']
    const server = await startServer({ startup: definition, args })
    const many = failedTokensBurst
    expect(new Set(await guess(server.url, many, '203.0.113.7'))).toEqual(new Set([401]))
    await eventually(async () => expectProblem(await ask(server.url, 'x', '203.0.113.7'), 'throttled'))
    // In any form, and whatever its client wrote before the proxy added to it.
    expectProblem(await ask(server.url, 'x', '::ffff:203.0.113.7'), 'throttled')
    expectProblem(await ask(server.url, 'x', '198.51.100.1, 203.0.113.7'), 'throttled')
    expectProblem(await ask(server.url, 'x', '203.0.113.7, 2001:db8:ffff::9'), 'throttled')
    expectProblem(await ask(server.url, 'x', '203.0.113.8'), 'unauthorized')
    expect(new Set(await guess(server.url, many, '2001:db8:0:1::1'))).toEqual(new Set([401]))
    await eventually(async () => expectProblem(await ask(server.url, 'x', '2001:db8:0:1:ffff::2'), 'throttled'))
    expectProblem(await ask(server.url, 'x', '2001:db8:0:2::1'), 'unauthorized')
    for (const odd of ['', 'unknown', '\xff', ',,,', '203.0.113.9:80', '9'.repeat(9000)])
      expect([odd.slice(0, 20), (await ask(server.url, 'x', odd)).status]).toEqual([odd.slice(0, 20), 401])
    await server.stop()
  })
})
