import { describe, expect, test } from 'vitest'
import type { Census } from '../../../src/store/store.ts'
import { benchForEach, namespace, type StoreUnderTest } from './harness.ts'

/** In an order of its own, since a census has none. */
function sorted({ pending, inbox }: Census): Census {
  return {
    pending: [...pending].sort((a, b) =>
      `${a.namespace} ${a.waitingFor}`.localeCompare(`${b.namespace} ${b.waitingFor}`),
    ),
    inbox: [...inbox].sort((a, b) => a.namespace.localeCompare(b.namespace)),
  }
}

export function describeCensus(under: StoreUnderTest): void {
  describe(`${under.name}: the census`, () => {
    const at = benchForEach(under)

    test('§3: pending Actions are counted by namespace and by what they wait for, with the oldest of each', async () => {
      const { bench, worker } = at
      expect(await bench.store.census()).toEqual({ pending: [], inbox: [] })
      const other = await bench.worker('other', 'other.test')
      const began = bench.nowMs
      const claimed = []
      for (const of of [worker, worker, worker, other]) {
        claimed.push((await bench.claimed(of)).lease)
        bench.nowMs += 1000
      }
      const [, second, third] = claimed
      await bench.store.wait(second!, 'record', 0)
      await bench.settled(worker)
      const running = { namespace, waitingFor: null, count: 2, oldestAt: began }
      const blocked = { namespace, waitingFor: 'record' as const, count: 1, oldestAt: began + 1000 }
      const others = { namespace: 'other.test', waitingFor: null, count: 1, oldestAt: began + 3000 }
      expect(sorted(await bench.store.census())).toEqual(sorted({ pending: [running, blocked, others], inbox: [] }))
      await bench.store.wait(third!, 'definition', 0)
      await bench.end(second!)
      await bench.reopen()
      const left = [
        { ...running, count: 1 },
        { namespace, waitingFor: 'definition' as const, count: 1, oldestAt: began + 2000 },
        others,
      ]
      expect(sorted(await bench.store.census())).toEqual(sorted({ pending: left, inbox: [] }))
    })

    test('W4: open inbox items are counted, decided ones are not', async () => {
      const { bench, worker } = at
      const failures = [await bench.failAfterEffect(worker), await bench.failAfterEffect(worker)]
      expect((await bench.store.census()).inbox).toEqual([{ namespace, open: 2 }])
      await bench.retry(worker, failures[0]!.id)
      expect((await bench.store.census()).inbox).toEqual([{ namespace, open: 1 }])
    })

    test('§3: more than a page is counted whole, while others write between its pages', async () => {
      const { bench, worker } = at
      const leases = (await Promise.all(Array.from({ length: 2500 }, () => bench.claimed(worker)))).map(
        ({ lease }) => lease,
      )
      const counting = bench.store.census()
      const settling = bench.end(leases[0]!)
      const { pending } = await counting
      expect(pending).toHaveLength(1)
      expect([2499, 2500]).toContain(pending[0]?.count)
      await settling
      expect((await bench.store.census()).pending).toMatchObject([{ count: 2499 }])
    })
  })
}
