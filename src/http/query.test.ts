import { expect, test } from 'vitest'
import { isProblem } from '../model/problem.ts'
import { allowOnly, parseQuery } from './query.ts'

const refused = (run: () => unknown): unknown => {
  try {
    return run()
  } catch (error) {
    return isProblem(error) ? error.code : error
  }
}

test('§3: a query is read as forms are encoded', () => {
  expect([...parseQuery('/a/b?key=cart%208812&x=a+b&empty=&flag')]).toEqual([
    ['key', 'cart 8812'],
    ['x', 'a b'],
    ['empty', ''],
    ['flag', ''],
  ])
  expect(parseQuery('/a/b').size).toBe(0)
  expect(parseQuery('/a/b?').size).toBe(0)
  expect(parseQuery('/a?next=a?b').get('next')).toBe('a?b')
})

test('§3: a member of the query that comes twice is refused, never guessed', () => {
  expect(refused(() => parseQuery('/a?mode=try&mode=do'))).toBe('invalid-query')
  expect(refused(() => parseQuery('/a?mode=try&m%6fde=try'))).toBe('invalid-query')
})

test('§3: a query that is no percent-encoded UTF-8 is refused', () => {
  for (const bad of ['%', '%zz', '%ff', '%ed%a0%80']) {
    expect(refused(() => parseQuery(`/a?key=${bad}`))).toBe('invalid-query')
    expect(refused(() => parseQuery(`/a?${bad}=1`))).toBe('invalid-query')
  }
})

test('§3: a mistyped member is refused, since it would run for real', () => {
  expect(refused(() => allowOnly(parseQuery('/a?mdoe=try'), ['mode']))).toBe('invalid-query')
  expect(refused(() => allowOnly(parseQuery('/a?__proto__=1'), []))).toBe('invalid-query')
  expect(refused(() => allowOnly(parseQuery('/a?mode=try'), ['mode']))).toBeUndefined()
})
