import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { callsWith, newOrder, record, retry, startBench, type Bench } from './verbs.ts'
import { expectProblem, newKey, stores, type ActionView, type Caller, type Json, type Page } from './wire.ts'

interface Item {
  id: string
  kind: string
  action: string
  fix: Json | null
  error: Json | null
  records: Record<string, number>
  status: string
  decision: string | null
  decidedBy: string | null
}

/** The item of an Action in a Worker's inbox. */
async function itemOf(agent: Caller, action: ActionView): Promise<Item> {
  const { data } = (await agent.get('inbox?limit=1000')).json<Page<Item>>()
  const item = data.find((one) => one.action === action.id)
  expect(item, `an item of ${action.id}`).toBeDefined()
  return item as Item
}

function versionsOf({ records }: Item): { headers: Record<string, string> } {
  const shown = Object.entries(records).map(([name, version]) => `${name}=${version}`)
  return { headers: shown.length === 0 ? {} : { 'record-version': shown.join(', ') } }
}

describe.each(stores)('%s', (store) => {
  let bench: Bench
  beforeAll(async () => {
    bench = await startBench(store)
  })
  afterAll(() => bench.close())

  /** A note written on Version 1, when somebody else had written another one: refused, with its item. */
  async function stale(agent = bench.agent): Promise<{ order: string; refused: ActionView; item: Item }> {
    const order = await newOrder(agent, { note: 'as it was' })
    await agent.action(`orders/${order}/setNote`, { note: 'theirs' })
    const refused = await agent.action(
      `orders/${order}/setNote`,
      { note: 'mine' },
      { headers: { 'record-version': '1' } },
    )
    expect(refused).toMatchObject({ status: 'refused', fix: { code: 'stale-decision' } })
    return { order, refused, item: await itemOf(agent, refused) }
  }

  /** A refund that reached the till and threw after it: failed, and its Order is held. */
  async function stuck(agent = bench.agent): Promise<{ order: string; failed: ActionView; item: Item; name: string }> {
    const order = await newOrder(agent)
    const name = newKey('stuck')
    const failed = await agent.action(`orders/${order}/refund`, { after: 'once', name })
    expect(failed).toMatchObject({ status: 'failed', error: { code: 'verb-threw' } })
    return { order, failed, item: await itemOf(agent, failed), name }
  }

  test('W4: apply sends a refused Action again against the Versions shown, as a new Action on the old one', async () => {
    const { order, refused, item } = await stale()
    expect(item).toMatchObject({ kind: 'refused', status: 'open', records: { [`orders/${order}`]: 2 } })
    const key = newKey('apply')
    const applied = await bench.agent.action(`inbox/${item.id}/apply`, {}, { key, ...versionsOf(item) })
    expect(applied).toMatchObject({
      verb: 'Order.setNote',
      status: 'succeeded',
      on: refused.id,
      target: order,
      input: { note: 'mine' },
      idempotencyKey: key,
      decidedAgainst: { [`orders/${order}`]: 2 },
    })
    expect(await record(bench.agent, `orders/${order}`)).toMatchObject({ note: 'mine', $version: 3 })
    expect((await bench.agent.get(`inbox/${item.id}`)).json()).toMatchObject({
      status: 'decided',
      decision: 'apply',
      decidedBy: 'agent',
    })
    const again = await bench.agent.call(`inbox/${item.id}/apply`, {}, { key, ...versionsOf(item) })
    expect(again.header('idempotent-replayed')).toBe('true')
    expect(again.json()).toEqual(applied)
    expect((await bench.agent.get(`actions/${refused.id}`)).json()).toEqual(refused)
  })

  test('W4: apply of a refused Action takes edited input, which must fit the Verb', async () => {
    const { order, item } = await stale()
    const key = newKey('apply')
    const options = { key, ...versionsOf(item) }
    const path = `inbox/${item.id}/apply`
    for (const body of [
      { input: { note: 7 } },
      { input: { nota: 'x' } },
      { input: 'x' },
      { steps: {} },
      { note: 'x' },
    ]) {
      expectProblem(await bench.agent.call(path, body, options), 'invalid-input')
    }
    const applied = await bench.agent.action(path, { input: { note: 'both' } }, options)
    expect(applied).toMatchObject({ status: 'succeeded', input: { note: 'both' } })
    expect(await record(bench.agent, `orders/${order}`)).toMatchObject({ note: 'both' })
    expect(
      expectProblem(await bench.agent.call(path, { input: { note: 'other' } }, options), 'idempotency-mismatch'),
    ).toMatchObject({ firstAction: applied.id, differs: ['input'] })
  })

  test('W4: apply must say the Versions that were shown, no others: 428 version-required, and nothing is decided', async () => {
    const { order, item } = await stale()
    const path = `inbox/${item.id}/apply`
    const key = newKey('apply')
    for (const version of [null, '1', '3', `orders/${order}=1`, `orders/${order}=2, offers/offer_x=1`]) {
      const headers: Record<string, string> = version === null ? {} : { 'record-version': version }
      expect(expectProblem(await bench.agent.call(path, {}, { key, headers }), 'version-required')).toMatchObject({
        shown: item.records,
      })
    }
    expect(await bench.agent.recorded(key)).toEqual([])
    expect(await itemOf(bench.agent, { id: item.action } as ActionView)).toMatchObject({ status: 'open' })
    // One Version alone is that of the Action's target (W1).
    const applied = await bench.agent.action(path, {}, { key, headers: { 'record-version': '2' } })
    expect(applied.status).toBe('succeeded')
  })

  test('W4: what changed after the item was shown refuses the apply too, and that is a new item', async () => {
    const { order, item } = await stale()
    await bench.agent.action(`orders/${order}/setNote`, { note: 'theirs again' })
    const applied = await bench.agent.action(`inbox/${item.id}/apply`, {}, versionsOf(item))
    expect(applied).toMatchObject({ status: 'refused', fix: { code: 'stale-decision' }, on: item.action })
    const next = await itemOf(bench.agent, applied)
    expect(next).toMatchObject({ status: 'open', records: { [`orders/${order}`]: 3 } })
    expect(await bench.agent.action(`inbox/${next.id}/apply`, {}, versionsOf(next))).toMatchObject({
      status: 'succeeded',
    })
    expect(await record(bench.agent, `orders/${order}`)).toMatchObject({ note: 'mine' })
  })

  test('W4: deciding a decided item with another key is 409 already-decided, naming the decision, who and its Action', async () => {
    const { item } = await stale()
    const applied = await bench.agent.action(`inbox/${item.id}/apply`, {}, versionsOf(item))
    const key = newKey('late')
    const told = { decision: 'apply', decidedBy: 'agent', action: applied.id }
    const late = await bench.agent.call(`inbox/${item.id}/apply`, {}, { key, ...versionsOf(item) })
    expect(expectProblem(late, 'already-decided')).toMatchObject(told)
    const dismissed = await bench.agent.call(`inbox/${item.id}/dismiss`, {}, { key })
    expect(expectProblem(dismissed, 'already-decided')).toMatchObject(told)
    expect(await bench.agent.recorded(key)).toEqual([])
  })

  test('W4: of many that decide one item at once, one does; the others are 409 naming it', async () => {
    const { order, item } = await stale()
    const calls = Array.from({ length: 24 }, (_, i) =>
      bench.agent.call(
        `inbox/${item.id}/${i % 3 === 0 ? 'dismiss' : 'apply'}`,
        {},
        { key: newKey('race'), ...(i % 3 === 0 ? {} : versionsOf(item)) },
      ),
    )
    const answers = await Promise.all(calls)
    const won = answers.filter(({ status }) => status === 200)
    expect(won).toHaveLength(1)
    const winner = won[0]?.json<ActionView>()
    for (const answer of answers.filter(({ status }) => status !== 200))
      expect(expectProblem(answer, 'already-decided')).toMatchObject({ action: winner?.id })
    const note = winner?.verb === 'Inbox.dismiss' ? 'theirs' : 'mine'
    expect(await record(bench.agent, `orders/${order}`)).toMatchObject({ note })
  })

  test('W4: one key under which an item is applied at once many times makes one Action', async () => {
    const { item } = await stale()
    const key = newKey('race')
    const calls = Array.from({ length: 24 }, () =>
      bench.agent.action(`inbox/${item.id}/apply`, {}, { key, ...versionsOf(item) }),
    )
    expect(new Set((await Promise.all(calls)).map(({ id }) => id)).size).toBe(1)
    expect(await bench.agent.recorded(key)).toHaveLength(1)
  })

  test('W4, A3: dismiss closes an item with an Action of its own: an Event, no unit', async () => {
    const { item } = await stale()
    const before = (await bench.agent.get('usage')).json<Page<{ verb: string }>>()
    const dismissed = await bench.agent.action(`inbox/${item.id}/dismiss`, {})
    expect(dismissed).toMatchObject({ verb: 'Inbox.dismiss', status: 'succeeded', target: item.id })
    expect(dismissed.output).toMatchObject({ id: item.id, status: 'decided', decision: 'dismiss', decidedBy: 'agent' })
    expect((await bench.agent.get(`inbox/${item.id}`)).json()).toEqual(dismissed.output)
    expect((await bench.agent.get('usage')).json()).toEqual(before)
    const { data } = (await bench.agent.get('events?limit=1000')).json<Page<{ type: string; action: string }>>()
    expect(data.filter(({ action }) => action === dismissed.id).map(({ type }) => type)).toEqual(['Inbox.dismissed'])
    const open = (await bench.agent.get('inbox?status=open&limit=1000')).json<Page<Item>>().data
    expect(open.map(({ id }) => id)).not.toContain(item.id)
    expectProblem(await bench.agent.call(`inbox/${item.id}/dismiss`, { why: 'x' }), 'already-decided')
    expectProblem(await bench.agent.call(`inbox/${(await stale()).item.id}/dismiss`, { why: 'x' }), 'invalid-input')
  })

  test('W4, A1: apply of a failed Action is its retry: finished steps are not run again, and edited input is 400', async () => {
    const { order, failed, item, name } = await stuck()
    expect(item).toMatchObject({ kind: 'failed', status: 'open', records: { [`orders/${order}`]: 1 } })
    const path = `inbox/${item.id}/apply`
    expectProblem(await bench.agent.call(path, {}), 'version-required')
    expectProblem(await bench.agent.call(path, { input: { name } }, versionsOf(item)), 'invalid-input')
    const calls = bench.till.calls.length
    const applied = await bench.agent.action(path, {}, versionsOf(item))
    expect(applied).toMatchObject({ verb: 'Order.refund', status: 'succeeded', on: failed.id })
    expect(bench.till.calls).toHaveLength(calls)
    expect((await bench.agent.get(`inbox/${item.id}`)).json()).toMatchObject({ decision: 'apply' })
    expectProblem(await bench.agent.call(`actions/${failed.id}/retry`, {}), 'already-retried')
  })

  test('W4, V3: apply of a failed Action says the outcome of a step that nobody knows', async () => {
    const failed = await bench.agent.action('orders/once', { how: 'lost' })
    expect(failed).toMatchObject({ status: 'failed', error: { code: 'step-interrupted' } })
    const item = await itemOf(bench.agent, failed)
    const path = `inbox/${item.id}/apply`
    expectProblem(await bench.agent.call(path, {}, versionsOf(item)), 'outcome-required')
    const steps = { 'mail#1': { outcome: { id: 'seen in the outbox' } } }
    const lesser = await bench.as('lesser', ['Order.once'])
    const own = await lesser.action('orders/once', { how: 'lost' })
    const ownItem = await itemOf(lesser, own)
    expectProblem(await lesser.call(`inbox/${ownItem.id}/apply`, { steps }, versionsOf(ownItem)), 'forbidden')
    const applied = await bench.agent.action(path, { steps }, versionsOf(item))
    expect(applied).toMatchObject({ status: 'succeeded', output: { id: 'seen in the outbox' } })
  })

  test('V6, W4: a dismissal ends what a failed Action still held, and that Action is not retried any more', async () => {
    const { order, failed, item } = await stuck()
    const calls = bench.till.calls.length
    const busy = await bench.agent.action(`orders/${order}/refund`, {})
    expect(busy).toMatchObject({ status: 'failed', error: { code: 'record-busy' } })
    const dismissed = await bench.agent.action(`inbox/${item.id}/dismiss`, {})
    const told = { decision: 'dismiss', decidedBy: 'agent', action: dismissed.id }
    const late = await bench.agent.call(`actions/${failed.id}/retry`, {})
    expect(expectProblem(late, 'already-decided')).toMatchObject(told)
    expect(await bench.agent.action(`orders/${order}/refund`, {})).toMatchObject({ status: 'succeeded' })
    expect(bench.till.calls).toHaveLength(calls + 1)
  })

  test('V6: who waits for a record that a failed Action holds is let in by the dismissal', async () => {
    const { order, item } = await stuck()
    const waiting = bench.agent.action(`orders/${order}/setNote`, { note: 'after all' })
    await bench.agent.action(`inbox/${item.id}/dismiss`, {})
    // Busy at once while it is held (V6); after the dismissal it runs.
    const first = await waiting
    const note = first.status === 'failed' ? await retry(bench.agent, first) : first
    expect(note).toMatchObject({ status: 'succeeded' })
  })

  test('W4: a retry decides the item, as retry', async () => {
    const { failed, item } = await stuck()
    const retried = await retry(bench.agent, failed)
    expect(retried.status).toBe('succeeded')
    expect((await bench.agent.get(`inbox/${item.id}`)).json()).toMatchObject({ decision: 'retry', decidedBy: 'agent' })
    const late = await bench.agent.call(`inbox/${item.id}/apply`, {}, versionsOf(item))
    expect(expectProblem(late, 'already-decided')).toMatchObject({ decision: 'retry', action: retried.id })
  })

  test('H1, W4: another Worker decides failed items with the grant inbox, refused ones never, and needs the Verb’s grant to apply', async () => {
    const keeper = await bench.as('keeper', ['inbox'])
    const other = await bench.as('other', ['Order.setNote', 'Order.refund'])
    const { item: refused } = await stale()
    const { item: failed } = await stuck()
    for (const word of ['apply', 'dismiss']) {
      expectProblem(await keeper.call(`inbox/${refused.id}/${word}`, {}), 'item-not-found')
      expectProblem(await other.call(`inbox/${failed.id}/${word}`, {}), 'item-not-found')
      expectProblem(await other.call(`inbox/item_nonsense/${word}`, {}), 'item-not-found')
    }
    expectProblem(await keeper.call(`inbox/${failed.id}/apply`, {}, versionsOf(failed)), 'forbidden')
    expect(await keeper.action(`inbox/${failed.id}/dismiss`, {})).toMatchObject({ worker: 'keeper' })
    expect((await bench.agent.get(`inbox/${failed.id}`)).json()).toMatchObject({ decidedBy: 'keeper' })
  })

  test('W3, W4: a write whose predecessor failed is applied on its own, and what is queued behind it follows', async () => {
    const order = await newOrder(bench.agent)
    const [first, second, third] = [newKey('q'), newKey('q'), newKey('q')]
    const path = `orders/${order}/setNote`
    await bench.agent.action('orders/decline', {}, { key: first })
    const after = (key: string) => ({ 'record-version': '1', 'decided-after': key })
    const refused = await bench.agent.action(path, { note: 'second' }, { key: second, headers: after(first) })
    expect(refused).toMatchObject({ status: 'refused', fix: { code: 'predecessor-not-applied' } })
    const item = await itemOf(bench.agent, refused)
    const applied = await bench.agent.action(`inbox/${item.id}/apply`, {}, versionsOf(item))
    expect(applied).toMatchObject({ status: 'succeeded', decidedAfter: [] })
    const last = await bench.agent.action(path, { note: 'third' }, { key: third, headers: after(second) })
    expect(last).toMatchObject({ status: 'succeeded' })
    expect(await record(bench.agent, `orders/${order}`)).toMatchObject({ note: 'third', $version: 3 })
  })

  test('W4: an applied Action that fails is retried as any other, in a chain of its own', async () => {
    const order = await newOrder(bench.agent)
    const name = newKey('applied')
    await bench.agent.action(`orders/${order}/stamp`, { status: 'seen' })
    const refused = await bench.agent.action(
      `orders/${order}/refund`,
      { after: 'once', name },
      { headers: { 'record-version': '1' } },
    )
    expect(refused).toMatchObject({ status: 'refused', fix: { code: 'stale-decision' } })
    const item = await itemOf(bench.agent, refused)
    const failed = await bench.agent.action(`inbox/${item.id}/apply`, {}, versionsOf(item))
    expect(failed).toMatchObject({ status: 'failed', on: refused.id })
    const charges = callsWith(bench.till, 'how', 'ok')
    const retried = await retry(bench.agent, failed)
    expect(retried).toMatchObject({ status: 'succeeded', on: failed.id })
    expect(callsWith(bench.till, 'how', 'ok')).toBe(charges)
    expectProblem(await bench.agent.call(`actions/${refused.id}/retry`, {}), 'not-retryable')
  })

  test('T1, K1: deciding is a durable call: it needs a key, and there is no try of it', async () => {
    const { item } = await stale()
    const path = `inbox/${item.id}/apply`
    expectProblem(await bench.agent.call(path, {}, { key: null, ...versionsOf(item) }), 'idempotency-key-required')
    expectProblem(await bench.agent.call(path, {}, { mode: 'try', ...versionsOf(item) }), 'invalid-mode')
  })
})
