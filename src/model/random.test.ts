import { expect, test } from 'vitest'
import { seededRandom } from './random.ts'

const seed = Uint8Array.from({ length: 16 }, (_, i) => i)

function take(count: number, bytes: Uint8Array): number[] {
  const random = seededRandom(bytes)
  return Array.from({ length: count }, () => random())
}

test('V1: one seed gives one sequence, for ever', () => {
  expect(take(100, seed)).toEqual(take(100, Uint8Array.from(seed)))
  expect(take(100, new Uint8Array([...[9, 9, 9, 9, 9], ...seed]).subarray(5))).toEqual(take(100, seed))
  // Written down once: a release that changed it would break Actions that are pending across it.
  expect(take(3, seed)).toEqual([0.3501944141777922, 0.1213886968845641, 0.6777499130193066])
})

test('V1: seeds that differ in one bit give unlike sequences', () => {
  const first = take(50, seed)
  for (let bit = 0; bit < 128; bit++) {
    const other = Uint8Array.from(seed)
    other[bit >> 3] = (other[bit >> 3] ?? 0) ^ (1 << (bit & 7))
    expect(take(50, other).filter((value, i) => Math.abs(value - (first[i] ?? 0)) < 1e-6)).toEqual([])
  }
})

test('V1: numbers are in [0, 1), evenly', () => {
  const numbers = take(100_000, new Uint8Array(16))
  expect(numbers.every((n) => n >= 0 && n < 1)).toBe(true)
  const tenths = Array.from({ length: 10 }, (_, tenth) => numbers.filter((n) => Math.floor(n * 10) === tenth).length)
  for (const count of tenths) expect(Math.abs(count - 10_000)).toBeLessThan(500)
})

test('V1: a seed has 16 bytes', () => {
  expect(() => seededRandom(new Uint8Array(15))).toThrow(RangeError)
})
