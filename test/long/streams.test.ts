import { afterAll, beforeAll, expect, test } from 'vitest'
import { startBench, type Bench } from '../contract/verbs.ts'
import { eventually } from '../contract/wire.ts'
import { openStream, type StreamClient } from '../support/stream.ts'

// Streams of Events at their size, and for as long as their bounds take (E1).

let bench: Bench
beforeAll(async () => {
  bench = await startBench('sqlite')
})
afterAll(() => bench.close())

const open = (token: string, after = 0) => openStream(bench.server, 'kiln.test', token, { after })

test('E1: who takes nothing for a minute is cut, and the others go on', async () => {
  const text = 'x'.repeat(500_000)
  const [deaf, slow] = [await open(bench.agent.token), await open(bench.agent.token)]
  deaf.pause()
  for (let n = 0; n < 60; n++) await bench.agent.action('orders/echo', { text })
  await eventually(async () => {
    const ended = bench.server.logs.filter(({ msg }) => msg === 'stream ended')
    expect(ended).toHaveLength(1)
  }, 120_000)
  expect(await slow.count(60)).toHaveLength(60)
  await bench.agent.action('orders/open', {})
  await slow.count(61)
  for (const reader of [deaf, slow]) reader.cut()
})

test('E1: 4,000 readers of two Workers get every Event of 64 writers, each once', async () => {
  const tokens = [bench.agent.token, (await bench.as('second', ['events'])).token]
  const { data } = (await bench.agent.get('events?limit=1000')).json<{ data: unknown[] }>()
  const readers: StreamClient[] = []
  while (readers.length < 4_000) {
    readers.push(...(await Promise.all(Array.from({ length: 50 }, (_, n) => open(tokens[n % 2] ?? '', data.length)))))
  }
  await Promise.all(
    Array.from({ length: 64 }, async () => {
      for (let n = 0; n < 10; n++) await bench.agent.action('orders/open', {})
    }),
  )
  for (const reader of readers) {
    const events = await reader.count(640, 300_000)
    expect(events.map(({ event }) => event.seq)).toEqual(events.map((_, at) => data.length + 1 + at))
    reader.cut()
  }
})
