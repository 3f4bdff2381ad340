import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { readPrometheus, type Scraped } from '../support/prometheus.ts'
import { root, startServer } from '../support/server.ts'
import { newOrder, retry, startBench, type Bench } from './verbs.ts'
import { caller, eventually, expectProblem, newKey, reply, stores, type ActionView, type Caller } from './wire.ts'

const prefix = 'startup_builder_'
const namespace = 'kiln.test'

async function scrape(server: { readonly url: string }): Promise<Scraped> {
  const response = await fetch(`${server.url}/metrics`)
  expect(response.status).toBe(200)
  return readPrometheus(await response.text())
}

/** How much more a metric is after some work than before it. */
async function growth(server: { readonly url: string }, work: () => Promise<unknown>) {
  const before = await scrape(server)
  await work()
  const after = await scrape(server)
  return (name: string, labels: Record<string, string> = {}): number =>
    after.value(prefix + name, labels) - before.value(prefix + name, labels)
}

describe.each(stores)('%s', (store) => {
  let bench: Bench
  let agent: Caller
  const grown = (work: () => Promise<unknown>) => growth(bench.server, work)

  beforeAll(async () => {
    bench = await startBench(store)
    agent = bench.agent
  })
  afterAll(() => bench.close())

  test('§3: /metrics is Prometheus text for anybody, with HELP and TYPE for every metric', async () => {
    const response = await fetch(`${bench.server.url}/metrics`)
    expect(response.status).toBe(200)
    expect(response.headers.get('content-type')).toBe('text/plain; version=0.0.4; charset=utf-8')
    const { metrics } = readPrometheus(await response.text())
    for (const [name, { type, help }] of metrics) expect(`${name} ${type} ${help}`).toMatch(/^\S+ \S+ \S.{9,}/)
    for (const [name, { type }] of metrics) {
      if (!name.startsWith(prefix)) continue
      // Conventions: counters end with `_total`, and what has a unit ends with it.
      expect(name.endsWith('_total'), name).toBe(type === 'counter')
    }
    const head = await fetch(`${bench.server.url}/metrics`, { method: 'HEAD' })
    expect([head.status, await head.text()]).toEqual([200, ''])
    expectProblem(await reply(await fetch(`${bench.server.url}/metrics`, { method: 'POST' })), 'method-not-allowed')
  })

  test('§3: Actions are counted by Verb and final status, failures and refusals by the platform’s codes', async () => {
    const more = await grown(async () => {
      await newOrder(agent)
      await newOrder(agent)
      await agent.action('orders/fail', {})
      await agent.action('orders/decline', {})
      await agent.action('orders/output', { kind: 'cycle' })
    })
    const settled = (verb: string, status: string) => more('actions_settled_total', { namespace, verb, status })
    expect(settled('Order.open', 'succeeded')).toBe(2)
    expect(settled('Order.fail', 'failed')).toBe(1)
    expect(settled('Order.decline', 'refused')).toBe(1)
    expect(more('actions_settled_total')).toBe(5)
    const unsuccessful = (status: string, code: string) => more('actions_unsuccessful_total', { status, code })
    expect(unsuccessful('failed', 'verb-threw')).toBe(1)
    expect(unsuccessful('failed', 'output-not-storable')).toBe(1)
    expect(unsuccessful('refused', 'author')).toBe(1)
    expect(more('actions_unsuccessful_total')).toBe(3)
    expect(more('call_seconds_count', { mode: 'do', answer: 'settled' })).toBe(5)
    expect(more('commit_sync_seconds_count')).toBeGreaterThanOrEqual(5)
    expect(more('commit_operations_sum')).toBeGreaterThanOrEqual(5)
  })

  test('K4: a replay and a mismatch are counted as such, and settle nothing', async () => {
    const key = newKey()
    await agent.action('orders/open', { total: 1 }, { key })
    const more = await grown(async () => {
      for (let i = 0; i < 3; i++) await agent.action('orders/open', { total: 1 }, { key })
      // Other bytes of the same input: found under its key the long way.
      await agent.call('orders/open', undefined, { key, raw: '{ "total": 1.0 }' })
      expectProblem(await agent.call('orders/open', { total: 2 }, { key }), 'idempotency-mismatch')
    })
    expect(more('replays_total')).toBe(4)
    expect(more('call_seconds_count', { answer: 'replayed' })).toBe(4)
    expect(more('mismatches_total')).toBe(1)
    expect(more('rejections_total', { code: 'idempotency-mismatch' })).toBe(1)
    expect(more('actions_settled_total')).toBe(0)
  })

  test('R2: rejections are counted by code, wherever at the door they happen', async () => {
    const stranger = caller(bench.server, namespace, 'no-such-token')
    const poor = await bench.as('poor', ['Order:read'])
    const more = await grown(async () => {
      await stranger.call('orders/open', {})
      await agent.call('orders/open', {}, { key: null })
      await agent.call('orders/open', { wrong: 1 })
      await agent.call('orders/nothing-like-it', {})
      await poor.call('orders/open', {})
      await agent.get('actions/act_00000000000000000000000000')
      await fetch(`${bench.server.url}/${namespace}/a/b/c/d/e/f`)
    })
    const codes = ['unauthorized', 'idempotency-key-required', 'invalid-input', 'forbidden', 'action-not-found']
    for (const code of codes) expect([code, more('rejections_total', { code })]).toEqual([code, 1])
    expect(more('rejections_total')).toBe(7)
    expect(more('actions_settled_total')).toBe(0)
    // What the engine itself never saw is no call: a read, a token, a header.
    expect(more('call_seconds_count', { answer: 'rejected' })).toBe(3)
  })

  test('V2: attempts of steps are counted by how they ended', async () => {
    const offer = String((await agent.action('offers/publish', { price: 77 })).output?.['$id'])
    const more = await grown(async () => {
      await agent.action('orders/place', { offer })
      await agent.action('orders/place', { offer, how: 'no' })
      await agent.action('orders/place', { offer, how: 'lost' })
      await agent.action('orders/once', { how: 'broken' })
    })
    const steps = (verb: string, status: string) => more('steps_total', { namespace, verb, status })
    expect(steps('Order.place', 'done')).toBe(2)
    expect(steps('Order.place', 'rejected')).toBe(1)
    expect(steps('Order.place', 'unknown')).toBe(1)
    expect(steps('Order.once', 'unknown')).toBe(1)
    expect(more('inbox_open', { namespace })).toBe(1)
  })

  test('V6: who waits for a held record is pending for it, with its age, and its wait is timed; a conflict is counted', async () => {
    const order = await newOrder(agent)
    const refund = agent.action(`orders/${order}/refund`, { how: 'slow', ms: 1500 })
    await eventually(async () => expect(bench.till.calls.some(({ body }) => body['ms'] === 1500)).toBe(true))
    const before = await scrape(bench.server)
    const waiting = agent.action(`orders/${order}/edit`, { note: 'x' })
    const during = await eventually(async () => {
      const scraped = await scrape(bench.server)
      expect(scraped.value(`${prefix}actions_pending`, { namespace, waiting_for: 'record' })).toBe(1)
      return scraped
    })
    expect(during.value(`${prefix}actions_pending`, { namespace, waiting_for: 'nothing' })).toBe(1)
    const age = during.value(`${prefix}actions_pending_oldest_seconds`, { namespace, waiting_for: 'nothing' })
    expect(age).toBeGreaterThan(0)
    expect(age).toBeLessThan(60)
    expect(await refund).toMatchObject({ status: 'succeeded' })
    expect(await waiting).toMatchObject({ status: 'succeeded' })
    const after = await scrape(bench.server)
    const waits = (scraped: Scraped) => scraped.value(`${prefix}waits_seconds_count`, { kind: 'record' })
    expect(waits(after) - waits(before)).toBe(1)
    expect(after.value(`${prefix}actions_pending`)).toBe(0)
    expect(after.value(`${prefix}actions_pending_oldest_seconds`)).toBe(0)

    const more = await grown(() =>
      Promise.all(Array.from({ length: 6 }, () => agent.action('orders/ensure', { group: newKey('group') }))),
    )
    expect(more('conflicts_total')).toBe(0)
    const group = newKey('group')
    const contested = await grown(() =>
      Promise.all(Array.from({ length: 6 }, () => agent.action('orders/ensure', { group }))),
    )
    expect(contested('conflicts_total', { namespace, verb: 'Order.ensure' })).toBeGreaterThan(0)
  })

  test('W3: who waits for a predecessor is pending for it, and its wait is timed', async () => {
    const key = newKey()
    const more = await grown(async () => {
      await agent.call('orders/slow', { ms: 700 }, { key, mode: 'send' })
      const behind = agent.action('orders/open', {}, { headers: { 'decided-after': key } })
      await eventually(async () => {
        const scraped = await scrape(bench.server)
        expect(scraped.value(`${prefix}actions_pending`, { namespace, waiting_for: 'predecessor' })).toBe(1)
      })
      expect(await behind).toMatchObject({ status: 'succeeded' })
    })
    expect(more('waits_seconds_count', { kind: 'predecessor' })).toBe(1)
    expect(more('call_seconds_count', { mode: 'send', answer: 'pending' })).toBe(1)
  })

  test('E1: a stream of Events is open until its client goes', async () => {
    const before = (await scrape(bench.server)).value(`${prefix}streams_open`)
    const client = new AbortController()
    const stream = await fetch(`${bench.server.url}/${namespace}/events`, {
      headers: { authorization: `Bearer ${agent.token}`, accept: 'text/event-stream' },
      signal: client.signal,
    })
    expect(stream.status).toBe(200)
    const open = () => scrape(bench.server).then((scraped) => scraped.value(`${prefix}streams_open`) - before)
    expect(await open()).toBe(1)
    client.abort()
    await eventually(async () => expect(await open()).toBe(0))
  })

  test('W4: an inbox item is open until it is decided', async () => {
    const more = await grown(async () => {
      const failed = await agent.action('orders/once', { how: 'broken' })
      const inbox = await scrape(bench.server)
      expect(inbox.value(`${prefix}inbox_open`, { namespace })).toBeGreaterThan(0)
      await retry(agent, failed, { steps: { 'mail#1': { outcome: 'sent' } } })
    })
    expect(more('inbox_open', { namespace })).toBe(0)
  })

  test('§3: no metric holds an id, a key, a Worker’s name or a word from outside', async () => {
    const key = newKey('marked-key')
    const marked = await bench.as('marked-worker')
    const order = await newOrder(marked)
    await marked.call(`orders/${order}/edit`, { note: 'marked-note' }, { key })
    await marked.call('orders/marked-verb', {})
    await marked.call('marked-nouns/edit', {})
    await caller(bench.server, 'marked.test', 'marked-token').call('orders/open', {})
    await fetch(`${bench.server.url}/metrics?marked=1`, { headers: { 'x-request-id': 'marked' } })
    const { text, samples } = await scrape(bench.server)
    expect(text).not.toMatch(/marked|\b(act|evt|order|offer|item|worker|req)_[0-9a-z]{8,}/)
    // However many Actions there were, no more lines than this.
    expect(samples.length).toBeLessThan(1_000)
  })

  test('§3: docs/observability.md tells of every metric, with its type and labels, and of no other', async () => {
    const { metrics, samples } = await scrape(bench.server)
    const docs = readFileSync(join(root, 'docs/observability.md'), 'utf8')
    const rows = [...docs.matchAll(/^\| `(startup_builder_\w+)` +\| (\w+) +\| ([^|]*?) +\|/gm)]
    const told = rows.map(([, name = '', type = '', labels = '']) => [
      name,
      type,
      [...labels.matchAll(/`(\w+)`/g)].map(([, label = '']) => label).sort(),
    ])
    const labelsOf = (name: string) => {
      const of = samples.filter(
        (sample) => sample.name.replace(/_(bucket|sum|count)$/, '') === name || sample.name === name,
      )
      return [...new Set(of.flatMap(({ labels }) => Object.keys(labels)))].filter((label) => label !== 'le').sort()
    }
    const is = [...metrics].filter(([name]) => name.startsWith(prefix))
    const sorted = (rowsOf: unknown[][]) =>
      rowsOf.sort((left, right) => String(left[0]).localeCompare(String(right[0])))
    expect(sorted(told)).toEqual(sorted(is.map(([name, { type }]) => [name, type, labelsOf(name)])))
    // The rules that it offers ask for metrics and labels that there are.
    for (const [name] of docs.matchAll(/startup_builder_\w+/g))
      expect(
        is.some(([one]) => [one, `${one}_bucket`, `${one}_sum`, `${one}_count`].includes(name)),
        name,
      ).toBe(true)
    for (const [, code = ''] of docs.matchAll(/code="([a-z-]+)"/g))
      expect(
        samples.some(({ labels }) => labels['code'] === code),
        code,
      ).toBe(true)
  })
})

