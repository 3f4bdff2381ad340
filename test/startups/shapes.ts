import { noun, startup } from 'startup-builder'
import { z } from 'zod'
import kiln from '../fixtures/kiln.ts'

// What a description of an API has to cope with: names that are the platform's own or run into each other, schemas that
// refer to themselves, unions and intersections, defaults, outputs that are declared. Beside it, the kiln.

const Address = z.object({ street: z.string(), zip: z.string().default('00000') }).meta({ id: 'Address' })

const Part = z.object({
  name: z.string(),
  get parts(): z.ZodOptional<z.ZodArray<typeof Part>> {
    return z.array(Part).optional()
  },
})

/** As the platform's own schema and operations are named. */
const Event = noun({
  plural: 'concerts',
  fields: z.object({ title: z.string(), level: z.int().nullable().default(null), open: z.boolean().default(true) }),
  index: ['level', 'open'],
  unique: ['title'],
})
const Order = noun({ fields: z.object({ from: Address, to: Address.optional() }) })
/** `OrderPlace` and `item`, beside `Order` and `placeItem`. */
const OrderPlace = noun({ fields: z.object({ where: z.string() }) })

const shapes = startup('shapes.test', { nouns: { Event, Order, OrderPlace } })

const announce = shapes.verb('Event.announce', {
  input: z.object({ title: z.string(), level: z.int().nullable().default(null) }),
  output: z.object({ id: z.string(), level: z.int().nullable() }),
  async run({ input, records }) {
    const event = await records.Event.create(input)
    return { id: event.$id, level: event.level, more: 'than is declared' }
  },
})

const send = shapes.verb('Order.send', {
  input: z.object({ from: Address, to: Address.optional(), tree: Part.optional() }),
  output: Part,
  async run({ input, records }) {
    await records.Order.create({ from: input.from, ...(input.to === undefined ? {} : { to: input.to }) })
    return input.tree ?? { name: 'none' }
  },
})

const pay = shapes.verb('Order.pay', {
  target: 'record',
  input: z.discriminatedUnion('by', [
    z.object({ by: z.literal('card'), card: z.string() }),
    z.object({ by: z.literal('bank'), iban: z.string() }),
  ]),
  output: z.union([z.object({ paid: z.literal(true) }), z.object({ due: z.number() })]),
  reads: [],
  run: ({ input }) => (input.by === 'card' ? { paid: true as const } : { due: 5 }),
})

const mark = shapes.verb('Order.mark', {
  target: 'record',
  input: z.intersection(z.object({ color: z.string() }), z.object({ size: z.int().optional() })),
  output: z.tuple([z.string(), z.int()]),
  reads: [],
  run: ({ input }): [string, number] => [input.color, input.size ?? 1],
})

const placeItem = shapes.verb('Order.placeItem', { input: z.object({}), reads: {}, run: () => 'Order.placeItem' })
const item = shapes.verb('OrderPlace.item', { input: z.object({}), reads: {}, run: () => 'OrderPlace.item' })

export default [...kiln, shapes.serve({ verbs: [announce, send, pay, mark, placeItem, item] })]
