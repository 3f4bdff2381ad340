import { beforeAll, describe, expect, test } from 'vitest'
import { connectRaw, rawMessage } from '../support/raw.ts'
import type { TestServer } from '../support/server.ts'
import { caller, expectProblem, newKey, startKiln, stores } from './wire.ts'
import type { ActionView, Caller, Json, Page } from './wire.ts'

describe.each(stores)('the key, over %s', (store) => {
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

  describe('what a key is', () => {
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
      for (const key of ['käse-🧀', '%41', 'a b', 'a=b;c', 'a/b?c', '日本語', "it's", 'a%2Cb'].map(
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

  describe('what a second request gets', () => {
    test('K4: a settled Action is replayed in its final status, byte for byte, with Idempotent-Replayed: true', async () => {
      for (const [then, status] of [
        ['succeed', 'succeeded'],
        ['throw', 'failed'],
        ['refuse', 'refused'],
      ]) {
        const key = newKey()
        const first = await kiln.call('orders/bake', { then }, { key })
        expect(first.json()).toMatchObject({ status })
        expect(first.header('idempotent-replayed')).toBeNull()
        for (const mode of [undefined, 'send', 'do']) {
          const again = await kiln.call('orders/bake', { then }, { key, ...(mode === undefined ? {} : { mode }) })
          expect(again.status).toBe(200)
          expect(again.header('idempotent-replayed')).toBe('true')
          expect(again.header('action-status')).toBe(status)
          expect(again.text).toBe(first.text)
        }
      }
    })

    test('K4: a pending Action is waited on as the second request says, and no answer of a wait is a replay', async () => {
      const key = newKey()
      const input = { ms: 400 }
      const bake = (headers: Record<string, string> = {}, mode?: string) =>
        kiln.call('orders/bake', input, { key, headers, ...(mode === undefined ? {} : { mode }) })
      const first = await bake({}, 'send')
      expect([first.status, first.json()['status']]).toEqual([202, 'pending'])
      const sent = await bake({}, 'send')
      const asked = await bake({ prefer: 'wait=0' })
      for (const pending of [sent, asked]) {
        expect(pending.status).toBe(202)
        expect(pending.json()).toMatchObject({ id: first.json()['id'], status: 'pending', mode: 'send' })
        expect(pending.header('idempotent-replayed')).toBeNull()
      }
      const waited = await bake()
      expect(waited.json()).toMatchObject({ id: first.json()['id'], status: 'succeeded' })
      expect(waited.header('idempotent-replayed')).toBeNull()
      const settled = await bake()
      expect(settled.header('idempotent-replayed')).toBe('true')
      expect(settled.text).toBe(waited.text)
    })

    test('K4: a mismatch names the first Action and what differed, and runs nothing', async () => {
      const key = newKey()
      const [one, two] = await Promise.all([kiln.action('orders/place', {}), kiln.action('orders/place', {})])
      const path = (action: ActionView, verb: string) => `orders/${String(action.output?.['$id'])}/${verb}`
      const first = await kiln.action(path(one, 'edit'), { note: 'first' }, { key })
      const events = await kiln.get('events?limit=1000')
      for (const [where, input, differs] of [
        [path(one, 'edit'), { note: 'other' }, ['input']],
        [path(two, 'edit'), { note: 'first' }, ['target']],
        [path(one, 'remove'), { note: 'first' }, ['operation']],
        [path(two, 'remove'), { note: 'other' }, ['operation', 'target', 'input']],
      ] as const) {
        const told = expectProblem(await kiln.call(where, input, { key }), 'idempotency-mismatch')
        expect(told).toMatchObject({ firstAction: first.id, differs, retryable: false })
      }
      expect((await kiln.get('events?limit=1000')).text).toBe(events.text)
      expect((await kiln.get(`orders/${String(two.output?.['$id'])}`)).json()).toMatchObject({ $version: 1 })
    })

    test('K4: a mismatch with a pending Action names it at once, and that goes on', async () => {
      const key = newKey()
      const running = kiln.call('orders/bake', { ms: 400 }, { key })
      await new Promise((resolve) => setTimeout(resolve, 20)) // before the claim would be written ahead by itself
      const started = Date.now()
      const told = expectProblem(await kiln.call('orders/bake', { ms: 401 }, { key }), 'idempotency-mismatch')
      expect(Date.now() - started).toBeLessThan(300)
      const named = await kiln.get(`actions/${String(told['firstAction'])}`)
      expect(named.json()).toMatchObject({ idempotencyKey: key, status: 'pending' })
      expect((await running).json()).toMatchObject({ id: told['firstAction'], status: 'succeeded' })
    })

    test('K3: Mode, Prefer, versions and predecessors are no part of what a key binds', async () => {
      const before = newKey()
      await kiln.action('orders/place', {}, { key: before })
      const key = newKey()
      const first = await kiln.action('orders/place', { total: 3 }, { key })
      for (const options of [
        { mode: 'send' },
        { headers: { prefer: 'wait=1' } },
        { headers: { prefer: 'respond-async' } },
        { headers: { 'record-version': 'orders/order_1=3' } },
        { headers: { 'decided-after': encodeURIComponent(before) } },
      ]) {
        const again = await kiln.call('orders/place', { total: 3 }, { key, ...options })
        expect(again.header('idempotent-replayed')).toBe('true')
        expect(again.json()).toEqual(first)
      }
    })

    test('K3: the key of a retry or a cancel binds that operation, the Action and the body, and names what it made', async () => {
      const failed = await kiln.action('orders/bake', { then: 'throw' })
      const stranger = await kiln.action('orders/bake', { then: 'throw' })
      const key = newKey()
      const retried = await kiln.action(`actions/${failed.id}/retry`, undefined, { key })
      expect(retried).toMatchObject({ verb: 'Order.bake', on: failed.id, idempotencyKey: key, status: 'failed' })
      for (const body of [undefined, {}]) {
        const again = await kiln.call(`actions/${failed.id}/retry`, body, { key }) // no body means {}
        expect(again.header('idempotent-replayed')).toBe('true')
        expect(again.json()).toEqual(retried)
      }
      for (const [path, body, differs] of [
        [`actions/${stranger.id}/retry`, {}, ['target']],
        [`actions/${failed.id}/cancel`, {}, ['operation']],
        [`actions/${failed.id}/retry`, { steps: {} }, ['input']],
        ['orders/bake', { then: 'throw' }, ['operation', 'target', 'input']],
      ] as const) {
        const told = expectProblem(await kiln.call(path, body, { key }), 'idempotency-mismatch')
        expect(told).toMatchObject({ firstAction: retried.id, differs })
      }
    })
  })

  describe('how often it happens', () => {
    test('K5: 64 requests with one key on 64 connections make one Action, one Event, one unit, 64 equal answers', async () => {
      for (const [path, body] of [
        ['orders/place', '{"total":64}'],
        ['orders/bake', '{"ms":60}'],
      ] as const) {
        const key = newKey('race')
        const lines: [string, string][] = [
          ['Authorization', `Bearer ${kiln.token}`],
          ['Content-Type', 'application/json'],
          ['Idempotency-Key', key],
        ]
        const connections = await Promise.all(Array.from({ length: 64 }, () => connectRaw(server.url)))
        const usage = await units(path)
        for (const connection of connections) connection.send(rawMessage('POST', `/kiln.test/${path}`, lines, body))
        const answers = await Promise.all(connections.map((connection) => connection.response()))
        for (const connection of connections) connection.destroy()
        expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200]))
        expect(new Set(answers.map(({ body }) => body)).size).toBe(1)
        const [action, ...more] = await kiln.recorded(key)
        expect(more).toEqual([])
        const events = (await kiln.get('events?limit=1000')).json<Page<{ action: string }>>().data
        expect(events.filter((event) => event.action === action?.id)).toHaveLength(1)
        expect(await units(path)).toBe(usage + 1)
        expect((await kiln.get(`orders/${String(action?.output?.['$id'])}`)).json()).toMatchObject({ $version: 1 })
      }
    })

    /** What a Verb's succeeded Actions have metered, over all days. */
    async function units(path: string): Promise<number> {
      const verb = path.replace('orders/', 'Order.')
      const { data } = (await kiln.get('usage')).json<Page<{ verb: string; units: number }>>()
      return data.filter((row) => row.verb === verb).reduce((sum, row) => sum + row.units, 0)
    }

    test('K5: replays and mismatches emit nothing and meter nothing', async () => {
      const key = newKey()
      await kiln.action('orders/place', { total: 8 }, { key })
      const [events, before] = [await kiln.get('events?limit=1000'), await units('orders/place')]
      for (let i = 0; i < 5; i++) await kiln.call('orders/place', { total: 8 }, { key })
      for (let i = 0; i < 5; i++) await kiln.call('orders/place', { total: i }, { key })
      expect((await kiln.get('events?limit=1000')).text).toBe(events.text)
      expect(await units('orders/place')).toBe(before)
    })

    test('K5: requests with one key and many inputs at once: one of them is the Action, all others are mismatches', async () => {
      const key = newKey('many')
      const answers = await Promise.all(
        Array.from({ length: 32 }, (_, total) => kiln.call('orders/place', { total: total % 8 }, { key })),
      )
      const [action, ...more] = await kiln.recorded(key)
      expect(more).toEqual([])
      for (const [i, answer] of answers.entries()) {
        if (i % 8 === action?.input['total']) expect(answer.json()).toEqual(action)
        else expect(expectProblem(answer, 'idempotency-mismatch')['firstAction']).toBe(action?.id)
      }
      expect(answers.filter(({ status }) => status === 200).length).toBeGreaterThan(0)
    })
  })

  test('K6: a key holds over restarts: an old key replays the same bytes from the store, and a mismatch stays one', async () => {
    const own = await startKiln(store)
    const before = caller(own, 'kiln.test', await own.token('keeper', ['*'], { namespace: 'kiln.test' }))
    const sent = Array.from({ length: 30 }, (_, total) => ({ key: newKey('old'), total }))
    const first = await Promise.all(sent.map(({ key, total }) => before.call('orders/place', { total }, { key })))
    for (let restarts = 0; restarts < 2; restarts++) {
      expect(await own.stop()).toBe(0)
      await own.start()
      const after = caller(own, 'kiln.test', before.token)
      for (const [i, { key, total }] of sent.entries()) {
        const again = await after.call('orders/place', { total }, { key })
        expect(again.header('idempotent-replayed')).toBe('true')
        expect(again.text).toBe(first[i]?.text)
        expectProblem(await after.call('orders/place', { total: -1 }, { key }), 'idempotency-mismatch')
      }
    }
    await own.stop()
  })
})
