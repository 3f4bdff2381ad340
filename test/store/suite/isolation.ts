import { describe, expect, test } from 'vitest'
import { lookupResource, recordResource, type LookupRead } from '../../../src/model/record.ts'
import type { Notice } from '../../../src/store/store.ts'
import {
  benchForEach,
  customer,
  customerNoun,
  deleteOf,
  failed,
  namespace,
  noReads,
  order,
  orderNoun,
  updateOf,
  type StoreUnderTest,
} from './harness.ts'

export function describeIsolation(under: StoreUnderTest): void {
  describe(`${under.name}: isolation and holds`, () => {
    const at = benchForEach(under)
    const conflict = { kind: 'conflict' }
    const reading = (id: string, version: number) => ({ records: [{ noun: 'Order', id, version }], lookups: [] })
    const lookingUp = (lookup: Partial<LookupRead>) => ({
      records: [],
      lookups: [{ noun: 'Order', field: 'status', value: 'placed', limit: 100, found: [], ...lookup }],
    })

    test('V6: a settlement on a record that was changed since it was read is a conflict, and does nothing', async () => {
      const { bench, worker } = at
      await bench.settled(worker, { writes: [order('order_1')] })
      const seen = await bench.record('Order', 'order_1')
      await bench.settled(worker, { writes: [updateOf(orderNoun, seen, { total: 11 })], reads: reading('order_1', 1) })
      expect(
        await bench.settle(worker, { writes: [updateOf(orderNoun, seen, { total: 12 })] }, { key: 'late' }),
      ).toMatchObject(conflict)
      expect(await bench.settle(worker, { reads: reading('order_1', 1) }, { key: 'late' })).toMatchObject(conflict)
      expect(await bench.settle(worker, { writes: [deleteOf(orderNoun, seen)] }, { key: 'late' })).toMatchObject(
        conflict,
      )
      expect((await bench.record('Order', 'order_1')).fields['total']).toBe(11)
      expect((await bench.settled(worker, { reads: reading('order_1', 2) }, { key: 'late' })).seq).toBe(3)
    })

    test('V6: of two updates of one Version in one group, one commits and the other conflicts', async () => {
      const { bench, worker } = at
      await bench.settled(worker, { writes: [order('order_1')] })
      const seen = await bench.record('Order', 'order_1')
      const answers = await Promise.all(
        [1, 2, 3].map((total) => bench.settle(worker, { writes: [updateOf(orderNoun, seen, { total })] })),
      )
      expect(answers.map(({ kind }) => kind)).toEqual(['settled', 'conflict', 'conflict'])
    })

    test('V6: that a record was not there, or was deleted, is a read too', async () => {
      const { bench, worker } = at
      expect(await bench.store.validate(namespace, reading('order_1', 0))).toBe(true)
      await bench.settled(worker, { writes: [order('order_1')] })
      expect(await bench.settle(worker, { reads: reading('order_1', 0) })).toMatchObject(conflict)
      await bench.settled(worker, { writes: [deleteOf(orderNoun, await bench.record('Order', 'order_1'))] })
      expect(await bench.settle(worker, { reads: reading('order_1', 0) })).toMatchObject(conflict)
      expect(await bench.store.validate(namespace, reading('order_1', -2))).toBe(true)
      expect(await bench.store.validate(namespace, reading('order_1', 1))).toBe(false)
      // Another namespace has records of its own.
      expect(await bench.store.validate('other.test', reading('order_1', 0))).toBe(true)
    })

    test('§1: the id of a record, deleted or not, is never used again', async () => {
      const { bench, worker } = at
      await bench.settled(worker, { writes: [order('order_1')] })
      expect(await bench.settle(worker, { writes: [order('order_1')] })).toMatchObject(conflict)
      await bench.settled(worker, { writes: [deleteOf(orderNoun, await bench.record('Order', 'order_1'))] })
      expect(await bench.settle(worker, { writes: [order('order_1')] })).toMatchObject(conflict)
      await bench.settled(worker, { writes: [customer('order_1', 'an id belongs to a Noun')] })
    })

    test('V6: phantoms conflict: a record that came to, left or changed in what was looked up', async () => {
      const { bench, worker } = at
      const none = lookingUp({})
      await bench.settled(worker, { reads: none, writes: [order('order_1', { status: 'draft' })] })
      await bench.settled(worker, { reads: none, writes: [order('order_2')] })
      expect(await bench.settle(worker, { reads: none })).toMatchObject(conflict)
      const one = lookingUp({ found: [{ id: 'order_2', version: 1 }] })
      expect(await bench.store.validate(namespace, one)).toBe(true)
      await bench.settled(worker, {
        writes: [updateOf(orderNoun, await bench.record('Order', 'order_2'), { total: 11 })],
      })
      expect(await bench.settle(worker, { reads: one })).toMatchObject(conflict)
      await bench.settled(worker, {
        writes: [updateOf(orderNoun, await bench.record('Order', 'order_1'), { status: 'placed' })],
      })
      // Oldest first, and no further than was asked for.
      expect(
        await bench.store.validate(namespace, lookingUp({ limit: 1, found: [{ id: 'order_1', version: 2 }] })),
      ).toBe(true)
      expect(
        await bench.store.validate(namespace, lookingUp({ limit: 2, found: [{ id: 'order_1', version: 2 }] })),
      ).toBe(false)
      const two = lookingUp({
        found: [
          { id: 'order_1', version: 2 },
          { id: 'order_2', version: 2 },
        ],
      })
      expect(await bench.store.validate(namespace, two)).toBe(true)
      await bench.settled(worker, { writes: [deleteOf(orderNoun, await bench.record('Order', 'order_1'))] })
      expect(await bench.store.validate(namespace, two)).toBe(false)
    })

    test('V6: a unique value is one record’s, until that record gives it up', async () => {
      const { bench, worker } = at
      await bench.settled(worker, { writes: [customer('c1', 'a@b')] })
      expect(await bench.settle(worker, { writes: [customer('c2', 'a@b')] })).toMatchObject(conflict)
      await bench.settled(worker, { writes: [customer('c2', 'b@b')] })
      const [c1, c2] = [await bench.record('Customer', 'c1'), await bench.record('Customer', 'c2')]
      expect(await bench.settle(worker, { writes: [updateOf(customerNoun, c2, { email: 'a@b' })] })).toMatchObject(
        conflict,
      )
      // Swapped in one settlement, each is free when the other takes it.
      await bench.settled(worker, {
        writes: [updateOf(customerNoun, c1, { email: 'b@b' }), updateOf(customerNoun, c2, { email: 'a@b' })],
      })
      await bench.settled(worker, { writes: [deleteOf(customerNoun, await bench.record('Customer', 'c1'))] })
      await bench.settled(worker, { writes: [customer('c3', 'b@b')] })
      expect((await bench.store.find(namespace, 'Customer', 'email', 'b@b', 5)).map(({ id }) => id)).toEqual(['c3'])
    })

    test('V6: of two that take one unique value in one group, one commits', async () => {
      const { bench, worker } = at
      const answers = await Promise.all(
        ['c1', 'c2'].map((id) => bench.settle(worker, { writes: [customer(id, 'a@b')] })),
      )
      expect(answers.map(({ kind }) => kind)).toEqual(['settled', 'conflict'])
    })

    test('V6: a hold stops other chains from changing what it names, not from reading it', async () => {
      const { bench, worker } = at
      await bench.settled(worker, { writes: [order('order_1')] })
      const seen = await bench.record('Order', 'order_1')
      const { lease } = await bench.claimed(worker)
      expect(await bench.startStep(lease, {}, [recordResource('Order', 'order_1')])).toEqual({ kind: 'started' })
      const blocked = { kind: 'blocked', resource: 'Order/order_1', by: lease.action, stuck: false }
      expect(await bench.settle(worker, { writes: [updateOf(orderNoun, seen, { total: 12 })] })).toEqual(blocked)
      expect(await bench.settle(worker, { writes: [deleteOf(orderNoun, seen)] })).toEqual(blocked)
      await bench.settled(worker, { reads: reading('order_1', 1), writes: [order('order_2')] })
      expect(await bench.store.blocker(namespace, ['Order/order_2', 'Order/order_1'], null)).toEqual(blocked)
      expect(await bench.store.blocker(namespace, ['Order/order_1'], lease.action)).toBeNull()
      expect(await bench.store.blocker('other.test', ['Order/order_1'], null)).toBeNull()
      // The chain itself changes it.
      expect(await bench.end(lease, { writes: [updateOf(orderNoun, seen, { total: 13 })] })).toMatchObject({
        kind: 'settled',
      })
      await bench.settled(worker, {
        writes: [updateOf(orderNoun, await bench.record('Order', 'order_1'), { total: 12 })],
      })
    })

    test('V6: an index value that is held can be neither entered nor left', async () => {
      const { bench, worker } = at
      await bench.settled(worker, { writes: [order('order_1'), order('order_2', { status: 'draft' })] })
      const { lease } = await bench.claimed(worker)
      const resource = lookupResource('Order', 'status', 'placed')
      await bench.startStep(lease, {}, [resource])
      const blocked = { kind: 'blocked', resource, by: lease.action, stuck: false }
      expect(await bench.settle(worker, { writes: [order('order_3')] })).toEqual(blocked)
      for (const [id, status] of [
        ['order_1', 'draft'],
        ['order_2', 'placed'],
      ] as const) {
        expect(
          await bench.settle(worker, { writes: [updateOf(orderNoun, await bench.record('Order', id), { status })] }),
        ).toEqual(blocked)
      }
      await bench.settled(worker, {
        writes: [updateOf(orderNoun, await bench.record('Order', 'order_1'), { total: 99 })],
      })
      await bench.end(lease)
      await bench.settled(worker, { writes: [order('order_3')] })
    })

    test('V6: holds are taken all at once or not at all', async () => {
      const { bench, worker } = at
      const [a, b] = [(await bench.claimed(worker)).lease, (await bench.claimed(worker)).lease]
      await bench.startStep(a, {}, ['Order/y'])
      expect(await bench.startStep(b, {}, ['Order/x', 'Order/y'])).toEqual({
        kind: 'blocked',
        resource: 'Order/y',
        by: a.action,
        stuck: false,
      })
      expect(await bench.store.journal(b.action)).toEqual([])
      expect(await bench.store.blocker(namespace, ['Order/x'], null)).toBeNull()
      await bench.end(a)
      expect(await bench.startStep(b, {}, ['Order/x', 'Order/y'])).toEqual({ kind: 'started' })
      await bench.end(b)
    })

    test('V6: a step does not start on reads that have changed', async () => {
      const { bench, worker } = at
      const { lease } = await bench.claimed(worker)
      expect(await bench.startStep(lease, {}, ['Order/x'], reading('order_1', 1))).toMatchObject(conflict)
      expect(await bench.store.journal(lease.action)).toEqual([])
      expect(await bench.store.blocker(namespace, ['Order/x'], null)).toBeNull()
      expect(await bench.startStep(lease, {}, ['Order/x'], reading('order_1', 0))).toEqual({ kind: 'started' })
      await bench.end(lease)
    })

    test('V6: a chain that failed after an effect keeps its holds, over a restart, until a retry of it ends', async () => {
      const { bench, worker } = at
      await bench.settled(worker, { writes: [order('order_1')] })
      const action = await bench.failAfterEffect(worker, ['Order/order_1'])
      await bench.reopen()
      const seen = await bench.record('Order', 'order_1')
      const write = { writes: [updateOf(orderNoun, seen, { total: 12 })] }
      expect(await bench.settle(worker, write)).toEqual({
        kind: 'blocked',
        resource: 'Order/order_1',
        by: action.id,
        stuck: true,
      })
      const retry = await bench.retry(worker, action.id)
      if (retry.kind !== 'claimed') throw new Error(retry.kind)
      expect(await bench.settle(worker, write)).toMatchObject({ by: retry.lease.action, stuck: false })
      expect(await bench.end(retry.lease, write)).toMatchObject({ kind: 'settled' })
      await bench.settled(worker, {
        writes: [updateOf(orderNoun, await bench.record('Order', 'order_1'), { total: 14 })],
      })
    })

    test('V6: an Action takes its turn, which ends with the next one, a wait, a stop or its settlement', async () => {
      const { bench, worker } = at
      const notices: Notice[] = []
      bench.store.listen((notice) => notices.push(notice))
      const { lease } = await bench.claimed(worker)
      const held = async () => (await bench.store.blocker(namespace, ['Order/a', 'Order/b'], null))?.resource
      expect(await bench.store.hold(lease, ['Order/a'])).toEqual({ kind: 'held' })
      expect(await held()).toBe('Order/a')
      expect(await bench.store.hold(lease, ['Order/b'])).toEqual({ kind: 'held' })
      expect(await held()).toBe('Order/b')
      const other = (await bench.claimed(worker)).lease
      expect(await bench.store.hold(other, ['Order/b'])).toMatchObject({ kind: 'blocked', by: lease.action })
      expect(await bench.store.wait(lease, 'record', 1)).toBe('ok')
      expect(await held()).toBeUndefined()
      await bench.store.hold(lease, ['Order/a', 'Order/b'])
      await bench.store.hold(lease, [])
      expect(await held()).toBeUndefined()
      await bench.store.hold(lease, ['Order/a'])
      await bench.end(lease, { outcome: failed, holds: 'keep' })
      expect(await held()).toBeUndefined()
      const released = notices.flatMap((notice) => (notice.kind === 'released' ? [notice.resources] : []))
      expect(released).toEqual([['Order/a'], ['Order/b'], ['Order/a', 'Order/b'], ['Order/a']])
      await bench.store.hold(other, ['Order/b'])
      await bench.reopen()
      expect(await held()).toBeUndefined()
    })

    test('V6: a turn becomes a hold when the step starts on it', async () => {
      const { bench, worker } = at
      const { lease } = await bench.claimed(worker)
      await bench.store.hold(lease, ['Order/a', 'Order/b'])
      expect(await bench.startStep(lease, {}, ['Order/a'])).toEqual({ kind: 'started' })
      expect(await bench.store.blocker(namespace, ['Order/b'], null)).toBeNull()
      await bench.reopen()
      expect(await bench.store.blocker(namespace, ['Order/a'], null)).toMatchObject({ by: lease.action, stuck: false })
      const adopted = await bench.store.adopt(lease.action)
      if (adopted.kind === 'adopted') await bench.end(adopted.lease, { reads: noReads })
      expect(await bench.store.blocker(namespace, ['Order/a'], null)).toBeNull()
    })
  })
}
