import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { callsWith, newOrder, record, retry, startBench, type Bench } from './verbs.ts'
import { eventually, expectProblem, newKey, stores, type ActionView, type Page } from './wire.ts'

describe.each(stores)('%s', (store) => {
  let bench: Bench
  let prices = 7000
  beforeAll(async () => {
    bench = await startBench(store)
  })
  afterAll(() => bench.close())

  test('V6: no update is lost when many change one record at once, and no caller sees a conflict', async () => {
    const order = await newOrder(bench.agent)
    const answers = await Promise.all(
      Array.from({ length: 40 }, () => bench.agent.action(`orders/${order}/increment`, {})),
    )
    expect(answers.map(({ status }) => status)).toEqual(Array.from({ length: 40 }, () => 'succeeded'))
    expect(await record(bench.agent, `orders/${order}`)).toMatchObject({ total: 40, $version: 41 })
  })

  test('V6: a phantom conflicts: of many who create one unless there is one, one does', async () => {
    const group = newKey('group')
    const answers = await Promise.all(Array.from({ length: 12 }, () => bench.agent.action('orders/ensure', { group })))
    expect(answers.filter(({ status }) => status === 'succeeded')).toHaveLength(1)
    expect(answers.filter(({ status }) => status === 'refused')).toHaveLength(11)
    expect((await bench.agent.get(`orders?group=${group}`)).json<Page>().data).toHaveLength(1)
  })

  test('V6: a taken unique value throws not-unique, also in a race, and is free again once it is given up', async () => {
    const email = `${newKey()}@kiln.test`
    const answers = await Promise.all(
      Array.from({ length: 16 }, () => bench.agent.action('people/register', { email })),
    )
    const winners = answers.filter(({ status }) => status === 'succeeded')
    expect(winners).toHaveLength(1)
    for (const { status, error } of answers)
      if (status !== 'succeeded') expect(error).toMatchObject({ code: 'not-unique', retry: 'pointless' })
    await bench.agent.action(`people/${String(winners[0]?.output?.['$id'])}/rename`, { email: `other-${email}` })
    expect(await bench.agent.action('people/register', { email })).toMatchObject({ status: 'succeeded' })
  })

  test('SPEC §1: an id is never used again, not after a deletion either', async () => {
    const id = newKey('order')
    await newOrder(bench.agent, { id })
    expect(await bench.agent.action('orders/open', { id })).toMatchObject({
      status: 'failed',
      error: { code: 'not-unique' },
    })
    await bench.agent.action(`orders/${id}/remove`, {})
    expect(await bench.agent.action('orders/open', { id })).toMatchObject({
      status: 'failed',
      error: { code: 'not-unique' },
    })
    expectProblem(await bench.agent.get(`orders/${id}`), 'record-not-found')
    const versions = (await bench.agent.get(`orders/${id}/versions`)).json<Page<{ version: number }>>().data
    expect(versions.map(({ version }) => version)).toEqual([1, 2])
  })

  test('R2: a call on a deleted record goes on record, refused, with record-deleted; on an unknown one it is 404', async () => {
    const order = await newOrder(bench.agent)
    await bench.agent.action(`orders/${order}/remove`, {})
    const key = newKey()
    const action = await bench.agent.action(`orders/${order}/increment`, {}, { key })
    expect(action).toMatchObject({ status: 'refused', fix: { code: 'record-deleted' } })
    expect(await bench.agent.recorded(key)).toHaveLength(1)
    const unknown = newKey()
    expectProblem(await bench.agent.call('orders/order_nobody/increment', {}, { key: unknown }), 'record-not-found')
    expect(await bench.agent.recorded(unknown)).toHaveLength(0)
  })

  test('V6: two refunds of one Order under two keys reach the till once', async () => {
    const order = await newOrder(bench.agent)
    const before = bench.till.calls.length
    const answers = await Promise.all(
      [1, 2].map(() => bench.agent.action(`orders/${order}/refund`, { how: 'slow', ms: 300 })),
    )
    expect(answers.map(({ status }) => status).sort()).toEqual(['refused', 'succeeded'])
    expect(bench.till.calls).toHaveLength(before + 1)
  })

  test('V6: who meets a hold waits for the record, visibly, and then runs on fresh reads', async () => {
    const order = await newOrder(bench.agent)
    const first = bench.agent.action(`orders/${order}/refund`, { how: 'slow', ms: 600 })
    await eventually(async () => {
      expect(callsWith(bench.till, 'ms', 600)).toBe(1)
    })
    const second = await bench.agent.action(`orders/${order}/increment`, {}, { mode: 'send' })
    await eventually(async () => {
      expect((await bench.agent.get(`actions/${second.id}`)).json()).toMatchObject({
        status: 'pending',
        waitingFor: 'record',
      })
    }, 500)
    expect(await first).toMatchObject({ status: 'succeeded' })
    const settled = (await bench.agent.get(`actions/${second.id}?wait=5`)).json<ActionView>()
    expect(settled).toMatchObject({ status: 'succeeded', waitingFor: null, output: { total: 1, $version: 3 } })
    // A read never waits.
    expect(await record(bench.agent, `orders/${order}`)).toMatchObject({ status: 'refunded', total: 1 })
  })

  test('V6: a hold of an Action that failed after its effect stays, and others are record-busy at once, naming it', async () => {
    const order = await newOrder(bench.agent)
    const failed = await bench.agent.action(`orders/${order}/refund`, { after: 'once', name: newKey('stuck') })
    expect(failed).toMatchObject({
      status: 'failed',
      error: { code: 'verb-threw' },
      steps: [{ step: 'refund#1', status: 'done' }],
    })
    const started = Date.now()
    const other = await bench.agent.action(`orders/${order}/refund`, {})
    expect(other).toMatchObject({ status: 'failed', error: { code: 'record-busy', retry: 'advised' } })
    expect(other.error?.message).toContain(failed.id)
    expect(Date.now() - started).toBeLessThan(3000)
    const before = bench.till.calls.length
    expect(await retry(bench.agent, failed)).toMatchObject({ status: 'succeeded' })
    expect(bench.till.calls).toHaveLength(before)
    expect(await bench.agent.action(`orders/${order}/increment`, {})).toMatchObject({ status: 'succeeded' })
    expect(await retry(bench.agent, other)).toMatchObject({ status: 'refused', fix: { code: 'refunded-already' } })
  })

  test('V6: after its first effect a Verb changes only what it holds or creates', async () => {
    const [order, other] = [await newOrder(bench.agent), await newOrder(bench.agent)]
    const action = await bench.agent.action(`orders/${order}/notHeld`, { other })
    expect(action).toMatchObject({ status: 'failed', error: { code: 'not-held' } })
    expect(await record(bench.agent, `orders/${other}`)).toMatchObject({ status: 'open', $version: 1 })
  })

  test('V6: the price that was charged is the price that is recorded, whatever happens to the Offer meanwhile', async () => {
    const price = prices++
    const offer = String((await bench.agent.action('offers/publish', { price })).output?.['$id'])
    const placing = bench.agent.action('orders/place', { offer, how: 'slow', ms: 400 })
    await eventually(async () => {
      expect(callsWith(bench.till, 'amount', price)).toBe(1)
    })
    // A hold is on what the Verb may change; the Offer is only read, so a reprice does not wait.
    expect(await bench.agent.action(`offers/${offer}/reprice`, { price: 9 })).toMatchObject({ status: 'succeeded' })
    expect(await placing).toMatchObject({ status: 'succeeded', output: { price } })
  })

  test('V6: a retry after the effect still sees the price that was charged', async () => {
    const price = prices++
    const offer = String((await bench.agent.action('offers/publish', { price })).output?.['$id'])
    const failed = await bench.agent.action('orders/place', { offer, after: 'once', name: newKey('once') })
    expect(failed).toMatchObject({ status: 'failed' })
    await bench.agent.action(`offers/${offer}/reprice`, { price: 9 })
    expect(await retry(bench.agent, failed)).toMatchObject({ status: 'succeeded', output: { price } })
    expect(callsWith(bench.till, 'amount', price)).toBe(1)
  })

  test('W2: a Verb that writes a field that it does not declare is stopped, so that the declaration can’t lie', async () => {
    const order = await newOrder(bench.agent)
    expect(await bench.agent.action(`orders/${order}/liar`, {})).toMatchObject({
      status: 'failed',
      error: { code: 'verb-threw' },
    })
    expect(await record(bench.agent, `orders/${order}`)).toMatchObject({ $version: 1 })
  })
})
