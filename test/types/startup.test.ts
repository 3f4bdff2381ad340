import { describe, expectTypeOf, test } from 'vitest'
import { z } from 'zod'
import { noun, startup } from 'startup-builder'
import type { InputOf, NounsOf, OutputOf, RecordOf, TargetOf, VerbsOf } from 'startup-builder'
import glyphs from '../../examples/glyphs.store/startup.ts'

// What a client's `$` knows without code generation (S4). These are checked by tsc, in `npm test`.

type Glyphs = typeof glyphs

interface Order {
  readonly $id: string
  readonly $noun: 'Order'
  readonly $version: number
  readonly offer: string
  readonly customer?: string | undefined
  readonly price: number
  readonly currency: string
  readonly status: 'placed' | 'refunded' | 'cancelled'
  readonly chargeId: string
}

describe('S4: names, inputs, outputs and records come from the definition', () => {
  test('S4: Nouns and Verbs by name', () => {
    expectTypeOf<NounsOf<Glyphs>>().toEqualTypeOf<'Customer' | 'Offer' | 'Order' | 'License'>()
    expectTypeOf<VerbsOf<Glyphs>>().toEqualTypeOf<
      | 'Customer.register'
      | 'Offer.publish'
      | 'Offer.reprice'
      | 'Offer.retire'
      | 'Order.place'
      | 'Order.refund'
      | 'Order.cancel'
      | 'License.transfer'
    >()
    expectTypeOf<TargetOf<Glyphs, 'Order.place'>>().toEqualTypeOf<'collection'>()
    expectTypeOf<TargetOf<Glyphs, 'Order.refund'>>().toEqualTypeOf<'record'>()
  })

  test('S4: an input is what is sent, so that members with a default may be left out', () => {
    expectTypeOf<InputOf<Glyphs, 'Order.place'>>().toEqualTypeOf<{
      offer: string
      customer?: string | undefined
      card?: string | undefined
      seats?: number | undefined
    }>()
    expectTypeOf<{ offer: string }>().toExtend<InputOf<Glyphs, 'Order.place'>>()
    expectTypeOf<{ offer: number }>().not.toExtend<InputOf<Glyphs, 'Order.place'>>()
    expectTypeOf<InputOf<Glyphs, 'Order.refund'>>().toEqualTypeOf<{ reason: string }>()
  })

  test('S4: an output is what run gives, with the members that every record has', () => {
    expectTypeOf<OutputOf<Glyphs, 'Order.place'>>().toEqualTypeOf<Order>()
    expectTypeOf<RecordOf<Glyphs, 'Order'>>().toEqualTypeOf<Order>()
    expectTypeOf<RecordOf<Glyphs, 'Offer'>['active']>().toEqualTypeOf<boolean>()
  })

  test('W2: the output of an update has the fields that the Verb declares, and no others', () => {
    expectTypeOf<OutputOf<Glyphs, 'Order.refund'>>().toEqualTypeOf<{
      readonly $id: string
      readonly $noun: 'Order'
      readonly $version: number
      readonly price: number
      readonly chargeId: string
      readonly status: 'placed' | 'refunded' | 'cancelled'
    }>()
    expectTypeOf<OutputOf<Glyphs, 'Offer.retire'>>().toEqualTypeOf<{
      readonly $id: string
      readonly $noun: 'Offer'
      readonly $version: number
      readonly active: boolean
    }>()
  })

  test('S4: names that there are not are errors', () => {
    // @ts-expect-error there is no such Verb
    expectTypeOf<InputOf<Glyphs, 'Order.plcae'>>().toBeObject()
    // @ts-expect-error there is no such Noun
    expectTypeOf<RecordOf<Glyphs, 'Ordr'>>().toBeObject()
  })
})

describe('S4: an output is what JSON makes of it', () => {
  const Note = noun({ fields: z.object({ text: z.string() }) })
  const notes = startup('notes.test', { nouns: { Note } })
  const input = z.object({})
  const dated = notes.verb('Note.date', {
    input,
    reads: {},
    run: () => ({ at: new Date(0), gone: undefined, list: [1, undefined] }),
  })
  const silent = notes.verb('Note.keep', { input, reads: {}, run: () => {} })
  const either = notes.verb('Note.choose', { input, reads: {}, run: async ({ now }) => (now > 5 ? 'late' : 7) })
  const loose = notes.verb('Note.guess', { input, reads: {}, run: (): unknown => 1 })
  const refusing = notes.verb('Note.refuse', { input, reads: {}, run: ({ refuse }) => refuse('no', 'never') })
  const _served = notes.serve({ verbs: [dated, silent, either, loose, refusing] })
  type Notes = typeof _served

  test('S4: a Date is text, nothing is null, promises are awaited, unknown stays unknown', () => {
    expectTypeOf<OutputOf<Notes, 'Note.date'>>().toEqualTypeOf<{
      at: string
      gone: undefined
      list: (number | null)[]
    }>()
    expectTypeOf<OutputOf<Notes, 'Note.keep'>>().toEqualTypeOf<null>()
    expectTypeOf<OutputOf<Notes, 'Note.choose'>>().toEqualTypeOf<'late' | 7>()
    expectTypeOf<OutputOf<Notes, 'Note.guess'>>().toBeUnknown()
    expectTypeOf<OutputOf<Notes, 'Note.refuse'>>().toBeNever()
  })

  test('S4: nothing of the definition is any', () => {
    expectTypeOf<Notes>().not.toBeAny()
    expectTypeOf<OutputOf<Glyphs, 'Order.place'>>().not.toBeAny()
    expectTypeOf<InputOf<Glyphs, 'Order.place'>>().not.toBeAny()
    expectTypeOf(glyphs.nouns).not.toBeAny()
  })
})
