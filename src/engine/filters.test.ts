import { expect, test } from 'vitest'
import { isProblem } from '../model/problem.ts'
import type { Noun } from '../model/startup.ts'
import type { Worker } from '../model/worker.ts'
import { actionFilter, dayRange, readLimit, recordFilters, seqAfter } from './filters.ts'

const order: Noun = {
  name: 'Order',
  plural: 'orders',
  idPrefix: 'order_',
  fieldNames: ['status', 'total', 'paid', 'note', 'size', 'customer'],
  index: new Set(['status', 'total', 'paid', 'size', 'customer']),
  unique: new Set(),
  check: (value) => ({ value }),
  complete: (fields) => fields,
  jsonSchema: {
    type: 'object',
    properties: {
      status: { enum: ['placed', 'refunded'] },
      total: { type: 'integer' },
      paid: { type: 'boolean' },
      size: { anyOf: [{ type: 'number' }, { type: 'null' }] },
      customer: { anyOf: [{ type: 'string' }, { type: 'null' }] },
      note: { type: 'string' },
    },
  },
}

const query = (text: string): ReadonlyMap<string, string> => new Map(new URLSearchParams(text))
const worker = (...grants: string[]): Worker => ({
  id: 'worker_1',
  namespace: 'kiln.test',
  name: 'checkout',
  kind: 'app',
  grants,
})

function codeOf(run: () => unknown): unknown {
  try {
    return run()
  } catch (error) {
    return isProblem(error) ? error.code : error
  }
}

test('§3: a filter is read by the type of its field', () => {
  const filters = recordFilters(order, query('status=placed&total=12&paid=true&size=1.5&customer=7&limit=5&after=x'))
  expect(filters).toEqual([
    { field: 'status', value: 'placed' },
    { field: 'total', value: 12 },
    { field: 'paid', value: true },
    { field: 'size', value: 1.5 },
    { field: 'customer', value: '7' },
  ])
  expect(recordFilters(order, query('total=-0'))[0]?.value).toBe(0)
})

test('§3: a filter that cannot be is refused, never ignored', () => {
  for (const bad of [
    'note=a',
    'nope=1',
    'total=twelve',
    'total=0x1f',
    'total=',
    'total=1e999',
    'paid=yes',
    'size=null',
  ]) {
    expect(codeOf(() => recordFilters(order, query(bad)))).toBe('invalid-filter')
  }
})

test('§3: a limit is 1 to 1000, and 100 unless given', () => {
  expect(readLimit(query(''))).toBe(100)
  expect(readLimit(query('limit=1000'))).toBe(1000)
  for (const bad of ['0', '1001', '-1', '1.5', 'ten', '', '1e2', ' 5']) {
    expect(codeOf(() => readLimit(new Map([['limit', bad]])))).toBe('invalid-limit')
  }
})

test('H1: without `actions:all` a list of Actions is the own ones, and asking for others is 403', () => {
  expect(actionFilter(worker(), query('status=failed&key=cart_1'))).toEqual({
    status: 'failed',
    worker: 'checkout',
    key: 'cart_1',
  })
  expect(actionFilter(worker(), query('worker=checkout'))).toEqual({ worker: 'checkout' })
  expect(codeOf(() => actionFilter(worker(), query('worker=other')))).toBe('forbidden')
  expect(actionFilter(worker('actions:all'), query('worker=other'))).toEqual({ worker: 'other' })
  expect(actionFilter(worker('*'), query(''))).toEqual({})
})

test('§3: a filter of Actions with a value that it can not have is refused', () => {
  for (const bad of ['status=done', 'status=', 'verb=place', 'verb=order.place', 'on=x', 'on=evt_1', 'key=']) {
    expect(codeOf(() => actionFilter(worker('*'), query(bad)))).toBe('invalid-filter')
  }
})

test('§3: usage is asked for by real days', () => {
  expect(dayRange(query('from=2024-02-29&to=2026-12-01'))).toEqual({ from: '2024-02-29', to: '2026-12-01' })
  for (const bad of [
    'from=2026-02-29',
    'from=2026-13-01',
    'to=yesterday',
    'to=2026-1-1',
    'from=2026-01-01T00:00:00Z',
  ]) {
    expect(codeOf(() => dayRange(query(bad)))).toBe('invalid-filter')
  }
})

test('E1: a position among Events is a whole number, 0 or more', () => {
  expect(seqAfter(undefined)).toBe(0)
  expect(seqAfter('12')).toBe(12)
  for (const bad of ['-1', '1.5', '', 'abc', '1e3', '0x1', '99999999999999999999', '9007199254740993', '\u00ff']) {
    expect(codeOf(() => seqAfter(bad))).toBe('invalid-cursor')
  }
})
