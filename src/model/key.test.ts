import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import {
  checkKey,
  encodeDecidedAfter,
  encodeKeyHeader,
  parseAuthorization,
  parseDecidedAfter,
  parseKeyHeaders,
  type Key,
} from './key.ts'
import { Problem } from './problem.ts'

/** A header value as Node gives it: each byte of the line as one character. */
const wire = (text: string): string => Buffer.from(text, 'utf8').toString('latin1')
const plain = (value: string): Key | null => parseKeyHeaders(['Host', 'x', 'Idempotency-Key', value])
const encoded = (value: string): Key | null => parseKeyHeaders(['Idempotency-Key-Encoded', value, 'Accept', '*/*'])

function refusal(call: () => unknown): string {
  try {
    call()
  } catch (error) {
    if (error instanceof Problem) return `${error.code}: ${error.detail}`
    throw error
  }
  return 'accepted'
}

describe('parseKeyHeaders', () => {
  test('K1: the key is the value of the header, in whatever case its name is', () => {
    expect(plain('cart_8812-checkout')).toBe('cart_8812-checkout')
    expect(parseKeyHeaders(['IDEMPOTENCY-KEY', 'a'])).toBe('a')
    expect(parseKeyHeaders(['idempotency-key-encoded', 'a%20'])).toBe('a ')
    expect(parseKeyHeaders(['Host', 'x', 'X-Idempotency-Key', 'a', 'Idempotency-Keys', 'b'])).toBeNull()
    expect(parseKeyHeaders([])).toBeNull()
  })

  test('K1: quotes, commas, inner spaces and tabs are characters of a plain key', () => {
    for (const key of ['"q1"', 'a, b', 'a b', 'a\tb', '%41', "'", '~']) expect(plain(key)).toBe(key)
  })

  test('K1: the bytes of a plain header are UTF-8, and mean what the encoded header means', () => {
    for (const key of ['käse-🧀', '\ufeffa', '\u0085', 'e\u0301', '𝄞'.repeat(255)]) {
      expect(plain(wire(key))).toBe(key)
      expect(encoded(encodeURIComponent(key))).toBe(key)
    }
  })

  test.each([
    ['an empty plain key', () => plain(''), 'The key is empty.'],
    ['an empty encoded key', () => encoded(''), 'The key is empty.'],
    ['256 characters', () => plain('a'.repeat(256)), 'The key is longer than 255 characters.'],
    ['256 characters beyond the BMP', () => plain(wire('𝄞'.repeat(256))), 'The key is longer than 255 characters.'],
    ['256 encoded characters', () => encoded('%61'.repeat(256)), 'The key is longer than 255 characters.'],
    ['the byte E9', () => plain('k\u00e9'), 'The key is not UTF-8.'],
    ['the bytes FF FE', () => plain('\u00ff\u00fe'), 'The key is not UTF-8.'],
    ['a surrogate in three bytes', () => plain('\u00ed\u00a0\u0080'), 'The key is not UTF-8.'],
    ['a character that no byte holds', () => plain('\u20ac'), 'The key is not UTF-8.'],
    ['encoded bytes that are not UTF-8', () => encoded('k%E9'), 'The key is not UTF-8.'],
    ['an encoded surrogate', () => encoded('%ED%A0%80'), 'The key is not UTF-8.'],
    ['an encoded overlong form', () => encoded('%C0%AF'), 'The key is not UTF-8.'],
  ])('K1: %s is refused', (_, call, detail) => {
    expect(refusal(call)).toBe(`invalid-idempotency-key: ${detail}`)
  })

  test.each(['%', '%4', '%zz', 'a%2', '%%41', 'a b', 'a,b', 'k\u00e9', 'a\tb'])(
    'K1: the percent-encoding %j is refused',
    (value) => {
      expect(refusal(() => encoded(value))).toMatch(/^invalid-idempotency-key: The key is not percent-encoded/)
    },
  )

  test('K1: two field lines, equal ones too, and both headers are refused', () => {
    const line = ['Idempotency-Key', 'a']
    const encodedLine = ['Idempotency-Key-Encoded', 'a']
    expect(refusal(() => parseKeyHeaders([...line, ...line]))).toMatch(/^invalid-idempotency-key: Idempotency-Key was/)
    expect(refusal(() => parseKeyHeaders([...encodedLine, 'x', 'y', ...encodedLine]))).toMatch(
      /Encoded was sent on more/,
    )
    expect(refusal(() => parseKeyHeaders([...line, ...encodedLine]))).toMatch(/^invalid-idempotency-key: Both/)
    expect(refusal(() => parseKeyHeaders([...line, 'idempotency-key', '']))).toMatch(/^invalid-idempotency-key/)
  })
})

