import { beforeAll, describe, expect, test } from 'vitest'
import type { TestServer } from '../support/server.ts'
import { caller, eventually, expectProblem, pageOf, startKiln, stores, walk } from './wire.ts'
import type { ActionView, Caller, Page } from './wire.ts'

const sleep = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms))

describe.each(stores)('the order of lists, over %s', (store) => {
  let server: TestServer
  let kiln: Caller

  beforeAll(async () => {
    server = await startKiln(store)
    kiln = caller(server, 'kiln.test', await server.token('lister', ['*'], { namespace: 'kiln.test' }))
  })

  /** A Worker whose Actions are this test's alone. */
  const worker = async (name: string, grants = ['*']) =>
    caller(server, 'kiln.test', await server.token(name, grants, { namespace: 'kiln.test' }))

  const ids = (actions: readonly { id: string }[]) => actions.map(({ id }) => id)

  test('§3: a reader that pages while 16 write neither skips nor repeats an Action or a record', async () => {
    const writers = await Promise.all(Array.from({ length: 4 }, (_, i) => worker(`busy-${i}`)))
    let writing = true
    const load = Promise.all(
      Array.from({ length: 16 }, async (_, lane) => {
        const writer = writers[lane % writers.length] ?? kiln
        for (let i = 0; i < 20; i++) {
          // Some settle in the commit that puts them on record, some are pending for a while first.
          const slow = (lane + i) % 5 === 0
          if (slow)
            await writer.action('orders/bake', { ms: 60 + (lane % 3) * 30 }, i % 2 === 0 ? { mode: 'send' } : {})
          else await writer.action('orders/place', { total: 555 })
        }
      }),
    ).finally(() => (writing = false))

    /** Pages until the writers are done and the end is reached, going on from the last cursor seen. */
    async function tail<Member>(path: string, limit: number): Promise<Member[]> {
      const seen: Member[] = []
      let after = ''
      for (let last = false; ;) {
        const { data, next } = await pageOf<Member>(
          kiln,
          `${path}limit=${limit}${after === '' ? '' : `&after=${encodeURIComponent(after)}`}`,
        )
        // The end of the list has no cursor: it is read again from the last one, when there is more.
        if (next !== null) {
          seen.push(...data)
          after = next
        } else if (last) {
          return [...seen, ...data]
        } else {
          last = !writing
          await sleep(5)
        }
      }
    }

    const [actions, orders, settled] = await Promise.all([
      tail<ActionView>('actions?', 7),
      tail<{ $id: string }>('orders?total=555&', 3),
      tail<ActionView>('actions?status=succeeded&', 5),
      load,
    ])
    await eventually(async () => expect((await pageOf(kiln, 'actions?status=pending')).data).toEqual([]))
    const everything = await walk<ActionView>(kiln, 'actions?limit=1000')
    expect(new Set(ids(actions)).size).toBe(actions.length)
    expect(ids(actions)).toEqual(ids(everything).slice(0, actions.length))
    expect(everything.filter(({ worker }) => worker.startsWith('busy-'))).toHaveLength(320)
    expect(
      ids(actions).filter((id) => everything.some((one) => one.id === id && one.worker.startsWith('busy-'))),
    ).toHaveLength(320)
    const placed = (await walk<{ $id: string }>(kiln, 'orders?total=555&limit=1000')).map(({ $id }) => $id)
    expect(orders.map(({ $id }) => $id)).toEqual(placed)
    expect(placed).toHaveLength(256)
    const finished = ids(await walk<ActionView>(kiln, 'actions?status=succeeded&limit=1000'))
    expect(ids(settled)).toEqual(finished.slice(0, settled.length))
    expect(new Set(finished).size).toBe(finished.length)
  })

  test('§3: a list filtered to a settled status is in order of settlement', async () => {
    const baker = await worker('baker')
    const sent: ActionView[] = []
    for (const ms of [1200, 900, 600, 0, 300]) sent.push(await baker.action('orders/bake', { ms }, { mode: 'send' }))
    const all = 'actions?worker=baker'
    await eventually(async () => expect((await pageOf(baker, `${all}&status=pending`)).data).toEqual([]))
    const settled = await walk<ActionView>(baker, `${all}&status=succeeded&limit=2`)
    const times = settled.map(({ settledAt }) => settledAt ?? '')
    expect(times).toEqual(times.toSorted())
    expect(settled.map(({ input }) => input['ms'])).toEqual([0, 300, 600, 900, 1200])
    // Without the filter they stay where they became visible.
    expect(ids(await walk<ActionView>(baker, `${all}&limit=2`))).toEqual(ids(sent))
    const events = (await pageOf<{ action: string }>(baker, 'events?limit=1000')).data.map(({ action }) => action)
    expect(events.filter((id) => ids(sent).includes(id))).toEqual(ids(settled))
  })

  test('§3: the cursor of Events is the seq: what lies after it, nothing beyond the head, and 400 for no seq', async () => {
    for (let i = 0; i < 3; i++) await kiln.action('orders/say', { i })
    const all = await walk<{ seq: number }>(kiln, 'events?limit=1000')
    const head = all.at(-1)?.seq ?? 0
    expect(all.map(({ seq }) => seq)).toEqual(all.map((_, i) => i + 1))
    expect(await walk(kiln, 'events?limit=13')).toEqual(all)
    const { data, next } = await pageOf<{ seq: number }>(kiln, `events?after=${head - 3}&limit=2`)
    expect(data).toEqual(all.slice(-3, -1))
    expect(next).toBe(String(head - 1))
    expect(await pageOf(kiln, `events?after=${head - 1}`)).toEqual({ data: all.slice(-1), next: null })
    for (const beyond of [head, head + 1, 2 ** 53 - 1])
      expect(await pageOf(kiln, `events?after=${beyond}`)).toEqual({ data: [], next: null })
    expect((await pageOf(kiln, 'events?after=0&limit=1')).data).toEqual(all.slice(0, 1))
    for (const after of ['-1', 'x', '', '1.5', '1e3', '0x1', ' 1', '+1', '99999999999999999999', 'null', '%ff']) {
      const answer = await kiln.get(`events?after=${after === '%ff' ? after : encodeURIComponent(after)}`)
      expectProblem(answer, after === '%ff' ? 'invalid-query' : 'invalid-cursor')
    }
    // What a stream would resume from says where a list begins, and is never ignored.
    expect((await kiln.get('events', { 'last-event-id': String(head - 1) })).json<Page>().data).toEqual(all.slice(-1))
    for (const id of ['\xff', '-1', 'evt_1', '1.5']) {
      expectProblem(await kiln.get('events', { 'last-event-id': id }), 'invalid-cursor')
      expectProblem(await kiln.get('events?after=0', { 'last-event-id': id }), 'invalid-cursor')
    }
  })

  test('§3: usage is by Verb, Worker and UTC day; from is inclusive, to exclusive, and what is no day is 400', async () => {
    const meter = await worker('meter')
    for (let i = 0; i < 3; i++) await meter.action('orders/place', {})
    await meter.action('orders/bake', { then: 'throw' })
    const last = await meter.action('orders/say', {})
    const today = last.settledAt?.slice(0, 10) ?? ''
    const day = (offset: number) => new Date(Date.parse(today) + offset * 86_400_000).toISOString().slice(0, 10)
    const mine = async (query = '') =>
      (await pageOf<{ verb: string; worker: string; day: string; units: number }>(meter, `usage${query}`)).data
        .filter((row) => row.worker === 'meter')
        .toSorted((a, b) => (a.verb < b.verb ? -1 : 1))
    const rows = await mine()
    const sum = (verb: string) => rows.filter((row) => row.verb === verb).reduce((units, row) => units + row.units, 0)
    expect([sum('Order.place'), sum('Order.say'), sum('Order.bake')]).toEqual([3, 1, 0])
    for (const row of rows) expect(Object.keys(row)).toEqual(['verb', 'worker', 'day', 'units'])
    const todays = rows.filter((row) => row.day === today)
    expect(await mine(`?from=${today}&to=${day(1)}`)).toEqual(todays)
    expect(await mine(`?from=${today}`)).toEqual(todays)
    expect((await mine(`?to=${today}`)).filter((row) => row.day === today)).toEqual([])
    expect(await mine(`?from=${day(1)}`)).toEqual([])
    for (const wrong of [
      'from=today',
      'to=2026-13-01',
      'from=2026-02-30',
      'from=',
      'to=1',
      'from=2026-01-01T00:00:00Z',
    ]) {
      expectProblem(await meter.get(`usage?${wrong}`), 'invalid-filter')
    }
  })

  test('W4: the inbox lists what waits for its Worker, each item with exactly the members of the contract', async () => {
    const smelter = await worker('smelter', ['Order.smelt', 'Order.place', 'Order.edit'])
    expect(await pageOf(smelter, 'inbox')).toEqual({ data: [], next: null })
    const failed = []
    for (let i = 0; i < 3; i++) failed.push(await smelter.action('orders/smelt', {}))
    const { output } = await smelter.action('orders/place', {})
    const record = `orders/${String(output?.['$id'])}`
    await smelter.action(`${record}/edit`, { note: 'a' })
    const stale = await smelter.action(`${record}/edit`, { note: 'b' }, { headers: { 'record-version': '1' } })
    expect(stale).toMatchObject({ status: 'refused', fix: { code: 'stale-decision' } })
    const items = await walk(smelter, 'inbox?limit=2')
    expect(items.map(({ action }) => action)).toEqual([...ids(failed), stale.id])
    for (const item of items) {
      expect(Object.keys(item)).toEqual([
        'id',
        'kind',
        'action',
        'fix',
        'error',
        'records',
        'would',
        'status',
        'decision',
        'decidedBy',
        'at',
      ])
      expect(item).toMatchObject({ status: 'open', decision: null, decidedBy: null })
      expect((await smelter.get(`inbox/${String(item['id'])}`)).json()).toEqual(item)
    }
    expect(items[0]).toMatchObject({ kind: 'failed', error: failed[0]?.error, fix: null })
    expect(items[3]).toMatchObject({ kind: 'refused', error: null, fix: stale.fix, records: { [record]: 2 } })
    expectProblem(await smelter.get('inbox/item_none'), 'item-not-found')
  })
})
