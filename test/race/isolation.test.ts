import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { root, startServer, type TestServer } from '../support/server.ts'
import { startTill, type Till } from '../support/till.ts'
import { all, clientOf, times, type ActionBody, type Client } from './client.ts'

const isLong = process.env['STARTUP_BUILDER_LONG'] === '1'
const rounds = isLong ? 100 : 10

let till: Till
let server: TestServer
let ann: Client

beforeAll(async () => {
  till = await startTill()
  server = await startServer({ startup: join(root, 'test/startups/race.ts'), env: { TILL_URL: till.url } })
  ann = clientOf(server.url, 'race.test', await server.token('ann'))
})

afterAll(async () => {
  ann.close()
  await server.stop()
  await till.close()
})

/** A call that must be answered with a settled Action. */
async function settled(path: string, key: string, input: object = {}): Promise<ActionBody> {
  const { status, body } = await ann.call(path, key, input, { prefer: 'wait=100' })
  if (status !== 200) throw new Error(`${path} under ${key} was answered ${status} ${JSON.stringify(body)}`)
  return body
}
async function made(path: string, key: string, input: object = {}): Promise<string> {
  return String((await settled(path, key, input)).output?.$id)
}
async function counted(id: string): Promise<{ n: number; $version: number }> {
  return ann.get<{ n: number; $version: number }>(`counters/${id}`)
}
const codeOf = (body: ActionBody): string => body.fix?.code ?? body.error?.code ?? body.status

test(
  'V6: no update is lost: 50 increments at once are 50, and no caller sees a conflict',
  { timeout: 120_000 },
  async () => {
    const counter = await made('counters/open', 'lost updates')
    const bodies = await times(50, (index) => settled(`counters/${counter}/increment`, `increment ${index}`))
    expect(bodies.map(codeOf)).toEqual(bodies.map(() => 'succeeded'))
    expect(await counted(counter)).toMatchObject({ n: 50, $version: 51 })
    const seen = bodies.map(({ output }) => Number(output?.['n'])).sort((left, right) => left - right)
    expect(seen).toEqual(bodies.map((_, index) => index + 1))
  },
)

test(
  'V6: no write skew: of two that read both and change one each, the second sees the first',
  { timeout: 120_000 },
  async () => {
    for (let round = 0; round < rounds; round++) {
      const one = await made('counters/open', `skew one ${round}`, { n: 1 })
      const two = await made('counters/open', `skew two ${round}`, { n: 0 })
      const bodies = await Promise.all([
        settled('counters/lower', `lower one ${round}`, { mine: one, other: two }),
        settled('counters/lower', `lower two ${round}`, { mine: two, other: one }),
      ])
      expect(bodies.map(codeOf).sort()).toEqual(['succeeded', 'too-low'])
      expect((await counted(one)).n + (await counted(two)).n).toBe(0)
    }
  },
)

test('V6: no write skew through an index: one of the Doctors on call always stays', { timeout: 120_000 }, async () => {
  for (let round = 0; round < rounds; round++) {
    const doctors = await times(4, (index) =>
      made('doctors/hire', `hire ${round} ${index}`, { shift: `shift ${round}` }),
    )
    const bodies = await Promise.all(
      doctors.map((doctor, index) => settled(`doctors/${doctor}/leave`, `leave ${round} ${index}`)),
    )
    expect(bodies.map(codeOf).sort()).toEqual(['last-one', 'succeeded', 'succeeded', 'succeeded'])
  }
})

test('V6: no phantom: of many that create a record unless there is one, one does', { timeout: 120_000 }, async () => {
  for (let round = 0; round < rounds; round++) {
    const bodies = await times(8, (index) => settled('seats/take', `take ${round} ${index}`, { row: `row ${round}` }))
    expect(bodies.map(codeOf)).toEqual(bodies.map(() => 'succeeded'))
    expect(new Set(bodies.map(({ output }) => output?.$id)).size).toBe(1)
  }
  expect(await all(ann, 'seats')).toHaveLength(rounds)
})

test(
  'V6: a unique value raced for by 32 connections is taken once, and the others are told not-unique',
  { timeout: 120_000 },
  async () => {
    for (let round = 0; round < rounds; round++) {
      const bodies = await times(32, (index) =>
        settled('handles/register', `handle ${round} ${index}`, { name: `name ${round}` }),
      )
      const codes = bodies.map(codeOf).sort()
      expect(codes).toEqual([...Array.from({ length: 31 }, () => 'not-unique'), 'succeeded'])
    }
  },
)

