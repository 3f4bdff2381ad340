import { join } from 'node:path'
import { beforeAll, describe, expect, test } from 'vitest'
import { bodyBytesMax, headerBytesMax, headerLinesMax, pipelinedMax } from '../../src/model/limits.ts'
import { connectRaw, rawMessage, rawRequest } from '../support/raw.ts'
import type { RawConnection } from '../support/raw.ts'
import { root } from '../support/server.ts'
import type { TestServer } from '../support/server.ts'
import { caller, eventually, expectProblem, newKey, startKiln, stores } from './wire.ts'
import type { ActionView, Caller } from './wire.ts'

const sleep = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms))

describe.each(stores)('what a client may send, over %s', (store) => {
  let server: TestServer
  let kiln: Caller

  beforeAll(async () => {
    server = await startKiln(store)
    kiln = caller(server, 'kiln.test', await server.token('limited', ['*'], { namespace: 'kiln.test' }))
  })

  const lines = (key: string): [string, string][] => [
    ['Authorization', `Bearer ${kiln.token}`],
    ['Content-Type', 'application/json'],
    ['Idempotency-Key', key],
  ]
  const head = (key: string, ...more: string[]) =>
    [
      'POST /kiln.test/orders/place HTTP/1.1',
      'Host: x',
      ...lines(key).map(([name, value]) => `${name}: ${value}`),
      ...more,
    ].join('\r\n') + '\r\n\r\n'
  /** Another client is served as if nothing were. */
  const servesOthers = async () => expect((await kiln.action('orders/place', {})).status).toBe('succeeded')

  test.each<[string, (key: string) => string]>([
    [
      'both Content-Length and Transfer-Encoding',
      (key) => head(key, 'Content-Length: 2', 'Transfer-Encoding: chunked') + '2\r\n{}\r\n0\r\n\r\n',
    ],
    [
      'Transfer-Encoding and then Content-Length',
      (key) => head(key, 'Transfer-Encoding: chunked', 'Content-Length: 2') + '2\r\n{}\r\n0\r\n\r\n',
    ],
    ['two Content-Lengths', (key) => head(key, 'Content-Length: 2', 'Content-Length: 2') + '{}'],
    ['a list of Content-Lengths', (key) => head(key, 'Content-Length: 2, 2') + '{}'],
    ['a signed Content-Length', (key) => head(key, 'Content-Length: +2') + '{}'],
    ['a hexadecimal Content-Length', (key) => head(key, 'Content-Length: 0x2') + '{}'],
    ['a Content-Length that no number holds', (key) => head(key, 'Content-Length: 99999999999999999999') + '{}'],
    ['a coding before chunked', (key) => head(key, 'Transfer-Encoding: gzip, chunked') + '2\r\n{}\r\n0\r\n\r\n'],
    ['a coding after chunked', (key) => head(key, 'Transfer-Encoding: chunked, identity') + '2\r\n{}\r\n0\r\n\r\n'],
    [
      'chunked twice',
      (key) => head(key, 'Transfer-Encoding: chunked', 'Transfer-Encoding: chunked') + '2\r\n{}\r\n0\r\n\r\n',
    ],
    ['a coding that is nearly chunked', (key) => head(key, 'Transfer-Encoding: xchunked') + '2\r\n{}\r\n0\r\n\r\n'],
    ['a space before the colon', (key) => head(key, 'Transfer-Encoding : chunked') + '2\r\n{}\r\n0\r\n\r\n'],
    [
      'chunked in HTTP/1.0',
      (key) => head(key, 'Transfer-Encoding: chunked').replace('HTTP/1.1', 'HTTP/1.0') + '2\r\n{}\r\n0\r\n\r\n',
    ],
    ['chunks that end with a bare LF', (key) => head(key, 'Transfer-Encoding: chunked') + '2\n{}\n0\n\n'],
    ['a chunk larger than any', (key) => head(key, 'Transfer-Encoding: chunked') + 'fffffffffffffffff\r\n{}'],
    ['a folded header line', (key) => head(key, 'Content-Length: 2', 'X-Folded: a', ' b') + '{}'],
    ['lines that end with a bare LF', (key) => head(key, 'Content-Length: 2').replaceAll('\r\n', '\n') + '{}'],
    ['a bare CR in a header', (key) => head(key, 'Content-Length: 2', 'X-Bare: a\rb') + '{}'],
    ['two Hosts', (key) => head(key, 'Content-Length: 2', 'Host: y') + '{}'],
    ['HTTP/0.9', (key) => head(key, 'Content-Length: 2').replace(' HTTP/1.1', '') + '{}'],
    ['HTTP/2 without a word before', () => 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'],
    ['TLS', () => '\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03'],
  ])(
    '§11: %s is refused, and the connection ends: no two servers in a row may read it in two ways',
    async (_, bytes) => {
      const key = newKey()
      const connection = await connectRaw(server.url)
      connection.send(bytes(key))
      // What a server further back would take for the next request is never read.
      connection.send(rawMessage('POST', '/kiln.test/orders/place', lines(`${key}-smuggled`), '{}'))
      const answer = await connection.response()
      expectProblem(answer, 'malformed-request')
      expect(answer.headers['connection']).toBe('close')
      connection.finish()
      await connection.closed()
      connection.destroy()
      expect([await kiln.recorded(key), await kiln.recorded(`${key}-smuggled`)]).toEqual([[], []])
      await servesOthers()
    },
  )

  test('R1: what was sent before a request that is refused so is answered first, and only then the connection ends', async () => {
    const key = newKey()
    const connection = await connectRaw(server.url)
    connection.send(rawMessage('POST', '/kiln.test/orders/bake', lines(key), '{"ms":100}'))
    connection.send(
      head(`${key}-2`, 'Content-Length: 2', 'Host: y') + '{}' + head(`${key}-3`, 'Content-Length: 2') + '{}',
    )
    const answer = await connection.response()
    expect([answer.headers['connection'], answer.json()]).toMatchObject(['keep-alive', { idempotencyKey: key }])
    expectProblem(await connection.response(), 'malformed-request')
    expect(await connection.closed()).toBe('ended')
    connection.destroy()
    expect([await kiln.recorded(`${key}-2`), await kiln.recorded(`${key}-3`)]).toEqual([[], []])
  })

  test('K1: chunks may have extensions and trailers, and a trailer means nothing', async () => {
    const key = newKey()
    const chunks = '2;name="value";other\r\n{}\r\n0\r\nRecord-Version: 7\r\nIdempotency-Key: trailing\r\n\r\n'
    const answer = await rawRequest(server.url, head(key, 'Transfer-Encoding: Chunked') + chunks)
    expect(answer.json()).toMatchObject({ status: 'succeeded', idempotencyKey: key, decidedAgainst: {} })
    const keyless = head(key, 'Transfer-Encoding: chunked').replace(`Idempotency-Key: ${key}\r\n`, '')
    expectProblem(await rawRequest(server.url, keyless + chunks), 'idempotency-key-required')
  })

  test('§3: HTTP/1.0 is answered, and the connection ends; a Host is not asked for', async () => {
    const key = newKey()
    const connection = await connectRaw(server.url)
    connection.send(head(key, 'Content-Length: 2').replace('HTTP/1.1', 'HTTP/1.0').replace('Host: x\r\n', '') + '{}')
    const answer = await connection.response()
    expect([answer.headers['connection'], answer.json()]).toMatchObject(['close', { idempotencyKey: key }])
    expect(await connection.closed()).toBe('ended')
    connection.destroy()
  })

  test('R2: no method but those of a path does anything: TRACE echoes nothing, CONNECT opens nothing', async () => {
    for (const method of ['TRACE', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'PROPFIND', 'QUERY', 'PURGE']) {
      const answer = await rawRequest(server.url, rawMessage(method, '/kiln.test/orders/place', lines(newKey()), '{}'))
      expectProblem(answer, 'method-not-allowed')
      expect(answer.headers['allow']).toBe('GET, HEAD, POST')
      expect(answer.body).not.toContain(kiln.token)
      expectProblem(await rawRequest(server.url, rawMessage(method, '/no/where/that/is/ours')), 'not-found')
    }
    expectProblem(await rawRequest(server.url, rawMessage('OPTIONS', '*')), 'not-found')
    const tunnel = await connectRaw(server.url)
    tunnel.send('CONNECT 127.0.0.1:1 HTTP/1.1\r\nHost: x\r\n\r\n')
    const told = await tunnel.response()
    expectProblem(told, 'method-not-allowed')
    expect([told.headers['allow'], await tunnel.closed()]).toEqual(['GET, HEAD, POST', 'ended'])
    tunnel.destroy()
  })

  test.each(['websocket', 'h2c', 'TLS/1.0'])(
    '§3: an upgrade to %s is not taken up: the request is answered as it is',
    async (to) => {
      const more: [string, string][] = [
        ['Connection', 'Upgrade, HTTP2-Settings'],
        ['Upgrade', to],
        ['HTTP2-Settings', 'AAMAAABkAAQAoAAAAAIAAAAA'],
        ['Sec-WebSocket-Key', 'dGhlIHNhbXBsZSBub25jZQ=='],
      ]
      const connection = await connectRaw(server.url)
      connection.send(rawMessage('GET', '/healthz', more))
      expect((await connection.response()).status).toBe(200)
      connection.send(rawMessage('POST', '/kiln.test/orders/place', [...lines(newKey()), ...more], '{}'))
      expect((await connection.response()).json()).toMatchObject({ status: 'succeeded' })
      connection.destroy()
    },
  )

  test('§11: a request line, headers or header lines beyond the bound are 431, and below it they are read', async () => {
    const place = (more: readonly [string, string][], query = '') =>
      rawRequest(server.url, rawMessage('POST', `/kiln.test/orders/place${query}`, [...lines(newKey()), ...more], '{}'))
    const many = (count: number) => Array.from({ length: count }, (_, i): [string, string] => [`x-${i}`, ''])
    expect((await place(many(200))).status).toBe(200)
    // Beyond Node's own bound, lines would be dropped unseen: the Version among them, and the call would run (W1).
    for (const count of [headerLinesMax, 2_500]) {
      expectProblem(await place([...many(count), ['If-Match', '"1"']]), 'headers-too-large')
    }
    expect((await place([['X-Long', 'x'.repeat(headerBytesMax - 1_000)]])).status).toBe(200)
    expectProblem(await place([['X-Long', 'x'.repeat(headerBytesMax)]]), 'headers-too-large')
    expectProblem(await place([], `?x=${'x'.repeat(headerBytesMax)}`), 'headers-too-large')
    expectProblem(
      await rawRequest(server.url, `GET /${'x'.repeat(headerBytesMax - 200)} HTTP/1.1\r\nHost: x\r\n\r\n`),
      'not-found',
    )
  })

  test('R2: a body that is said to be too large is 413 before a byte of it was sent; one of 1 MiB is taken', async () => {
    const key = newKey()
    for (const length of [bodyBytesMax + 1, 1e15]) {
      expectProblem(await rawRequest(server.url, head(key, `Content-Length: ${length}`)), 'body-too-large')
    }
    const note = 'x'.repeat(bodyBytesMax - '{"note":""}'.length)
    expect((await kiln.call('orders/place', { note }, { key })).status).toBe(200)
    expectProblem(await kiln.call('orders/place', { note: `${note}x` }), 'body-too-large')
  })

  test('§11: an answer stays small, however much is wrong with an input', async () => {
    const many = (piece: (i: number) => string) => Array.from({ length: 50_000 }, (_, i) => piece(i)).join()
    for (const [raw, faults] of [
      [`{${many((i) => `"m${i}":1`)}}`, 100],
      [`{"lines":[${many(() => '{"sku":1}')}]}`, 100],
      [`{"lines":[{"sku":"a"},{${many((i) => `"m${i}":1`)}}]}`, 100],
      [`{"${'k'.repeat(1_000_000)}":1}`, 1],
    ] as const) {
      const answer = await kiln.call('orders/place', undefined, { raw })
      const { errors } = expectProblem(answer, 'invalid-input')
      expect(errors).toHaveLength(faults)
      expect(answer.text.length).toBeLessThan(50_000)
    }
    const id = (await kiln.action('orders/bake', { then: 'throw' })).id
    for (const verb of ['retry', 'cancel']) {
      const answer = await kiln.call(`actions/${id}/${verb}`, undefined, { raw: `{"${'k'.repeat(1_000_000)}":1}` })
      expectProblem(answer, 'invalid-input')
      expect(answer.text.length).toBeLessThan(2_000)
    }
    const twice = `{"${'k'.repeat(400_000)}":1,"${'k'.repeat(400_000)}":2}`
    expect(
      expectProblem(await kiln.call('orders/say', undefined, { raw: twice }), 'invalid-json')['detail'],
    ).toHaveProperty(
      'length',
      expect.toSatisfy((length: number) => length < 1_000),
    )
  })

  test('V4: a body that stops half-way runs nothing, and nobody else notices', async () => {
    const keys = Array.from({ length: 20 }, () => newKey('half'))
    for (const [i, key] of keys.entries()) {
      const connection = await connectRaw(server.url)
      const framing = i % 2 === 0 ? 'Content-Length: 11' : 'Transfer-Encoding: chunked'
      connection.send(head(key, framing) + (i % 2 === 0 ? '{"total"' : 'b\r\n{"total"'))
      if (i % 3 === 0) await sleep(5)
      connection.destroy()
    }
    await servesOthers()
    for (const key of keys) expect(await kiln.recorded(key)).toEqual([])
  })

  test('R1: requests sent far ahead of their answers are answered in order, and those beyond the bound with 503 busy', async () => {
    const { id } = await kiln.action('orders/bake', { ms: 1_000 }, { mode: 'send' })
    const connection = await connectRaw(server.url)
    const wait = rawMessage('GET', `/kiln.test/actions/${id}?wait=60`, lines(newKey()))
    const keys = Array.from({ length: 5 }, () => newKey('flood'))
    connection.send(Buffer.concat(Array.from({ length: pipelinedMax }, () => wait)))
    for (const key of keys) connection.send(rawMessage('POST', '/kiln.test/orders/place', lines(key), '{}'))
    for (let i = 0; i < pipelinedMax; i++) {
      expect((await connection.response()).json()).toMatchObject({ id, status: 'succeeded' })
    }
    for (const key of keys) {
      expectProblem(await connection.response(), 'busy')
      expect(await kiln.recorded(key)).toEqual([])
    }
    // Once its answers are out, the connection is as good as a new one.
    connection.send(rawMessage('POST', '/kiln.test/orders/place', lines(keys[0] ?? ''), '{}'))
    expect((await connection.response()).json()).toMatchObject({ idempotencyKey: keys[0] })
    connection.destroy()
  })

  test('R1: a client that sends without end and reads nothing is held back, and nobody else is', async () => {
    const connection = await connectRaw(server.url)
    connection.socket.pause()
    const one = Buffer.concat(
      Array.from({ length: 100 }, () => rawMessage('GET', '/kiln.test/openapi.json', lines(''))),
    )
    let sent = 0
    while (sent < 200_000_000 && connection.socket.writableLength < 4_000_000) {
      connection.send(one)
      sent += one.length
      if (connection.socket.writableLength > 0) await sleep(1)
    }
    // Its own side of the connection is full: the server has stopped reading.
    expect(connection.socket.writableLength).toBeGreaterThanOrEqual(4_000_000)
    await servesOthers()
    connection.destroy()
  })
})

describe.each(stores)('how long and how many, over %s', (store) => {
  test('§11: who connects and says nothing, or asks and does not take the answer, is cut off; who waits for an Action is not', async () => {
    const server = await startKiln(store, { nodeArgs: ['--import', join(root, 'test/fixtures/hurry.ts')] })
    const kiln = caller(server, 'kiln.test', await server.token('slow', ['*'], { namespace: 'kiln.test' }))
    const bearer: [string, string] = ['Authorization', `Bearer ${kiln.token}`]
    for (let i = 0; i < 10; i++) await kiln.action('orders/place', { note: 'x'.repeat(1_000_000) })
    const [silent, deaf] = [await connectRaw(server.url), await connectRaw(server.url)]
    deaf.socket.pause()
    // More than the buffers on the way can hold.
    deaf.send(Buffer.concat(Array.from({ length: 8 }, () => rawMessage('GET', '/kiln.test/orders', [bearer]))))
    const slow = kiln.call('orders/bake', { ms: 4_500 })
    await silent.closed(15_000)
    await sleep(4_000)
    let taken = 0
    deaf.socket.on('data', (chunk: Buffer) => (taken += chunk.length))
    deaf.socket.resume()
    await deaf.closed(15_000)
    expect(taken).toBeLessThan(8 * 10_000_000)
    expect((await slow).json<ActionView>().status).toBe('succeeded')
    for (const one of [silent, deaf]) one.destroy()
    expect(await server.stop()).toBe(0)
  })

  test('R1: one connection too many is closed unanswered; when one ends, the next is served', async () => {
    const server = await startKiln(store, { args: ['--max-connections', '4'] })
    const held: RawConnection[] = []
    for (let i = 0; i < 4; i++) {
      const connection = await connectRaw(server.url)
      connection.send(rawMessage('GET', '/healthz'))
      expect((await connection.response()).status).toBe(200)
      held.push(connection)
    }
    for (let i = 0; i < 3; i++)
      await expect(rawRequest(server.url, rawMessage('GET', '/healthz'))).rejects.toThrow('the connection')
    // Told once, however many there are.
    await eventually(async () =>
      expect(server.logs.filter(({ connectionsMax }) => connectionsMax === 4)).toHaveLength(1),
    )
    held.pop()?.destroy()
    await eventually(async () => expect((await rawRequest(server.url, rawMessage('GET', '/healthz'))).status).toBe(200))
    for (const connection of held) connection.destroy()
    expect(await server.stop()).toBe(0)
  })
})