describe('checkKey and encodeKeyHeader', () => {
  test('K1: any well-formed string of 1 to 255 code points goes through a header and comes back the same', () => {
    const anyKey = fc
      .oneof(fc.string({ unit: 'binary', minLength: 1, maxLength: 255 }), fc.string({ minLength: 1, maxLength: 255 }))
      .filter((text) => text.isWellFormed())
    fc.assert(
      fc.property(anyKey, (text) => {
        const key = checkKey(text)
        const [name, value] = encodeKeyHeader(key)
        expect(value).toMatch(/^[\x20-\x2b\x2d-\x7e]+$/)
        expect(value.trim()).toBe(value)
        expect(parseKeyHeaders([name, value])).toBe(text)
        expect(parseDecidedAfter(['decided-after', encodeDecidedAfter(key)])).toBe(text)
      }),
    )
  })

  test.each([
    ['a', 'Idempotency-Key', 'a'],
    ['"a"', 'Idempotency-Key', '"a"'],
    ['a b', 'Idempotency-Key', 'a b'],
    [' a', 'Idempotency-Key-Encoded', '%20a'],
    ['a ', 'Idempotency-Key-Encoded', 'a%20'],
    ['a, b', 'Idempotency-Key-Encoded', 'a%2C%20b'],
    ['a\u0000\n', 'Idempotency-Key-Encoded', 'a%00%0A'],
    ['ä', 'Idempotency-Key-Encoded', '%C3%A4'],
  ])('K1: the key %j travels as %s', (key, name, value) => {
    expect(encodeKeyHeader(checkKey(key))).toEqual([name, value])
  })

  test('K1: a key that no header could carry is refused before it is sent', () => {
    for (const text of ['', '\ud800', 'a\udc00b', 'a'.repeat(256), '𝄞'.repeat(256)]) {
      expect(refusal(() => checkKey(text))).toMatch(/^invalid-idempotency-key/)
    }
    expect(checkKey('𝄞'.repeat(255))).toHaveLength(510)
  })
})

describe('parseDecidedAfter', () => {
  test('W3: it names one key, percent-encoded', () => {
    expect(parseDecidedAfter(['Decided-After', 'a%2C%20%F0%9F%A7%80'])).toBe('a, 🧀')
    expect(parseDecidedAfter(['Idempotency-Key', 'a'])).toBeNull()
  })

  test.each([[['']], [['%zz']], [['a, b']], [['%FF']], [['a', 'a']], [['%61'.repeat(256)]]])(
    'W3: Decided-After %j is invalid-decided-after',
    (values) => {
      const lines = values.flatMap((value) => ['Decided-After', value])
      expect(refusal(() => parseDecidedAfter(lines))).toMatch(/^invalid-decided-after/)
    },
  )
})

test('§3: a bearer token is taken from Authorization, and from nothing else', () => {
  for (const value of ['Bearer sb_abc.DEF-1~+/==', 'bearer sb_abc.DEF-1~+/==', 'BEARER  sb_abc.DEF-1~+/==']) {
    expect(parseAuthorization(value)).toBe('sb_abc.DEF-1~+/==')
  }
  for (const value of [
    undefined,
    '',
    'Bearer',
    'Bearer ',
    'Basic abc',
    'Bearer a b',
    'Bearer a,b',
    'xBearer a',
    'Bearer "a"',
  ]) {
    expect(parseAuthorization(value)).toBeNull()
  }
})
