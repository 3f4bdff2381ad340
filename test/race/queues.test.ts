import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { root, startServer, type TestServer } from '../support/server.ts'
import { startTill, type Till } from '../support/till.ts'
import { clientOf, times, type ActionBody, type Client } from './client.ts'

let till: Till
let server: TestServer
let ann: Client
let bob: Client

beforeAll(async () => {
  till = await startTill()
  server = await startServer({ startup: join(root, 'test/startups/race.ts'), env: { TILL_URL: till.url } })
  ann = clientOf(server.url, 'race.test', await server.token('ann'))
  bob = clientOf(server.url, 'race.test', await server.token('bob'))
})

afterAll(async () => {
  ann.close()
  bob.close()
  await server.kill9()
  await till.close()
})

async function settled(
  client: Client,
  path: string,
  key: string,
  input: object = {},
  headers: Record<string, string> = {},
): Promise<ActionBody> {
  const { status, body } = await client.call(path, key, input, headers)
  if (status !== 200) throw new Error(`${path} under ${key} was answered ${status} ${JSON.stringify(body)}`)
  return body
}
const after = (key: string): Record<string, string> => ({ 'decided-after': encodeURIComponent(key) })
const codeOf = (body: ActionBody): string => body.fix?.code ?? body.error?.code ?? body.status

// The way back once went round in a circle for ever here, and nobody else was answered any more.
test('W3: a queue that goes on after a retry of another Worker’s Action is followed back in that other’s keys', async () => {
  const order = String((await settled(bob, 'orders/place', 'order', { amount: 5 })).output?.$id)
  const counter = String((await settled(bob, 'counters/open', 'five')).output?.$id)
  const failed = await settled(bob, `orders/${order}/refund`, 'failed', { bomb: true }, after('five'))
  expect(codeOf(failed)).toBe('verb-threw')
  // Ann’s own key `five` is queued behind her retry of what Bob had queued behind his key `five`.
  expect(codeOf(await settled(ann, `actions/${failed.id}/retry`, 'three'))).toBe('succeeded')
  expect(codeOf(await settled(ann, `counters/${counter}/increment`, 'five', {}, after('three')))).toBe('succeeded')
  expect(codeOf(await settled(bob, `counters/${counter}/increment`, 'six'))).toBe('succeeded')
  const stale = { ...after('five'), 'record-version': '1' }
  expect(codeOf(await settled(ann, `counters/${counter}/increment`, 'six', {}, stale))).toBe('stale-decision')
})

test(
  'W3: a queue that is sent all at once, last first, is applied in its order or not at all',
  { timeout: 60_000 },
  async () => {
    const counter = String((await settled(ann, 'counters/open', 'queued counter')).output?.$id)
    const headers = (index: number) => ({
      'record-version': '1',
      ...(index === 0 ? {} : after(`queued ${index - 1}`)),
    })
    /** As a client does: an answer that says "not yet" is sent again. */
    const send = async (index: number): Promise<ActionBody> => {
      for (;;) {
        const answer = await ann.call(`counters/${counter}/increment`, `queued ${index}`, {}, headers(index))
        if (answer.status === 200) return answer.body
        expect([answer.status, answer.body.code]).toEqual([409, 'predecessor-unknown'])
        await new Promise((resolve) => setTimeout(resolve, 5))
      }
    }
    const bodies = await times(12, (index) => send(11 - index))
    expect(bodies.map(codeOf)).toEqual(bodies.map(() => 'succeeded'))
    expect(bodies.map(({ output }) => output?.['n'])).toEqual(bodies.map((_, index) => 12 - index))
  },
)
