import { describe, expectTypeOf, test } from 'vitest'
import { z } from 'zod'
import { noun, startup } from 'startup-builder'
import type { Refuse } from 'startup-builder'

// What an author sees while writing a Verb. Checked by tsc, in `npm test`; the Verbs are defined here and never run.

const Customer = noun({
  fields: z.object({ email: z.email(), name: z.string(), age: z.int().optional() }),
  unique: ['email'],
  index: ['age'],
})
const Offer = noun({
  fields: z.object({ title: z.string(), price: z.int(), active: z.boolean().default(true), tags: z.array(z.string()) }),
  index: ['active', 'price'],
})
const Order = noun({
  fields: z.object({ offer: z.string(), status: z.enum(['placed', 'refunded']), note: z.string().optional() }),
  index: ['status'],
})
const kiln = startup('kiln.test', { nouns: { Customer, Offer, Order } })
const input = z.object({
  offer: z.string(),
  seats: z.int().default(1),
  at: z.iso.datetime().transform((at) => new Date(at)),
})
const empty = z.object({})

type Ids<Name extends string> = { readonly $id: string; readonly $noun: Name; readonly $version: number }
type Shown<T> = { [K in keyof T]: T[K] }

describe('V1: what run is given', () => {
  test('V1: the input is what the schema makes of it; worker, action, clock and chance are there', () => {
    kiln.verb('Order.place', {
      input,
      run(context) {
        expectTypeOf(context.input).toEqualTypeOf<{ offer: string; seats: number; at: Date }>()
        expectTypeOf(context.target).toEqualTypeOf<null>()
        expectTypeOf(context.worker).toEqualTypeOf<{
          readonly id: string
          readonly name: string
          readonly kind: 'agent' | 'human' | 'app'
        }>()
        expectTypeOf(context.action).toEqualTypeOf<{
          readonly id: string
          readonly key: string | null
          readonly createdAt: number
          readonly on: string | null
          readonly attempts: number
        }>()
        expectTypeOf(context.now).toBeNumber()
        expectTypeOf(context.random()).toBeNumber()
        expectTypeOf(context.signal).toEqualTypeOf<AbortSignal>()
        expectTypeOf(context.refuse).toEqualTypeOf<Refuse>()
        expectTypeOf(context.records).not.toBeAny()
        // @ts-expect-error a mistyped member
        void context.recrods
      },
    })
  })

  test('W2: a Verb that declares nothing sees and changes every field of every Noun', () => {
    kiln.verb('Order.refund', {
      target: 'record',
      input: empty,
      async run({ target, records }) {
        expectTypeOf(target).toEqualTypeOf<
          Shown<
            Ids<'Order'> & {
              readonly offer: string
              readonly status: 'placed' | 'refunded'
              readonly note?: string | undefined
            }
          >
        >()
        await records.Order.update(target, { status: 'refunded', note: undefined, offer: 'x' })
        const offer = await records.Offer.get(target.offer)
        expectTypeOf(offer).toEqualTypeOf<
          Shown<
            Ids<'Offer'> & {
              readonly title: string
              readonly price: number
              readonly active: boolean
              readonly tags: string[]
            }
          >
        >()
        expectTypeOf(await records.Offer.maybe('x')).toEqualTypeOf<typeof offer | null>()
        expectTypeOf(await records.Offer.update('x', { price: 1 })).toEqualTypeOf<typeof offer>()
        expectTypeOf(await records.Offer.delete(offer)).toBeVoid()
      },
    })
  })
})

