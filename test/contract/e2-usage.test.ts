import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { describe, expect, test } from 'vitest'
import { newFolder, root, startServer } from '../support/server.ts'
import { openStream, type Streamed } from '../support/stream.ts'
import { retry, startBench } from './verbs.ts'
import { caller, expectProblem, newKey, stores, walk, type ActionView, type Caller } from './wire.ts'

// Usage is exact (E2): what is metered is what succeeded, once, whatever crashed, was retried or was sent again.

interface UsageView {
  verb: string
  worker: string
  day: string
  units: number
}

const usage = async (by: Caller, query = '') => (await by.get(`usage${query}`)).json<{ data: UsageView[] }>().data
const sorted = (rows: readonly UsageView[]) => rows.map((row) => JSON.stringify(row)).sort()
const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms))

/** Usage as it must be by the Events and the Actions that they name: what succeeded, by Verb, Worker and UTC day. */
async function owed(by: Caller): Promise<UsageView[]> {
  const rows = new Map<string, UsageView>()
  const actions = new Map((await walk<ActionView>(by, 'actions?limit=1000')).map((action) => [action.id, action]))
  for (const event of await walk<Streamed['event'] & { at: string }>(by, 'events?limit=1000')) {
    const action = actions.get(event.action)
    if (action?.status !== 'succeeded' || /^(Action|Inbox)\./.test(action.verb)) continue
    const row = { verb: action.verb, worker: event.worker, day: event.at.slice(0, 10), units: 0 }
    const known = rows.get(JSON.stringify(row)) ?? row
    rows.set(JSON.stringify(row), known)
    known.units += action.verb === 'Order.metered' ? Number(action.input['units']) : 1
  }
  return [...rows.values()].filter(({ units }) => units > 0)
}

