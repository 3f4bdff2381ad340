import fc from 'fast-check'
import { expect, test } from 'vitest'
import { recentEventsBytesMax, streamWriteBytesMax } from '../model/limits.ts'
import { RecentEvents, type FollowedEvent } from './recent.ts'

const eventsOf = (first: number, sizes: readonly number[]): FollowedEvent[] =>
  sizes.map((size, at) => ({ seq: first + at, json: 'x'.repeat(size) }))

test('E1: whoever follows the newest Events, from wherever and in whichever order, gets each once', () => {
  const sizes = fc.array(fc.oneof(fc.nat(400), fc.nat(2 * streamWriteBytesMax)), { minLength: 1, maxLength: 40 })
  const rounds = fc.array(fc.tuple(sizes, fc.array(fc.nat(), { maxLength: 8 })), { minLength: 1, maxLength: 12 })
  fc.assert(
    fc.property(fc.nat(1000), rounds, (head, added) => {
      const recent = new RecentEvents()
      const start = head
      for (const [sizes, askers] of added) {
        recent.add(eventsOf(head + 1, sizes))
        head += sizes.length
        for (const asker of askers) {
          let position = start + (asker % (head - start))
          // What is no longer here is told as such, and then nothing older is.
          if (recent.after(position) === null) continue
          while (position < head) {
            const batch = recent.after(position)
            expect(batch?.[0]?.seq).toBe(position + 1)
            expect(recent.after(position)).toBe(batch)
            for (const { seq } of batch ?? []) expect(seq).toBe(++position)
            const bytes = (batch ?? []).reduce((sum, { json }) => sum + json.length, 0)
            if ((batch?.length ?? 0) > 1) expect(bytes).toBeLessThanOrEqual(streamWriteBytesMax)
          }
        }
        expect(recent.after(head)).toBeNull()
        expect(recent.after(head + 1)).toBeNull()
        expect(recent.after(head - 1)).toHaveLength(1)
      }
    }),
    { numRuns: 60 },
  )
})

test('E1: the newest Events are bounded in memory; the oldest go first', () => {
  const recent = new RecentEvents()
  const each = 100_000
  const count = Math.ceil((3 * recentEventsBytesMax) / each)
  recent.add(eventsOf(1, Array<number>(count).fill(each)))
  const kept = Array.from({ length: count }, (_, seq) => recent.after(seq)).filter((batch) => batch !== null)
  expect(kept.length * each).toBeLessThanOrEqual(recentEventsBytesMax)
  expect(kept.length * each).toBeGreaterThan(recentEventsBytesMax / 2)
  expect(recent.after(count - 1)).toHaveLength(1)
  expect(recent.after(0)).toBeNull()
})
