import { beforeAll, describe, expect, test } from 'vitest'
import type { TestServer } from '../support/server.ts'
import { caller, expectProblem, newKey, pageOf, startKiln, stores, walk } from './wire.ts'
import type { ActionView, Caller } from './wire.ts'

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

  const ids = (actions: readonly { id: string }[]) => actions.map(({ id }) => id)

  test('§3: a list is { data, next }: 100 unless a limit says otherwise, at most 1000, and null is the end', async () => {
    const writer = await worker('hundred')
    const made = []
    for (let i = 0; i < 105; i++) made.push((await writer.action('orders/say', { i })).id)
    const mine = 'actions?worker=hundred'
    const first = await pageOf<ActionView>(writer, mine)
    expect(ids(first.data)).toEqual(made.slice(0, 100))
    const rest = await pageOf<ActionView>(writer, `${mine}&after=${encodeURIComponent(first.next ?? '')}`)
    expect([ids(rest.data), rest.next]).toEqual([made.slice(100), null])
    expect(ids((await pageOf<ActionView>(writer, `${mine}&limit=1000`)).data)).toEqual(made)
    expect((await pageOf(writer, `${mine}&limit=105`)).next).toBeNull()
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
    const { next } = await pageOf(kiln, 'orders?limit=1')
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
    const listed = async (query: string) => ids((await pageOf<ActionView>(one, `actions?${query}`)).data)
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
    expect((await pageOf<ActionView>(one, `actions?on=${failed.id}`)).data).toEqual([retried])
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
      made.push((await issue(seats, active)).output)
    const listed = async (query: string) => (await pageOf(kiln, `font-licenses?${query}`)).data
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
    expect((await pageOf(kiln, 'orders?total=0.5')).data).toEqual([order])
  })

  test('§3: records come in order of creation, as they now are; deleted ones are gone', async () => {
    const note = newKey('list')
    const orders = []
    for (let i = 0; i < 5; i++) orders.push((await kiln.action('orders/place', { total: 777, note })).output)
    await kiln.action(`orders/${String(orders[1]?.['$id'])}/edit`, { note: 'changed' })
    await kiln.action(`orders/${String(orders[2]?.['$id'])}/remove`, {})
    const expected = [orders[0], { ...orders[1], note: 'changed', $version: 2 }, orders[3], orders[4]]
    expect((await pageOf(kiln, 'orders?total=777')).data).toEqual(expected)
    expect(await walk(kiln, 'orders?total=777&limit=1')).toEqual(expected)
    await kiln.action(`orders/${String(orders[0]?.['$id'])}/edit`, { total: 778 })
    expect((await pageOf(kiln, 'orders?total=777')).data).toEqual(expected.slice(1))
    expect((await pageOf(kiln, 'orders?total=778')).data).toEqual([{ ...orders[0], total: 778, $version: 2 }])
  })

  test('§3: a list of Versions is paged too', async () => {
    const { output } = await kiln.action('orders/place', {})
    const path = `orders/${String(output?.['$id'])}`
    for (let total = 1; total <= 6; total++) await kiln.action(`${path}/edit`, { total })
    const all = await walk<{ version: number }>(kiln, `${path}/versions?limit=3`)
    expect(all.map(({ version }) => version)).toEqual([1, 2, 3, 4, 5, 6, 7])
  })
})
