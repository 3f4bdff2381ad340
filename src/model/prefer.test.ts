import fc from 'fast-check'
import { expect, test } from 'vitest'
import { parsePrefer, preferenceApplied } from './prefer.ts'

test.each([
  [undefined, { respondAsync: false }],
  ['', { respondAsync: false }],
  ['respond-async', { respondAsync: true }],
  ['Respond-Async', { respondAsync: true }],
  ['wait=10', { respondAsync: false, wait: 10 }],
  ['wait=0', { respondAsync: false, wait: 0 }],
  ['wait="10"', { respondAsync: false, wait: 10 }],
  ['wait = 10', { respondAsync: false, wait: 10 }],
  ['wait=300', { respondAsync: false, wait: 300 }],
  ['wait=301', { respondAsync: false, wait: 300 }],
  [`wait=${'9'.repeat(400)}`, { respondAsync: false, wait: 300 }],
  ['respond-async, wait=5', { respondAsync: true, wait: 5 }],
  ['wait=5,respond-async', { respondAsync: true, wait: 5 }],
  ['respond-async; x=y, wait=5;q', { respondAsync: true, wait: 5 }],
  ['respond-async=""', { respondAsync: true }],
  ['wait=5, wait=9', { respondAsync: false, wait: 5 }],
  ['return=minimal, handling="a, wait=9", wait=5', { respondAsync: false, wait: 5 }],
  ['foo; bar="a, respond-async; \\"x", wait=5', { respondAsync: false, wait: 5 }],
  [',, respond-async ,', { respondAsync: true }],
])('§3: Prefer %j', (header, expected) => {
  expect(parsePrefer(header)).toEqual(expected)
})

test.each([
  'wait',
  'wait=',
  'wait=-1',
  'wait=1.5',
  'wait=1s',
  'wait=1 2',
  'wait="1',
  'wait=+1',
  'respond-async=1',
  'respond async',
])('§3: the malformed preference %j is ignored, and the rest is not', (header) => {
  expect(parsePrefer(header)).toEqual({ respondAsync: false })
  expect(parsePrefer(`respond-async, ${header}`).respondAsync).toBe(true)
})

test('§3: whatever is sent, it is ignored or understood, and quickly', () => {
  fc.assert(
    fc.property(fc.string(), (header) => {
      const { wait = 0 } = parsePrefer(header)
      expect(wait >= 0 && wait <= 300).toBe(true)
    }),
  )
  const hostile = ['"', 'a=', '"\\', 'a;', ';"', '"a,', '\\"', 'a, '].flatMap((piece) => {
    const many = piece.repeat(100_000)
    return [many, `a;"${many}`, `wait="${many}`]
  })
  const started = performance.now()
  for (const header of hostile) parsePrefer(header)
  expect(performance.now() - started).toBeLessThan(1000)
})

test('§3: Preference-Applied says what was applied', () => {
  expect(preferenceApplied({ respondAsync: false })).toBeUndefined()
  expect(preferenceApplied({ respondAsync: true })).toBe('respond-async')
  expect(preferenceApplied({ respondAsync: false, wait: 0 })).toBe('wait=0')
  expect(preferenceApplied({ respondAsync: true, wait: 300 })).toBe('respond-async, wait=300')
})
