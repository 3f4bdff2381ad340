import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { Buckets, type Bucket } from './buckets.ts'

const bucket = (rate: number, burst: number, name = 'calls'): Bucket => ({ name, limit: { rate, burst } })

describe('§10: GCRA', () => {
  test('§10: a burst gets in at once, then one call for each interval of the rate', () => {
    const buckets = new Buckets()
    const of = [bucket(2, 3)]
    const levels = [1, 2, 3, 4].map(() => buckets.take(of, 1000))
    expect(levels.map(({ taken }) => taken)).toEqual([true, true, true, false])
    expect(levels.map(({ levels: [level] }) => level)).toEqual([
      { remaining: 2, nextMs: 500, waitMs: 0 },
      { remaining: 1, nextMs: 500, waitMs: 0 },
      { remaining: 0, nextMs: 500, waitMs: 0 },
      { remaining: 0, nextMs: 500, waitMs: 500 },
    ])
    expect(buckets.take(of, 1499).taken).toBe(false)
    expect(buckets.take(of, 1500).taken).toBe(true)
    expect(buckets.take(of, 1500).taken).toBe(false)
    // After a pause it is the burst again, not more.
    expect([1, 2, 3, 4].map(() => buckets.take(of, 99_000).taken)).toEqual([true, true, true, false])
  })

  test('§10: two buckets both count a call, or neither does', () => {
    const buckets = new Buckets()
    const wide = bucket(1, 3, 'wide')
    const narrow = bucket(1, 1, 'narrow')
    expect(buckets.take([wide, narrow], 0).levels.map(({ remaining }) => remaining)).toEqual([2, 0])
    for (let i = 0; i < 5; i++) {
      const { taken, levels } = buckets.take([wide, narrow], 0)
      expect([taken, ...levels.map(({ remaining, waitMs }) => [remaining, waitMs])]).toEqual([false, [2, 0], [0, 1000]])
    }
    expect([1, 2, 3].map(() => buckets.take([wide], 0).taken)).toEqual([true, true, false])
    // Turned away by the first of them, the second is as it was.
    expect(buckets.take([wide, bucket(1, 1, 'other')], 0).taken).toBe(false)
    expect(buckets.take([bucket(1, 1, 'other')], 0).taken).toBe(true)
  })

  test('§10: whoever waits as told gets in, at any rate, burst and fraction of a clock, and never more than the rate', () => {
    const limits = fc.record({
      rate: fc.oneof(fc.constantFrom(0.3, 7, 1 / 3, 0.1, 1e6), fc.double({ min: 0.001, max: 1e5, noNaN: true })),
      burst: fc.integer({ min: 1, max: 20 }),
    })
    fc.assert(
      fc.property(
        fc.array(limits, { minLength: 1, maxLength: 3 }),
        fc.double({ min: 1.7e12, max: 1.9e12, noNaN: true }),
        (all, start) => {
          const buckets = new Buckets()
          const of = all.map(({ rate, burst }, i) => bucket(rate, burst, `b${i}`))
          let now = start
          let count = 0
          for (let tries = 0; tries < 60; tries++) {
            const { taken, levels } = buckets.take(of, now)
            if (taken) {
              count++
              for (const { rate, burst } of all)
                expect(count).toBeLessThanOrEqual(burst + ((now - start) * rate) / 1000 + 0.01 + rate * 1e-4 * count)
              continue
            }
            const seconds = Math.ceil((Math.max(...levels.map(({ waitMs }) => waitMs)) - 0.001) / 1000)
            expect(seconds).toBeGreaterThan(0)
            now += seconds * 1000
            expect(buckets.take(of, now).taken).toBe(true)
            count++
          }
        },
      ),
    )
  })

  test('§10: what remains gets in, and one more after the time that is told', () => {
    fc.assert(
      fc.property(
        fc.double({ min: 0.01, max: 1e4, noNaN: true }),
        fc.integer({ min: 1, max: 9 }),
        fc.nat(9),
        (rate, burst, spent) => {
          const buckets = new Buckets()
          const of = [bucket(rate, burst)]
          let last = buckets.take(of, 5000.25).levels[0]
          for (let i = 0; i < spent; i++) last = buckets.take(of, 5000.25).levels[0]
          const { remaining, nextMs } = last ?? { remaining: -1, nextMs: -1 }
          for (let i = 0; i < remaining; i++) expect(buckets.take(of, 5000.25).taken).toBe(true)
          expect(buckets.take(of, 5000.25).taken).toBe(false)
          expect(buckets.take(of, 5000.25 + nextMs).taken).toBe(true)
        },
      ),
    )
  })

  test('§10: a clock that steps back makes nobody wait longer than a full bucket does, and a changed limit holds at once', () => {
    const buckets = new Buckets()
    for (let i = 0; i < 3; i++) buckets.take([bucket(1, 3)], 1_000_000)
    const back = buckets.take([bucket(1, 3)], 0)
    expect(back.levels[0]?.waitMs).toBe(1000)
    expect(buckets.take([bucket(1, 3)], 1000).taken).toBe(true)
    expect(buckets.take([bucket(1, 3)], 1000).levels[0]?.waitMs).toBe(1000)
    // An hour for each call, then ten a second.
    buckets.take([bucket(1 / 3600, 1, 'b')], 0)
    expect(buckets.take([bucket(10, 1, 'b')], 0).levels[0]?.waitMs).toBe(100)
    expect(buckets.take([bucket(10, 1, 'b')], 100).taken).toBe(true)
  })

  test('§10: buckets whose time has passed are dropped', () => {
    const buckets = new Buckets()
    for (let i = 0; i < 100_000; i++) buckets.take([bucket(1, 5, `worker_${i}`)], i)
    expect(buckets.size).toBeLessThan(5_000)
    // One that counts still is not.
    buckets.take([bucket(0.000_001, 1, 'slow')], 100_000)
    for (let i = 0; i < 10_000; i++) buckets.take([bucket(1, 5, `worker_${i}`)], 200_000 + i)
    expect(buckets.take([bucket(0.000_001, 1, 'slow')], 300_000).taken).toBe(false)
  })

  test('§10: a flood of names takes no more memory than is allowed: beyond that new ones share a bucket', () => {
    const buckets = new Buckets(2000)
    buckets.take([bucket(1, 2, 'early')], 0)
    for (let i = 0; i < 50_000; i++) buckets.take([bucket(0.01, 2, `flood-${i}`)], 1)
    expect(buckets.size).toBeLessThanOrEqual(2001)
    expect(buckets.take([bucket(0.01, 2, 'new')], 2).taken).toBe(false)
    // Who was there keeps its own.
    expect(buckets.take([bucket(1, 2, 'early')], 2).taken).toBe(true)
    // Once the flood has passed, everybody has again.
    expect(buckets.take([bucket(0.01, 2, 'new')], 1_000_000).levels[0]?.remaining).toBe(1)
    expect(buckets.size).toBeLessThan(10)
  })
})
