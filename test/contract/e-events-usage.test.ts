import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { newOrder, retry, startBench, type Bench } from './verbs.ts'
import { expectProblem, newKey, stores, type Page } from './wire.ts'

interface EventView {
  id: string
  seq: number
  type: string
  action: string
  worker: string
  records: { record: string; version: number }[]
  data: unknown
  at: string
}

describe.each(stores)('%s', (store) => {
  let bench: Bench
  beforeAll(async () => {
    bench = await startBench(store)
  })
  afterAll(() => bench.close())

  const events = async (after = 0) =>
    (await bench.agent.get(`events?limit=1000&after=${after}`)).json<Page<EventView>>()
  const eventOf = async (action: string) => (await events()).data.filter((event) => event.action === action)

  test('E1: one Event per settled Action, with its records, its data and the type of its outcome', async () => {
    const opened = await bench.agent.action('orders/open', { total: 3 })
    const failed = await bench.agent.action('orders/fail', {})
    const refused = await bench.agent.action('orders/decline', {})
    const record = `orders/${String(opened.output?.['$id'])}`
    expect(await eventOf(opened.id)).toMatchObject([
      {
        id: opened.event,
        type: 'Order.opened',
        worker: 'agent',
        records: [{ record, version: 1 }],
        data: opened.output,
      },
    ])
    expect(await eventOf(failed.id)).toMatchObject([
      { type: 'Order.fail.failed', records: [], data: { code: 'verb-threw' } },
    ])
    expect(await eventOf(refused.id)).toMatchObject([{ type: 'Order.decline.refused', data: { code: 'not-today' } }])
    expect((await eventOf(opened.id))[0]?.at).toBe(opened.settledAt)
  })

  test('E1: seq is gap-free from 1 in a reader’s eyes at every moment, while 16 write', async () => {
    let writing = true
    const writers = Promise.all(
      Array.from({ length: 16 }, async () => {
        for (let n = 0; n < 12; n++) await bench.agent.action(n % 3 === 0 ? 'orders/fail' : 'orders/open', {})
      }),
    ).finally(() => {
      writing = false
    })
    let polls = 0
    while (writing) {
      const { data } = await events()
      expect(data.map(({ seq }) => seq)).toEqual(data.map((_, index) => index + 1))
      polls++
    }
    await writers
    expect(polls).toBeGreaterThan(3)
    const { data } = await events()
    expect(new Set(data.map(({ action }) => action)).size).toBe(data.length)
    expect([...data].sort((left, right) => (left.id < right.id ? -1 : 1))).toEqual(data)
  })

  test('E1: the cursor of events is the seq; a negative or non-numeric one is 400', async () => {
    const page = (await bench.agent.get('events?limit=2')).json<Page<EventView>>()
    expect(page.data.map(({ seq }) => seq)).toEqual([1, 2])
    expect(String(page.next)).toBe('2')
    expect((await events(1)).data[0]?.seq).toBe(2)
    for (const after of ['-1', 'x', '1.5', ''])
      expectProblem(await bench.agent.get(`events?after=${after}`), 'invalid-cursor')
  })

  test('E1: who read another’s write has the higher seq', async () => {
    const order = await newOrder(bench.agent)
    const actions = await Promise.all(
      Array.from({ length: 10 }, () => bench.agent.action(`orders/${order}/increment`, {})),
    )
    const { data } = await events()
    const seqs = actions.map(({ id, output }) => ({
      seq: data.find(({ action }) => action === id)?.seq ?? 0,
      version: Number(output?.['$version']),
    }))
    const byVersion = [...seqs].sort((left, right) => left.version - right.version)
    expect(byVersion.map(({ seq }) => seq)).toEqual(seqs.map(({ seq }) => seq).sort((left, right) => left - right))
  })

  test('E2: one unit per succeeded Action unless the Verb declares meter; nothing for what did not succeed, replays and try', async () => {
    const day = new Date().toISOString().slice(0, 10)
    const name = newKey('metered')
    const worker = await bench.as(name)
    const key = newKey()
    await worker.action('orders/open', {}, { key })
    await worker.action('orders/open', {}, { key })
    expectProblem(await worker.call('orders/open', { total: 1 }, { key }), 'idempotency-mismatch')
    await worker.call('orders/open', {}, { mode: 'try' })
    await worker.action('orders/metered', { units: 7 })
    await worker.action('orders/metered', { units: 0 })
    expect(await worker.action('orders/metered', { units: -1 })).toMatchObject({
      status: 'failed',
      error: { code: 'verb-threw' },
    })
    await worker.action('orders/decline', {})
    const failed = await worker.action('orders/fail', { name })
    expect(await retry(worker, failed)).toMatchObject({ status: 'succeeded' })
    const usage = (await worker.get(`usage?from=${day}`)).json<{
      data: { verb: string; worker: string; day: string; units: number }[]
    }>().data
    const own = usage.filter((row) => row.worker === name).sort((left, right) => (left.verb < right.verb ? -1 : 1))
    expect(own).toEqual([
      { verb: 'Order.fail', worker: name, day, units: 1 },
      { verb: 'Order.metered', worker: name, day, units: 7 },
      { verb: 'Order.open', worker: name, day, units: 1 },
    ])
  })

  test('K6: verify finds nothing wrong with all that these tests did', async () => {
    const ran = await bench.server.cli('verify')
    expect(ran.stdout + ran.stderr).not.toMatch(/gap|orphan|differs/i)
    expect(ran.status).toBe(0)
  })
})
