import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { parseInput, toStorable } from './json.ts'
import { inputDepthMax, outputBytesMax } from './limits.ts'
import { Problem } from './problem.ts'

const parse = (text: string): unknown => parseInput(Buffer.from(text)).value

function refusal(body: string | Uint8Array): string {
  try {
    parseInput(Buffer.from(body))
  } catch (error) {
    if (error instanceof Problem) return error.code
    throw error
  }
  return 'accepted'
}

describe('parseInput', () => {
  test('K3: no body means {}', () => {
    expect(parseInput(Buffer.alloc(0))).toEqual({ value: {}, text: '{}' })
  })

  test('K3: an input is kept as it was sent, white space and all', () => {
    const body = ' {"offer" : "offer_serif_family",\n"price":1.0, "note":"käse 🧀" } '
    const { value, text } = parseInput(Buffer.from(body))
    expect(text).toBe(body)
    expect(value).toEqual({ offer: 'offer_serif_family', price: 1, note: 'käse 🧀' })
  })

  test('K3: a body that is part of a larger buffer, or a plain Uint8Array, is read alone', () => {
    const whole = Buffer.from('xx{"a":1}yy')
    expect(parseInput(whole.subarray(2, 9)).value).toEqual({ a: 1 })
    expect(parseInput(new Uint8Array(whole).subarray(2, 9)).value).toEqual({ a: 1 })
  })

  test.each([
    ['twice at the top', '{"total":1,"total":900}'],
    ['twice with the same value', '{"total":1,"total":1}'],
    ['once in escapes', '{"to\\u0074al":1,"total":900}'],
    ['nested', '{"a":[{"b":{"x":1,"y":2,"x":3}}]}'],
    ['in an object that is itself dropped', '{"a":{"x":1,"x":2},"b":1}'],
    ['where one of the two is an object', '{"a":{"deep":{"x":1}},"a":2}'],
    ['empty names', '{"":1,"":2}'],
    ['__proto__', '{"__proto__":1,"__proto__":2}'],
    ['integer-like names', '{"1":1,"1":2}'],
    ['with colons in strings', '{"a:b":"c:d","a:b":":"}'],
    ['with quotes in names', '{"a\\"":1,"a\\"":2}'],
  ])('K3: a member named twice is invalid-json: %s', (_, body) => {
    expect(refusal(body)).toBe('invalid-json')
  })

  test('K3: the same name in different objects, and colons, quotes and backslashes in strings, are fine', () => {
    const value = { a: { x: 1 }, b: { x: 1 }, c: [{ x: 1 }, { x: 1 }], 'd:"\\': '":\\":{', e: '\\', f: ':' }
    expect(parse(JSON.stringify(value))).toEqual(value)
  })

  test.each([
    ['a lone high surrogate', '{"note":"\\uD800"}'],
    ['a lone low surrogate as a name', '{"\\uDC00":1}'],
    ['a pair the wrong way round', '{"note":"\\uDE00\\uD83D"}'],
    ['one in an array', '{"a":[["\\ud83d"]]}'],
    ['one in a nested name', '{"a":{"\\ud83d":{}}}'],
    ['a byte order mark', '\ufeff{}'],
    ['nothing but white space', '  '],
    ['half an object', '{"a":'],
    ['something after the object', '{} {}'],
    ['a trailing comma', '{"a":1,}'],
    ['a comment', '{/**/}'],
    ['a leading zero', '{"a":01}'],
    ['NaN', '{"a":NaN}'],
    ['a raw control character in a string', '{"a":"\u0001"}'],
    ['single quotes', "{'a':1}"],
  ])('K3: %s is invalid-json', (_, body) => {
    expect(refusal(body)).toBe('invalid-json')
  })

  test.each([
    ['the byte FF', [0xff]],
    ['Latin-1', [0xe9]],
    ['an overlong form', [0xc0, 0xaf]],
    ['a surrogate in three bytes', [0xed, 0xa0, 0x80]],
    ['half a character', [0xe2, 0x82]],
  ])('K3: %s in a string is invalid-json', (_, bytes) => {
    expect(refusal(Buffer.concat([Buffer.from('{"note":"'), Buffer.from(bytes), Buffer.from('"}')]))).toBe(
      'invalid-json',
    )
  })

  test('K3: a well-formed pair, raw or as escapes, is one and the same text', () => {
    expect(parse('{"note":"\\uD83D\\uDE00"}')).toEqual(parse('{"note":"😀"}'))
    expect(parse('{"\\uD83D\\uDE00":"\\\\uD800"}')).toEqual({ '😀': '\\uD800' })
  })

  test.each([
    '1e400',
    '-1e400',
    '1e300',
    '1e21',
    '9007199254740992',
    '9007199254740993',
    '-9007199254740992',
    '9007199254740991.5',
  ])('K3: %s is unsafe-number', (number) => {
    expect(refusal(`{"total":${number}}`)).toBe('unsafe-number')
    expect(refusal(`{"a":[{"b":[0,${number}]}]}`)).toBe('unsafe-number')
  })

  test.each([
    '9007199254740991',
    '-9007199254740991',
    '1e-7',
    '0.1',
    '-0',
    '1.00000000000000000001',
    '1e-400',
    '1E3',
    '4503599627370497.5',
  ])('K3: %s is a number that can be kept', (number) => {
    expect(parse(`{"total":${number}}`)).toEqual({ total: Number(number) })
  })

  test('K3: 64 levels are accepted, 65 are input-too-deep, and 500,000 are too', () => {
    const nested = (levels: number): string => `{"a":${'['.repeat(levels - 1)}${']'.repeat(levels - 1)}}`
    expect(refusal(nested(inputDepthMax))).toBe('accepted')
    expect(refusal(nested(inputDepthMax + 1))).toBe('input-too-deep')
    expect(refusal(nested(500_000))).toBe('input-too-deep')
    expect(refusal('{"a":'.repeat(65) + '1' + '}'.repeat(65))).toBe('input-too-deep')
    expect(refusal('{"a":'.repeat(64) + '1' + '}'.repeat(64))).toBe('accepted')
    expect(refusal('['.repeat(500_000))).toBe('invalid-json')
  })

  test.each(['[]', '[{"a":1}]', '"text"', '1', 'true', 'null'])('K3: the input %s is input-not-object', (body) => {
    expect(refusal(body)).toBe('input-not-object')
  })

  test('K3: __proto__ is an ordinary member that pollutes nothing', () => {
    const { value } = parseInput(Buffer.from('{"__proto__":{"admin":true},"constructor":{"prototype":{"admin":true}}}'))
    expect(Object.hasOwn(value, '__proto__')).toBe(true)
    expect(Object.getPrototypeOf(value)).toBe(Object.prototype)
    expect(value['admin']).toBeUndefined()
    expect(({} as Record<string, unknown>)['admin']).toBeUndefined()
  })

  test('K3: the fault of an unreadable body quotes nothing of it', () => {
    expect(() => parseInput(Buffer.from('{"card":"4242", oops}'))).toThrow(
      /^The body is not valid JSON, at character \d+\.$/,
    )
    expect(() => parseInput(Buffer.from('secret'))).toThrow(/^The body is not valid JSON(, at character \d+)?\.$/)
  })

  test('K3: whatever JSON.stringify writes of an object is accepted and read back, unless a number is unsafe', () => {
    fc.assert(
      fc.property(fc.dictionary(fc.string({ unit: 'grapheme' }), fc.jsonValue({ noUnicodeString: false })), (value) => {
        const text = JSON.stringify(value)
        const code = refusal(text)
        const numbers: number[] = []
        JSON.parse(text, (_, member: unknown) => (typeof member === 'number' ? numbers.push(member) : member))
        if (numbers.some((n) => Math.abs(n) > Number.MAX_SAFE_INTEGER)) expect(code).toBe('unsafe-number')
        else expect([code, code === 'accepted' && parse(text)]).toEqual(['accepted', JSON.parse(text)])
      }),
    )
  })

  test('K3: a member repeated anywhere in any object is found', () => {
    const name = fc.string({ unit: 'binary' }).filter((text) => text.isWellFormed())
    fc.assert(
      fc.property(name, fc.dictionary(name, fc.string(), { maxKeys: 5 }), fc.boolean(), (again, others, nested) => {
        const members = Object.entries({ ...others, [again]: '' }).map(
          ([k, v]) => `${JSON.stringify(k)}:${JSON.stringify(v)}`,
        )
        const escaped = [...Array(again.length).keys()].map(
          (i) => '\\u' + again.charCodeAt(i).toString(16).padStart(4, '0'),
        )
        const object = `{${members.join(',')},"${escaped.join('')}":0}`
        expect(refusal(nested ? `{"in":[1,${object}]}` : object)).toBe('invalid-json')
      }),
    )
  })
})

