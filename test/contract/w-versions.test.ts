import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { newOrder, record, retry, startBench, type Bench } from './verbs.ts'
import { eventually, expectProblem, newKey, stores, type ActionView, type Page } from './wire.ts'

describe.each(stores)('%s', (store) => {
  let bench: Bench
  beforeAll(async () => {
    bench = await startBench(store)
  })
  afterAll(() => bench.close())

  const against = (version: string | number) => ({ headers: { 'record-version': String(version) } })

  test('W1: a call decided on the current Version runs, and says what it was decided against', async () => {
    const order = await newOrder(bench.agent)
    const action = await bench.agent.action(`orders/${order}/edit`, { note: 'a' }, against(1))
    expect(action).toMatchObject({ status: 'succeeded', decidedAgainst: { [`orders/${order}`]: 1 } })
  })

  test('W1: a Record-Version that is malformed or names a record twice is 400, as is If-Match', async () => {
    const order = await newOrder(bench.agent)
    for (const value of [
      'x',
      '0',
      '-1',
      '1.5',
      'orders=1',
      'orders/x=',
      '1, 1',
      `orders/${order}=1, orders/${order}=2`,
      `1, orders/${order}=1`,
    ]) {
      const key = newKey()
      expectProblem(
        await bench.agent.call(`orders/${order}/edit`, { note: 'a' }, { key, ...against(value) }),
        'invalid-record-version',
      )
      expect(await bench.agent.recorded(key), value).toHaveLength(0)
    }
    expectProblem(
      await bench.agent.call(`orders/${order}/edit`, { note: 'a' }, { headers: { 'if-match': '"1"' } }),
      'use-record-version',
    )
    expectProblem(await bench.agent.call('orders/open', {}, against(3)), 'invalid-record-version')
  })

  test('W2: a change that touches what the Verb depends on refuses it, with what changed and what to send instead', async () => {
    const order = await newOrder(bench.agent, { note: 'old' })
    const other = await bench.agent.action(`orders/${order}/setNote`, { note: 'theirs' })
    const action = await bench.agent.action(`orders/${order}/edit`, { note: 'mine' }, against(1))
    expect(action).toMatchObject({
      status: 'refused',
      fix: {
        code: 'stale-decision',
        records: [
          {
            record: `orders/${order}`,
            decidedAgainst: 1,
            current: 2,
            changes: [{ field: 'note', from: 'old', to: 'theirs', action: other.id }],
          },
        ],
        retryWith: {
          verb: 'Order.edit',
          target: order,
          input: { note: 'mine' },
          decidedAgainst: { [`orders/${order}`]: 2 },
        },
      },
    })
    expect(await record(bench.agent, `orders/${order}`)).toMatchObject({ note: 'theirs', $version: 2 })
    const inbox = (await bench.agent.get('inbox')).json<Page<Record<string, unknown>>>().data
    expect(inbox.find((item) => JSON.stringify(item).includes(action.id))).toMatchObject({
      kind: 'refused',
      status: 'open',
      records: { [`orders/${order}`]: 2 },
    })
    expect(await bench.agent.action(`orders/${order}/edit`, { note: 'mine' }, against(2))).toMatchObject({
      status: 'succeeded',
    })
  })

  test('W2: a change that touches nothing that the Verb depends on lets it run', async () => {
    const order = await newOrder(bench.agent, { note: 'old' })
    await bench.agent.action(`orders/${order}/setTotal`, { total: 5 })
    // Order.stamp reads `note` and writes `status`; `total` is neither.
    expect(await bench.agent.action(`orders/${order}/stamp`, { status: 'seen' }, against(1))).toMatchObject({
      status: 'succeeded',
    })
    await bench.agent.action(`orders/${order}/setNote`, { note: 'new' })
    expect(await bench.agent.action(`orders/${order}/stamp`, { status: 'seen again' }, against(3))).toMatchObject({
      status: 'refused',
    })
  })

  test('W2: a field that was changed and changed back is no change', async () => {
    const order = await newOrder(bench.agent, { note: 'old' })
    await bench.agent.action(`orders/${order}/setNote`, { note: 'new' })
    await bench.agent.action(`orders/${order}/setNote`, { note: 'old' })
    expect(await bench.agent.action(`orders/${order}/edit`, { note: 'mine' }, against(1))).toMatchObject({
      status: 'succeeded',
    })
  })

  test('W2: a Verb that declares nothing depends on every field', async () => {
    const order = await newOrder(bench.agent)
    await bench.agent.action(`orders/${order}/setTotal`, { total: 5 })
    expect(await bench.agent.action(`orders/${order}/touch`, {}, against(1))).toMatchObject({
      status: 'refused',
      fix: { code: 'stale-decision' },
    })
  })

  test('W2: an unknown Version, or a record that is gone, is refused', async () => {
    const order = await newOrder(bench.agent)
    expect(await bench.agent.action(`orders/${order}/edit`, { note: 'a' }, against(7))).toMatchObject({
      status: 'refused',
      fix: { code: 'stale-decision' },
    })
    const gone = await newOrder(bench.agent)
    await bench.agent.action(`orders/${gone}/remove`, {})
    const action = await bench.agent.action('orders/open', {}, against(`orders/${gone}=1`))
    expect(action).toMatchObject({ status: 'refused', fix: { code: 'stale-decision', records: [{ current: null }] } })
  })

  test('W1: a call may name other records; a price never applies to an Offer that was not seen so', async () => {
    const offer = String((await bench.agent.action('offers/publish', { price: 10 })).output?.['$id'])
    await bench.agent.action(`offers/${offer}/reprice`, { price: 12 })
    const before = bench.till.calls.length
    const action = await bench.agent.action('orders/place', { offer }, against(`offers/${offer}=1`))
    expect(action).toMatchObject({
      status: 'refused',
      fix: { records: [{ record: `offers/${offer}`, changes: [{ field: 'price', from: 10, to: 12 }] }] },
    })
    expect(bench.till.calls).toHaveLength(before)
  })

  test('W3: writes queued behind one another run in order, and none is refused for the caller’s own change', async () => {
    const order = await newOrder(bench.agent, { note: '0' })
    const keys = [1, 2, 3].map((n) => newKey(`käse ${n}`))
    const encoded = keys.map(encodeURIComponent)
    for (const [index, note] of ['a', 'b', 'c'].entries()) {
      const headers = {
        'record-version': '1',
        'idempotency-key-encoded': encoded[index] ?? '',
        ...(index === 0 ? {} : { 'decided-after': encoded[index - 1] ?? '' }),
      }
      const action = await bench.agent.action(`orders/${order}/edit`, { note }, { key: null, headers })
      expect(action, note).toMatchObject({ status: 'succeeded', decidedAfter: index === 0 ? [] : [keys[index - 1]] })
    }
    expect(await record(bench.agent, `orders/${order}`)).toMatchObject({ note: 'c', $version: 4 })
  })

  test('W3: somebody else’s change between them refuses the next one', async () => {
    const order = await newOrder(bench.agent, { note: '0' })
    const first = newKey()
    await bench.agent.action(`orders/${order}/edit`, { note: 'a' }, { key: first, ...against(1) })
    const other = await bench.as(newKey('other'))
    await other.action(`orders/${order}/setNote`, { note: 'theirs' })
    const second = await bench.agent.action(
      `orders/${order}/edit`,
      { note: 'b' },
      { headers: { 'record-version': '1', 'decided-after': first } },
    )
    expect(second).toMatchObject({
      status: 'refused',
      fix: { code: 'stale-decision', records: [{ changes: [{ field: 'note', from: 'a', to: 'theirs' }] }] },
    })
  })

  test('W3: a predecessor that is pending is waited for; an unknown one is 409 and nothing is recorded', async () => {
    const slow = newKey('slow')
    await bench.agent.action('orders/slow', { ms: 500 }, { key: slow, mode: 'send' })
    const next = await bench.agent.action('orders/open', {}, { mode: 'send', headers: { 'decided-after': slow } })
    await eventually(async () => {
      expect((await bench.agent.get(`actions/${next.id}`)).json()).toMatchObject({
        status: 'pending',
        waitingFor: 'predecessor',
      })
    }, 400)
    expect((await bench.agent.get(`actions/${next.id}?wait=5`)).json<ActionView>()).toMatchObject({
      status: 'succeeded',
    })
    const key = newKey()
    expectProblem(
      await bench.agent.call('orders/open', {}, { key, headers: { 'decided-after': 'nobody' } }),
      'predecessor-unknown',
    )
    expect(await bench.agent.recorded(key)).toHaveLength(0)
    expectProblem(
      await bench.agent.call('orders/open', {}, { key, headers: { 'decided-after': '%zz' } }),
      'invalid-decided-after',
    )
  })

  test('W3: a predecessor that did not succeed refuses the next one, into the inbox; a retry that succeeds mends it', async () => {
    const failing = newKey('fail')
    const failed = await bench.agent.action('orders/fail', { name: failing }, { key: failing })
    const refused = await bench.agent.action('orders/open', {}, { headers: { 'decided-after': failing } })
    expect(refused).toMatchObject({
      status: 'refused',
      fix: { code: 'predecessor-not-applied', predecessor: { action: failed.id, status: 'failed' } },
    })
    expect((await bench.agent.get('inbox?limit=1000')).text).toContain(refused.id)
    expect(await retry(bench.agent, failed)).toMatchObject({ status: 'succeeded' })
    expect(await bench.agent.action('orders/open', {}, { headers: { 'decided-after': failing } })).toMatchObject({
      status: 'succeeded',
    })
  })

  test('K3: Versions and predecessors are no part of what a key binds', async () => {
    const order = await newOrder(bench.agent)
    const key = newKey()
    const first = await bench.agent.action(`orders/${order}/edit`, { note: 'a' }, { key, ...against(1) })
    const answer = await bench.agent.call(`orders/${order}/edit`, { note: 'a' }, { key, ...against(9) })
    expect(answer.header('idempotent-replayed')).toBe('true')
    expect(answer.json<ActionView>().id).toBe(first.id)
  })
})
