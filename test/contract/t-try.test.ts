import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { newOrder, record, startBench, type Bench } from './verbs.ts'
import { expectProblem, newKey, stores, type Page } from './wire.ts'

describe.each(stores)('%s', (store) => {
  let bench: Bench
  beforeAll(async () => {
    bench = await startBench(store)
  })
  afterAll(() => bench.close())

  const counts = async () => ({
    actions: (await bench.agent.get('actions?limit=1000')).json<Page>().data.length,
    events: (await bench.agent.get('events?limit=1000')).json<Page>().data.length,
    usage: (await bench.agent.get('usage')).text,
    till: bench.till.calls.length,
  })

  test('T1: try stores, meters, emits and calls nothing, and shows what would be', async () => {
    const offer = String((await bench.agent.action('offers/publish', { price: 40 })).output?.['$id'])
    const before = await counts()
    const answer = await bench.agent.call('orders/place', { offer }, { key: null, mode: 'try' })
    expect(answer.status).toBe(200)
    expect(answer.json()).toMatchObject({
      mode: 'try',
      status: 'succeeded',
      incomplete: null,
      output: { price: 40, till: 'till_try', $version: 1 },
      error: null,
      fix: null,
      waitingFor: null,
      events: [{ type: 'Order.placed', records: [{ version: 1 }] }],
      changes: [{ version: 1 }],
      reads: { [`offers/${offer}`]: 1 },
      steps: [{ step: 'charge#1' }],
    })
    expect(await counts()).toEqual(before)
  })

  test('T1: a step without a stand-in ends the dry run there', async () => {
    const answer = await bench.agent.call('orders/once', {}, { key: null, mode: 'try' })
    expect(answer.json()).toMatchObject({ mode: 'try', incomplete: 'mail#1', output: null })
  })

  test('T1: a refusal and a failure are told as such', async () => {
    expect((await bench.agent.call('orders/decline', {}, { mode: 'try' })).json()).toMatchObject({
      status: 'refused',
      fix: { code: 'not-today' },
    })
    const failed = await bench.agent.call('orders/fail', {}, { mode: 'try' })
    expect(failed.json()).toMatchObject({ status: 'failed', error: { code: 'verb-threw' } })
    expect(failed.text).not.toContain('thyme')
  })

  test('T1: rights, schema and Versions hold as for do; a key is checked for syntax and never looked up', async () => {
    const order = await newOrder(bench.agent, { note: 'old' })
    const key = newKey()
    await bench.agent.action(`orders/${order}/setNote`, { note: 'new' }, { key })
    // The key is bound to another operation, and a try does not care.
    const stale = await bench.agent.call(
      `orders/${order}/edit`,
      { note: 'mine' },
      { key, mode: 'try', headers: { 'record-version': '1' } },
    )
    expect(stale.json()).toMatchObject({ mode: 'try', status: 'refused', fix: { code: 'stale-decision' } })
    expectProblem(await bench.agent.call('orders/open', { total: 'much' }, { mode: 'try' }), 'invalid-input')
    expectProblem(
      await bench.agent.call('orders/open', {}, { key: null, mode: 'try', headers: { 'idempotency-key': '' } }),
      'invalid-idempotency-key',
    )
    const nobody = await bench.as(newKey('nobody'), [])
    expectProblem(await nobody.call('orders/open', {}, { mode: 'try' }), 'forbidden')
    expect(await record(bench.agent, `orders/${order}`)).toMatchObject({ note: 'new', $version: 2 })
  })

  test('V6: a try does not wait for a held record, and says that the call would', async () => {
    const order = await newOrder(bench.agent)
    const refunding = bench.agent.action(`orders/${order}/refund`, { how: 'slow', ms: 500 })
    await new Promise((resolve) => setTimeout(resolve, 150))
    const started = Date.now()
    const answer = await bench.agent.call(`orders/${order}/increment`, {}, { mode: 'try' })
    expect(answer.json()).toMatchObject({ status: 'succeeded', waitingFor: 'record' })
    expect(Date.now() - started).toBeLessThan(300)
    expect(await refunding).toMatchObject({ status: 'succeeded' })
  })

  test('T1: a built-in call has no try', async () => {
    const action = await bench.agent.action('orders/fail', {})
    expectProblem(await bench.agent.call(`actions/${action.id}/retry`, {}, { mode: 'try' }), 'invalid-mode')
  })
})
