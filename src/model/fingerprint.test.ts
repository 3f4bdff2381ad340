import { createHash } from 'node:crypto'
import canonicalize from 'canonicalize'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { boundFingerprint, canonical, fingerprint, fingerprintScheme } from './fingerprint.ts'
import { parseInput } from './json.ts'

const of = (text: string): string => fingerprint(parseInput(Buffer.from(text)).value).toString('hex')

describe('fingerprint', () => {
  test('K3: it is SHA-256 over the canonical JSON, and its value never changes', () => {
    const hex = createHash('sha256').update('{"a":1,"b":{"x":3,"y":2}}').digest('hex')
    expect(of('{"a":1,"b":{"y":2,"x":3}}')).toBe(hex)
    expect(of('{"note":"käse 🧀"}')).toBe(createHash('sha256').update('{"note":"käse 🧀"}', 'utf8').digest('hex'))
    expect(of('{}')).toBe('44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a')
    expect(fingerprint({})).toHaveLength(32)
  })

  test('K3: what a key binds begins with the scheme', () => {
    const bound = boundFingerprint({ b: 1, a: 2 })
    expect(bound[0]).toBe(fingerprintScheme)
    expect(bound.subarray(1)).toEqual(fingerprint({ a: 2, b: 1 }))
  })

  test.each([
    ['member order and 1.0', '{"a":1,"b":{"y":2,"x":3}}', '{"b":{"x":3,"y":2},"a":1.0}'],
    ['white space', '{"a":[1,2]}', ' {\n"a" : [ 1,\t2 ] } '],
    ['an emoji raw and as escapes', '{"n":"😀"}', '{"n":"\\uD83D\\uDE00"}'],
    ['members that code points and UTF-16 order differently', '{"😀":1,"\\ufb33":2}', '{"\\ufb33":2,"😀":1}'],
    ['1e-7', '{"a":1e-7}', '{"a":0.0000001}'],
    ['-0', '{"a":-0}', '{"a":0}'],
    ['names that look like integers', '{"10":1,"9":2,"a":3}', '{"a":3,"9":2,"10":1}'],
    ['a solidus escaped', '{"a":"\\/"}', '{"a":"/"}'],
    ['__proto__ out of order', '{"a":1,"__proto__":{"b":1,"a":2}}', '{"__proto__":{"a":2,"b":1},"a":1}'],
  ])('K3: %s does not matter', (_, one, other) => {
    expect(of(one)).toBe(of(other))
  })

  test.each([
    ['array order', '{"a":[1,2]}', '{"a":[2,1]}'],
    ['null against absent', '{"a":null}', '{}'],
    ['NFC against NFD', '{"a":"\u00e9"}', '{"a":"e\u0301"}'],
    ['a number against its text', '{"a":1}', '{"a":"1"}'],
    ['an empty object against an empty array', '{"a":{}}', '{"a":[]}'],
    ['__proto__ against nothing', '{"__proto__":{"x":1},"a":1}', '{"a":1}'],
    ['__proto__ with another value', '{"b":1,"__proto__":1}', '{"b":1,"__proto__":2}'],
    ['case', '{"a":"A"}', '{"a":"a"}'],
  ])('K3: %s matters', (_, one, other) => {
    expect(of(one)).not.toBe(of(other))
  })
})

describe('canonical', () => {
  test('RFC 8785, section 3.2.3: members are in the order of UTF-16 code units', () => {
    const value = JSON.parse(
      '{"\\u20ac":"Euro Sign","\\r":"Carriage Return","\\ufb33":"Hebrew Letter Dalet With Dagesh","1":"One",' +
        '"\\ud83d\\ude00":"Emoji: Grinning Face","\\u0080":"Control","\\u00f6":"Latin Small Letter O With Diaeresis"}',
    ) as Record<string, string>
    expect(Object.values(JSON.parse(canonical(value)) as object)).toEqual([
      'One',
      'Carriage Return',
      'Control',
      'Latin Small Letter O With Diaeresis',
      'Euro Sign',
      'Emoji: Grinning Face',
      'Hebrew Letter Dalet With Dagesh',
    ])
  })

  test('RFC 8785, section 3.2.2: numbers and strings have one form', () => {
    const value: unknown = JSON.parse(
      '{"numbers":[333333333.33333329,1E-3,4.50,2e-3,0.000000000000000000000000001],' +
        '"string":"\\u20ac$\\u000F\\u000aA\'\\u0042\\u0022\\u005c\\\\\\"\\/","literals":[null,true,false]}',
    )
    expect(canonical(value)).toBe(
      '{"literals":[null,true,false],"numbers":[333333333.3333333,0.001,4.5,0.002,1e-27],' +
        '"string":"€$\\u000f\\nA\'B\\"\\\\\\\\\\"/"}',
    )
  })

  test('K3: names that look like integers are ordered as text', () => {
    expect(canonical(JSON.parse('{"10":1,"9":2,"1":{"b":1,"a":2}}'))).toBe('{"1":{"a":2,"b":1},"10":1,"9":2}')
  })

  test('K3: __proto__ stays a member, wherever it stands', () => {
    expect(canonical(JSON.parse('{"a":1,"__proto__":{"y":1,"x":2}}'))).toBe('{"__proto__":{"x":2,"y":1},"a":1}')
    expect(canonical(JSON.parse('{"__proto__":[],"A":1,"9":1,"10":1}'))).toBe('{"10":1,"9":1,"A":1,"__proto__":[]}')
  })

  test('RFC 8785: each of the short ways gives what the long way gives', () => {
    const name = fc.oneof(
      fc.string({ unit: 'grapheme', maxLength: 3 }),
      fc.constantFrom(
        '__proto__',
        'toJSON',
        'constructor',
        '0',
        '1',
        '9',
        '10',
        '-1',
        '01',
        '4294967295',
        '😀',
        '\ufb33',
        'a',
      ),
    )
    const { tree } = fc.letrec((tie) => ({
      tree: fc.oneof({ depthSize: 'small' }, fc.jsonValue({ maxDepth: 0 }), fc.array(tie('tree')), tie('object')),
      object: fc.array(fc.tuple(name, tie('tree'))).map((members) => Object.fromEntries(members)),
    }))
    fc.assert(
      fc.property(tree, (made) => {
        const value: unknown = JSON.parse(JSON.stringify(made))
        const text = canonical(value)
        expect(text).toBe(canonicalize(value))
        expect(JSON.parse(text)).toEqual(value)
      }),
      { numRuns: 500 },
    )
  })
})