test('V6: who meets a hold waits, visibly, and then runs on fresh reads', { timeout: 60_000 }, async () => {
  const one = await made('counters/open', 'held one')
  const two = await made('counters/open', 'held two')
  const holding = settled('counters/both', 'holding', { first: one, second: two, how: 'slow', ms: 1500 })
  await new Promise((resolve) => setTimeout(resolve, 500))
  const waiting = await ann.call(`counters/${one}/increment`, 'waiting', {}, { prefer: 'wait=0' })
  expect([waiting.status, waiting.body.status]).toEqual([202, 'pending'])
  await new Promise((resolve) => setTimeout(resolve, 300))
  const seen = await ann.get<ActionBody>(`actions/${waiting.body.id}`)
  expect([seen.status, seen.waitingFor]).toEqual(['pending', 'record'])
  // Reading is free all the while, and so is a try.
  expect(await counted(one)).toMatchObject({ n: 0 })
  expect(codeOf(await holding)).toBe('succeeded')
  expect(await settled(`counters/${one}/increment`, 'waiting')).toMatchObject({ output: { n: 2 }, waitingFor: null })
})

test(
  'V6: no deadlock: Verbs with steps that take two records in opposite order all settle',
  { timeout: 120_000 },
  async () => {
    const one = await made('counters/open', 'opposite one')
    const two = await made('counters/open', 'opposite two')
    const three = await made('counters/open', 'opposite three')
    const pairs = [[one, two], [two, one], [two, three], [three, one]] as const // prettier-ignore
    const bodies = await times(24, (index) => {
      const [first, second] = pairs[index % 4] ?? pairs[0]
      return settled('counters/both', `opposite ${index}`, { first, second, how: index % 6 === 0 ? 'lost' : 'ok' })
    })
    expect(bodies.map(codeOf)).toEqual(bodies.map(() => 'succeeded'))
    const sum = (await counted(one)).n + (await counted(two)).n + (await counted(three)).n
    expect(sum).toBe(48)
  },
)

/** What the till did for one Order. */
function refundsOf(order: string): number {
  return [...till.done.values()].filter((done) => done['order'] === order).length
}

test(
  'V6: a refund whose answer was lost for good keeps its hold: another key gets record-busy, a retry ends it',
  { timeout: 60_000 },
  async () => {
    const order = await made('orders/place', 'unknown refund', { amount: 5 })
    const first = await settled(`orders/${order}/refund`, 'unknown first', { how: 'broken' })
    expect(codeOf(first)).toBe('step-unresolved')
    const others = await times(4, (index) => settled(`orders/${order}/refund`, `unknown other ${index}`))
    expect(others.map(codeOf)).toEqual(others.map(() => 'record-busy'))
    expect(others.every(({ error }) => JSON.stringify(error).includes(first.id))).toBe(true)
  },
)

test(
  'V6, V2: a refund that threw after its step is at the till once, whoever asks again and how often',
  { timeout: 120_000 },
  async () => {
    for (let round = 0; round < (isLong ? rounds : 3); round++) {
      const order = await made('orders/place', `bomb ${round}`, { amount: 5 })
      const bodies = await times(6, (index) =>
        settled(`orders/${order}/refund`, `bomb ${round} ${index}`, { bomb: true, how: index % 2 ? 'lost' : 'ok' }),
      )
      const [failed, ...more] = bodies.filter((body) => codeOf(body) === 'verb-threw')
      expect(more).toEqual([])
      expect(bodies.filter((body) => codeOf(body) === 'record-busy')).toHaveLength(5)
      expect(refundsOf(order)).toBe(1)
      const retries = await times(4, (index) => ann.call(`actions/${failed?.id}/retry`, `bomb retry ${round} ${index}`))
      expect(retries.map(({ status }) => status).sort()).toEqual([200, 409, 409, 409])
      expect(refundsOf(order)).toBe(1)
      expect(codeOf(await settled(`orders/${order}/refund`, `bomb last ${round}`))).toBe('not-refundable')
    }
  },
)

test(
  'V6, A1: a refund that was declined, and retried once another had gone out, finds the Order refunded',
  { timeout: 60_000 },
  async () => {
    const order = await made('orders/place', 'declined refund', { amount: 5 })
    const declined = await settled(`orders/${order}/refund`, 'declined first', { how: 'no' })
    expect(codeOf(declined)).toBe('till-says-no')
    expect(codeOf(await settled(`orders/${order}/refund`, 'declined second'))).toBe('succeeded')
    expect(codeOf(await settled(`actions/${declined.id}/retry`, 'declined retry'))).toBe('not-refundable')
    expect(refundsOf(order)).toBe(1)
  },
)

test('E1: after all these races the store has no fault', async () => {
  const ran = await server.cli('verify')
  expect([ran.stdout, ran.status]).toEqual([ran.stdout, 0])
})
