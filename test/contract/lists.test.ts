import { beforeAll, describe, expect, test } from 'vitest'
import type { TestServer } from '../support/server.ts'
import { caller, eventually, expectProblem, newKey, startKiln, stores } from './wire.ts'
import type { ActionView, Caller, Json, Page } from './wire.ts'

const sleep = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms))

describe.each(stores)('lists, over %s', (store) => {
  let server: TestServer
  let kiln: Caller

  beforeAll(async () => {
    server = await startKiln(store)
    kiln = caller(server, 'kiln.test', await server.token('lister', ['*'], { namespace: 'kiln.test' }))
  })

  /** A Worker whose Actions are this test's alone. */
  const worker = async (name: string, grants = ['*']) =>
    caller(server, 'kiln.test', await server.token(name, grants, { namespace: 'kiln.test' }))

  async function page<Member = Json>(by: Caller, path: string): Promise<Page<Member>> {
    const answer = await by.get(path)
    expect(answer.status, answer.text).toBe(200)
    const list = answer.json<Page<Member>>()
    expect(Object.keys(list)).toEqual(['data', 'next'])
    return list
  }

  /** Follows `next` from the beginning to the end; `between` happens after each page. */
  async function walk<Member = Json>(by: Caller, path: string, between = async () => {}): Promise<Member[]> {
    const all: Member[] = []
    for (let after: string | null = ''; after !== null;) {
      const { data, next }: Page<Member> = await page(
        by,
        `${path}${after === '' ? '' : `&after=${encodeURIComponent(after)}`}`,
      )
      all.push(...data)
      if (next !== null) expect(data.length).toBeGreaterThan(0)
      expect(all.length).toBeLessThan(5_000)
      after = next
      await between()
    }
    return all
  }

  const ids = (actions: readonly { id: string }[]) => actions.map(({ id }) => id)

  test('§3: a list is { data, next }: 100 unless a limit says otherwise, at most 1000, and null is the end', async () => {
    const writer = await worker('hundred')
    const made = []
    for (let i = 0; i < 105; i++) made.push((await writer.action('orders/say', { i })).id)
    const mine = 'actions?worker=hundred'
    const first = await page<ActionView>(writer, mine)
    expect(ids(first.data)).toEqual(made.slice(0, 100))
    const rest = await page<ActionView>(writer, `${mine}&after=${encodeURIComponent(first.next ?? '')}`)
    expect([ids(rest.data), rest.next]).toEqual([made.slice(100), null])
    expect(ids((await page<ActionView>(writer, `${mine}&limit=1000`)).data)).toEqual(made)
    expect((await page(writer, `${mine}&limit=105`)).next).toBeNull()
    for (const limit of [1, 7, 104, 105])
      expect(ids(await walk<ActionView>(writer, `${mine}&limit=${limit}`))).toEqual(made)
  })

  test('§3: a limit out of range is 400, on every list', async () => {
    const order = String((await kiln.action('orders/place', {})).output?.['$id'])
    for (const path of ['orders', `orders/${order}/versions`, 'actions', 'events', 'inbox']) {
      for (const limit of ['0', '1001', '-1', '1.5', 'ten', '', '1e2', '+1', '0x10', '99999999999999999999']) {
        expectProblem(await kiln.get(`${path}?limit=${encodeURIComponent(limit)}`), 'invalid-limit')
      }
      expect((await kiln.get(`${path}?limit=1000`)).status).toBe(200)
    }
  })

  test('§3: a made-up cursor, or one of another list or filter, is 400', async () => {
    for (let i = 0; i < 3; i++) await kiln.action('orders/place', { note: 'cursor' })
    const { next } = await page(kiln, 'orders?limit=1')
    const cursor = next ?? ''
    expect(cursor).not.toBe('')
    const [head, tail] = [cursor.slice(0, -1), cursor.slice(-1)]
    const madeUp = [
      '1',
      '0',
      '-1',
      'abc',
      '',
      ' ',
      'null',
      '{}',
      'AAAAAAAAAAAAAAAAAAA',
      `${cursor}A`,
      head,
      head + (tail === 'A' ? 'B' : 'A'),
      `x${cursor}`,
      'order_1',
      '\u00ff',
      '%',
      'x'.repeat(5000),
    ]
    for (const path of ['orders', 'actions', 'inbox', 'font-licenses']) {
      for (const after of madeUp)
        expectProblem(await kiln.get(`${path}?after=${encodeURIComponent(after)}`), 'invalid-cursor')
    }
    const forge = caller(server, 'forge.test', await server.token('lister', ['*'], { namespace: 'forge.test' }))
    const place = encodeURIComponent(cursor)
    for (const path of ['actions', 'offers', 'inbox', 'events'])
      expectProblem(await kiln.get(`${path}?after=${place}`), 'invalid-cursor')
    expectProblem(await kiln.get(`orders?status=open&after=${place}`), 'invalid-cursor')
    expectProblem(await forge.get(`orders?after=${place}`), 'invalid-cursor')
    expect((await kiln.get(`orders?after=${place}`)).status).toBe(200)
  })

  test('§3: a query that is not known, or that comes twice, is 400 and never ignored', async () => {
    for (const path of [
      'actions?statuss=failed',
      'events?type=x',
      'inbox?x=1',
      'usage?day=2026-01-01',
      'actions/act_1?x=1',
      'orders/order_1?x=1',
    ]) {
      expectProblem(await kiln.get(path), 'invalid-query')
    }
    for (const path of [
      'actions?limit=1&limit=2',
      'orders?status=open&status=open',
      'actions?key=%ff',
      'actions?key=%zz',
    ]) {
      expectProblem(await kiln.get(path), 'invalid-query')
    }
  })

  test('§3: Actions are filtered by status, verb, worker, key and on, alone and together', async () => {
    const [one, two] = [await worker('filter-1'), await worker('filter-2')]
    const key = newKey('f, "käse" +&=%')
    const headers = { 'idempotency-key-encoded': encodeURIComponent(key) }
    const placed = await one.action('orders/place', {}, { key: null, headers })
    const same = await two.action('orders/place', {}, { key: null, headers })
    const failed = await one.action('orders/bake', { then: 'throw' })
    const refused = await one.action('orders/bake', { then: 'refuse' })
    const retried = await one.action(`actions/${failed.id}/retry`)
    const all = [placed, failed, refused, retried]
    const listed = async (query: string) => ids((await page<ActionView>(one, `actions?${query}`)).data)
    expect(await listed('worker=filter-1')).toEqual(ids(all))
    expect(await listed('worker=filter-1&status=failed')).toEqual([failed.id, retried.id])
    expect(await listed('worker=filter-1&status=succeeded')).toEqual([placed.id])
    expect(await listed('worker=filter-1&status=refused&verb=Order.bake')).toEqual([refused.id])
    expect(await listed('worker=filter-1&verb=Order.place')).toEqual([placed.id])
    expect(await listed(`key=${encodeURIComponent(key)}`)).toEqual([placed.id, same.id])
    expect(await listed(`key=${encodeURIComponent(key)}&worker=filter-2`)).toEqual([same.id])
    expect(await listed(`key=${encodeURIComponent(key.normalize('NFD'))}`)).toEqual([])
    expect(await listed(`on=${failed.id}`)).toEqual([retried.id])
    expect(await listed(`on=${failed.id}&status=succeeded`)).toEqual([])
    expect(await listed('worker=nobody-there')).toEqual([])
    expect((await page<ActionView>(one, `actions?on=${failed.id}`)).data).toEqual([retried])
    for (const wrong of [
      'status=done',
      'status=',
      'status=Failed',
      'status=pending,failed',
      'verb=place',
      'verb=Order',
      'on=x',
    ]) {
      expectProblem(await one.get(`actions?${wrong}`), 'invalid-filter')
    }
  })

  test('§3: records are filtered on declared indexes and unique fields, and on nothing else', async () => {
    const issue = (seats: number, active: boolean) =>
      kiln.action('font-licenses/issue', { email: `${newKey('l')}@glyphs.store`, family: 'Serif', seats, active })
    const made = []
    for (const [seats, active] of [
      [901, true],
      [902, true],
      [901, false],
    ] as const)
      made.push((await issue(seats, active)).output as Json)
    const listed = async (query: string) => (await page(kiln, `font-licenses?${query}`)).data
    expect(await listed('seats=901')).toEqual([made[0], made[2]])
    expect(await listed('active=true&seats=901')).toEqual([made[0]])
    expect(await listed('seats=902&active=false')).toEqual([])
    expect(await listed(`email=${encodeURIComponent(String(made[1]?.['email']))}`)).toEqual([made[1]])
    expect(await listed('email=nobody%40glyphs.store')).toEqual([])
    for (const wrong of [
      'family=Serif',
      'colour=red',
      '$id=x',
      'seats=many',
      'seats=',
      'active=yes',
      'active=TRUE',
      '__proto__=1',
    ]) {
      expectProblem(await kiln.get(`font-licenses?${wrong}`), 'invalid-filter')
    }
    expectProblem(await kiln.get('unicorns'), 'not-found')
    const order = (await kiln.action('orders/place', { total: 0.5 })).output
    expect((await page(kiln, 'orders?total=0.5')).data).toEqual([order])
  })

  test('§3: records come in order of creation, as they now are; deleted ones are gone', async () => {
    const note = newKey('list')
    const orders = []
    for (let i = 0; i < 5; i++) orders.push((await kiln.action('orders/place', { total: 777, note })).output as Json)
    await kiln.action(`orders/${String(orders[1]?.['$id'])}/edit`, { note: 'changed' })
    await kiln.action(`orders/${String(orders[2]?.['$id'])}/remove`, {})
    const expected = [orders[0], { ...orders[1], note: 'changed', $version: 2 }, orders[3], orders[4]]
    expect((await page(kiln, 'orders?total=777')).data).toEqual(expected)
    expect(await walk(kiln, 'orders?total=777&limit=1')).toEqual(expected)
    await kiln.action(`orders/${String(orders[0]?.['$id'])}/edit`, { total: 778 })
    expect((await page(kiln, 'orders?total=777')).data).toEqual(expected.slice(1))
    expect((await page(kiln, 'orders?total=778')).data).toEqual([{ ...orders[0], total: 778, $version: 2 }])
  })

  test('§3: a list of Versions is paged too', async () => {
    const { output } = await kiln.action('orders/place', {})
    const path = `orders/${String(output?.['$id'])}`
    for (let total = 1; total <= 6; total++) await kiln.action(`${path}/edit`, { total })
    const all = await walk<{ version: number }>(kiln, `${path}/versions?limit=3`)
    expect(all.map(({ version }) => version)).toEqual([1, 2, 3, 4, 5, 6, 7])
  })

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
        const { data, next } = await page<Member>(
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
    await eventually(async () => expect((await page(kiln, 'actions?status=pending')).data).toEqual([]))
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
    for (const ms of [400, 300, 200, 0, 100]) sent.push(await baker.action('orders/bake', { ms }, { mode: 'send' }))
    const all = 'actions?worker=baker'
    await eventually(async () => expect((await page(baker, `${all}&status=pending`)).data).toEqual([]))
    const settled = await walk<ActionView>(baker, `${all}&status=succeeded&limit=2`)
    const times = settled.map(({ settledAt }) => settledAt ?? '')
    expect(times).toEqual(times.toSorted())
    expect(settled.map(({ input }) => input['ms'])).toEqual([0, 100, 200, 300, 400])
    // Without the filter they stay where they became visible.
    expect(ids(await walk<ActionView>(baker, `${all}&limit=2`))).toEqual(ids(sent))
    const events = (await page<{ action: string }>(baker, 'events?limit=1000')).data.map(({ action }) => action)
    expect(events.filter((id) => ids(sent).includes(id))).toEqual(ids(settled))
  })

  test('§3: the cursor of Events is the seq: what lies after it, nothing beyond the head, and 400 for no seq', async () => {
    for (let i = 0; i < 3; i++) await kiln.action('orders/say', { i })
    const all = await walk<{ seq: number }>(kiln, 'events?limit=1000')
    const head = all.at(-1)?.seq ?? 0
    expect(all.map(({ seq }) => seq)).toEqual(all.map((_, i) => i + 1))
    expect(await walk(kiln, 'events?limit=13')).toEqual(all)
    const { data, next } = await page<{ seq: number }>(kiln, `events?after=${head - 3}&limit=2`)
    expect(data).toEqual(all.slice(-3, -1))
    expect(next).toBe(String(head - 1))
    expect(await page(kiln, `events?after=${head - 1}`)).toEqual({ data: all.slice(-1), next: null })
    for (const beyond of [head, head + 1, 2 ** 53 - 1])
      expect(await page(kiln, `events?after=${beyond}`)).toEqual({ data: [], next: null })
    expect((await page(kiln, 'events?after=0&limit=1')).data).toEqual(all.slice(0, 1))
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
      (await page<{ verb: string; worker: string; day: string; units: number }>(meter, `usage${query}`)).data
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
    expect(await page(smelter, 'inbox')).toEqual({ data: [], next: null })
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
