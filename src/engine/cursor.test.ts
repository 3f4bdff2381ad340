import fc from 'fast-check'
import { expect, test } from 'vitest'
import { isProblem } from '../model/problem.ts'
import { listIdentity, readCursor, writeCursor } from './cursor.ts'

const orders = listIdentity('orders', 'kiln.test', { status: 'placed' })

function codeOf(identity: string, cursor: string): unknown {
  try {
    return readCursor(identity, cursor)
  } catch (error) {
    return isProblem(error) ? error.code : error
  }
}

test('§3: a cursor gives back its position, up to the greatest whole number', () => {
  expect(readCursor(orders, undefined)).toBe(0)
  fc.assert(fc.property(fc.maxSafeNat(), (position) => readCursor(orders, writeCursor(orders, position)) === position))
})

test('§3: a made-up cursor, or a changed one, is refused', () => {
  const cursor = writeCursor(orders, 8812)
  for (const made of [
    '',
    '0',
    '1',
    'null',
    `${cursor}=`,
    cursor.slice(1),
    `${cursor}A`,
    ` ${cursor}`,
    'A'.repeat(19),
  ]) {
    expect(codeOf(orders, made)).toBe('invalid-cursor')
  }
  for (let at = 0; at < cursor.length; at++) {
    const other = cursor[at] === 'A' ? 'B' : 'A'
    expect(codeOf(orders, cursor.slice(0, at) + other + cursor.slice(at + 1))).toBe('invalid-cursor')
  }
})

test('§3: a cursor of another list, namespace or filter is refused; the order of filters does not matter', () => {
  const cursor = writeCursor(orders, 5)
  expect(codeOf(listIdentity('orders', 'kiln.test', {}), cursor)).toBe('invalid-cursor')
  expect(codeOf(listIdentity('offers', 'kiln.test', { status: 'placed' }), cursor)).toBe('invalid-cursor')
  expect(codeOf(listIdentity('orders', 'other.test', { status: 'placed' }), cursor)).toBe('invalid-cursor')
  expect(listIdentity('a', 'b', { x: 1, y: 2 })).toBe(listIdentity('a', 'b', { y: 2, x: 1 }))
})
