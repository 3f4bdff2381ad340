import { createHash } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import type { Manifest, ManifestNoun } from '../../../src/model/manifest.ts'
import {
  benchForEach,
  createOf,
  customer,
  deleteOf,
  customerNoun,
  manifest,
  namespace,
  order,
  orderNoun,
  type StoreUnderTest,
} from './harness.ts'

const hashOf = (token: string) => createHash('sha256').update(token).digest()

export function describeDefinitions(under: StoreUnderTest): void {
  describe(`${under.name}: definitions, Workers and tokens`, () => {
    const at = benchForEach(under)
    const withOrder = (wish: Partial<ManifestNoun>): Manifest => ({
      ...manifest,
      nouns: [{ ...orderNoun, ...wish }, customerNoun],
    })

    test('R2: every operation that a namespace ever had is known, though its Verb was removed', async () => {
      const { bench } = at
      const fewer = {
        ...manifest,
        verbs: [{ operation: 'Order.edit', noun: 'Order', verb: 'edit', target: 'record' as const }],
      }
      const { operations, faults } = await bench.store.deploy({
        ...fewer,
        nouns: [{ ...orderNoun, plural: 'commissions' }, customerNoun],
      })
      expect(faults).toEqual([])
      expect(operations).toHaveLength(3)
      expect(operations).toEqual(
        expect.arrayContaining([
          { nouns: 'orders', operation: 'Order.place' },
          { nouns: 'orders', operation: 'Order.refund' },
          { nouns: 'commissions', operation: 'Order.edit' },
        ]),
      )
      expect(await bench.store.namespaces()).toEqual([namespace])
    })

    test('§1: a seed runs once in the life of a store', async () => {
      const { bench } = at
      expect((await bench.store.deploy(manifest)).seeded).toBe(false)
      await bench.store.markSeeded(namespace)
      await bench.reopen()
      expect((await bench.store.deploy(manifest)).seeded).toBe(true)
      expect((await bench.store.deploy({ ...manifest, namespace: 'other.test' })).seeded).toBe(false)
    })

    test('N2: a new required field without a plain default is refused while old records lack it, and nothing is done', async () => {
      const { bench, worker } = at
      const grown = withOrder({
        fields: [...orderNoun.fields, { field: 'currency', required: true, default: null }],
        index: [],
      })
      await bench.settled(worker, { writes: [order('order_1')] })
      const { faults } = await bench.store.deploy(grown)
      expect(faults).toHaveLength(1)
      expect(faults[0]).toMatch(/Order\.currency.*order_1/)
      // The index that it would have dropped is still there.
      expect(await bench.store.find(namespace, 'Order', 'status', 'placed', 5)).toHaveLength(1)
      const withDefault = withOrder({
        fields: [...orderNoun.fields, { field: 'currency', required: true, default: '"EUR"' }],
      })
      expect((await bench.store.deploy(withDefault)).faults).toEqual([])
      // Old records lack it still: it can't lose its default.
      expect((await bench.store.deploy(grown)).faults).toHaveLength(1)
      await bench.settled(worker, { writes: [deleteOf(orderNoun, await bench.record('Order', 'order_1'))] })
      expect((await bench.store.deploy(grown)).faults).toEqual([])
    })

    test('N2: the faults of a definition can be asked for, and nothing is done', async () => {
      const { bench, worker } = at
      const lacking = { fields: [...orderNoun.fields, { field: 'currency', required: true, default: null }], index: [] }
      await bench.settled(worker, { writes: [order('order_1')] })
      const faults = await bench.store.deployFaults(withOrder(lacking))
      expect(faults).toEqual((await bench.store.deploy(withOrder(lacking))).faults)
      expect(faults).toHaveLength(1)
      // One without faults isn't recorded either: the index stays, and so do the namespaces.
      expect(await bench.store.deployFaults(withOrder({ index: [] }))).toEqual([])
      expect(await bench.store.deployFaults({ ...manifest, namespace: 'other.test' })).toEqual([])
      expect(await bench.store.find(namespace, 'Order', 'status', 'placed', 5)).toHaveLength(1)
      expect(await bench.store.namespaces()).toEqual([namespace])
      expect((await bench.store.deploy({ ...manifest, namespace: 'other.test' })).faults).toEqual([])
      await bench.settled(worker, { writes: [order('order_2')] })
      await bench.verifyClean()
    })

    test('N2: a new index is built from the records that exist, with the default where they lack the field', async () => {
      const { bench, worker } = at
      await bench.settled(worker, {
        writes: [order('a', { total: 1 }), order('b', { total: 2 }), order('c', { total: 1, currency: 'USD' })],
      })
      const fields = [...orderNoun.fields, { field: 'currency', required: true, default: '"EUR"' }]
      await bench.store.deploy(withOrder({ fields, index: ['status', 'total', 'currency'] }))
      const found = async (field: string, value: string | number) =>
        (await bench.store.find(namespace, 'Order', field, value, 9)).map(({ id }) => id)
      expect([await found('total', 1), await found('currency', 'EUR'), await found('currency', 'USD')]).toEqual([
        ['a', 'c'],
        ['a', 'b'],
        ['c'],
      ])
      await expect(bench.store.find(namespace, 'Order', 'note', 'x', 9)).rejects.toThrow('index')
      await bench.verifyClean()
      // Another default: what lacks the field is found under the new one.
      const changed = fields.map((field) => (field.field === 'currency' ? { ...field, default: '"GBP"' } : field))
      await bench.store.deploy(withOrder({ fields: changed, index: ['status', 'total', 'currency'] }))
      expect([await found('currency', 'EUR'), await found('currency', 'GBP')]).toEqual([[], ['a', 'b']])
    })

    test('N2: a new unique field that existing records break is refused, naming the value', async () => {
      const { bench, worker } = at
      await bench.settled(worker, { writes: [order('a', { note: 'x' }), order('b', { note: 'y' })] })
      expect((await bench.store.deploy(withOrder({ index: ['status'], unique: ['note'] }))).faults).toEqual([])
      expect((await bench.store.deploy(manifest)).faults).toEqual([])
      const third = createOf(orderNoun, 'c', { status: 'placed', total: 1, note: 'x' })
      await bench.settled(worker, { writes: [third] })
      const { faults } = await bench.store.deploy(withOrder({ index: ['status'], unique: ['note'] }))
      expect(faults).toHaveLength(1)
      expect(faults[0]).toMatch(/Order\.note.*"x"/)
      await bench.settled(worker, { writes: [order('d', { note: 'x' })] })
    })

    test('N2: a Noun that is left out keeps its records, and finds them when it is back', async () => {
      const { bench, worker } = at
      await bench.settled(worker, { writes: [customer('c1', 'a@b')] })
      await bench.store.deploy({ ...manifest, nouns: [orderNoun] })
      expect((await bench.record('Customer', 'c1')).version).toBe(1)
      await bench.store.deploy(manifest)
      expect(await bench.store.find(namespace, 'Customer', 'email', 'a@b', 1)).toHaveLength(1)
      expect(await bench.settle(worker, { writes: [customer('c2', 'a@b')] })).toMatchObject({ kind: 'conflict' })
    })

    test('H1: a token is its Worker’s until it expires or is revoked', async () => {
      const { bench } = at
      const worker = {
        id: `worker_${bench.id()}`,
        namespace,
        name: 'agent',
        kind: 'agent' as const,
        grants: ['Order.place', 'actions:all'],
      }
      await bench.store.addWorker(worker, hashOf('one'), null)
      await bench.store.addToken(worker.id, hashOf('two'), bench.nowMs + 1000)
      const of = (token: string) => bench.store.workerOfToken(hashOf(token))
      expect([await of('one'), await of('two'), await of('three')]).toEqual([worker, worker, null])
      bench.nowMs += 1000
      expect([await of('one'), await of('two')]).toEqual([worker, null])
      await bench.store.revokeWorker(worker.id, false)
      expect(await of('one')).toBeNull()
      await bench.store.addToken(worker.id, hashOf('three'), null)
      expect(await of('three')).toEqual(worker)
      await bench.store.revokeWorker(worker.id, true)
      expect(await of('three')).toBeNull()
      const listed = (await bench.store.workers(namespace)).find(({ id }) => id === worker.id)
      expect(listed).toMatchObject({ ...worker, removed: true })
      expect(listed?.tokens.map(({ revoked }) => revoked)).toEqual([true, true, true])
    })

    test('§1: a Worker’s name is never given to another one, not after a removal', async () => {
      const { bench, worker } = at
      const twin = { ...worker, id: `worker_${bench.id()}` }
      expect(await bench.store.addWorker(twin, hashOf('t'), null)).toBe('name-taken')
      await bench.store.revokeWorker(worker.id, true)
      expect(await bench.store.addWorker(twin, hashOf('t'), null)).toBe('name-taken')
      expect(await bench.store.workerOfToken(hashOf('t'))).toBeNull()
      expect(await bench.store.addWorker({ ...twin, namespace: 'other.test' }, hashOf('t'), null)).toBe('added')
      expect((await bench.store.workers(null)).map(({ namespace: of, removed }) => [of, removed])).toEqual([
        [namespace, true],
        ['other.test', false],
      ])
      expect(await bench.store.workers('nowhere.test')).toEqual([])
    })

    test('V4: an administrator’s command works beside the server, which obeys it at its next call', async () => {
      const { bench, worker } = at
      const admin = await under.openAdmin(bench.place, bench.options)
      try {
        const agent = { ...worker, id: `worker_${bench.id()}`, name: 'agent' }
        expect(await bench.store.workerOfToken(hashOf('t'))).toBeNull()
        expect(await admin.addWorker(agent, hashOf('t'), null)).toBe('added')
        expect(await bench.store.workerOfToken(hashOf('t'))).toEqual(agent)
        await Promise.all([
          ...Array.from({ length: 50 }, () => bench.settled(agent)),
          admin.addWorker({ ...agent, id: 'worker_x', name: 'x' }, null, null),
        ])
        const faults: string[] = []
        expect(await admin.verify((fault) => faults.push(fault))).toMatchObject({ actions: 50, events: 50, keys: 50 })
        expect(faults).toEqual([])
        await admin.revokeWorker(agent.id, false)
        expect(await bench.store.workerOfToken(hashOf('t'))).toBeNull()
        await expect(admin.settle(bench.settlement({ claim: bench.claim(agent) }))).rejects.toThrow('only a server')
      } finally {
        await admin.close()
      }
      await bench.settled(worker)
    })
  })
}
