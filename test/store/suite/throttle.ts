import { createHash } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import type { Bucket } from '../../../src/model/buckets.ts'
import { benchForEach, type StoreUnderTest } from './harness.ts'

const hashOf = (token: string) => createHash('sha256').update(token).digest()

export function describeThrottle(under: StoreUnderTest): void {
  describe(`${under.name}: throttling`, () => {
    const at = benchForEach(under)
    const bucket = (name: string, rate: number, burst: number): Bucket => ({ name, limit: { rate, burst } })
    const waits = async (...buckets: Bucket[]) => {
      const { taken, levels } = await at.bench.store.take(buckets)
      return taken ? null : Math.max(...levels.map(({ waitMs }) => waitMs))
    }

    test('§10: a bucket lets its burst in, and then its rate, by the store’s clock', async () => {
      const { bench } = at
      const calls = bucket('call worker_1', 4, 2)
      const { taken, levels } = await bench.store.take([calls])
      expect([taken, levels]).toEqual([true, [{ remaining: 1, nextMs: 250, waitMs: 0 }]])
      expect([await waits(calls), await waits(calls), await waits(calls)]).toEqual([null, 250, 250])
      bench.nowMs += 249
      expect(await waits(calls)).toBe(1)
      bench.nowMs += 1
      expect([await waits(calls), await waits(calls)]).toEqual([null, 250])
      // Names don't share.
      expect(await waits(bucket('call worker_2', 4, 1))).toBeNull()
      // A clock that steps back holds nobody up for longer than a full bucket lasts, also not whoever comes again.
      bench.nowMs -= 3_600_000
      expect(await waits(calls)).toBe(250)
      bench.nowMs += 250
      expect(await waits(calls)).toBeNull()
    })

    test('§10: a call counts in all of its buckets or in none', async () => {
      const { bench } = at
      const wide = bucket('wide', 1, 2)
      const narrow = bucket('narrow', 0.5, 1)
      expect(await waits(wide, narrow)).toBeNull()
      for (let i = 0; i < 5; i++) {
        const { taken, levels } = await bench.store.take([wide, narrow])
        expect([taken, ...levels.map(({ remaining, waitMs }) => [remaining, waitMs])]).toEqual([
          false,
          [1, 0],
          [0, 2000],
        ])
      }
      expect([await waits(wide), await waits(wide, narrow)]).toEqual([null, 2000])
      bench.nowMs += 1999
      expect(await waits(narrow, wide)).toBe(1)
      bench.nowMs += 1
      expect(await waits(narrow, wide)).toBeNull()
    })

    test('§10: calls at the same time never get more than there is', async () => {
      const calls = bucket('call worker_1', 0.001, 10)
      const all = await Promise.all(Array.from({ length: 50 }, async () => await at.bench.store.take([calls])))
      expect(all.filter(({ taken }) => taken)).toHaveLength(10)
    })

    test('§10: a Worker’s own limit is kept, and an administrator’s change is seen at the next call (V4)', async () => {
      const { bench } = at
      const worker = {
        ...{ id: `worker_${bench.id()}`, namespace: 'kiln.test', name: 'agent', kind: 'agent' as const, grants: ['*'] },
        throttle: { rate: 0.1, burst: 5 },
      }
      const of = () => bench.store.workerOfToken(hashOf('t'))
      await bench.store.addWorker(worker, hashOf('t'), null)
      expect(await of()).toEqual(worker)
      await bench.store.limitWorker(worker.id, { rate: 1 / 3, burst: 1 })
      expect((await of())?.throttle).toEqual({ rate: 1 / 3, burst: 1 })
      const admin = await under.openAdmin(bench.place, bench.options)
      try {
        await admin.limitWorker(worker.id, { rate: 100, burst: 7 })
        expect((await of())?.throttle).toEqual({ rate: 100, burst: 7 })
        await bench.reopen()
        expect((await of())?.throttle).toEqual({ rate: 100, burst: 7 })
        const [listed] = (await bench.store.workers('kiln.test')).filter(({ id }) => id === worker.id)
        expect(listed?.throttle).toEqual({ rate: 100, burst: 7 })
        await admin.limitWorker(worker.id, null)
      } finally {
        await admin.close()
      }
      const { throttle: _, ...unlimited } = worker
      expect(await of()).toEqual(unlimited)
      await bench.verifyClean()
    })
  })
}
