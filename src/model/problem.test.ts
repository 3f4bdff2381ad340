import { describe, expect, test } from 'vitest'
import {
  Problem,
  isProblem,
  outcomes,
  problem,
  problems,
  toProblemJson,
  type OutcomeEntry,
  type ProblemCode,
  type ProblemEntry,
} from './problem.ts'

const at = { origin: 'http://127.0.0.1:4000', requestId: 'req-1' }

describe('problem', () => {
  test('§11: a problem is told as RFC 9457 has it, with code, retryable, requestId and what mends it', () => {
    const thrown = problem('idempotency-mismatch', 'The key is bound to another input.', {
      firstAction: 'act_1',
      differs: ['input'],
    })
    expect(thrown).toBeInstanceOf(Error)
    expect(toProblemJson(thrown, at)).toEqual({
      type: 'http://127.0.0.1:4000/errors/idempotency-mismatch',
      title: problems['idempotency-mismatch'].title,
      status: 409,
      detail: 'The key is bound to another input.',
      code: 'idempotency-mismatch',
      retryable: false,
      requestId: 'req-1',
      firstAction: 'act_1',
      differs: ['input'],
    })
  })

  test('§11: a further member never replaces a standard one', () => {
    const json = toProblemJson(problem('busy', 'Full.', { status: 200, code: 'x', requestId: 'y', extra: 1 }), at)
    expect(json).toMatchObject({ status: 503, code: 'busy', requestId: 'req-1', extra: 1, retryable: true })
  })

  test('§11: the headers of a code come with it, and can be told otherwise', () => {
    expect(problem('unauthorized', 'x').headers).toEqual({ 'WWW-Authenticate': 'Bearer' })
    expect(problem('busy', 'x').headers).toEqual({ 'Retry-After': '1' })
    expect(problem('busy', 'x', {}, { 'Retry-After': '7' }).headers).toEqual({ 'Retry-After': '7' })
    expect(problem('not-found', 'x').headers).toEqual({})
  })

  test('§11: a caught problem is told from other errors, by its code', () => {
    const thrown: unknown = problem('throttled', 'Slow down.')
    expect([isProblem(thrown), isProblem(thrown, 'throttled'), isProblem(thrown, 'busy')]).toEqual([true, true, false])
    expect(isProblem(new Error('throttled'))).toBe(false)
    expect(new Problem('throttled', 'x').retryable).toBe(true)
  })
})

describe('the registry', () => {
  const door = Object.entries<ProblemEntry>(problems)
  const settled = Object.entries<OutcomeEntry>(outcomes)

  test('§11: no code stands in both registries, and each is in kebab case', () => {
    expect(Object.keys(problems).filter((code) => code in outcomes)).toEqual([])
    for (const [code] of [...door, ...settled]) expect(code).toMatch(/^[a-z]+(-[a-z]+)*$/)
  })

  test('§11: a status is one that HTTP has for a refusal, and 5xx may always be tried again', () => {
    for (const [code, entry] of door) {
      expect([code, entry.status >= 400 && entry.status < 600]).toEqual([code, true])
      if (entry.status >= 500 || entry.status === 408 || entry.status === 429)
        expect([code, entry.retryable]).toEqual([code, true])
    }
    const retryable = door.filter(([, entry]) => entry.retryable && entry.status < 500).map(([code]) => code)
    expect(retryable.sort()).toEqual(['predecessor-unknown', 'request-timeout', 'throttled', 'too-many-streams'])
  })

  test('R2: the statuses of the contract', () => {
    const status = (code: ProblemCode): number => problems[code].status
    expect([status('not-found'), status('method-not-allowed'), status('unauthorized')]).toEqual([404, 405, 401])
    expect([status('wrong-namespace'), status('forbidden'), status('throttled')]).toEqual([403, 403, 429])
    expect([status('body-too-large'), status('unsupported-media-type'), status('invalid-json')]).toEqual([
      413, 415, 400,
    ])
    expect([status('idempotency-mismatch'), status('version-required')]).toEqual([409, 428])
  })

  test('§11: every entry says what it means, whether to retry and how to mend it, in whole sentences', () => {
    for (const [code, { title, meaning, retry, mend }] of [...door, ...settled]) {
      for (const text of [meaning, retry, mend]) {
        expect([code, text.length > 2, /^[A-Z`]/.test(text), /[.!?)]$/.test(text)]).toEqual([code, true, true, true])
      }
      expect([code, title.endsWith('.')]).toEqual([code, false])
      for (const text of [title, meaning, retry, mend]) expect(text.split('`').length % 2).toBe(1)
    }
  })

  test('§11: no two codes have one title', () => {
    const titles = [...door, ...settled].map(([, entry]) => entry.title)
    expect(new Set(titles).size).toBe(titles.length)
  })

  test('V5: whatever settles refused says that nothing happened', () => {
    for (const [code, { settles, meaning }] of settled) {
      expect([code, meaning.includes('Nothing happened')]).toEqual([code, settles === 'refused'])
    }
  })
})
