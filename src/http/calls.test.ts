import { expect, test } from 'vitest'
import { parsePrefer } from '../model/prefer.ts'
import { waiting } from './calls.ts'

test('§3: a call without Mode and preference is `do`, waited on for 30 s', () => {
  expect(waiting(null, null)).toEqual({ mode: 'do', waitMs: 30_000, applied: undefined })
})

test('§3: `respond-async` alone is `send`, `wait=N` bounds the waiting, both together wait N', () => {
  expect(waiting(null, parsePrefer('respond-async'))).toEqual({ mode: 'send', waitMs: 0, applied: 'respond-async' })
  expect(waiting(null, parsePrefer('wait=5'))).toEqual({ mode: 'do', waitMs: 5_000, applied: 'wait=5' })
  expect(waiting(null, parsePrefer('wait=0'))).toEqual({ mode: 'do', waitMs: 0, applied: 'wait=0' })
  expect(waiting(null, parsePrefer('wait=900'))).toMatchObject({ waitMs: 300_000, applied: 'wait=300' })
  expect(waiting(null, parsePrefer('respond-async, wait=5'))).toEqual({
    mode: 'do',
    waitMs: 5_000,
    applied: 'respond-async, wait=5',
  })
})

test('§3: a malformed preference is ignored, and not said to be applied', () => {
  expect(waiting(null, parsePrefer('wait=soon'))).toEqual({ mode: 'do', waitMs: 30_000, applied: undefined })
})

test('§3: the Mode in the query wins over a preference, and only what was applied is said', () => {
  expect(waiting('send', parsePrefer('wait=5'))).toEqual({ mode: 'send', waitMs: 0, applied: undefined })
  expect(waiting('send', parsePrefer('respond-async'))).toMatchObject({ mode: 'send', applied: 'respond-async' })
  expect(waiting('do', parsePrefer('respond-async'))).toEqual({ mode: 'do', waitMs: 30_000, applied: undefined })
  expect(waiting('do', parsePrefer('respond-async, wait=2'))).toEqual({ mode: 'do', waitMs: 2_000, applied: 'wait=2' })
  expect(waiting('try', parsePrefer('respond-async, wait=2'))).toEqual({ mode: 'try', waitMs: 0, applied: undefined })
})
