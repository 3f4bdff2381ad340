import { beforeAll, describe, expect, test } from 'vitest'
import { connectRaw, rawMessage } from '../support/raw.ts'
import type { TestServer } from '../support/server.ts'
import { caller, expectProblem, kilnSource, newKey, startKiln, stores } from './wire.ts'
import type { Caller, Page } from './wire.ts'

describe.each(stores)('what is on record, over %s', (store) => {
  let server: TestServer
  let kiln: Caller
  let clerk: Caller

  beforeAll(async () => {
    server = await startKiln(store)
    kiln = caller(server, 'kiln.test', await server.token('door', ['*'], { namespace: 'kiln.test' }))
    const grants = ['Order.place', 'Order.edit']
    clerk = caller(server, 'kiln.test', await server.token('clerk', grants, { namespace: 'kiln.test' }))
  })

  const bearer = (token: string): [string, string] => ['Authorization', `Bearer ${token}`]
  const type: [string, string] = ['Content-Type', 'application/json']

  test('R1: whatever the door turns away puts nothing on record and leaves the key free', async () => {
    const key = newKey('free')
    const { output } = await clerk.action('orders/place', { total: 1 })
    const order = `orders/${String(output?.['$id'])}`
    const attempts = [
      () => clerk.call('orders/vanish', {}, { key }),
      () => clerk.call('orders/say', {}, { key }),
      () => clerk.call('orders/order_none/edit', {}, { key }),
      () => clerk.call('orders/place', { unknown: 1 }, { key }),
      () => clerk.call('orders/place', undefined, { key, raw: '{"total":1,"total":2}' }),
      () => clerk.call('orders/place', undefined, { key, raw: '[]' }),
      () => clerk.call('orders/place', {}, { key, headers: { 'if-match': '"1"' } }),
      () => clerk.call('orders/place', {}, { key, headers: { 'record-version': '1' } }),
      () => clerk.call(`${order}/edit`, {}, { key, headers: { 'decided-after': 'never-sent' } }),
      () => caller(server, 'forge.test', clerk.token).call('orders/place', {}, { key }),
    ]
    for (const attempt of attempts) {
      const answer = await attempt()
      expect(answer.status).toBeGreaterThanOrEqual(400)
      expect(answer.header('content-type')).toMatch(/^application\/problem\+json/)
      expect(await clerk.recorded(key)).toEqual([])
    }
    const fresh = await clerk.call(`${order}/edit`, { total: 2 }, { key })
    expect(fresh.header('idempotent-replayed')).toBeNull()
    expect(fresh.json()).toMatchObject({ status: 'succeeded', output: { total: 2 } })
  })

  test('R1: a request that was half sent, or whose client hung up within its body, put nothing on record', async () => {
    const key = newKey('half')
    for (const cut of ['destroy', 'finish'] as const) {
      const connection = await connectRaw(server.url)
      const lines: [string, string][] = [bearer(kiln.token), type, ['Idempotency-Key', key], ['Content-Length', '11']]
      connection.send(Buffer.concat([rawMessage('POST', '/kiln.test/orders/place', lines), Buffer.from('{"total":')]))
      await new Promise((resolve) => setTimeout(resolve, 50))
      connection[cut]()
      await new Promise((resolve) => setTimeout(resolve, 50))
      connection.destroy()
      expect(await kiln.recorded(key)).toEqual([])
    }
    const fresh = await kiln.call('orders/place', { total: 5 }, { key })
    expect(fresh.header('idempotent-replayed')).toBeNull()
  })

  test('R1: pipelined requests are answered in order, each with its own', async () => {
    const connection = await connectRaw(server.url)
    const lines = (key: string): [string, string][] => [bearer(kiln.token), type, ['Idempotency-Key', key]]
    const slow = newKey()
    const fast = newKey()
    connection.send(
      Buffer.concat([
        rawMessage('POST', '/kiln.test/orders/bake', lines(slow), '{"ms":150}'),
        rawMessage('POST', '/kiln.test/orders/place', lines(fast), '{"total":2}'),
        rawMessage('POST', '/kiln.test/orders/place', lines(fast), '{"total":3}'),
        rawMessage('GET', '/healthz'),
      ]),
    )
    expect((await connection.response()).json()).toMatchObject({ idempotencyKey: slow, status: 'succeeded' })
    expect((await connection.response()).json()).toMatchObject({ idempotencyKey: fast, output: { total: 2 } })
    expectProblem(await connection.response(), 'idempotency-mismatch')
    expect((await connection.response()).status).toBe(200)
    connection.destroy()
  })

  test('R1: a client that hangs up during its call changes nothing: it settles all the same', async () => {
    const key = newKey('gone')
    const connection = await connectRaw(server.url)
    const lines: [string, string][] = [bearer(kiln.token), type, ['Idempotency-Key', key]]
    connection.send(rawMessage('POST', '/kiln.test/orders/bake', lines, '{"ms":200}'))
    await new Promise((resolve) => setTimeout(resolve, 100))
    connection.destroy()
    const again = await kiln.call('orders/bake', { ms: 200 }, { key })
    expect(again.json()).toMatchObject({ status: 'succeeded', attempts: 1 })
    expect(await kiln.recorded(key)).toHaveLength(1)
  })

  test('R2: a replay answers though the Verb was removed or its schema changed', async () => {
    const own = await startKiln(store, { startup: { source: kilnSource } })
    const before = caller(own, 'kiln.test', await own.token('keeper', ['*'], { namespace: 'kiln.test' }))
    const kept = { key: newKey(), input: { total: 3, note: 'old' } }
    const said = { key: newKey(), input: { a: 1 } }
    const first = await before.call('orders/place', kept.input, kept)
    const spoken = await before.call('orders/say', said.input, said)
    expect([first.status, spoken.status]).toEqual([200, 200])
    expect(await own.stop()).toBe(0)
    const source = kilnSource
      .replace('place, say, keep,', 'place, keep,')
      .replace("note: z.string().default(''),", "note: z.string().max(2, 'too long').default(''),")
    expect(source).not.toBe(kilnSource)
    await own.start({ startup: { source } })
    const after = caller(own, 'kiln.test', before.token)
    expectProblem(await after.call('orders/say', { a: 1 }), 'operation-not-found')
    expectProblem(await after.call('orders/place', kept.input), 'invalid-input')
    for (const [path, { input, key }, answer] of [
      ['orders/place', kept, first],
      ['orders/say', said, spoken],
    ] as const) {
      const again = await after.call(path, input, { key })
      expect(again.header('idempotent-replayed')).toBe('true')
      expect(again.text).toBe(answer.text)
    }
    expect(expectProblem(await after.call('orders/say', { a: 2 }, said), 'idempotency-mismatch')['differs']).toEqual([
      'input',
    ])
    await own.stop()
  })

  test('R3: what was answered is there after kill -9, and replays under its key', async () => {
    const own = await startKiln(store)
    const worker = caller(own, 'kiln.test', await own.token('victim', ['*'], { namespace: 'kiln.test' }))
    const sent = Array.from({ length: 40 }, (_, total) => ({ key: newKey('r3'), total }))
    const answers = await Promise.all(
      sent.map(async ({ key, total }, i) =>
        worker.call('orders/place', { total }, { key, ...(i % 4 === 3 ? { mode: 'send' } : {}) }),
      ),
    )
    const seen = (await worker.get('events?limit=1000')).json<{ data: { action: string }[] }>().data
    await own.kill9()
    await own.start()
    const after = caller(own, 'kiln.test', worker.token)
    for (const [i, { key, total }] of sent.entries()) {
      const answer = await after.call('orders/place', { total }, { key })
      expect(answer.json<{ id: string }>()['id']).toBe(answers[i]?.json<{ id: string }>()['id'])
    }
    const events = (await after.get('events?limit=1000')).json<{ data: { action: string }[] }>().data
    expect(events.slice(0, seen.length)).toEqual(seen)
    // Once for each, whenever it crashed between a settlement and a reader of its units: replays meter nothing (E2).
    for (const { key } of sent) {
      const [action] = await after.recorded(key)
      await after.get(`actions/${action?.id}?wait=10`)
    }
    const usage = (await after.get('usage')).json<Page<{ units: number }>>().data
    expect(usage.reduce((units, row) => units + row.units, 0)).toBe(sent.length)
    expect((await after.get('events?limit=1000')).json<Page>().data).toHaveLength(sent.length)
    await own.stop()
  })
})
