import { beforeAll, describe, expect, test } from 'vitest'
import type { TestServer } from '../support/server.ts'
import { caller, expectProblem, newKey, startKiln, stores } from './wire.ts'
import type { ActionView, Caller, Json } from './wire.ts'

describe.each(stores)('what a key is, over %s', (store) => {
  let server: TestServer
  let kiln: Caller
  let other: Caller
  let forge: Caller

  beforeAll(async () => {
    server = await startKiln(store)
    const [first, second, third] = await Promise.all([
      server.token('first', ['*'], { namespace: 'kiln.test' }),
      server.token('second', ['*'], { namespace: 'kiln.test' }),
      server.token('first', ['*'], { namespace: 'forge.test' }),
    ])
    kiln = caller(server, 'kiln.test', first)
    other = caller(server, 'kiln.test', second)
    forge = caller(server, 'forge.test', third)
  })

  /** Calls with a key as the bytes of a plain header (a string is UTF-8), and expects an Action. */
  async function plain(key: string, input: Json = {}): Promise<{ id: string; replayed: boolean; key: string | null }> {
    const bytes = Buffer.from(key, 'utf8').toString('latin1')
    return told(await kiln.raw('orders/place', [['Idempotency-Key', bytes]], JSON.stringify(input)))
  }
  /** The same with the key percent-encoded in the other header. */
  async function encoded(
    key: string,
    input: Json = {},
  ): Promise<{ id: string; replayed: boolean; key: string | null }> {
    const lines = [['Idempotency-Key-Encoded', encodeURIComponent(key)]] as const
    return told(await kiln.raw('orders/place', lines, JSON.stringify(input)))
  }
  function told(answer: { status: number; headers: Readonly<Record<string, string>>; body: string }) {
    expect(answer.status, answer.body).toBe(200)
    const { id, idempotencyKey } = JSON.parse(answer.body) as ActionView
    return { id, replayed: answer.headers['idempotent-replayed'] === 'true', key: idempotencyKey }
  }

  test('K1: a durable call without a key is 400 idempotency-key-required in every Mode but try', async () => {
    expectProblem(await kiln.call('orders/place', {}, { key: null }), 'idempotency-key-required')
    expectProblem(await kiln.call('orders/place', {}, { key: null, mode: 'do' }), 'idempotency-key-required')
    expectProblem(await kiln.call('orders/place', {}, { key: null, mode: 'send' }), 'idempotency-key-required')
    expectProblem(await kiln.call('actions/act_1/retry', {}, { key: null }), 'idempotency-key-required')
    expectProblem(await kiln.call('actions/act_1/cancel', {}, { key: null }), 'idempotency-key-required')
    expect((await kiln.call('orders/place', {}, { key: null, mode: 'try' })).status).toBe(200)
  })

  test('K1: a key of 255 code points is one, whatever its size in bytes, and of 256 is not', async () => {
    const longest = '𝄞'.repeat(255)
    const first = await encoded(longest)
    expect(first).toMatchObject({ replayed: false, key: longest })
    expect(await plain(longest)).toEqual({ ...first, replayed: true })
    const ascii = newKey('a').padEnd(255, 'x')
    expect((await plain(ascii)).key).toBe(ascii)
    for (const long of ['x'.repeat(256), '𝄞'.repeat(256), 'é'.repeat(256)]) {
      const bytes = Buffer.from(long, 'utf8').toString('latin1')
      expectProblem(await kiln.raw('orders/place', [['Idempotency-Key', bytes]]), 'invalid-idempotency-key')
      const lines = [['Idempotency-Key-Encoded', encodeURIComponent(long)]] as const
      expectProblem(await kiln.raw('orders/place', lines), 'invalid-idempotency-key')
    }
  })

  test('K1: keys are compared exactly: no trimming, case folding or normalisation', async () => {
    const base = newKey('Exact')
    const nearly = [base, base.toLowerCase(), ` ${base}`, `${base} `, ` ${base} `, `\t${base}`, `${base}\u00a0`]
    nearly.push(`${base}é`, `${base}e\u0301`, `${base}ﬁ`, `${base}fi`, `\ufeff${base}`, `${base}\u200b`, `${base}\0`)
    const made = []
    for (const key of nearly) {
      const action = await encoded(key)
      expect(action).toMatchObject({ replayed: false, key })
      made.push(action.id)
    }
    expect(new Set(made).size).toBe(nearly.length)
    for (const [i, key] of nearly.entries()) expect(await encoded(key)).toEqual({ id: made[i], replayed: true, key })
  })

  test('K1: the plain header is read as UTF-8 and means the same key as the encoded one', async () => {
    for (const key of ['käse-🧀', '%41', 'a b', 'a=b;c', 'a/b?c', '日本語', "it's", 'a%2Cb', 'a+b'].map(
      (one) => one + newKey(),
    )) {
      const first = await plain(key)
      expect(first).toMatchObject({ replayed: false, key })
      expect(await encoded(key)).toEqual({ ...first, replayed: true })
    }
    const lower = newKey('ä').replace('ä', '%c3%a4') // the case of the hexadecimal digits does not matter
    const { id } = told(await kiln.raw('orders/place', [['Idempotency-Key-Encoded', lower]]))
    expect(await plain(decodeURIComponent(lower))).toMatchObject({ id, replayed: true })
  })

  test('K1: `"a"`, ` a`, `a ` and `a, b` are four keys, and none is the key `a`', async () => {
    const base = newKey('a')
    const keys = [`"${base}"`, ` ${base}`, `${base} `, `${base}, b`, base]
    const ids = []
    for (const key of keys) ids.push((await encoded(key)).id)
    expect(new Set(ids).size).toBe(5)
    // HTTP itself strips the spaces around a plain field's value; those within and commas stay.
    expect(await plain(` ${base} `)).toMatchObject({ id: ids[4], key: base, replayed: true })
    expect(await plain(`${base}, b`)).toMatchObject({ id: ids[3], replayed: true })
  })

  test('K1: quotes are characters of the key: `q1` and `"q1"` are two Actions', async () => {
    const q = newKey('q')
    const bare = await plain(q)
    const quoted = await plain(`"${q}"`)
    expect(quoted).toMatchObject({ replayed: false, key: `"${q}"` })
    expect(quoted.id).not.toBe(bare.id)
  })

  test('K1: an empty key, two field lines, both headers, half a surrogate pair and what is not UTF-8 are 400', async () => {
    const [plainName, encodedName] = ['Idempotency-Key', 'Idempotency-Key-Encoded'] as const
    for (const lines of [
      [[plainName, '']],
      [[plainName, '   ']],
      [[encodedName, '']],
      [
        [plainName, 'a'],
        [plainName, 'a'],
      ],
      [
        [plainName, 'a'],
        ['idempotency-KEY', 'b'],
      ],
      [
        [plainName, ''],
        [plainName, 'b'],
      ],
      [
        [encodedName, 'a'],
        [encodedName, 'a'],
      ],
      [
        [plainName, 'a'],
        [encodedName, 'a'],
      ],
      [
        [encodedName, 'a'],
        [plainName, ''],
      ],
      [[plainName, '\xe9']],
      [[plainName, '\xff\xfe']],
      [[plainName, '\xc0\xaf']], // an overlong form
      [[plainName, '\xed\xa0\x80']], // U+D800 as bytes
      [[plainName, '\xf4\x90\x80\x80']], // beyond U+10FFFF
      [[encodedName, '%ED%A0%80']],
      [[encodedName, '%ff']],
      [[encodedName, '%']],
      [[encodedName, '%4']],
      [[encodedName, '%zz']],
      [[encodedName, 'k\xc3\xa4se']], // not encoded
    ] as [string, string][][]) {
      const told = expectProblem(await kiln.raw('orders/place', lines), 'invalid-idempotency-key')
      expect(told['detail'], JSON.stringify(lines)).not.toBe('')
    }
    expect(await kiln.recorded('a')).toEqual([])
    expect(await kiln.recorded('b')).toEqual([])
  })

  test('K1: control characters in a plain header are a problem too, never a bare 400', async () => {
    for (const key of ['a\0b', 'a\x01b', 'a\x7fb', 'a\rb']) {
      const answer = await kiln.raw('orders/place', [['Idempotency-Key', key]])
      expect(answer.status).toBe(400)
      expect(['malformed-request', 'invalid-idempotency-key']).toContain(answer.json()['code'])
      expect(answer.headers['content-type']).toMatch(/^application\/problem\+json/)
    }
    const control = newKey('a\u0001b\u007f\r\n')
    expect((await encoded(control)).key).toBe(control)
  })

  test('K1: a header whose bytes are not text is 400, never 500', async () => {
    const line = (name: string, value: string) =>
      [
        ['Idempotency-Key', newKey()],
        [name, value],
      ] as const
    expectProblem(await kiln.raw('orders/place', line('Record-Version', '\xff')), 'invalid-record-version')
    expectProblem(await kiln.raw('orders/place', line('Decided-After', '\xff')), 'invalid-decided-after')
    expectProblem(await kiln.raw('orders/place', line('If-Match', '\xff')), 'use-record-version')
    const prefer = await kiln.raw('orders/place', line('Prefer', '\xff=;,wait="\xff'))
    expect(prefer.status, prefer.body).toBe(200) // a malformed preference is ignored (§3)
  })

  test('K2: a key belongs to the Worker and the namespace: the same key and input four times are four Actions', async () => {
    const key = newKey()
    const once = caller(server, 'forge.test', await server.token('second', ['*'], { namespace: 'forge.test' }))
    const callers = [kiln, other, forge, once]
    const actions = await Promise.all(callers.map((one) => one.action('orders/place', { total: 1 }, { key })))
    expect(new Set(actions.map(({ id }) => id)).size).toBe(4)
    for (const [i, one] of callers.entries()) {
      expect((await one.call('orders/place', { total: 1 }, { key })).json()).toEqual(actions[i])
      const mismatch = expectProblem(await one.call('orders/place', { total: 2 }, { key }), 'idempotency-mismatch')
      expect(mismatch['firstAction']).toBe(actions[i]?.id)
      for (const [j, foreign] of actions.entries()) {
        if (i !== j) expect(JSON.stringify(mismatch)).not.toContain(foreign.id)
      }
    }
  })

  test('K2: another token of the same Worker finds the same Actions', async () => {
    const key = newKey()
    const first = await kiln.action('orders/place', { total: 1 }, { key })
    const ran = await server.cli('worker', 'token', 'first', '--namespace', 'kiln.test')
    expect(ran.status, ran.stderr).toBe(0)
    const { token } = JSON.parse(ran.stdout) as { token: string }
    expect(token).not.toBe(kiln.token)
    const again = await caller(server, 'kiln.test', token).call('orders/place', { total: 1 }, { key })
    expect(again.header('idempotent-replayed')).toBe('true')
    expect(again.json()).toEqual(first)
  })
})
