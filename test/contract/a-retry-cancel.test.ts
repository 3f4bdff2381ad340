import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { newOrder, retry, startBench, type Bench } from './verbs.ts'
import { eventually, expectProblem, newKey, stores, type ActionView, type Page } from './wire.ts'

describe.each(stores)('%s', (store) => {
  let bench: Bench
  beforeAll(async () => {
    bench = await startBench(store)
  })
  afterAll(() => bench.close())

  test('A1: a replay of a failed Action is the failed Action; Action.retry starts a new one, linked by on', async () => {
    const [key, retryKey] = [newKey(), newKey()]
    const failed = await bench.agent.action('orders/fail', { name: key }, { key })
    const again = await bench.agent.call('orders/fail', { name: key }, { key })
    expect(again.header('idempotent-replayed')).toBe('true')
    expect(again.json()).toEqual(failed)
    const retried = await retry(bench.agent, failed, {}, { key: retryKey })
    expect(retried).toMatchObject({
      verb: 'Order.fail',
      status: 'succeeded',
      on: failed.id,
      idempotencyKey: retryKey,
      input: { name: key },
    })
    const replayed = await bench.agent.call(`actions/${failed.id}/retry`, {}, { key: retryKey })
    expect(replayed.header('idempotent-replayed')).toBe('true')
    expect(replayed.json()).toEqual(retried)
  })

  test('K3: the key of a retry binds Action.retry and the Action’s id', async () => {
    const failed = await bench.agent.action('orders/fail', {})
    const key = newKey()
    const retried = await retry(bench.agent, failed, {}, { key })
    const other = await bench.agent.action('orders/fail', {})
    const mismatch = expectProblem(
      await bench.agent.call(`actions/${other.id}/retry`, {}, { key }),
      'idempotency-mismatch',
    )
    expect(mismatch).toMatchObject({ firstAction: retried.id, differs: ['target'] })
    expect(expectProblem(await bench.agent.call('orders/fail', {}, { key }), 'idempotency-mismatch')).toMatchObject({
      differs: ['operation', 'target'],
    })
  })

  test('A2: only a failed Action can be retried, and of a chain only the latest', async () => {
    const done = await bench.agent.action('orders/open', {})
    const key = newKey()
    expectProblem(await bench.agent.call(`actions/${done.id}/retry`, {}, { key }), 'not-retryable')
    expect(await bench.agent.recorded(key)).toHaveLength(0)
    const first = await bench.agent.action('orders/fail', {})
    const second = await retry(bench.agent, first)
    expect(second).toMatchObject({ status: 'failed' })
    expect(expectProblem(await bench.agent.call(`actions/${first.id}/retry`, {}), 'already-retried')).toMatchObject({
      latest: second.id,
    })
    expect(await retry(bench.agent, second)).toMatchObject({ on: second.id })
  })

  test('A1: any Worker who may call the operation may retry, with a key and a name of its own; others may not', async () => {
    const name = newKey()
    const failed = await bench.agent.action('orders/fail', { name })
    const reader = await bench.as(newKey('reader'), ['actions:all'])
    expectProblem(await reader.call(`actions/${failed.id}/retry`, {}), 'forbidden')
    const other = await bench.as('colleague', ['Order.fail'])
    expect(await retry(other, failed)).toMatchObject({ status: 'succeeded', worker: 'colleague', on: failed.id })
    expectProblem(await bench.agent.call('actions/act_00000000000000000000000000/retry', {}), 'action-not-found')
  })

  test('A1: a retry goes by the Versions of the first Action unless it brings new ones', async () => {
    const order = await newOrder(bench.agent, { note: 'old' })
    const failed = await bench.agent.action('orders/fail', {}, { headers: { 'record-version': `orders/${order}=1` } })
    await bench.agent.action(`orders/${order}/setNote`, { note: 'new' })
    const stale = await retry(bench.agent, failed)
    // Order.fail declares nothing of Order: it depends on every field.
    expect(stale).toMatchObject({
      status: 'refused',
      fix: { code: 'stale-decision' },
      decidedAgainst: { [`orders/${order}`]: 1 },
    })
    // A refused retry doesn't count: the failed one is still the latest.
    const fresh = await retry(bench.agent, failed, {}, { headers: { 'record-version': `orders/${order}=2` } })
    expect(fresh).toMatchObject({ status: 'failed', decidedAgainst: { [`orders/${order}`]: 2 } })
  })

  test('A1: Versions that a retry brings are compared though a step had run: stale-after-step, and nothing is repeated', async () => {
    const order = await newOrder(bench.agent)
    const offer = String((await bench.agent.action('offers/publish', { price: 81 })).output?.['$id'])
    const failed = await bench.agent.action(`orders/${order}/refund`, { after: 'once', name: newKey() })
    await bench.agent.action(`offers/${offer}/reprice`, { price: 82 })
    const calls = bench.till.calls.length
    const stale = await retry(bench.agent, failed, {}, { headers: { 'record-version': `offers/${offer}=1` } })
    expect(stale).toMatchObject({ status: 'failed', error: { code: 'stale-after-step' }, fix: null })
    expect(await retry(bench.agent, stale, {}, { headers: { 'record-version': `offers/${offer}=2` } })).toMatchObject({
      status: 'succeeded',
    })
    expect(bench.till.calls).toHaveLength(calls)
  })

  test('A3: Action.cancel settles a pending Action, and is an Action of its own with an Event and no unit', async () => {
    const key = newKey()
    const pending = await bench.agent.action('orders/slow', { ms: 3000 }, { key, mode: 'send' })
    const cancelled = await bench.agent.action(`actions/${pending.id}/cancel`, {})
    expect(cancelled).toMatchObject({
      verb: 'Action.cancel',
      status: 'succeeded',
      target: pending.id,
      output: { id: pending.id, status: 'refused', fix: { code: 'cancelled' } },
    })
    const first = await bench.agent.call('orders/slow', { ms: 3000 }, { key })
    expect(first.json()).toMatchObject({ id: pending.id, status: 'refused', fix: { code: 'cancelled' } })
    const events = (await bench.agent.get('events?limit=1000')).json<
      Page<{ action: string; type: string; seq: number }>
    >().data
    const [refusal, event] = [pending.id, cancelled.id].map((id) => events.filter(({ action }) => action === id))
    expect(refusal).toMatchObject([{ type: 'Order.slow.refused' }])
    expect(event).toMatchObject([{ type: 'Action.cancelled' }])
    expect((await bench.agent.get('usage')).text).not.toContain('Action.cancel')
    // The Verb that was running writes nothing any more.
    await new Promise((resolve) => setTimeout(resolve, 50))
    expect((await bench.agent.get(`actions/${pending.id}`)).json()).toMatchObject({ status: 'refused' })
  })

  test('A3: one that has settled, or has started a step with an effect, is not-cancellable', async () => {
    const done = await bench.agent.action('orders/open', {})
    expectProblem(await bench.agent.call(`actions/${done.id}/cancel`, {}), 'not-cancellable')
    const order = await newOrder(bench.agent)
    const before = bench.till.calls.length
    const busy = await bench.agent.action(`orders/${order}/refund`, { how: 'slow', ms: 500 }, { mode: 'send' })
    await eventually(async () => {
      expect(bench.till.calls.length).toBeGreaterThan(before)
    })
    const key = newKey()
    expectProblem(await bench.agent.call(`actions/${busy.id}/cancel`, {}, { key }), 'not-cancellable')
    expect(await bench.agent.recorded(key)).toHaveLength(0)
    expect((await bench.agent.get(`actions/${busy.id}?wait=5`)).json<ActionView>()).toMatchObject({
      status: 'succeeded',
    })
  })
})
