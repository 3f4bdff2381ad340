import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { connectRaw, rawMessage } from '../support/raw.ts'
import { root, startServer } from '../support/server.ts'
import { openStream, type Streamed } from '../support/stream.ts'
import { startBench, type Bench } from './verbs.ts'
import { caller, eventually, expectProblem, stores, walk, type Page } from './wire.ts'

// Many readers, many writers, and readers who don't read (E1).

const verbsFile = join(root, 'test/startups/verbs.ts')

const seqsOf = (events: readonly Streamed[]) => events.map(({ event }) => event.seq)
const from = (first: number, count: number) => Array.from({ length: count }, (_, n) => first + n)

/** Memory of a process, in bytes. */
function residentBytes(pid: number | undefined): number {
  const line = /^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))
  return Number(line?.[1]) * 1024
}

describe.each(stores)('%s', (store) => {
  let bench: Bench
  beforeAll(async () => {
    bench = await startBench(store)
  })
  afterAll(() => bench.close())

  test('E1: 64 writers: who polls and who streams see seq without holes at every moment, and the same', async () => {
    const stream = await openStream(bench.server, 'kiln.test', bench.agent.token)
    let writing = true
    const writers = Promise.all(
      Array.from({ length: 64 }, async (_, writer) => {
        for (let n = 0; n < 12; n++) await bench.agent.action(n % 4 === 0 ? 'orders/fail' : 'orders/open', {})
        return writer
      }),
    ).finally(() => {
      writing = false
    })
    const polled: Streamed['event'][] = []
    let polls = 0
    while (writing) {
      const page = await bench.agent.get(`events?limit=1000&after=${polled.length}`)
      polled.push(...page.json<Page<Streamed['event']>>().data)
      expect(polled.map(({ seq }) => seq)).toEqual(from(1, polled.length))
      expect(seqsOf(stream.events)).toEqual(from(1, stream.events.length))
      polls++
    }
    await writers
    expect(polls).toBeGreaterThan(3)
    const all = await walk<Streamed['event']>(bench.agent, 'events?limit=1000')
    expect(all).toHaveLength(64 * 12)
    expect((await stream.count(all.length)).map(({ event }) => event)).toEqual(all)
    stream.cut()
  })

  test('E1: readers who don’t read hold up nobody and no memory; when they read on, they get all', async () => {
    const before = (await walk(bench.agent, 'events?limit=1000')).length
    const deaf = await Promise.all(
      Array.from({ length: 80 }, async () => {
        const connection = await connectRaw(bench.server.url)
        connection.socket.pause()
        connection.send(
          rawMessage('GET', `/kiln.test/events?after=${before}`, [
            ['Authorization', `Bearer ${bench.agent.token}`],
            ['Accept', 'text/event-stream'],
          ]),
        )
        return connection
      }),
    )
    const slow = await openStream(bench.server, 'kiln.test', bench.agent.token, { after: before })
    slow.pause()
    const reader = await openStream(bench.server, 'kiln.test', bench.agent.token, { after: before })
    const text = 'x'.repeat(100_000)
    const write = (count: number) =>
      Promise.all(
        Array.from({ length: 4 }, async () => {
          for (let n = 0; n < count / 4; n++) await bench.agent.action('orders/echo', { text })
        }),
      )
    await write(40)
    const bytesBefore = residentBytes(bench.server.child.pid)
    // 16 MB for each of 80 readers who take nothing: 1.3 GB, if they were kept for them.
    await write(160)
    expect(seqsOf(await reader.count(200))).toEqual(from(before + 1, 200))
    const grownBytes = residentBytes(bench.server.child.pid) - bytesBefore
    expect(grownBytes).toBeLessThan(500e6)
    slow.resume()
    expect(seqsOf(await slow.count(200))).toEqual(from(before + 1, 200))
    for (const connection of deaf) connection.destroy()
    reader.cut()
    slow.cut()
  })

  test('E1: 300 readers at once get every Event of 16 writers, each once', async () => {
    const before = (await walk(bench.agent, 'events?limit=1000')).length
    const readers = await Promise.all(
      Array.from({ length: 300 }, () => openStream(bench.server, 'kiln.test', bench.agent.token, { after: before })),
    )
    await Promise.all(
      Array.from({ length: 16 }, async () => {
        for (let n = 0; n < 10; n++) await bench.agent.action('orders/open', {})
      }),
    )
    for (const reader of readers) {
      expect(seqsOf(await reader.count(160))).toEqual(from(before + 1, 160))
      reader.cut()
    }
    await eventually(async () => expect((await bench.agent.get('events?limit=1')).status).toBe(200))
  })

  test('E1: of 40 connections 32 may be streams, 10 of one Worker: one more is told so, and calls still get in', async () => {
    await using server = await startServer({ startup: verbsFile, args: ['--max-connections', '40'] })
    const workers = await Promise.all(['a', 'b', 'c', 'd'].map((name) => server.token(name)))
    const callers = workers.map((token) => caller(server, 'kiln.test', token))
    const open = (token = '') => openStream(server, 'kiln.test', token)
    const readers = []
    for (const token of workers.slice(0, 3)) {
      for (let n = 0; n < 10; n++) readers.push(await open(token))
      expect((await open(token)).status).toBe(429)
    }
    const refused = await callers[0]?.get('events', { accept: 'text/event-stream' })
    if (refused !== undefined) expectProblem(refused, 'too-many-streams')
    readers.push(await open(workers[3]), await open(workers[3]))
    expect(readers.map(({ status }) => status)).toEqual(readers.map(() => 200))
    const busy = await callers[3]?.get('events', { accept: 'text/event-stream' })
    if (busy !== undefined) expectProblem(busy, 'busy')
    expect(await callers[0]?.action('orders/open', {})).toMatchObject({ status: 'succeeded' })
    expect(((await callers[0]?.get('events'))?.json<Page>() ?? { data: [] }).data).toHaveLength(1)
    for (const reader of readers) expect(seqsOf(await reader.count(1))).toEqual([1])
    readers[0]?.cut()
    await eventually(async () => {
      const again = await open(workers[0])
      again.cut()
      expect(again.status).toBe(200)
    })
    for (const reader of readers) reader.cut()
  })
})
