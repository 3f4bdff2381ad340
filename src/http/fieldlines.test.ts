import { expect, test } from 'vitest'
import { isTwice, linesOf } from './fieldlines.ts'

test('K1: field lines are told apart, whatever the case of their names', () => {
  const raw = ['Record-Version', '3', 'HOST', 'x', 'record-VERSION', 'offers/a=7']
  expect(linesOf(raw, 'record-version')).toEqual(['3', 'offers/a=7'])
  expect(linesOf(raw, 'record-versions')).toEqual([])
  expect(isTwice(raw, 'record-version')).toBe(true)
  expect(isTwice(raw, 'host')).toBe(false)
  expect(isTwice(raw, 'content-type')).toBe(false)
})
