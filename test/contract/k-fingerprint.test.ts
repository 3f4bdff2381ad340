import { beforeAll, describe, expect, test } from 'vitest'
import type { ProblemCode } from '../../src/model/problem.ts'
import type { TestServer } from '../support/server.ts'
import { caller, expectProblem, newKey, startKiln, stores } from './wire.ts'
import type { ActionView, Caller, Reply } from './wire.ts'

describe.each(stores)('the fingerprint of the input, over %s', (store) => {
  let server: TestServer
  let kiln: Caller

  beforeAll(async () => {
    server = await startKiln(store)
    kiln = caller(server, 'kiln.test', await server.token('printer', ['*'], { namespace: 'kiln.test' }))
  })

  const say = (key: string, raw: string | Uint8Array | undefined): Promise<Reply> =>
    kiln.call('orders/say', undefined, { key, ...(raw === undefined ? {} : { raw }) })

  /** Sends each text under one key: the first must run, and each of the others must replay it. */
  async function same(...texts: (string | undefined)[]): Promise<void> {
    const key = newKey('same')
    const first = await say(key, texts[0])
    expect(first.status, first.text).toBe(200)
    for (const text of texts.slice(1)) {
      const again = await say(key, text)
      expect(again.header('idempotent-replayed'), `${texts[0]} and ${text}: ${again.text}`).toBe('true')
      expect(again.text).toBe(first.text)
    }
  }

  /** Sends two texts under one key: the second is a mismatch whose difference is the input. Both ways round. */
  async function distinct(one: string | undefined, two: string | undefined): Promise<void> {
    for (const [first, second] of [
      [one, two],
      [two, one],
    ]) {
      const key = newKey('distinct')
      const action = await say(key, first)
      expect(action.status, action.text).toBe(200)
      const told = expectProblem(await say(key, second), 'idempotency-mismatch')
      expect(told, `${first} and ${second}`).toMatchObject({ differs: ['input'], firstAction: action.json()['id'] })
    }
  }

  /** Sends a body that must be turned away, and shows that the key is still free. */
  async function refused(code: ProblemCode, raw: string | Uint8Array): Promise<void> {
    const key = newKey('refused')
    expectProblem(await say(key, raw), code)
    expect(await kiln.recorded(key)).toEqual([])
    // A used key does not change the answer: what is no JSON has no fingerprint.
    await say(key, '{}')
    expectProblem(await say(key, raw), code)
    expect(await kiln.recorded(key)).toHaveLength(1)
  }

  describe('what does not matter', () => {
    test('K3: member order does not matter, at any depth, nor does 1.0 for 1', async () => {
      await same('{"a":1,"b":{"y":2,"x":3}}', '{"b":{"x":3,"y":2},"a":1.0}')
      await same('{"l":[{"p":1,"q":2}]}', '{"l":[{"q":2,"p":1}]}')
      await same('{"10":1,"9":2,"a":3}', '{"a":3,"9":2,"10":1}') // names that look like indexes
      await same('{"":1," ":2}', '{" ":2,"":1}')
    })

    test('K3: white space does not matter', async () => {
      await same('{"a":[1,2],"b":"x y"}', ' {\n\t"a" : [ 1 ,\r\n2 ] , "b":"x y" }\n ')
    })

    test('K3: -0 is 0, and a number is its value, however it is written', async () => {
      await same('{"n":0}', '{"n":-0}', '{"n":0.0}', '{"n":-0e5}', '{"n":0E-9}')
      await same('{"n":1e-7}', '{"n":0.0000001}', '{"n":1E-07}')
      await same('{"n":100}', '{"n":1e2}', '{"n":100.000}', '{"n":10E+1}')
      await same('{"n":0.1}', '{"n":0.1000000000000000055511151231257827}') // one and the same double
      await same('{"n":9007199254740991}', '{"n":9007199254740991.0}', '{"n":9.007199254740991e15}')
      await same('{"n":-9007199254740991}', '{"n":-9007199254740991e0}')
    })

    test('K3: a character is itself, raw or as escapes', async () => {
      await same('{"note":"😀"}', '{"note":"\\ud83d\\ude00"}', '{"note":"\\uD83D\\uDE00"}')
      await same('{"n\\u006fte":"A/B"}', '{"note":"\\u0041\\/B"}')
      await same('{"😀":1}', '{"\\uD83D\\uDE00":1}')
      await same('{"c":"\\u0008\\u000c\\u000a\\u000d\\u0009"}', '{"c":"\\b\\f\\n\\r\\t"}')
      await same('{"c":"\\u007f\\u2028"}', '{"c":"\u007f\u2028"}')
    })

    test('K3: members are ordered by UTF-16 code units, as RFC 8785 has it', async () => {
      await same('{"😀":1,"דּ":2}', '{"דּ":2,"😀":1}') // U+1F600 sorts before U+FB33 there, after it by code points
      await same(
        '{"€":1,"\\r":2,"דּ":3,"1":4,"😀":5,"\u0080":6,"ö":7}',
        '{"ö":7,"\u0080":6,"😀":5,"1":4,"דּ":3,"\\r":2,"€":1}',
      )
    })

    test('K3: no body means {}', async () => {
      await same(undefined, '{}', ' { } ')
      await same('{}', undefined)
    })
  })

  describe('what does matter', () => {
    test('K3: array order matters', async () => {
      await distinct('{"a":[1,2]}', '{"a":[2,1]}')
      await distinct('{"a":[]}', '{"a":[[]]}')
    })

    test('K3: null against absent matters, and types do', async () => {
      await distinct('{"a":null}', '{}')
      await distinct('{"a":1}', '{"a":"1"}')
      await distinct('{"a":true}', '{"a":"true"}')
      await distinct('{"a":{}}', '{"a":[]}')
      await distinct('{"a":0}', '{"a":false}')
      await distinct('{"a":""}', '{"a":null}')
    })

    test('K3: Unicode form matters: NFC é is not NFD é', async () => {
      await distinct('{"note":"\u00e9"}', '{"note":"e\u0301"}')
      await distinct('{"\u00e9":1}', '{"e\u0301":1}')
      await distinct('{"note":"a"}', '{"note":"a\u200b"}')
    })

    test('K3: numbers that differ in their last bit differ', async () => {
      await distinct('{"n":0.1}', '{"n":0.10000000000000002}')
      await distinct('{"n":9007199254740991}', '{"n":9007199254740990}')
      await distinct('{"n":5e-324}', '{"n":0}')
    })

    test('K3: the input is bound as it was sent, before defaults and coercion', async () => {
      const key = newKey()
      await kiln.action('orders/place', {}, { key })
      for (const sent of [{ total: 0 }, { note: '' }, { total: 0, note: '' }]) {
        expect(
          expectProblem(await kiln.call('orders/place', sent, { key }), 'idempotency-mismatch')['differs'],
        ).toEqual(['input'])
      }
    })

    test('K3: __proto__ is an ordinary member that is bound, kept, shown and pollutes nothing', async () => {
      await distinct('{"__proto__":{"polluted":true}}', '{}')
      await distinct('{"__proto__":{"a":1}}', '{"__proto__":{"a":2}}')
      await distinct('{"a":{"__proto__":1}}', '{"a":{}}')
      await same(
        '{"__proto__":{"b":1,"a":2},"constructor":{"prototype":{"polluted":1}}}',
        '{"constructor":{"prototype":{"polluted":1}},"__proto__":{"a":2,"b":1}}',
      )
      const raw = '{"data":{"__proto__":{"polluted":true},"x":1}}'
      const kept = await kiln.call('orders/keep', undefined, { raw })
      expect(kept.text).toContain(`"input":${raw}`)
      expect(kept.json<ActionView>().output).toEqual({ data: '{"__proto__":{"polluted":true},"x":1}', polluted: false })
      // A schema that does not know it refuses it, as any other member.
      expectProblem(await kiln.call('orders/place', undefined, { raw: '{"__proto__":{"total":9}}' }), 'invalid-input')
      expect((await say(newKey(), '{"a":1}')).json<ActionView>().output?.['polluted']).toBe(false)
    })
  })

  describe('what is refused, never guessed', () => {
    test('K3: a member named twice is 400 invalid-json, at any depth and however it is written', async () => {
      for (const text of [
        '{"total":1,"total":900}',
        '{"total":1,"total":1}',
        '{"to\\u0074al":1,"total":900}',
        '{"a":{"total":1,"total":900}}',
        '{"a":[{"b":[{"x":1,"x":2}]}]}',
        '{"__proto__":1,"__proto__":2}',
        '{"":1,"":2}',
        '{"1":1,"b":2,"1":3}',
        '{"😀":1,"\\ud83d\\ude00":2}',
        '{"a":{"b":1},"a":{"b":1}}',
      ]) {
        await refused('invalid-json', text)
      }
      await same('{"a":{"x":1},"b":{"x":1},"c":["x","x",{"x":":"}]}') // one name in two objects is none of that
      await distinct('{"é":1,"e\u0301":1}', '{"é":1}') // two names that look alike are two
    })

    test('K3: half a surrogate pair is 400, in a value, in a name, and the wrong way round', async () => {
      for (const text of [
        '{"note":"\\uD800"}',
        '{"\\uDC00":1}',
        '{"a":"\\uDE00\\uD83D"}',
        '{"a":["x\\ud83dx"]}',
        '{"a":"\\uD83D\\u0041"}',
      ]) {
        await refused('invalid-json', text)
      }
    })

    test('K3: what is not UTF-8 is 400, and so is a byte order mark', async () => {
      const around = (...bytes: number[]) =>
        Buffer.concat([Buffer.from('{"note":"'), Buffer.from(bytes), Buffer.from('"}')])
      for (const bytes of [[0xff], [0xc3], [0xc0, 0xaf], [0xed, 0xa0, 0x80], [0xf4, 0x90, 0x80, 0x80], [0xe9]]) {
        await refused('invalid-json', around(...bytes))
      }
      await refused('invalid-json', '\ufeff{"a":1}')
      await refused('invalid-json', Buffer.from('{"a":1}', 'utf16le'))
      await same('{"a":"\ufeff"}', '{"a":"\\ufeff"}') // within a text it is a character
    })

    test('K3: what is not JSON is 400', async () => {
      for (const text of [
        '{',
        '{"a":1',
        '{"a":01}',
        '{"a":+1}',
        '{"a":.5}',
        '{"a":1.}',
        '{"a":0x1}',
        "{'a':1}",
        '{a:1}',
        '{"a":1,}',
        '{"a":NaN}',
        '{"a":Infinity}',
        '{"a":1}x',
        '{"a":1}{"a":1}',
        '// x\n{}',
        '{"a":"\n"}',
        '{"a":"\\x41"}',
        ' ',
        'undefined',
        '{"a":\u00a01}',
      ]) {
        await refused('invalid-json', text)
      }
    })

    test('K3: a number that is not finite, or an integer beyond 2^53-1, is 400 unsafe-number, however it is written', async () => {
      for (const number of [
        '9007199254740992',
        '-9007199254740992',
        '9007199254740993',
        '1e400',
        '-1e400',
        '1e21',
        '1e300',
        '9007199254740993.0',
        '9.007199254740993e15',
        '12345678901234567890',
        '1e16',
        '0.9007199254740993e16',
        '9007199254740992.5',
        '1'.padEnd(400, '0'),
      ]) {
        await refused('unsafe-number', `{"n":${number}}`)
        await refused('unsafe-number', `{"a":[{"n":[${number}]}]}`)
      }
      await same('{"n":4503599627370495.5}', '{"n":4503599627370495.50}') // no integer, and exact
      await same('{"n":"9007199254740993"}') // as a text it is safe
    })

    test('K3: 64 levels are let in, 65 are 400 input-too-deep, and a hundred thousand hurt nobody', async () => {
      const deep = (levels: number) => `{"a":${'['.repeat(levels - 1)}${']'.repeat(levels - 1)}}`
      const deepObjects = (levels: number) => '{"a":'.repeat(levels) + '1' + '}'.repeat(levels)
      await same(deep(64))
      await same(deepObjects(64))
      await refused('input-too-deep', deep(65))
      await refused('input-too-deep', deepObjects(65))
      await refused('input-too-deep', deep(100_000))
      await refused('input-too-deep', deepObjects(100_000))
      expect((await kiln.get()).status).toBe(200)
    })

    test('K3: an input that is not an object is 400', async () => {
      for (const text of ['[]', '[{}]', '"{}"', '1', 'true', 'null']) await refused('input-not-object', text)
    })

    test('K3: a body of exactly 1 MiB is let in, and one byte more is 413', async () => {
      const sized = (bytes: number) => `{"a":"${'x'.repeat(bytes - 8)}"}`
      await same(sized(1024 * 1024))
      await refused('body-too-large', sized(1024 * 1024 + 1))
      await refused('body-too-large', `{}${' '.repeat(1024 * 1024)}`) // bytes are counted, not what they mean
    })
  })

  test('K3: a replay from the store compares as one from memory does', async () => {
    const [key, first] = [newKey(), '{"b":{"y":2,"x":[1,1e-7]},"a":"😀"}']
    const before = await say(key, first)
    expect(await server.stop()).toBe(0)
    await server.start()
    const again = await say(key, '{"a":"\\ud83d\\ude00","b":{"x":[1.0,0.0000001],"y":2}}')
    expect(again.header('idempotent-replayed')).toBe('true')
    expect(again.text).toBe(before.text)
    expect(again.text).toContain(`"input":${first}`) // it is shown as it was sent (§3)
    expectProblem(await say(key, '{"b":{"y":2,"x":[1e-7,1]},"a":"😀"}'), 'idempotency-mismatch')
  })
})