describe('toStorable', () => {
  const text = (value: unknown): string | null => toStorable(value, outputBytesMax).text
  const fault = (value: unknown): string | null => toStorable(value, outputBytesMax).fault

  test('V5: plain data is its JSON text', () => {
    expect(text({ a: [1, 'x', null, true, { b: -0 }] })).toBe('{"a":[1,"x",null,true,{"b":0}]}')
    expect(text('käse 🧀')).toBe('"käse 🧀"')
    expect(text(Object.assign(Object.create(null) as object, { a: 1 }))).toBe('{"a":1}')
  })

  test('V2: undefined is null, and an undefined member is left out', () => {
    expect(text(undefined)).toBe('null')
    expect(text({ a: undefined, b: [undefined] })).toBe('{"b":[null]}')
    expect(text({ toJSON: () => undefined })).toBe('null')
  })

  test('V2: a Date and whatever has a toJSON is what that gives', () => {
    expect(text({ at: new Date(0) })).toBe('{"at":"1970-01-01T00:00:00.000Z"}')
    expect(text(new URL('https://glyphs.store/'))).toBe('"https://glyphs.store/"')
    class Price {
      minor = 100
    }
    expect(text(new Price())).toBe('{"minor":100}')
  })

  test.each([
    ['NaN', { total: NaN }, 'NaN, as "total"'],
    ['Infinity', [Infinity], 'Infinity, as "0"'],
    ['a bigint', { a: { b: 1n } }, 'a bigint, as "b"'],
    ['a function', { then: () => 1 }, 'a function, as "then"'],
    ['a symbol', Symbol('x'), 'a symbol'],
    ['a Map', { m: new Map([[1, 2]]) }, 'a Map, as "m"'],
    ['a Set', new Set(), 'a Set'],
    ['a promise', { charge: Promise.resolve(1) }, 'a Promise, as "charge"'],
    ['an error', { e: new TypeError('x') }, 'a Error, as "e"'],
    ['bytes', { b: new Uint8Array(2) }, 'a Uint8Array, as "b"'],
    ['an invalid Date', { at: new Date(NaN) }, 'an invalid Date, as "at"'],
    ['half a surrogate pair', { a: '\ud800' }, 'half of a surrogate pair, as "a"'],
    ['half a surrogate pair in a name', { '\ud800': 1 }, 'half of a surrogate pair, as "\\ud800"'],
    ['a toJSON that gives NaN', { toJSON: () => NaN }, 'NaN'],
    [
      'a toJSON that throws',
      {
        toJSON() {
          throw new Error('secret')
        },
      },
      'an object whose toJSON or getter throws',
    ],
  ])('V5: %s is a fault, not a silent change', (_, value, expected) => {
    expect(toStorable(value, outputBytesMax)).toEqual({ text: null, fault: expected })
  })

  test('V5: a cycle and a nesting without end are faults', () => {
    const cycle: { self?: unknown } = {}
    cycle.self = cycle
    expect(fault(cycle)).toBe('an object that contains itself')
    let deep: unknown = 1
    for (let i = 0; i < 200_000; i++) deep = [deep]
    expect(fault(deep)).toBe('too deeply nested, or too long')
  })

  test('V5: the bound is on the bytes of the text', () => {
    expect(toStorable('xxxx', 6).text).toBe('"xxxx"')
    expect(toStorable('xxxxx', 6).fault).toBe('more than 6 bytes of JSON')
    expect(toStorable('ää', 6).text).toBe('"ää"')
    expect(toStorable('äää', 6).fault).toBe('more than 6 bytes of JSON')
    expect(toStorable('\n\n\n', 6).fault).toBe('more than 6 bytes of JSON')
    expect(fault(Array.from({ length: 1000 }, () => 'x'.repeat(2000)))).toBe('more than 1048576 bytes of JSON')
  })

  test('V2: what is stored comes back equal', () => {
    fc.assert(
      fc.property(fc.jsonValue(), (value) => {
        const stored = text(value)
        if (stored !== null) expect(JSON.parse(stored)).toEqual(JSON.parse(JSON.stringify(value)))
        else expect(fault(value)).toContain('half of a surrogate pair')
      }),
    )
  })
})