/** A Startup of two Verbs, or of one. */
const source = (withSlow: boolean, name = namespace) => `
  import { setTimeout as sleep } from 'node:timers/promises'
  import { noun, startup } from 'startup-builder'
  import { z } from 'zod'
  const Order = noun({ fields: z.object({ note: z.string() }) })
  const shop = startup('${name}', { nouns: { Order } })
  const input = z.object({ ms: z.int().default(0) })
  const run = async ({ input, records }) => {
    await sleep(input.ms)
    return records.Order.create({ note: 'x' })
  }
  const open = shop.verb('Order.open', { input, reads: {}, run })
  const slow = shop.verb('Order.slow', { input, reads: {}, run })
  export default shop.serve({ verbs: [open${withSlow ? ', slow' : ''}] })
`

describe.each(stores)('%s, over restarts', (_store) => {
  test('V4, N2: leases taken over are counted; a pending Action whose Verb is gone waits for a definition, until cancelled', async () => {
    await using server = await startServer({ startup: { source: source(true) } })
    const token = await server.token('agent')
    const keys = [newKey('slow'), newKey('slow'), newKey('open')]
    const first = caller(server, namespace, token)
    for (const [i, key] of keys.entries())
      await first.call(i < 2 ? 'orders/slow' : 'orders/open', { ms: i < 2 ? 60_000 : 500 }, { key, mode: 'send' })
    expect((await scrape(server)).value(`${prefix}actions_pending`, { namespace, waiting_for: 'nothing' })).toBe(3)
    await server.kill9()

    await server.start({ startup: { source: source(false) } })
    const pending = (scraped: Scraped, waiting_for: string) =>
      scraped.value(`${prefix}actions_pending`, { namespace, waiting_for })
    const scraped = await eventually(async () => {
      const now = await scrape(server)
      expect([pending(now, 'definition'), pending(now, 'nothing')]).toEqual([2, 0])
      // A census may see a commit a moment before it is on disk, and so before it is counted.
      expect(now.value(`${prefix}actions_settled_total`, { verb: 'Order.open', status: 'succeeded' })).toBe(1)
      return now
    })
    expect(scraped.value(`${prefix}resumed_total`)).toBe(3)
    expect(scraped.value(`${prefix}ready`)).toBe(1)
    expect(scraped.value(`${prefix}actions_pending_oldest_seconds`, { waiting_for: 'definition' })).toBeGreaterThan(0)

    const again = caller(server, namespace, token)
    const [left] = await again.recorded(keys[0] ?? '')
    expect(left).toMatchObject({ status: 'pending', waitingFor: 'definition' })
    await again.action(`actions/${left?.id}/cancel`)
    const after = await scrape(server)
    expect(pending(after, 'definition')).toBe(1)
    expect(after.value(`${prefix}actions_settled_total`, { verb: 'Order.slow', status: 'refused' })).toBe(1)
    expect(after.value(`${prefix}actions_unsuccessful_total`, { status: 'refused', code: 'cancelled' })).toBe(1)
    expect(after.value(`${prefix}actions_settled_total`, { verb: 'Action.cancel', status: 'succeeded' })).toBe(1)

    // Nor has a namespace that is not served any more a definition for what is pending in it.
    expect(await server.stop()).toBe(0)
    await server.start({ startup: { source: source(true, 'other.test') } })
    const other = await scrape(server)
    expect([pending(other, 'definition'), pending(other, 'nothing')]).toEqual([1, 0])
    expect(other.value(`${prefix}actions_pending`, { namespace: 'other.test' })).toBe(0)
  })

  test('§3: with --no-metrics there is no /metrics, and all else is as ever', async () => {
    await using server = await startServer({ startup: { source: source(true) }, args: ['--no-metrics'] })
    const agent = caller(server, namespace, await server.token('agent'))
    expectProblem(await reply(await fetch(`${server.url}/metrics`)), 'not-found')
    const key = newKey()
    const action = await agent.action('orders/open', {}, { key })
    expect((await agent.action('orders/open', {}, { key })) satisfies ActionView).toEqual(action)
    expect(await server.stop()).toBe(0)
  })
})
