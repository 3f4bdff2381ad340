import { afterAll, beforeAll, expect, test } from 'vitest'
import { startPayments, startServer, type TestPayments, type TestServer } from '../support/server.ts'
import { all, clientOf, times, type ActionBody, type Client } from './client.ts'

const rounds = process.env['STARTUP_BUILDER_LONG'] === '1' ? 100 : 20
const connections = 64

let payments: TestPayments
let server: TestServer
let checkout: Client
let other: Client

beforeAll(async () => {
  payments = await startPayments()
  server = await startServer({ env: { PAYMENTS_URL: payments.url } })
  checkout = clientOf(server.url, 'glyphs.store', await server.token('checkout'), connections)
  other = clientOf(server.url, 'glyphs.store', await server.token('backoffice'), connections)
})

afterAll(async () => {
  checkout.close()
  other.close()
  await server.stop()
  await payments.stop()
})

interface Event {
  seq: number
  action: string
  type: string
}

async function newest(): Promise<number> {
  return (await all<Event>(checkout, 'events')).length
}

test(
  `K5: ${connections} connections, one key, ${rounds} rounds: one Action, one charge, one Event, and right answers`,
  { timeout: 600_000 },
  async () => {
    for (let round = 0; round < rounds; round++) {
      const [charges, events] = [(await payments.charges()).length, await newest()]
      // Before it is known there; while it runs; and once more when all is over.
      const card = round % 4 === 3 ? 'tok_lost' : 'tok_ok'
      const input = { offer: 'offer_serif_family', card, seats: 1 + (round % 3) }
      const answers = await times(connections, () => checkout.call('orders/place', `round ${round}`, input))
      const ids = new Set(answers.map(({ body }) => body.id))
      expect(answers.map(({ status }) => status)).toEqual(answers.map(() => 200))
      expect([...ids]).toHaveLength(1)
      expect(new Set(answers.map(({ body }) => JSON.stringify(body))).size).toBe(1)
      expect(answers[0]?.body.status).toBe('succeeded')
      expect(answers.some(({ replayed }) => !replayed)).toBe(true)
      expect((await payments.charges()).length).toBe(charges + 1)
      const added = (await all<Event>(checkout, 'events')).slice(events)
      expect(added.map(({ action }) => action)).toEqual([...ids])
      const again = await checkout.call('orders/place', `round ${round}`, input)
      expect([again.replayed, again.body]).toEqual([true, answers[0]?.body])
    }
    const usage = await checkout.get<{ data: { verb: string; units: number }[] }>('usage?from=2020-01-01&to=2200-01-01')
    expect(usage.data.find(({ verb }) => verb === 'Order.place')?.units).toBe(rounds)
  },
)

test(
  'K5, V1: the same for a Verb without steps, which may be evaluated twice and commits once',
  { timeout: 120_000 },
  async () => {
    for (let round = 0; round < rounds; round++) {
      const input = { title: `Family ${round}`, price: 100, currency: 'EUR' }
      const answers = await times(connections, () => checkout.call('offers/publish', `offer ${round}`, input))
      expect(new Set(answers.map(({ status, body }) => `${status} ${JSON.stringify(body)}`)).size).toBe(1)
    }
    expect(
      (await all<{ title: string }>(checkout, 'offers')).filter(({ title }) => title.startsWith('Family ')),
    ).toHaveLength(rounds)
  },
)

test(
  'K4: calls that differ race for one key: one of them is run, and all others are told which',
  { timeout: 120_000 },
  async () => {
    for (let round = 0; round < rounds; round++) {
      const answers = await times(32, (index) =>
        checkout.call('offers/publish', `mixed ${round}`, { title: `Mixed ${index % 4}`, price: 100, currency: 'EUR' }),
      )
      const [winner] = answers.filter(({ status }) => status === 200).map(({ body }) => body)
      const won = answers.filter(({ status, body }) => status === 200 && body.id === winner?.id)
      const lost = answers.filter(
        ({ status, body }) => status === 409 && body.code === 'idempotency-mismatch' && body.firstAction === winner?.id,
      )
      expect([won.length, lost.length]).toEqual([8, 24])
      const recorded = await checkout.get<{ data: ActionBody[] }>(`actions?key=${encodeURIComponent(`mixed ${round}`)}`)
      expect(recorded.data.map(({ id }) => id)).toEqual([winner?.id])
    }
  },
)

