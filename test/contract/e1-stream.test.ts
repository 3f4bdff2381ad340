import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { rawMessage, rawRequest } from '../support/raw.ts'
import { openStream, type StreamOptions, type Streamed } from '../support/stream.ts'
import { startBench, type Bench } from './verbs.ts'
import { eventually, expectProblem, stores, walk, type Caller } from './wire.ts'

// The stream of Events (E1), as a client meets it; what it does under load and faults: e1-stream-load, e1-stream-faults.

/** Writes some Actions of each outcome, one after another. */
async function write(by: Caller, count: number): Promise<void> {
  for (let n = 0; n < count; n++) {
    await by.action(['orders/open', 'orders/fail', 'orders/decline'][n % 3] ?? '', {})
  }
}

const seqsOf = (events: readonly Streamed[]): number[] => events.map(({ event }) => event.seq)
const from = (first: number, count: number): number[] => Array.from({ length: count }, (_, n) => first + n)

describe.each(stores)('%s', (store) => {
  let bench: Bench
  let head = 0
  const stream = (options?: StreamOptions) => openStream(bench.server, 'kiln.test', bench.agent.token, options)

  beforeAll(async () => {
    bench = await startBench(store)
    await write(bench.agent, 12)
    head = 12
  })
  afterAll(() => bench.close())

  test('E1: a stream begins at seq 1, and tells each Event as the list has it, then the live ones', async () => {
    const reader = await stream()
    await reader.count(head)
    await write(bench.agent, 6)
    head += 6
    const events = await reader.count(head)
    expect(events.map(({ event }) => event)).toEqual(await walk(bench.agent, 'events?limit=5'))
    expect(events.map(({ id }) => id)).toEqual(from(1, head).map(String))
    expect(new Set(events.map(({ name }) => name))).toEqual(new Set(['message']))
    reader.cut()
  })

  test('E1: its headers keep caches and proxies from holding it back', async () => {
    const reader = await stream()
    expect(reader.status).toBe(200)
    expect(reader.headers).toMatchObject({
      'content-type': 'text/event-stream; charset=utf-8',
      'cache-control': expect.stringContaining('no-store') as string,
      'x-accel-buffering': 'no',
    })
    expect(reader.headers['content-length']).toBeUndefined()
    await reader.count(1)
    expect(reader.retryMs).toBeGreaterThanOrEqual(1000)
    expect(reader.retryMs).toBeLessThanOrEqual(4000)
    reader.cut()
  })

  test('E1: a stream resumes after Last-Event-ID, or after ?after=; the header counts more, since it is newer', async () => {
    for (const [options, first] of [
      [{ lastEventId: '5' }, 6],
      [{ after: 7 }, 8],
      [{ after: 2, lastEventId: '9' }, 10],
      [{ lastEventId: '0' }, 1],
    ] as const) {
      const reader = await stream(options)
      expect(seqsOf(await reader.count(head - first + 1))).toEqual(from(first, head - first + 1))
      reader.cut()
    }
  })

  test('E1: a position beyond the head waits, and what comes up to it is not told', async () => {
    const reader = await stream({ lastEventId: String(head + 2) })
    const far = await stream({ after: Number.MAX_SAFE_INTEGER })
    expect(reader.status).toBe(200)
    await write(bench.agent, 4)
    expect(seqsOf(await reader.count(2))).toEqual([head + 3, head + 4])
    head += 4
    expect(far.events).toEqual([])
    reader.cut()
    far.cut()
  })

  test('E1: a position that is none is 400 before the stream begins, the byte FF in the header too', async () => {
    const bad = ['-1', 'x', '1.5', '', '1e3', '0x10', '99999999999999999999', '5 6', '5, 6', '+5', 'null', '１']
    for (const position of bad) {
      expectProblem(
        await bench.agent.get(`events?after=${encodeURIComponent(position)}`, { accept: 'text/event-stream' }),
        'invalid-cursor',
      )
    }
    for (const position of ['\xff', '\xc3\xa9', '5\xff', '-1', '', 'x', '5, 6', '1.5', '\t']) {
      const lines = [
        ['Authorization', `Bearer ${bench.agent.token}`],
        ['Accept', 'text/event-stream'],
        ['Last-Event-ID', position],
      ] as const
      expectProblem(await rawRequest(bench.server.url, rawMessage('GET', '/kiln.test/events', lines)), 'invalid-cursor')
      // Without Accept it is the list's.
      const list = lines.filter(([name]) => name !== 'Accept')
      expectProblem(await rawRequest(bench.server.url, rawMessage('GET', '/kiln.test/events', list)), 'invalid-cursor')
    }
    const twice = [
      ['Authorization', `Bearer ${bench.agent.token}`],
      ['Accept', 'text/event-stream'],
      ['Last-Event-ID', '5'],
      ['Last-Event-ID', '6'],
    ] as const
    expectProblem(await rawRequest(bench.server.url, rawMessage('GET', '/kiln.test/events', twice)), 'invalid-cursor')
    for (const query of ['limit=5', 'from=3', 'after=1&after=2'])
      expectProblem(await bench.agent.get(`events?${query}`, { accept: 'text/event-stream' }), 'invalid-query')
  })

  test('E1: Accept decides between list and stream, by its weights', async () => {
    const streams = [
      'text/event-stream',
      'TEXT/Event-Stream',
      'application/json, text/event-stream',
      'application/json;q=0.5, text/event-stream;q=0.6',
      '*/*;q=0.1, text/event-stream',
      'text/*',
    ]
    const lists = [
      '*/*',
      'application/json',
      'application/json, text/event-stream;q=0.9',
      'text/event-stream;q=0, */*',
      'text/html, */*;q=0.8',
      'text/event-streams',
      'text/event-stream;q=0',
    ]
    for (const [accepts, type] of [
      [streams, 'text/event-stream; charset=utf-8'],
      [lists, 'application/json; charset=utf-8'],
    ] as const) {
      for (const accept of accepts) {
        const answer = await stream({ accept })
        expect(`${accept}: ${answer.headers['content-type']}`).toBe(`${accept}: ${type}`)
        answer.cut()
      }
    }
  })

  test('E1: HEAD tells the headers of a stream and ends', async () => {
    const answer = await stream({ method: 'HEAD' })
    expect([answer.status, answer.headers['content-type']]).toEqual([200, 'text/event-stream; charset=utf-8'])
    answer.resume()
    expect(await answer.over).toBe('ended')
    expect((await stream({ method: 'HEAD', lastEventId: 'x' })).status).toBe(400)
  })

  test('H1: a stream is all of a namespace or 403: it takes the grant events, and a token of the namespace', async () => {
    const clerk = await bench.as('clerk', ['actions:all', 'Order:read'])
    expectProblem(await clerk.get('events', { accept: 'text/event-stream' }), 'forbidden')
    const follower = await bench.as('follower', ['events'])
    const reader = await openStream(bench.server, 'kiln.test', follower.token)
    await reader.count(head)
    reader.cut()
    const other = await openStream(bench.server, 'other.test', follower.token)
    other.resume()
    await other.over
    expect([other.status, JSON.parse(other.text)]).toMatchObject([403, { code: 'wrong-namespace' }])
    expect((await openStream(bench.server, 'kiln.test', 'nonsense')).status).toBe(401)
  })

  test('H1: a Worker whose token is revoked gets no Event that was settled after it', async () => {
    const spy = await bench.as('spy', ['events'])
    const reader = await openStream(bench.server, 'kiln.test', spy.token)
    await reader.count(head)
    expect((await bench.server.cli('worker', 'revoke', 'spy')).status).toBe(0)
    await write(bench.agent, 3)
    expect(await reader.over).toBe('ended')
    expect(reader.events).toHaveLength(head)
    head += 3
    expect((await openStream(bench.server, 'kiln.test', spy.token)).status).toBe(401)
  })

  test('E1: two namespaces and many readers don’t mix, and one that goes leaves the others', async () => {
    const readers = await Promise.all(Array.from({ length: 40 }, (_, n) => stream({ after: n % (head + 1) })))
    readers[3]?.cut()
    readers[20]?.cut()
    await write(bench.agent, 3)
    head += 3
    for (const [n, reader] of readers.entries()) {
      if (n === 3 || n === 20) continue
      const after = n % (head - 3 + 1)
      expect(seqsOf(await reader.count(head - after))).toEqual(from(after + 1, head - after))
    }
    for (const reader of readers) reader.cut()
    await eventually(async () => {
      const ended = bench.server.logs.filter(({ msg }) => msg === 'stream ended')
      const begun = bench.server.logs.filter(({ msg, route, status }) => {
        return msg === 'request' && route === '/:namespace/events' && status === 200
      })
      expect(ended.length).toBeGreaterThan(40)
      expect(begun.length).toBeGreaterThanOrEqual(ended.length)
    })
  })

  test('E1: large Events come whole, each once', async () => {
    const text = 'ü'.repeat(200_000)
    const reader = await stream({ after: head })
    for (let n = 0; n < 6; n++) await bench.agent.action('orders/echo', { text, n })
    const events = await reader.count(6)
    expect(events.map(({ event }) => event.data)).toEqual(from(0, 6).map((n) => ({ text, n })))
    const late = await stream({ after: head })
    expect(seqsOf(await late.count(6))).toEqual(from(head + 1, 6))
    head += 6
    reader.cut()
    late.cut()
  })

  test('E1: line breaks and what looks like a field in the data do not break a stream', async () => {
    const said = { note: 'a\nid: 99\r\n\ndata: x\r\r: \u2028\u0000﻿' }
    const reader = await stream({ after: head })
    await bench.agent.action('orders/echo', said)
    expect((await reader.count(1))[0]).toMatchObject({ id: String(++head), event: { data: said } })
    reader.cut()
  })
})
