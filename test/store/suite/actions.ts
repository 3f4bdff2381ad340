import { describe, expect, test } from 'vitest'
import { checkKey } from '../../../src/model/key.ts'
import type { Notice } from '../../../src/store/store.ts'
import {
  benchForEach,
  failed,
  fingerprintOf,
  mustSettle,
  namespace,
  order,
  placed,
  refused,
  type StoreUnderTest,
} from './harness.ts'

export function describeActions(under: StoreUnderTest): void {
  describe(`${under.name}: Actions and keys`, () => {
    const at = benchForEach(under)

    test('V1: one settlement puts the Action, its record, Version, Event and usage on record together', async () => {
      const { bench, worker } = at
      const action = await bench.settled(worker, { writes: [order('order_1')] }, { key: 'cart-1', mode: 'send' })
      expect(action).toMatchObject({
        status: 'succeeded',
        seq: 1,
        key: 'cart-1',
        mode: 'send',
        attempts: 1,
        outcome: placed,
      })
      expect(await bench.store.action(namespace, action.id)).toEqual(action)
      expect(await bench.store.lookUp(worker.id, checkKey('cart-1'))).toEqual(action)
      expect(await bench.record('Order', 'order_1')).toEqual({
        noun: 'Order',
        id: 'order_1',
        version: 1,
        fields: { status: 'placed', total: 10 },
      })
      expect(await bench.store.events(namespace, 0, 10)).toEqual([
        {
          id: action.event,
          seq: 1,
          type: 'Order.placed',
          action: action.id,
          worker: 'checkout',
          records: [{ record: 'orders/order_1', version: 1 }],
          outcome: placed,
          at: bench.nowMs,
        },
      ])
      expect(await bench.store.usage(namespace, '2026-11-30', '2026-12-01')).toEqual([
        { verb: 'Order.place', worker: 'checkout', day: '2026-11-30', units: 1 },
      ])
    })

    test('K5: a settlement under a bound key answers the first Action and changes nothing', async () => {
      const { bench, worker } = at
      const first = await bench.settled(worker, {}, { key: 'k' })
      const second = await bench.settle(worker, { writes: [order('order_2')], outcome: failed }, { key: 'k' })
      expect(second).toEqual({ kind: 'found', action: first })
      expect(await bench.store.record(namespace, 'Order', 'order_2')).toBeNull()
      expect(await bench.store.events(namespace, 0, 10)).toHaveLength(1)
    })

    test('K5: 64 settlements with one key at once make one Action, one Event, one unit', async () => {
      const { bench, worker } = at
      const answers = await Promise.all(
        Array.from({ length: 64 }, (_, i) => bench.settle(worker, { writes: [order(`order_${i}`)] }, { key: 'race' })),
      )
      const settled = answers.filter(({ kind }) => kind === 'settled')
      expect(settled).toHaveLength(1)
      const [winner] = settled.map(mustSettle)
      for (const answer of answers) expect('action' in answer && answer.action.id).toBe(winner?.id)
      expect(await bench.store.events(namespace, 0, 100)).toHaveLength(1)
      expect((await bench.store.usage(namespace, '2026-11-30', '2026-12-01'))[0]?.units).toBe(1)
      expect((await bench.store.records(namespace, 'Order', [], { after: 0, limit: 100 })).data).toHaveLength(1)
    })

    test('K1: keys that look alike are different keys', async () => {
      const { bench, worker } = at
      const keys = [
        'a',
        '"a"',
        ' a',
        'a ',
        'a, b',
        'A',
        'a\0',
        'a\0b',
        'é',
        'e\u0301',
        '😀',
        '𝄞'.repeat(255),
        '\ufeffa',
        '%61',
      ]
      const ids = await Promise.all(keys.map(async (key) => (await bench.settled(worker, {}, { key })).id))
      expect(new Set(ids).size).toBe(keys.length)
      await bench.reopen()
      for (const [i, key] of keys.entries()) {
        const action = await bench.store.lookUp(worker.id, checkKey(key))
        expect([action?.id, action?.key]).toEqual([ids[i], key])
      }
      expect(await bench.store.lookUp(worker.id, checkKey('b'))).toBeNull()
    })

    test('K2: equal keys of two Workers and of two namespaces are four Actions', async () => {
      const { bench } = at
      const others = [
        await bench.worker('a'),
        await bench.worker('b'),
        await bench.worker('a', 'other.test'),
        await bench.worker('b', 'other.test'),
      ]
      const actions = await Promise.all(others.map((worker) => bench.settled(worker, {}, { key: 'same' })))
      expect(new Set(actions.map(({ id }) => id)).size).toBe(4)
      expect(actions.map(({ seq }) => seq)).toEqual([1, 2, 1, 2])
      expect(await bench.store.action('other.test', actions[0]!.id)).toBeNull()
      expect(await bench.store.lookUp('worker_nobody', checkKey('same'))).toBeNull()
    })

    test('K3: what a key binds is kept as it was given, also where it differs from what runs', async () => {
      const { bench, worker } = at
      const bound = { operation: 'Action.retry', target: 'act_x', fingerprint: fingerprintOf('{"a":1}') }
      const claim = {
        key: 'k',
        bound,
        target: 'order_1',
        verb: 'Order.refund',
        input: '{"x":"\\u0000"}',
        decidedAgainst: { 'orders/order_1': 3 },
        decidedAfter: ['k0'],
      }
      const first = await bench.settled(worker, {}, claim)
      await bench.reopen()
      const action = await bench.store.lookUp(worker.id, checkKey('k'))
      expect(action).toMatchObject({ ...claim, bound: { operation: 'Action.retry', target: 'act_x' } })
      expect(action?.bound.fingerprint).toEqual(bound.fingerprint)
      expect(action?.root).toBe(first.id)
    })

    test('§14: a call without a key is found by nobody', async () => {
      const { bench, worker } = at
      const [a, b] = [await bench.settled(worker, {}, { key: null }), await bench.settled(worker, {}, { key: null })]
      expect(a.id).not.toBe(b.id)
      expect(a.key).toBeNull()
    })

    test('K5: a claimed Action is found as pending, then settles once by its lease', async () => {
      const { bench, worker } = at
      const { lease, run } = await bench.claimed(worker, { key: 'k', mode: 'send' })
      expect(run).toEqual({ journal: [], fixed: null, ranMs: 0, crashes: 0 })
      expect(await bench.store.claim(bench.claim(worker, { key: 'k' }))).toMatchObject({
        kind: 'found',
        action: { status: 'pending', id: lease.action },
      })
      expect(await bench.settle(worker, {}, { key: 'k' })).toMatchObject({
        kind: 'found',
        action: { status: 'pending', waitingFor: null, attempts: 1 },
      })
      const action = mustSettle(await bench.end(lease, { writes: [order('order_1')], outcome: placed }))
      expect(action).toMatchObject({ id: lease.action, status: 'succeeded', mode: 'send', seq: 1 })
      expect(await bench.end(lease)).toEqual({ kind: 'lost' })
      expect(await bench.store.action(namespace, lease.action)).toEqual(action)
      expect(await bench.store.pending(0, 10)).toEqual([])
    })

    test('V5: each final status keeps its own outcome, over a restart', async () => {
      const { bench, worker } = at
      const actions = [
        await bench.settled(worker),
        await bench.settled(worker, { outcome: failed }),
        await bench.settled(worker, { outcome: refused }),
      ]
      await bench.reopen()
      for (const action of actions) expect(await bench.store.action(namespace, action.id)).toEqual(action)
      expect((await bench.store.events(namespace, 0, 10)).map(({ type, outcome }) => [type, outcome])).toEqual([
        ['Order.placed', placed],
        ['Order.place.failed', failed],
        ['Order.place.refused', refused],
      ])
      expect((await bench.store.usage(namespace, '2026-01-01', '2027-01-01'))[0]?.units).toBe(1)
    })

    test('R1: what can not be committed leaves the others of its group whole and spends no seq', async () => {
      const { bench, worker } = at
      const stranger = { ...worker, id: 'worker_unknown' }
      const answers = await Promise.allSettled([
        bench.settle(worker, { writes: [order('order_1')] }),
        bench.settle(stranger, { writes: [order('order_2')] }),
        bench.settle(worker, { writes: [order('order_3')] }),
        bench.settle(worker, { writes: [{ ...order('order_4'), noun: 'Kiln' }] }),
        bench.settle(worker, { writes: [order('order_5')] }),
      ])
      expect(answers.map(({ status }) => status)).toEqual([
        'fulfilled',
        'rejected',
        'fulfilled',
        'rejected',
        'fulfilled',
      ])
      const events = await bench.store.events(namespace, 0, 10)
      expect(events.map(({ seq, records }) => [seq, records[0]?.record])).toEqual([
        [1, 'orders/order_1'],
        [2, 'orders/order_3'],
        [3, 'orders/order_5'],
      ])
      expect((await bench.store.usage(namespace, '2026-11-30', '2026-12-01'))[0]?.units).toBe(3)
    })

    test('R1: a key whose settlement could not be committed is free', async () => {
      const { bench, worker } = at
      await expect(bench.settle(worker, { writes: [{ ...order('o'), noun: 'Kiln' }] }, { key: 'k' })).rejects.toThrow()
      expect(await bench.store.lookUp(worker.id, checkKey('k'))).toBeNull()
      await bench.settled(worker, {}, { key: 'k' })
    })

    test('E1: seq is gap-free and in the order of commits, for each namespace by itself', async () => {
      const { bench, worker } = at
      const other = await bench.worker('other', 'other.test')
      await Promise.all(Array.from({ length: 200 }, (_, i) => bench.settled(i % 3 === 0 ? other : worker)))
      await bench.reopen()
      await bench.settled(worker)
      for (const [name, count] of [
        ['other.test', 67],
        [namespace, 134],
      ] as const) {
        const events = await bench.store.events(name, 0, 1000)
        expect(events.map(({ seq }) => seq)).toEqual(Array.from({ length: count }, (_, i) => i + 1))
        const ids = events.map(({ id }) => id)
        expect(ids).toEqual([...ids].sort())
      }
      expect((await bench.store.events(namespace, 130, 2)).map(({ seq }) => seq)).toEqual([131, 132])
    })

    test('E2: units are counted by the UTC day of settlement, whatever a Verb meters', async () => {
      const { bench, worker } = at
      bench.nowMs = Date.UTC(2026, 11, 1) - 1
      await bench.settled(worker, { units: 7 })
      await bench.settled(worker, { units: 0 })
      bench.nowMs += 1
      await bench.settled(worker, { units: 2 })
      const day = (from: string, to: string) => bench.store.usage(namespace, from, to)
      expect(await day('2026-11-30', '2026-12-01')).toMatchObject([{ day: '2026-11-30', units: 7 }])
      expect(await day('2026-11-30', '2026-12-02')).toMatchObject([{ units: 7 }, { day: '2026-12-01', units: 2 }])
      expect(await day('2026-12-02', '2027-01-01')).toEqual([])
    })

    test('§3: an Action is never settled before it was made, though the clock steps back, and ids still ascend', async () => {
      const { bench, worker } = at
      const first = await bench.settled(worker)
      bench.nowMs -= 60_000
      const claim = bench.claim(worker, { createdAt: bench.nowMs + 60_000 })
      const second = mustSettle(await bench.store.settle(bench.settlement({ claim })))
      expect(second.settledAt).toBe(second.createdAt)
      expect(second.event > first.event).toBe(true)
      await bench.reopen()
      expect((await bench.settled(worker)).event > second.event).toBe(true)
      const last = await bench.store.lastId()
      expect(last !== null && last >= second.event.slice(4)).toBe(true)
    })

    test('R3: what is read before its commit is on disk is covered by durable()', async () => {
      const { bench, worker } = at
      expect(bench.store.durable()).toBeUndefined()
      let told = false
      const settling = bench.settle(worker, {}, { key: 'k' }).then(() => (told = true))
      let seen = null
      for (let turns = 0; seen === null && turns < 1000; turns++) {
        await new Promise((resolve) => setImmediate(resolve))
        seen = await bench.store.lookUp(worker.id, checkKey('k'))
      }
      expect(seen).not.toBeNull()
      const durable = bench.store.durable()
      if (durable === undefined) expect(told).toBe(true)
      await durable
      expect(bench.store.durable()).toBeUndefined()
      await settling
    })

    test('E1: the last seq is that of each namespace of its own, 0 without Events, and after a reopening too', async () => {
      const { bench, worker } = at
      expect(await bench.store.lastSeq(namespace)).toBe(0)
      expect(await bench.store.lastSeq('nobody.test')).toBe(0)
      await Promise.all([bench.settled(worker), bench.settled(worker, { outcome: failed }), bench.settled(worker)])
      expect(await bench.store.lastSeq(namespace)).toBe(3)
      await bench.reopen()
      expect(await bench.store.lastSeq(namespace)).toBe(3)
      expect(await bench.store.lastSeq('nobody.test')).toBe(0)
    })

    test('E1: listeners are told of each settled Action, in order, until they stop', async () => {
      const { bench, worker } = at
      const notices: Notice[] = []
      const stop = bench.store.listen((notice) => notices.push(notice))
      const actions = await Promise.all([bench.settled(worker), bench.settled(worker, { outcome: failed })])
      stop()
      await bench.settled(worker)
      expect(notices).toEqual(actions.map((action) => ({ kind: 'settled', action })))
    })

    test('K6: keys are found wherever their index keeps them, before, while and after they are moved', async () => {
      const { bench, worker } = at
      await bench.reopen(50)
      const name = (i: number) => `cart-${i}`
      for (let i = 0; i < 600; i += 20) {
        await Promise.all(Array.from({ length: 20 }, (_, j) => bench.settled(worker, {}, { key: name(i + j) })))
        if (i === 300) await bench.reopen(50)
        for (let j = 0; j < i; j += 7) expect(await bench.store.lookUp(worker.id, checkKey(name(j)))).not.toBeNull()
      }
      await bench.verifyClean()
      await bench.reopen(50)
      for (let i = 0; i < 600; i++) expect((await bench.store.lookUp(worker.id, checkKey(name(i))))?.key).toBe(name(i))
      expect(await bench.settle(worker, {}, { key: name(3) })).toMatchObject({ kind: 'found' })
      expect(await bench.store.lookUp(worker.id, checkKey(name(600)))).toBeNull()
    })

    test('V4: a closed store takes nothing more, and what it took is on disk', async () => {
      const { bench, worker } = at
      const settling = Promise.all(Array.from({ length: 30 }, () => bench.settled(worker)))
      const closed = bench.store.close()
      await expect(bench.settle(worker)).rejects.toThrow('closed')
      await closed
      await settling
      await bench.open()
      expect(await bench.store.events(namespace, 0, 100)).toHaveLength(30)
    })
  })
}
