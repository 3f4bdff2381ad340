import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { openStream, type StreamClient, type Streamed } from '../support/stream.ts'
import { startBench, type Bench } from './verbs.ts'
import { eventually, stores, walk, type Caller } from './wire.ts'

// What a client of a stream sees through cuts, crashes and stops: joined by Last-Event-ID, each seq exactly once (E1, R3).

const cuts = process.env['STARTUP_BUILDER_LONG'] === '1' ? 500 : 60

/** Writes until told to stop, on several connections at once; a server that is gone meanwhile is waited for. */
function writeOn(by: () => Caller, writers: number): { stop(): Promise<void> } {
  let stopped = false
  const loops = Array.from({ length: writers }, async (_, writer) => {
    for (let n = 0; !stopped; n++) {
      const path = ['orders/open', 'orders/fail', 'orders/echo'][n % 3] ?? ''
      const input = path === 'orders/echo' ? { text: 'é'.repeat((n * 37 + writer) % 900) } : {}
      try {
        await by().call(path, input)
      } catch {
        // No answer: the server was killed.
        await new Promise((resolve) => setTimeout(resolve, 20))
      }
    }
  })
  return {
    async stop() {
      stopped = true
      await Promise.all(loops)
    },
  }
}

/** A generator of numbers from a seed, so that a failing run can be had again. */
function chance(seed: number): () => number {
  let state = seed >>> 0
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return state / 2 ** 32
  }
}

const seqsOf = (events: readonly Streamed[]) => events.map(({ event }) => event.seq)
const to = (last: number) => Array.from({ length: last }, (_, n) => n + 1)

describe.each(stores)('%s', (store) => {
  let bench: Bench
  let quiet: Bench
  let heard: StreamClient | undefined
  let revoked: StreamClient | undefined

  const token = () => bench.agent.token
  /** Comes back after the last Event that it has. */
  const join = (seen: readonly Streamed[], bytesMax?: number) => {
    const last = seen.at(-1)
    return openStream(bench.server, 'kiln.test', token(), {
      ...(last === undefined ? {} : { lastEventId: last.id }),
      ...(bytesMax === undefined ? {} : { bytesMax }),
    })
  }
  const listed = () => walk<Streamed['event']>(bench.agent, 'events?limit=1000')

  beforeAll(async () => {
    ;[bench, quiet] = await Promise.all([startBench(store), startBench(store)])
    // Heartbeats take their time, which passes during the other tests.
    heard = await openStream(quiet.server, 'kiln.test', quiet.agent.token)
    revoked = await openStream(quiet.server, 'kiln.test', (await quiet.as('spy', ['events'])).token)
    expect((await quiet.server.cli('worker', 'revoke', 'spy')).status).toBe(0)
  })
  afterAll(() => Promise.all([bench.close(), quiet.close()]))

  test(`E1: a stream that is cut at any byte, ${cuts} times, while others write, tells each seq exactly once`, async () => {
    const seed = Date.now() % 100_000
    const draw = chance(seed)
    const writing = writeOn(() => bench.agent, 4)
    const seen: Streamed[] = []
    for (let cut = 0; cut < cuts; cut++) {
      const reader = await join(seen, 1 + Math.floor(draw() ** 3 * 12_000))
      await reader.over
      seen.push(...reader.events)
      expect(seqsOf(seen), `seed ${seed}`).toEqual(to(seen.length))
    }
    await writing.stop()
    const all = await listed()
    const rest = await join(seen)
    if (seen.length < all.length) seen.push(...(await rest.count(all.length - seen.length)))
    rest.cut()
    expect(
      seen.map(({ event }) => event),
      `seed ${seed}`,
    ).toEqual(all)
  })

  test('R3: kill -9 under a stream: what was told is on record afterwards, as it was told, and the next stream goes on', async () => {
    const before = (await listed()).length
    const writing = writeOn(() => bench.agent, 8)
    const seen: Streamed[] = []
    for (let round = 0; round < 3; round++) {
      const reader = await join(seen)
      const others = await Promise.all(Array.from({ length: 5 }, () => join(seen)))
      await reader.count((round === 0 ? before : 0) + 60)
      await bench.server.kill9()
      expect(await reader.over).toBe('cut')
      seen.push(...reader.events)
      await Promise.all(others.map(({ over }) => over))
      await bench.server.start()
      const all = await listed()
      expect(all.slice(0, seen.length)).toEqual(seen.map(({ event }) => event))
      for (const { events } of others) {
        const first = events[0]?.event.seq ?? 1
        expect(all.slice(first - 1, first - 1 + events.length)).toEqual(events.map(({ event }) => event))
      }
    }
    await writing.stop()
    const all = await listed()
    const rest = await join(seen)
    await rest.count(all.length - seen.length)
    rest.cut()
    expect([...seen, ...rest.events].map(({ event }) => event)).toEqual(all)
    expect((await bench.server.cli('verify')).status).toBe(0)
  })

  test('E1: a graceful stop ends the streams at once, and they go on after the next start', async () => {
    const writing = writeOn(() => bench.agent, 2)
    const readers = await Promise.all(Array.from({ length: 20 }, () => join([])))
    const deaf = await join([])
    deaf.pause()
    await readers[0]?.count(50)
    const began = Date.now()
    const stopped = bench.server.stop()
    for (const reader of readers) expect(await reader.over).toBe('ended')
    expect(await stopped).toBe(0)
    // Far below the grace of 10 s for what runs: nobody waited for a stream, nor for the one that does not read.
    expect(Date.now() - began).toBeLessThan(8_000)
    deaf.cut()
    await bench.server.start()
    const seen = [...(readers[0]?.events ?? [])]
    const next = await join(seen)
    await next.count(20)
    await writing.stop()
    const all = await listed()
    await next.count(all.length - seen.length)
    next.cut()
    expect([...seen, ...next.events].map(({ event }) => event)).toEqual(all)
  })

  test('E1: a comment comes every 15 s; H1: by then a revocation ends a stream on which nothing happens', async () => {
    await eventually(async () => expect(heard?.comments).toBeGreaterThan(0), 40_000)
    expect(await revoked?.over).toBe('ended')
    expect(revoked?.comments).toBe(0)
    expect(heard?.events).toEqual([])
    heard?.cut()
  }, 60_000)
})