describe('W2: records are narrowed to what is declared', () => {
  test('W2: on a record Verb, lists alone mean the target’s Noun', () => {
    kiln.verb('Order.refund', {
      target: 'record',
      input: empty,
      reads: ['offer'],
      writes: ['status'],
      async run({ target, records }) {
        expectTypeOf(target).toEqualTypeOf<
          Shown<Ids<'Order'> & { readonly offer: string; readonly status: 'placed' | 'refunded' }>
        >()
        expectTypeOf(await records.Order.get('x')).toEqualTypeOf<typeof target>()
        await records.Order.update(target, { status: 'refunded' })
        // @ts-expect-error note is neither read nor written
        void target.note
        // @ts-expect-error offer is read, not written
        await records.Order.update(target, { offer: 'x' })
        // @ts-expect-error no such status
        await records.Order.update(target, { status: 'sold' })
        // Of Nouns that are not declared everything is seen.
        expectTypeOf((await records.Offer.get('x')).tags).toEqualTypeOf<string[]>()
      },
    })
  })

  test('W2: a Noun that is declared in reads alone can be read and created, not changed or deleted', () => {
    kiln.verb('Order.place', {
      input,
      reads: { Offer: ['price', 'active'], Customer: [] },
      async run({ records }) {
        const offer = await records.Offer.get('x')
        expectTypeOf(offer).toEqualTypeOf<Shown<Ids<'Offer'> & { readonly price: number; readonly active: boolean }>>()
        // @ts-expect-error title is not read
        void offer.title
        // @ts-expect-error can't be changed
        void records.Offer.update
        // @ts-expect-error can't be deleted
        void records.Offer.delete
        expectTypeOf(await records.Customer.get('x')).toEqualTypeOf<Shown<Ids<'Customer'>>>()
        const made = await records.Offer.create({ title: 'x', price: 1, tags: [] }, { id: 'offer_x' })
        expectTypeOf(made.title).toBeString()
      },
    })
  })

  test('W2: by Noun, reads and writes together', () => {
    kiln.verb('Order.place', {
      input,
      reads: { Offer: ['price'] },
      writes: { Offer: ['active'], Order: ['note'] },
      async run({ records }) {
        const offer = await records.Offer.update('x', { active: false })
        expectTypeOf(offer).toEqualTypeOf<Shown<Ids<'Offer'> & { readonly price: number; readonly active: boolean }>>()
        await records.Order.delete('x')
        // @ts-expect-error price is read, not written
        await records.Offer.update('x', { price: 1 })
        // @ts-expect-error an Offer is no Order
        await records.Order.update(offer, { note: 'x' })
      },
    })
  })

  test('N1: Nouns and fields that there are not are errors where they stand', () => {
    // @ts-expect-error no such field
    kiln.verb('Order.place', { input, reads: { Offer: ['prcie'] }, run: () => null })
    // @ts-expect-error no such Noun
    kiln.verb('Order.place', { input, reads: { Ofer: ['price'] }, run: () => null })
    // @ts-expect-error no such Noun beside one that there is
    kiln.verb('Order.place', { input, writes: { Offer: ['price'], Ofer: [] }, run: () => null })
    // @ts-expect-error a collection Verb has no target
    kiln.verb('Order.place', { input, reads: ['status'], run: () => null })
    // @ts-expect-error no such field of the target
    kiln.verb('Order.refund', { target: 'record', input, writes: ['price'], run: () => null })
  })
})

describe('V6: finding and creating', () => {
  test('V6: find takes one indexed or unique field, with a value of its type', () => {
    kiln.verb('Order.place', {
      input,
      async run({ records }) {
        expectTypeOf(await records.Customer.first({ email: 'a@b.c' })).toEqualTypeOf<
          Awaited<ReturnType<typeof records.Customer.maybe>>
        >()
        expectTypeOf(await records.Customer.find({ age: 5 }, { limit: 10 })).items.toEqualTypeOf<
          Awaited<ReturnType<typeof records.Customer.get>>
        >()
        await records.Order.find({ status: 'placed' })
        // @ts-expect-error name is in no index
        await records.Customer.find({ name: 'x' })
        // @ts-expect-error one field only
        await records.Customer.find({ email: 'a@b.c', age: 5 })
        // @ts-expect-error one field at least
        await records.Customer.find({})
        // @ts-expect-error a number
        await records.Customer.find({ age: '5' })
        // @ts-expect-error absent ones are in no index
        await records.Customer.find({ age: undefined })
        // @ts-expect-error no such status
        await records.Order.first({ status: 'sold' })
      },
    })
  })

  test('W2: find takes only fields that the Verb declares, where it declares any of the Noun', () => {
    kiln.verb('Order.place', {
      input,
      reads: { Offer: ['active', 'title'] },
      async run({ records }) {
        expectTypeOf((await records.Offer.find({ active: true }))[0]?.title).toEqualTypeOf<string | undefined>()
        // @ts-expect-error whether a price fits is told by reading it
        await records.Offer.find({ price: 1 })
      },
    })
  })

  test('V6: create takes what the schema takes: defaults may be left out', () => {
    kiln.verb('Order.place', {
      input,
      async run({ records }) {
        const offer = await records.Offer.create({ title: 'x', price: 1, tags: ['a'] })
        expectTypeOf(offer.active).toBeBoolean()
        // @ts-expect-error tags are missing
        await records.Offer.create({ title: 'x', price: 1 })
        // @ts-expect-error a mistyped member
        await records.Offer.create({ title: 'x', price: 1, tags: [], pirce: 1 })
        // @ts-expect-error records are not changed in place
        offer.price = 5
      },
    })
  })
})

