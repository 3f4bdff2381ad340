import { noun, startup } from 'startup-builder'
import { z } from 'zod'

const order = z.object({
  offer: z.string(),
  customer: z.string(),
  currency: z.string(),
  price: z.number(),
  note: z.string(),
})

const bench = startup('bench.store', { nouns: { Order: noun({ fields: order }) } })

const place = bench.verb('Order.place', {
  input: order,
  writes: { Order: ['offer', 'customer', 'currency', 'price', 'note'] },
  run: ({ input, records }) => records.Order.create(input),
})

export default bench.serve({ verbs: [place] })
