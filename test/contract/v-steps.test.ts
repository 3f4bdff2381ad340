import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { callsWith, newOrder, record, retry, startBench, type Bench } from './verbs.ts'
import { expectProblem, newKey, stores, type Page } from './wire.ts'

describe.each(stores)('%s', (store) => {
  let bench: Bench
  let offers = 0
  beforeAll(async () => {
    bench = await startBench(store)
  })
  afterAll(() => bench.close())

  /** An Offer of a price that no other test has, so that the till's calls can be told apart. */
  async function newOffer(): Promise<{ offer: string; price: number }> {
    const price = 1000 + offers++
    const action = await bench.agent.action('offers/publish', { price })
    return { offer: String(action.output?.['$id']), price }
  }

  test('V2: a step calls its downstream once, under 32 hex characters that stay the same for the chain', async () => {
    const { offer, price } = await newOffer()
    const action = await bench.agent.action('orders/place', { offer })
    expect(action).toMatchObject({
      status: 'succeeded',
      steps: [{ step: 'charge#1', status: 'done', attempts: 1 }],
      attempts: 1,
    })
    const calls = bench.till.calls.filter(({ body }) => body['amount'] === price)
    expect(calls).toHaveLength(1)
    expect(calls[0]?.key).toMatch(/^[0-9a-f]{32}$/)
    expect(action.output).toMatchObject({ price, status: 'placed' })
  })

  test('V2: an answer that was lost is asked for again under the same derived key', async () => {
    const { offer, price } = await newOffer()
    const action = await bench.agent.action('orders/place', { offer, how: 'lost' })
    expect(action).toMatchObject({ status: 'succeeded', steps: [{ step: 'charge#1', status: 'done', attempts: 2 }] })
    const keys = bench.till.calls.filter(({ body }) => body['amount'] === price).map(({ key }) => key)
    expect(keys).toEqual([keys[0], keys[0]])
  })

  test('V2: a downstream that is down is tried again, with backoff', async () => {
    const { offer, price } = await newOffer()
    const action = await bench.agent.action('orders/place', { offer, how: 'down' })
    expect(action).toMatchObject({ status: 'succeeded', steps: [{ attempts: 3 }] })
    expect(callsWith(bench.till, 'amount', price)).toBe(3)
  })

  test('V2: a definitive no settles failed with the author’s code, and a retry is pointless', async () => {
    const { offer, price } = await newOffer()
    const action = await bench.agent.action('orders/place', { offer, how: 'no' })
    expect(action).toMatchObject({
      status: 'failed',
      error: { code: 'till-says-no', retry: 'pointless' },
      steps: [{ step: 'charge#1', status: 'rejected', attempts: 1 }],
    })
    expect(callsWith(bench.till, 'amount', price)).toBe(1)
  })

  test('V2: Action.retry runs a rejected step again under the next generation, an unknown one under the same key', async () => {
    const { offer, price } = await newOffer()
    const refused = await bench.agent.action('orders/place', { offer, how: 'no' })
    await retry(bench.agent, refused)
    const keys = bench.till.calls.filter(({ body }) => body['amount'] === price).map(({ key }) => key)
    expect(new Set(keys).size).toBe(2)

    const order = await newOrder(bench.agent)
    const before = bench.till.calls.length
    const unknown = await bench.agent.action(`orders/${order}/refund`, { how: 'broken' })
    expect(unknown).toMatchObject({
      status: 'failed',
      error: { code: 'step-unresolved', retry: 'advised' },
      steps: [{ status: 'unknown', attempts: 2 }],
    })
    await retry(bench.agent, unknown)
    const later = bench.till.calls.slice(before).map(({ key }) => key)
    expect(later).toEqual([later[0], later[0], later[0], later[0]])
  })

  test('V2: a Verb may catch a definitive no and succeed', async () => {
    const action = await bench.agent.action('orders/caught', {})
    expect(action).toMatchObject({
      status: 'succeeded',
      output: { note: 'till-says-no' },
      steps: [{ status: 'rejected' }],
    })
  })

  test('V2: two steps of one name are told apart by their occurrence, and a retry repeats neither', async () => {
    const name = newKey('pair')
    const amounts = [50_005, 50_007]
    const failed = await bench.agent.action('orders/pair', { name, amounts, fail: true })
    expect(failed).toMatchObject({
      status: 'failed',
      error: { code: 'verb-threw' },
      steps: [
        { step: 'charge#1', status: 'done' },
        { step: 'charge#2', status: 'done' },
      ],
    })
    const retried = await retry(bench.agent, failed)
    expect(retried).toMatchObject({ status: 'succeeded', on: failed.id })
    for (const amount of amounts) expect(callsWith(bench.till, 'amount', amount)).toBe(1)
  })

  test('V2: a finished step that a retry reaches with another input settles step-diverged, and is in the inbox', async () => {
    const first = await bench.agent.action('orders/diverge', { name: newKey('diverge') })
    expect(first).toMatchObject({ status: 'failed', error: { code: 'verb-threw' } })
    const calls = bench.till.calls.length
    const second = await retry(bench.agent, first)
    expect(second).toMatchObject({ status: 'failed', error: { code: 'step-diverged' } })
    expect(bench.till.calls).toHaveLength(calls)
    const inbox = (await bench.agent.get('inbox')).json<Page<{ action: { id: string } | string; status: string }>>()
      .data
    expect(JSON.stringify(inbox)).toContain(second.id)
  })

  test('V2: a step with effect false is run again and never counts as something that happened', async () => {
    const refused = await bench.agent.action('orders/look', { how: 'ok', then: 'refuse' })
    expect(refused).toMatchObject({ status: 'refused', fix: { code: 'seen-enough' } })
    const threw = await bench.agent.action('orders/look', { how: 'ok', then: 'throw' })
    expect(threw).toMatchObject({ status: 'failed', error: { code: 'verb-threw', retry: 'advised' } })
    const inbox = (await bench.agent.get('inbox?limit=1000')).text
    expect(inbox).not.toContain(threw.id)
    const unknown = await bench.agent.action('orders/look', { how: 'broken' })
    expect(unknown).toMatchObject({ status: 'failed', error: { code: 'step-unresolved', retry: 'advised' } })
  })

  test('V3: a step at most once whose outcome is unknown is never repeated blindly', async () => {
    const before = bench.till.calls.length
    const action = await bench.agent.action('orders/once', { how: 'lost' })
    expect(action).toMatchObject({
      status: 'failed',
      error: { code: 'step-interrupted', retry: 'unsafe' },
      steps: [{ step: 'mail#1', status: 'unknown', attempts: 1 }],
    })
    expect(bench.till.calls).toHaveLength(before + 1)

    expectProblem(await bench.agent.call(`actions/${action.id}/retry`, {}), 'outcome-required')
    expect(bench.till.calls).toHaveLength(before + 1)

    const plain = await bench.as('plain', ['Order.once'])
    expectProblem(
      await plain.call(`actions/${action.id}/retry`, { steps: { 'mail#1': { outcome: { id: 'mail_1' } } } }),
      'forbidden',
    )

    const told = await retry(bench.agent, action, { steps: { 'mail#1': { outcome: { id: 'mail_1' } } } })
    expect(told).toMatchObject({ status: 'succeeded', output: { id: 'mail_1' } })
    expect(bench.till.calls).toHaveLength(before + 1)
  })

  test('V3: a Worker with the grant inbox may say that it shall run again, under the same derived key', async () => {
    const before = bench.till.calls.length
    const action = await bench.agent.action('orders/once', { how: 'lost' })
    const again = await retry(bench.agent, action, { steps: { 'mail#1': { runAgain: true } } })
    expect(again).toMatchObject({ status: 'succeeded', steps: [{ status: 'done' }] })
    const keys = bench.till.calls.slice(before).map(({ key }) => key)
    expect(keys).toEqual([keys[0], keys[0]])
  })

  test('V2: an unknown outcome older than its key holds is not repeated', async () => {
    const action = await bench.agent.action('orders/forgetful', { how: 'lost' })
    expect(action).toMatchObject({ status: 'failed', error: { code: 'step-unresolved', retry: 'advised' } })
    await new Promise((resolve) => setTimeout(resolve, 1100))
    const before = bench.till.calls.length
    expectProblem(await bench.agent.call(`actions/${action.id}/retry`, {}), 'outcome-required')
    expect(bench.till.calls).toHaveLength(before)
  })

  test('V1: clock, chance and new ids are the same in a retry after the first step with an effect', async () => {
    const before = bench.till.calls.length
    const first = await bench.agent.action('orders/clock', { name: newKey('clock') })
    expect(first).toMatchObject({ status: 'failed', error: { code: 'verb-threw' } })
    const told = bench.till.calls.slice(before).find(({ body }) => 'order' in body)?.body
    await new Promise((resolve) => setTimeout(resolve, 20))
    const second = await retry(bench.agent, first)
    expect(second).toMatchObject({
      status: 'succeeded',
      output: { now: told?.['now'], drawn: told?.['drawn'], order: told?.['order'] },
    })
    expect(bench.till.calls).toHaveLength(before + 2)
    const order = await record(bench.agent, `orders/${String(told?.['order'])}`)
    expect(order).toMatchObject({ $version: 1 })
  })

  test('V5: a Verb that runs past its time-out settles verb-timed-out, and a step in flight is unknown', async () => {
    const idle = await bench.agent.action('orders/late', { how: 'none' })
    expect(idle).toMatchObject({ status: 'failed', error: { code: 'verb-timed-out', retry: 'advised' }, steps: [] })
    const busy = await bench.agent.action('orders/late', { how: 'hang' })
    expect(busy).toMatchObject({
      status: 'failed',
      error: { code: 'verb-timed-out', retry: 'advised' },
      steps: [{ step: 'charge#1', status: 'unknown' }],
    })
    expect((await bench.agent.get('inbox?limit=1000')).text).toContain(busy.id)
  })

  test('V5: a Verb that throws settles verb-threw and leaks nothing', async () => {
    const answer = await bench.agent.call('orders/fail', {})
    expect(answer.json()).toMatchObject({ status: 'failed', error: { code: 'verb-threw' } })
    expect(answer.text).not.toContain('thyme')
    expect(answer.text).not.toMatch(/\.ts|at /)
    expect(answer.header('action-status')).toBe('failed')
  })

  test('V5: a Verb that refuses settles refused; after a step it is refused-after-step', async () => {
    const refused = await bench.agent.action('orders/decline', {})
    expect(refused).toMatchObject({
      status: 'refused',
      error: null,
      fix: { code: 'not-today', message: 'Come back tomorrow.', tomorrow: true },
    })
    const { offer } = await newOffer()
    const late = await bench.agent.action('orders/place', { offer, after: 'refuse' })
    expect(late).toMatchObject({ status: 'failed', fix: null, error: { code: 'refused-after-step' } })
  })

  test('V5: an output that JSON would lose, or over 1 MiB, settles output-not-storable', async () => {
    for (const kind of ['bigint', 'cycle', 'large', 'function']) {
      const action = await bench.agent.action('orders/output', { kind })
      expect(action, kind).toMatchObject({ status: 'failed', error: { code: 'output-not-storable' } })
    }
    expect(await bench.agent.action('orders/output', { kind: 'nothing' })).toMatchObject({
      status: 'succeeded',
      output: null,
    })
    expect(await bench.agent.action('orders/output', { kind: 'text' })).toMatchObject({
      status: 'succeeded',
      output: 'text',
    })
  })

  test('V4: a client that disconnects changes nothing', async () => {
    const key = newKey('gone')
    const controller = new AbortController()
    const call = fetch(`${bench.server.url}/kiln.test/orders/slow`, {
      method: 'POST',
      headers: {
        authorization: `Bearer ${bench.agent.token}`,
        'idempotency-key': key,
        'content-type': 'application/json',
      },
      body: JSON.stringify({ ms: 300 }),
      signal: controller.signal,
    })
    setTimeout(() => {
      controller.abort()
    }, 50)
    await expect(call).rejects.toThrow()
    const action = await bench.agent.action('orders/slow', { ms: 300 }, { key })
    expect(action).toMatchObject({ status: 'succeeded' })
    expect(await bench.agent.recorded(key)).toHaveLength(1)
  })

  test('V1: what a Verb wrote and its Action commit together or not at all', async () => {
    const { offer } = await newOffer()
    const before = (await bench.agent.get('orders?limit=1000')).json<Page>().data.length
    await bench.agent.action('orders/place', { offer, after: 'throw' })
    expect((await bench.agent.get('orders?limit=1000')).json<Page>().data).toHaveLength(before)
  })

  test('A2: two retries of one failed Action make one', async () => {
    const { offer } = await newOffer()
    const failed = await bench.agent.action('orders/place', { offer, after: 'once', name: newKey('once') })
    const other = await bench.as('other')
    const answers = await Promise.all(
      [bench.agent, other].map((worker) => worker.call(`actions/${failed.id}/retry`, {})),
    )
    expect(answers.map(({ status }) => status).sort()).toEqual([200, 409])
  })
})
