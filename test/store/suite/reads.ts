import { describe, expect, test } from 'vitest'
import type { ActionFilter, Page, Paged } from '../../../src/store/store.ts'
import {
  benchForEach,
  createOf,
  customer,
  customerNoun,
  deleteOf,
  failed,
  namespace,
  order,
  orderNoun,
  refused,
  updateOf,
  type StoreUnderTest,
} from './harness.ts'

/** Every member, page by page. */
async function allPages<T>(limit: number, list: (page: Page) => Promise<Paged<T>>): Promise<T[]> {
  const members: T[] = []
  for (let after = 0; ;) {
    const { data, next } = await list({ after, limit })
    expect(data.length).toBeLessThanOrEqual(limit)
    members.push(...data)
    if (next === null) return members
    after = next
  }
}

export function describeReads(under: StoreUnderTest): void {
  describe(`${under.name}: records, Versions and lists`, () => {
    const at = benchForEach(under)

    test('§1: every Version of a record can be had again, and what changed, after a deletion too', async () => {
      const { bench, worker } = at
      const made = await bench.settled(worker, { writes: [order('order_1', { note: null, lines: [{ a: 1 }] })] })
      bench.nowMs += 5
      const paid = await bench.settled(worker, {
        writes: [updateOf(orderNoun, await bench.record('Order', 'order_1'), { status: 'paid', note: undefined })],
      })
      const gone = await bench.settled(worker, {
        writes: [deleteOf(orderNoun, await bench.record('Order', 'order_1'))],
      })
      const first = { status: 'placed', total: 10, note: null, lines: [{ a: 1 }] }
      const second = { status: 'paid', total: 10, lines: [{ a: 1 }] }
      await bench.reopen()
      const versionAt = (version: number) => bench.store.recordAt(namespace, 'Order', 'order_1', version)
      expect(await versionAt(1)).toEqual({ noun: 'Order', id: 'order_1', version: 1, fields: first })
      expect(await versionAt(2)).toEqual({ noun: 'Order', id: 'order_1', version: 2, fields: second })
      expect(await versionAt(3)).toEqual({ noun: 'Order', id: 'order_1', version: -3, fields: {} })
      expect([
        await versionAt(0),
        await versionAt(4),
        await bench.store.recordAt(namespace, 'Order', 'order_2', 1),
      ]).toEqual([null, null, null])
      expect(await bench.record('Order', 'order_1')).toEqual({ noun: 'Order', id: 'order_1', version: -3, fields: {} })
      const versions = await bench.store.versions(namespace, 'Order', 'order_1', 0, 10)
      expect(versions).toEqual([
        {
          version: 1,
          action: made.id,
          at: made.settledAt,
          deleted: false,
          changes: expect.arrayContaining([
            { field: 'note', to: null },
            { field: 'total', to: 10 },
          ]),
        },
        {
          version: 2,
          action: paid.id,
          at: paid.settledAt,
          deleted: false,
          changes: [
            { field: 'status', from: 'placed', to: 'paid' },
            { field: 'note', from: null },
          ],
        },
        {
          version: 3,
          action: gone.id,
          at: gone.settledAt,
          deleted: true,
          changes: expect.arrayContaining([{ field: 'lines', from: [{ a: 1 }] }]),
        },
      ])
      expect(versions[0]?.changes).toHaveLength(4)
      expect((await bench.store.versions(namespace, 'Order', 'order_1', 1, 1)).map(({ version }) => version)).toEqual([
        2,
      ])
      expect(await bench.store.versions(namespace, 'Order', 'order_2', 0, 10)).toEqual([])
    })

    test('V1: a member called __proto__ is a field like any other', async () => {
      const { bench, worker } = at
      const fields = JSON.parse('{"status":"placed","total":1,"note":"n","__proto__":{"polluted":true}}') as Record<
        string,
        unknown
      >
      await bench.settled(worker, { writes: [createOf(orderNoun, 'order_1', fields)] })
      const seen = await bench.record('Order', 'order_1')
      expect(Object.hasOwn(seen.fields, '__proto__')).toBe(true)
      await bench.settled(worker, {
        writes: [
          {
            ...updateOf(orderNoun, seen, {}),
            fields: { ...seen.fields, total: 2 },
            changes: [{ field: 'total', from: 1, to: 2 }],
          },
        ],
      })
      const first = await bench.store.recordAt(namespace, 'Order', 'order_1', 1)
      expect(Object.hasOwn(first?.fields ?? {}, '__proto__')).toBe(true)
      expect(Reflect.get({}, 'polluted')).toBeUndefined()
      expect(
        (await bench.store.versions(namespace, 'Order', 'order_1', 0, 1))[0]?.changes.map(({ field }) => field),
      ).toContain('__proto__')
    })

    test('V6: an index finds live records oldest first, telling values of one text apart by type', async () => {
      const { bench, worker } = at
      for (const [id, note] of [
        ['a', '1'],
        ['b', 1],
        ['c', true],
        ['d', 'true'],
        ['e', null],
        ['f', 1],
      ] as const) {
        await bench.settled(worker, { writes: [order(id, note === null ? {} : { note })] })
      }
      const found = async (value: string | number | boolean) =>
        (await bench.store.find(namespace, 'Order', 'note', value, 9)).map(({ id }) => id)
      expect([await found('1'), await found(1), await found(true), await found('true'), await found('x')]).toEqual([
        ['a'],
        ['b', 'f'],
        ['c'],
        ['d'],
        [],
      ])
      expect((await bench.store.find(namespace, 'Order', 'note', 1, 1)).map(({ id }) => id)).toEqual(['b'])
      expect(await bench.store.find(namespace, 'Kiln', 'note', 1, 1)).toEqual([])
    })

    test('§3: records are listed in order of creation, filtered by indexes, without the deleted ones', async () => {
      const { bench, worker } = at
      for (let i = 0; i < 30; i++) {
        await bench.settled(worker, {
          writes: [order(`o${i}`, { status: i % 2 ? 'odd' : 'even', note: i % 3 }), customer(`c${i}`, `${i}@x`)],
        })
      }
      await bench.settled(worker, { writes: [deleteOf(orderNoun, await bench.record('Order', 'o5'))] })
      const list = (filters: { field: string; value: string | number }[], limit = 4) =>
        allPages(limit, (page) => bench.store.records(namespace, 'Order', filters, page)).then((all) =>
          all.map(({ id }) => id),
        )
      const expected = Array.from({ length: 30 }, (_, i) => i).filter((i) => i !== 5)
      expect(await list([])).toEqual(expected.map((i) => `o${i}`))
      expect(await list([{ field: 'status', value: 'odd' }])).toEqual(expected.filter((i) => i % 2).map((i) => `o${i}`))
      const both = [
        { field: 'status', value: 'odd' },
        { field: 'note', value: 0 },
      ]
      expect(await list(both, 2)).toEqual(['o3', 'o9', 'o15', 'o21', 'o27'])
      expect(await list(both, 5)).toHaveLength(5)
      expect((await bench.store.records(namespace, 'Kiln', [], { after: 0, limit: 1 })).data).toEqual([])
    })

    test('§3: Actions are listed as they came on record; a settled status in the order of settlement', async () => {
      const { bench, worker } = at
      const other = await bench.worker('other')
      const leases = [(await bench.claimed(worker)).lease, (await bench.claimed(other)).lease]
      const ids = leases.map(({ action }) => action)
      for (let i = 0; i < 9; i++) {
        const outcome = [failed, refused, { status: 'succeeded', output: 'null' } as const][i % 3]!
        ids.push(
          (await bench.settled(i % 2 ? worker : other, { outcome }, { verb: i < 4 ? 'Order.place' : 'Order.refund' }))
            .id,
        )
      }
      await bench.end(leases[1]!)
      const list = async (filter: ActionFilter, limit = 2) =>
        (await allPages(limit, (page) => bench.store.actions(namespace, filter, page))).map(({ id }) => ids.indexOf(id))
      expect(await list({})).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10])
      expect(await list({ status: 'pending' })).toEqual([0])
      expect(await list({ status: 'failed' })).toEqual([2, 5, 8])
      expect(await list({ status: 'refused' })).toEqual([3, 6, 9])
      expect(await list({ status: 'succeeded' })).toEqual([4, 7, 10, 1])
      expect(await list({ worker: 'other' })).toEqual([1, 2, 4, 6, 8, 10])
      expect(await list({ worker: 'other', status: 'succeeded', verb: 'Order.refund' })).toEqual([10])
      expect(await list({ verb: 'Order.refund' }, 3)).toEqual([6, 7, 8, 9, 10])
      expect(await list({ verb: 'Order.edit' })).toEqual([])
      expect(await list({ worker: 'nobody' })).toEqual([])
      expect(await bench.store.actions('other.test', {}, { after: 0, limit: 5 })).toEqual({ data: [], next: null })
    })

    test('§3: Actions are found by key, of each Worker, and by what they are on', async () => {
      const { bench, worker } = at
      const other = await bench.worker('other')
      const [a, b] = [
        await bench.settled(worker, { outcome: failed }, { key: 'k' }),
        await bench.settled(other, {}, { key: 'k' }),
      ]
      const retry = await bench.retry(other, a.id)
      const list = async (filter: ActionFilter, limit = 5) =>
        (await bench.store.actions(namespace, filter, { after: 0, limit })).data.map(({ id }) => id)
      expect(await list({ key: 'k' })).toEqual([a.id, b.id])
      expect(await list({ key: 'k' }, 1)).toEqual([a.id])
      expect(await list({ key: 'k', worker: 'other' })).toEqual([b.id])
      expect(await list({ key: 'none' })).toEqual([])
      expect(await list({ on: a.id })).toEqual(retry.kind === 'claimed' ? [retry.lease.action] : [])
      expect(await list({ on: a.id, status: 'succeeded' })).toEqual([])
      expect(await list({ on: b.id })).toEqual([])
    })

    test('§3: a reader that pages under writes neither skips nor repeats', async () => {
      const { bench, worker } = at
      const writes = Array.from({ length: 20 }, (_, i) => i)
      const seen: string[] = []
      let after = 0
      for (const i of writes) {
        const { lease } = await bench.claimed(worker)
        await Promise.all(Array.from({ length: 3 }, () => bench.settled(worker, { outcome: failed })))
        await bench.end(lease, { outcome: failed })
        const page = await bench.store.actions(namespace, { status: 'failed' }, { after, limit: 3 })
        seen.push(...page.data.map(({ id }) => id))
        after = page.next ?? (page.data.length > 0 ? after : i)
      }
      const rest = await allPages(3, (page) =>
        bench.store.actions(namespace, { status: 'failed' }, page.after === 0 ? { ...page, after } : page),
      )
      seen.push(...rest.map(({ id }) => id))
      expect(seen).toHaveLength(80)
      expect(new Set(seen).size).toBe(80)
    })

    test('W4: an inbox shows its Worker’s items, and with the grant every failed one', async () => {
      const { bench, worker } = at
      const other = await bench.worker('other')
      const itemOf = (kind: 'refused' | 'failed', records = {}) => ({
        id: `item_${bench.id()}` as const,
        kind,
        records,
        would: kind === 'refused' ? null : '{"a":1}',
      })
      const items = [itemOf('refused', { 'orders/o': 8 }), itemOf('failed'), itemOf('refused'), itemOf('failed')]
      const workers = [worker, worker, other, other]
      const actions = []
      for (const [i, item] of items.entries()) {
        actions.push(await bench.settled(workers[i]!, { outcome: item.kind === 'failed' ? failed : refused, item }))
      }
      const list = async (filter: { all: boolean; status?: 'open' | 'decided' }, limit = 1) =>
        (await allPages(limit, (page) => bench.store.inbox(namespace, { workerId: worker.id, ...filter }, page))).map(
          ({ id }) => items.findIndex((item) => item.id === id),
        )
      expect(await list({ all: false })).toEqual([0, 1])
      expect(await list({ all: true })).toEqual([0, 1, 3])
      expect(await bench.store.item(namespace, items[0]!.id)).toEqual({
        ...items[0],
        action: actions[0],
        status: 'open',
        decision: null,
        at: bench.nowMs,
      })
      expect((await bench.store.item(namespace, items[1]!.id))?.would).toBe('{"a":1}')
      expect(await bench.store.item('other.test', items[0]!.id)).toBeNull()
      expect(await bench.store.item(namespace, `item_${bench.id()}`)).toBeNull()
      await bench.retry(worker, actions[3]!.id)
      await bench.retry(worker, actions[1]!.id)
      expect(await list({ all: true, status: 'open' })).toEqual([0])
      // Decided ones in the order of decision.
      expect(await list({ all: true, status: 'decided' })).toEqual([3, 1])
      expect(await list({ all: false, status: 'decided' })).toEqual([1])
    })

    test('V6: many records in one settlement are one Version each, or none', async () => {
      const { bench, worker } = at
      const ids = Array.from({ length: 1000 }, (_, i) => `c${i}`)
      const { seq } = await bench.settled(worker, {
        writes: ids.map((id) => customer(id, `${id}@x`, { city: 'Delft' })),
      })
      expect((await bench.store.events(namespace, seq - 1, 1))[0]?.records).toHaveLength(1000)
      expect(await bench.store.find(namespace, 'Customer', 'city', 'Delft', 1000)).toHaveLength(1000)
      const c1 = await bench.record('Customer', 'c1')
      const answer = await bench.settle(worker, {
        writes: [updateOf(customerNoun, c1, { city: 'Gouda' }), customer('c5', 'new@x')],
      })
      expect(answer).toMatchObject({ kind: 'conflict' })
      expect((await bench.record('Customer', 'c1')).fields['city']).toBe('Delft')
    })
  })
}