test('K2: one key of two Workers is two keys, also when both come at once', async () => {
  const input = { title: 'Shared', price: 100, currency: 'EUR' }
  const answers = await times(32, (index) =>
    (index % 2 === 0 ? checkout : other).call('offers/publish', 'shared', input),
  )
  expect(answers.every(({ status }) => status === 200)).toBe(true)
  expect(new Set(answers.map(({ body }) => body.id)).size).toBe(2)
})

test(
  'A2: two Workers retry one failed Action at once: one new Action, the other is told which it is',
  { timeout: 120_000 },
  async () => {
    for (let round = 0; round < rounds; round++) {
      const failed = await checkout.call('orders/place', `declined ${round}`, {
        offer: 'offer_serif_family',
        card: 'tok_declined',
      })
      expect(failed.body.status).toBe('failed')
      const path = `actions/${failed.body.id}/retry`
      const answers = await times(8, (index) =>
        (index % 2 === 0 ? checkout : other).call(path, `retry ${round} ${index}`),
      )
      const [made, ...more] = answers.filter(({ status }) => status === 200)
      const told = answers.filter(
        ({ status, body }) => status === 409 && body.code === 'already-retried' && body.latest === made?.body.id,
      )
      expect([made?.body.on, more.length, told.length]).toEqual([failed.body.id, 0, 7])
    }
  },
)

test(
  'V6: a reprice while the card is charged: what was charged is what the Order records',
  { timeout: 120_000 },
  async () => {
    const publish = await checkout.call('offers/publish', 'slow offer', { title: 'Slow', price: 1000, currency: 'EUR' })
    const offer = String(publish.body.output?.$id)
    const placing = times(4, (index) =>
      checkout.call('orders/place', `slow ${index}`, { offer, card: 'tok_slow', seats: index + 1 }),
    )
    await new Promise((resolve) => setTimeout(resolve, 400))
    // It was only read: nothing holds it, and the new price is there at once.
    const repriced = await other.call(`offers/${offer}/reprice`, 'reprice', { price: 5000 })
    expect([repriced.body.status, repriced.body.output?.['price']]).toEqual(['succeeded', 5000])
    const charges = new Map(
      (
        await payments
          .charges()
          .then(() => placing)
          .then(() => payments.charges())
      ).map(({ id, amount }) => [id, amount]),
    )
    for (const [index, { body }] of (await placing).entries()) {
      expect(body.status).toBe('succeeded')
      expect(body.output?.['price']).toBe(1000 * (index + 1))
      expect(charges.get(String(body.output?.['chargeId']))).toBe(body.output?.['price'])
    }
    const after = await checkout.call('orders/place', 'after', { offer })
    expect(after.body.output?.['price']).toBe(5000)
  },
)

test(
  'V6: two refunds of one Order under two keys: one at the provider, also when its answer is lost',
  { timeout: 120_000 },
  async () => {
    for (const reason of ['changed my mind', 'lost', 'down', 'slow']) {
      const placed = await checkout.call('orders/place', `order ${reason}`, { offer: 'offer_mono_family' })
      const order = String(placed.body.output?.$id)
      const answers = await times(8, (index) =>
        (index % 2 === 0 ? checkout : other).call(`orders/${order}/refund`, `refund ${reason} ${index}`, { reason }),
      )
      expect(answers.map(({ status }) => status)).toEqual(answers.map(() => 200))
      const outcomes = answers.map(({ body }) => body.fix?.code ?? body.error?.code ?? body.status).sort()
      expect(outcomes).toEqual([...Array.from({ length: 7 }, () => 'not-refundable'), 'succeeded'])
      const refunds = (await payments.refunds()).filter(({ charge }) => charge === placed.body.output?.['chargeId'])
      expect(refunds).toHaveLength(1)
    }
  },
)

test('E1: after all these races the store has no fault', async () => {
  const ran = await server.cli('verify')
  expect([ran.stdout, ran.status]).toEqual([ran.stdout, 0])
  const events = await all<Event>(checkout, 'events')
  expect(events.map(({ seq }) => seq)).toEqual(events.map((_, index) => index + 1))
})