describe('V2: step', () => {
  test('V2: the result is what fn gives, as JSON; the input reaches it', () => {
    kiln.verb('Order.place', {
      input,
      async run({ step }) {
        const charge = await step('charge', { amount: 5 }, async ({ key, input, signal, reject }) => {
          expectTypeOf(key).toBeString()
          expectTypeOf(input).toEqualTypeOf<{ amount: number }>()
          expectTypeOf(signal).toEqualTypeOf<AbortSignal>()
          if (input.amount > 9) return reject('too-much', 'no')
          return { id: 'x', at: new Date(0) }
        })
        expectTypeOf(charge).toEqualTypeOf<{ id: string; at: string }>()
        const looked = await step(
          'look',
          ({ input }) => {
            expectTypeOf(input).toEqualTypeOf<undefined>()
            return [1]
          },
          { effect: false, attempts: 2, keyHolds: 1000 },
        )
        expectTypeOf(looked).toEqualTypeOf<number[]>()
        expectTypeOf(await step('tell', async () => {}, { atMostOnce: true })).toEqualTypeOf<null>()
        // @ts-expect-error a mistyped option
        await step('charge', () => 1, { atmostOnce: true })
        // @ts-expect-error fn is missing
        await step('charge', { amount: 5 })
      },
    })
  })

  test('T1: with a stand-in that gives less, only that is sure to be there', () => {
    kiln.verb('Order.place', {
      input,
      async run({ step }) {
        const charge = await step('charge', 5, async () => ({ id: 'x', amount: 5 }), {
          try: ({ input }) => ({ id: `ch_${input.toFixed()}` }),
        })
        expectTypeOf(charge.id).toBeString()
        // @ts-expect-error a dry run has no amount
        void charge.amount
      },
    })
  })
})

describe('N1: names are checked where they are written', () => {
  test('N1: a Verb is of a Noun that there is', () => {
    // @ts-expect-error no such Noun
    kiln.verb('Ordr.place', { input, run: () => null })
    // @ts-expect-error no Verb
    kiln.verb('Order', { input, run: () => null })
    // @ts-expect-error an input is an object
    kiln.verb('Order.place', { input: z.string(), run: () => null })
    // @ts-expect-error run is missing
    kiln.verb('Order.place', { input })
  })

  test('N1: indexes and unique fields are fields that can be looked up', () => {
    const fields = z.object({ a: z.string(), maybe: z.number().nullish(), list: z.array(z.string()) })
    noun({ fields, index: ['a', 'maybe'], unique: ['a'] })
    // @ts-expect-error no such field
    noun({ fields, index: ['b'] })
    // @ts-expect-error a list is in no index
    noun({ fields, unique: ['list'] })
    // @ts-expect-error a schema, not a shape
    noun({ fields: { a: z.string() } })
  })

  test('E2: meter is given the input and what run gives', () => {
    kiln.verb('Order.place', {
      input,
      run: () => ({ units: 5, at: new Date(0) }),
      meter(input, output) {
        expectTypeOf(input.seats).toBeNumber()
        expectTypeOf(output).toEqualTypeOf<{ units: number; at: string }>()
        return output.units
      },
    })
  })

  test('N1: the seed is typed by the Verbs that are served', () => {
    const place = kiln.verb('Order.place', {
      input: z.object({ seats: z.int().default(1) }),
      reads: {},
      run: () => null,
    })
    const refund = kiln.verb('Order.refund', {
      target: 'record',
      input: z.object({ reason: z.string() }),
      reads: [],
      run: () => null,
    })
    kiln.serve({
      verbs: [place, refund],
      seed: [['Order.place'], ['Order.place', { seats: 2 }], ['Order.refund', 'order_1', { reason: 'x' }]],
    })
    // @ts-expect-error the record's id is missing
    void (() => kiln.serve({ verbs: [place, refund], seed: [['Order.refund', { reason: 'x' }]] }))
    // @ts-expect-error the input is missing
    void (() => kiln.serve({ verbs: [place, refund], seed: [['Order.refund', 'order_1']] }))
    // @ts-expect-error not served
    void (() => kiln.serve({ verbs: [place], seed: [['Order.refund', 'order_1', { reason: 'x' }]] }))
    // @ts-expect-error a mistyped member
    void (() => kiln.serve({ verbs: [place], seed: [['Order.place', { seast: 2 }]] }))
  })
})
