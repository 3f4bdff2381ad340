import { noun, startup } from 'startup-builder'
import { z } from 'zod'
import { payments } from './payments/client.ts'

// glyphs.store sells font licenses. What it sells are Offers; who buys one places an Order and gets a License.

/** Money is in minor units: 4900 is 49.00. */
const money = z.int().nonnegative()
const currency = z.string().regex(/^[A-Z]{3}$/, 'must be a currency code such as EUR')

const Customer = noun({
  fields: z.object({ email: z.email(), name: z.string() }),
  unique: ['email'],
})

const Offer = noun({
  fields: z.object({ title: z.string().min(1), price: money, currency, active: z.boolean().default(true) }),
  index: ['active'],
})

const Order = noun({
  fields: z.object({
    offer: z.string(),
    customer: z.string().optional(),
    price: money,
    currency,
    status: z.enum(['placed', 'refunded', 'cancelled']),
    chargeId: z.string(),
  }),
  index: ['customer', 'offer', 'status'],
})

const License = noun({
  fields: z.object({ order: z.string(), fontFamily: z.string(), seats: z.int().positive() }),
  index: ['order'],
})

const glyphs = startup('glyphs.store', { nouns: { Customer, Offer, Order, License } })

const register = glyphs.verb('Customer.register', {
  input: z.object({ email: z.email(), name: z.string().min(1) }),
  reads: { Customer: ['email'] },
  async run({ input, records, refuse }) {
    // Looking first gives a sentence to the caller; that no two get by is kept by `unique`.
    if (await records.Customer.first({ email: input.email })) {
      return refuse('email-taken', `${input.email} is registered already`)
    }
    return records.Customer.create(input)
  },
})

const publish = glyphs.verb('Offer.publish', {
  input: z.object({
    id: z
      .string()
      .regex(/^[A-Za-z0-9_-]{1,64}$/)
      .optional(),
    title: z.string().min(1),
    price: money,
    currency,
  }),
  reads: {},
  async run({ input: { id, ...fields }, records }) {
    return records.Offer.create(fields, id === undefined ? {} : { id })
  },
})

const reprice = glyphs.verb('Offer.reprice', {
  target: 'record',
  input: z.object({ price: money }),
  reads: ['active'],
  writes: ['price'],
  async run({ input, target, records, refuse }) {
    if (!target.active) return refuse('offer-retired', `${target.$id} is no longer sold`)
    return records.Offer.update(target, { price: input.price })
  },
})

const retire = glyphs.verb('Offer.retire', {
  target: 'record',
  input: z.object({}),
  writes: ['active'],
  async run({ target, records }) {
    return records.Offer.update(target, { active: false })
  },
})

const place = glyphs.verb('Order.place', {
  input: z.object({
    offer: z.string(),
    customer: z.string().optional(),
    card: z.string().default('tok_ok'),
    seats: z.int().positive().max(1000).default(1),
  }),
  reads: { Offer: ['title', 'price', 'currency', 'active'], Customer: [] },
  async run({ input, records, step, refuse }) {
    const offer = await records.Offer.get(input.offer)
    if (!offer.active) return refuse('offer-retired', `${input.offer} is no longer sold`)
    if (input.customer !== undefined) await records.Customer.get(input.customer)

    const price = offer.price * input.seats
    // All that can be refused is behind us: what comes after the charge must not fail.
    const charge = await step(
      'charge',
      { amount: price, currency: offer.currency, card: input.card },
      ({ key, input, signal, reject }) => payments.charge(input, { key, signal, reject }),
      { try: () => ({ id: 'ch_try' }) },
    )

    const order = await records.Order.create({
      offer: offer.$id,
      customer: input.customer,
      price,
      currency: offer.currency,
      status: 'placed',
      chargeId: charge.id,
    })
    await records.License.create({ order: order.$id, fontFamily: offer.title, seats: input.seats })
    return order
  },
})

const refund = glyphs.verb('Order.refund', {
  target: 'record',
  input: z.object({ reason: z.string().min(1).max(500) }),
  reads: ['price', 'chargeId'],
  writes: ['status'],
  async run({ input, target, records, step, refuse }) {
    if (target.status !== 'placed') return refuse('not-refundable', `${target.$id} is ${target.status}`)
    await step(
      'refund',
      { charge: target.chargeId, amount: target.price, reason: input.reason },
      ({ key, input, signal, reject }) => payments.refund(input, { key, signal, reject }),
      { try: () => ({ id: 're_try' }) },
    )
    return records.Order.update(target, { status: 'refunded' })
  },
})

/** Withdraws an Order without moving money, such as one placed by the shop itself. Who paid is given `Order.refund`. */
const cancel = glyphs.verb('Order.cancel', {
  target: 'record',
  input: z.object({}),
  writes: ['status'],
  async run({ target, records, refuse }) {
    if (target.status !== 'placed') return refuse('not-cancellable', `${target.$id} is ${target.status}`)
    return records.Order.update(target, { status: 'cancelled' })
  },
})

/** Moves a License to another Order that stands, such as one of the Customer who takes it over. */
const transfer = glyphs.verb('License.transfer', {
  target: 'record',
  input: z.object({ order: z.string() }),
  reads: { Order: ['status'] },
  writes: { License: ['order'] },
  async run({ input, target, records, refuse }) {
    const order = await records.Order.get(input.order)
    if (order.status !== 'placed') return refuse('order-not-placed', `${order.$id} is ${order.status}`)
    return records.License.update(target, { order: order.$id })
  },
})

export default glyphs.serve({
  verbs: [register, publish, reprice, retire, place, refund, cancel, transfer],
  seed: [
    ['Offer.publish', { id: 'offer_serif_family', title: 'Serif Family', price: 4900, currency: 'EUR' }],
    ['Offer.publish', { id: 'offer_mono_family', title: 'Mono Family', price: 2900, currency: 'EUR' }],
  ],
})
