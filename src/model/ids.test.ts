import { randomBytes } from 'node:crypto'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import {
  IdSource,
  bytesToId,
  idBlockSize,
  idInBlock,
  idTimeMs,
  idToBytes,
  isActionId,
  isEventId,
  isId,
  isItemId,
} from './ids.ts'
import { recordsPerActionMax } from './limits.ts'

const nov2026 = Date.UTC(2026, 10, 30)
const form = /^[0-7][0-9a-hjkmnp-tv-z]{22}000$/
const id26 = fc.array(fc.constantFrom(...'0123456789abcdefghjkmnpqrstvwxyz'), { minLength: 25, maxLength: 25 })
const ids = fc.tuple(fc.constantFrom(...'01234567'), id26).map(([first, rest]) => first + rest.join(''))

describe('IdSource', () => {
  test('§3: ids have 26 characters, ascend with the clock and tell their time', () => {
    let now = nov2026
    const source = new IdSource(() => now++, randomBytes)
    const made = Array.from({ length: 1000 }, () => source.next())
    expect(made.every((id) => form.test(id))).toBe(true)
    expect([...made].sort()).toEqual(made)
    expect(made.map(idTimeMs)).toEqual(made.map((_, i) => nov2026 + i))
  })

  test('§3: ids ascend strictly however the clock jumps', () => {
    fc.assert(
      fc.property(
        fc.array(fc.integer({ min: 0, max: 50 }), { minLength: 2 }),
        fc.infiniteStream(fc.nat(255)),
        (times, chance) => {
          let i = 0
          const bytes = (count: number): Uint8Array =>
            Uint8Array.from({ length: count }, () => chance.next().value as number)
          const source = new IdSource(() => times[i++] ?? 0, bytes)
          let before = ''
          for (let made = 0; made < times.length; made++) {
            const id = source.next()
            expect(id > before).toBe(true)
            expect(id).toMatch(form)
            before = id
          }
        },
      ),
    )
  })

  test('§3: a clock that stands still counts on, with a carry into chance and then into time', () => {
    const full = (count: number): Uint8Array => new Uint8Array(count).fill(0xff)
    const source = new IdSource(() => 1000, full)
    const first = source.next()
    expect(first).toBe('00000000z8zzzzzzzzzzzzz000')
    expect(source.next()).toBe('00000000z90000000000000000')

    const inChance = new IdSource(
      () => 1000,
      (count) => full(count).fill(0, 0, 5),
    )
    expect(inChance.next()).toBe('00000000z800000000zzzzz000')
    expect(inChance.next()).toBe('00000000z80000000100000000')
    expect(inChance.next()).toBe('00000000z80000000100001000')
  })

  test('§3: after a restart ids go on above the last one, though the clock has stepped back', () => {
    const before = new IdSource(() => nov2026, randomBytes)
    const last = idInBlock(before.next(), idBlockSize - 1)
    const after = new IdSource(() => nov2026 - 86_400_000, randomBytes, `act_${last}`)
    const next = after.next()
    expect(next > last).toBe(true)
    expect(next).toMatch(form)
    expect(new IdSource(() => nov2026 + 1, randomBytes, last).next() > next).toBe(true)
    expect(() => new IdSource(() => 0, randomBytes, 'act_made-up')).toThrow(RangeError)
  })

  test('§3: a clock that no id can hold is an error, not a wrong id', () => {
    expect(() => new IdSource(() => 2 ** 48, randomBytes).next()).toThrow(RangeError)
    expect(() => new IdSource(() => 1.5, randomBytes).next()).toThrow(RangeError)
    expect(() => new IdSource(() => -1, randomBytes).next()).toThrow(RangeError)
    expect(() => new IdSource(() => NaN, randomBytes).next()).toThrow(RangeError)
    expect(() => new IdSource(() => 1, randomBytes, '7zzzzzzzzzzzzzzzzzzzzzzzzz').next()).toThrow(RangeError)
  })

  test('§3: ids of two sources in one millisecond are unlike', () => {
    const made = Array.from({ length: 1000 }, () => new IdSource(() => nov2026, randomBytes).next())
    expect(new Set(made.map((id) => id.slice(0, 23))).size).toBe(1000)
  })
})

describe('idInBlock', () => {
  test('V1: a block is one base and a place: distinct, ascending, and below the next base', () => {
    const source = new IdSource(() => nov2026, randomBytes)
    const base = source.next()
    const next = source.next()
    const block = Array.from({ length: idBlockSize }, (_, i) => idInBlock(base, i))
    expect(block[0]).toBe(base)
    expect([...new Set(block)].sort()).toEqual(block)
    expect(block.every((id) => id < next && isId('', id))).toBe(true)
    expect(idBlockSize).toBeGreaterThan(recordsPerActionMax)
  })

  test('V1: what is no base or no place is an error', () => {
    const base = '01k9zzzzzzzzzzzzzzzzzzz000'
    for (const index of [-1, idBlockSize, 1.5, NaN]) expect(() => idInBlock(base, index)).toThrow(RangeError)
    for (const id of [idInBlock(base, 1), 'x', `act_${base}`]) expect(() => idInBlock(id, 1)).toThrow(RangeError)
  })
})

describe('idToBytes and bytesToId', () => {
  test('§3: 16 bytes hold an id, and order as it does', () => {
    fc.assert(
      fc.property(ids, ids, (one, other) => {
        const bytes = idToBytes(one)
        expect(bytes).toHaveLength(16)
        expect(bytesToId(bytes)).toBe(one)
        expect(Math.sign(Buffer.compare(bytes, idToBytes(other)))).toBe(one < other ? -1 : one > other ? 1 : 0)
      }),
    )
    fc.assert(
      fc.property(fc.uint8Array({ minLength: 20, maxLength: 20 }), (bytes) => {
        expect(idToBytes(bytesToId(bytes, 4))).toEqual(Buffer.from(bytes.subarray(4)))
      }),
    )
  })

  test('§3: the parts of an id stand in parts of its bytes: 6 of time, 5 and 5 of the rest', () => {
    expect(idToBytes('00000000z8000000010000000z').toString('hex')).toBe('0000000003e8' + '0000000001' + '000000001f')
    expect(idToBytes('7zzzzzzzzzzzzzzzzzzzzzzzzz').toString('hex')).toBe('f'.repeat(32))
  })

  test('§3: what is no id is an error', () => {
    const id = '01k9zzzzzzzzzzzzzzzzzzz000'
    for (const text of [
      '',
      id.slice(1),
      `${id}0`,
      id.toUpperCase(),
      id.replace('k', 'l'),
      id.replace('k', 'ĳ'),
      '8'.repeat(26),
    ]) {
      expect(() => idToBytes(text)).toThrow(RangeError)
      expect(isId('', text)).toBe(false)
    }
    expect(() => bytesToId(new Uint8Array(15))).toThrow(RangeError)
    expect(() => bytesToId(new Uint8Array(16), 1)).toThrow(RangeError)
  })
})

test('§3: an id of one kind is not one of another', () => {
  const unique = '01k9zzzzzzzzzzzzzzzzzzz000'
  expect([isActionId, isEventId, isItemId].map((is) => is(`act_${unique}`))).toEqual([true, false, false])
  expect([isActionId, isEventId, isItemId].map((is) => is(`evt_${unique}`))).toEqual([false, true, false])
  expect([isActionId, isEventId, isItemId].map((is) => is(`item_${unique}`))).toEqual([false, false, true])
  expect(isActionId(`act_${unique}/`)).toBe(false)
  expect(isActionId(unique)).toBe(false)
})