describe.each(stores)('%s', (store) => {
  test('E2: kill -9 at any moment, then every key again: each succeeded Action is metered once, and nothing else', async () => {
    const bench = await startBench(store)
    const calls: { path: string; input: Record<string, unknown>; key: string }[] = []
    const kinds = [
      { path: 'orders/open', input: {} },
      { path: 'orders/metered', input: { units: 3 } },
      { path: 'orders/metered', input: { units: 0 } },
      { path: 'orders/fail', input: {} },
      { path: 'orders/decline', input: {} },
      { path: 'orders/caught', input: {} },
    ]
    for (let round = 0; round < 4; round++) {
      let running = true
      const writers = Promise.all(
        Array.from({ length: 12 }, async () => {
          while (running) {
            const call = { ...(kinds[calls.length % kinds.length] ?? { path: '', input: {} }), key: newKey('kill') }
            calls.push(call)
            await bench.agent.call(call.path, call.input, call).catch(() => undefined)
          }
        }),
      )
      await pause(150 + 100 * round)
      running = false
      await bench.server.kill9()
      await writers
      await bench.server.start()
    }
    for (const { path, input, key } of calls) {
      expect((await bench.agent.action(path, input, { key })).status).not.toBe('pending')
    }
    const told = await usage(bench.agent)
    expect(sorted(told)).toEqual(sorted(await owed(bench.agent)))
    expect(told.reduce((sum, { units }) => sum + units, 0)).toBe(
      calls.filter(({ path }) => /open|caught/.test(path)).length +
        3 * calls.filter(({ input }) => input['units'] === 3).length,
    )
    // And once more, in another Mode and in a new process: a replay meters nothing.
    await bench.server.kill9()
    await bench.server.start()
    for (const { path, input, key } of calls.slice(0, 50)) {
      await bench.agent.action(path, input, { key, mode: 'send' })
      expectProblem(await bench.agent.call(path, { ...input, other: 1 }, { key }), 'idempotency-mismatch')
      await bench.agent.call(path, input, { mode: 'try' })
    }
    expect(await usage(bench.agent)).toEqual(told)
    expect((await bench.server.cli('verify')).status).toBe(0)
    await bench.close()
  })

  test('E2: a retry is metered as its Verb, for who retries; cancel, and what it cancels, for nobody', async () => {
    const bench = await startBench(store)
    const other = await bench.as('other')
    const failed = await bench.agent.action('orders/fail', { name: 'retried' })
    expect(await usage(bench.agent)).toEqual([])
    const retried = await retry(other, failed)
    expect(retried.status).toBe('succeeded')
    const slow = await bench.agent.action('orders/slow', { ms: 20_000 }, { mode: 'send' })
    expect(await bench.agent.action(`actions/${slow.id}/cancel`)).toMatchObject({ status: 'succeeded' })
    expect(sorted(await usage(bench.agent))).toEqual(sorted(await owed(bench.agent)))
    expect((await usage(bench.agent)).map(({ verb, worker, units }) => [verb, worker, units])).toEqual([
      ['Order.fail', 'other', 1],
    ])
    // However often and however many at once: one Action, one unit (K5).
    const key = newKey()
    await Promise.all(Array.from({ length: 40 }, () => other.action('orders/metered', { units: 5 }, { key })))
    expect((await usage(other)).find(({ verb }) => verb === 'Order.metered')?.units).toBe(5)
    await bench.close()
  })

  test('E2: the day is that of the settlement, by UTC, to the millisecond; from is inclusive, to exclusive', async () => {
    const clockFile = join(newFolder('clock'), 'now')
    const at = (time: string) => writeFileSync(clockFile, String(Date.parse(time)))
    at('2026-11-29T12:00:00.000Z')
    await using server = await startServer({
      startup: join(root, 'test/startups/verbs.ts'),
      nodeArgs: ['--import', pathToFileURL(join(root, 'test/fixtures/clock.mjs')).href],
      // A local day that is not UTC's must not matter.
      env: { CLOCK_FILE: clockFile, TZ: 'Pacific/Kiritimati' },
    })
    const agent = caller(server, 'kiln.test', await server.token('agent'))
    at('2026-11-29T23:59:59.999Z')
    await agent.action('orders/open', {})
    const across = agent.action('orders/slow', { ms: 600 })
    await pause(200)
    at('2026-11-30T00:00:00.000Z')
    await agent.action('orders/metered', { units: 2 })
    expect(await across).toMatchObject({ createdAt: '2026-11-29T23:59:59.999Z', settledAt: '2026-11-30T00:00:00.000Z' })
    at('2026-11-30T23:59:59.999Z')
    await agent.action('orders/metered', { units: 40 })
    at('2026-12-01T00:00:00.000Z')
    await agent.action('orders/metered', { units: 500 })

    const row = (verb: string, day: string, units: number) => ({ verb, worker: 'agent', day, units })
    const days = {
      29: [row('Order.open', '2026-11-29', 1)],
      30: [row('Order.metered', '2026-11-30', 42), row('Order.slow', '2026-11-30', 1)],
      1: [row('Order.metered', '2026-12-01', 500)],
    }
    const all = [...days[29], ...days[30], ...days[1]]
    for (const [query, rows] of [
      ['', all],
      ['?from=2026-11-30&to=2026-12-01', days[30]],
      ['?from=2026-11-30', [...days[30], ...days[1]]],
      ['?to=2026-11-30', days[29]],
      ['?from=2026-12-01', days[1]],
      ['?from=2026-12-02', []],
      ['?from=2026-11-30&to=2026-11-30', []],
      ['?from=2026-12-01&to=2026-11-29', []],
      ['?from=0000-01-01&to=9999-12-31', all],
    ] as const) {
      expect([query, ...sorted(await usage(agent, query))]).toEqual([query, ...sorted(rows)])
    }
    expect(sorted(await owed(agent))).toEqual(sorted(all))
    for (const query of ['from=2026-02-30', 'from=today', 'to=2026-1-1', 'from=', 'to=2026-11-30T00:00:00Z'])
      expectProblem(await agent.get(`usage?${query}`), 'invalid-filter')
    for (const query of ['day=2026-11-30', 'from=2026-11-30&from=2026-11-30', 'limit=5'])
      expectProblem(await agent.get(`usage?${query}`), 'invalid-query')
  })

  test('E2: units that could not be summed exactly are the Verb’s fault; the greatest that can be are summed', async () => {
    const bench = await startBench(store)
    for (const units of [1e9 + 1, Number.MAX_SAFE_INTEGER, 0.5, -1]) {
      expect(await bench.agent.action('orders/metered', { units })).toMatchObject({ status: 'failed' })
    }
    expect(await usage(bench.agent)).toEqual([])
    await Promise.all(Array.from({ length: 30 }, () => bench.agent.action('orders/metered', { units: 1e9 })))
    expect((await usage(bench.agent)).map(({ units }) => units)).toEqual([30e9])
    await bench.close()
  })

  test('E2: usage is all of a namespace, and takes the grant', async () => {
    const bench = await startBench(store)
    const [clerk, auditor] = [await bench.as('clerk', ['Order.open', 'events']), await bench.as('auditor', ['usage'])]
    await clerk.action('orders/open', {})
    expectProblem(await clerk.get('usage'), 'forbidden')
    expect((await usage(auditor)).map(({ worker, units }) => [worker, units])).toEqual([['clerk', 1]])
    // What a stream told is what was metered.
    const reader = await openStream(bench.server, 'kiln.test', clerk.token)
    expect((await reader.count(1)).map(({ event }) => event.worker)).toEqual(['clerk'])
    reader.cut()
    await bench.close()
  })
})
