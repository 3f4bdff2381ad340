import { noun, startup } from 'startup-builder'
import { z } from 'zod'

// Verbs in which several writes are begun at once, and whose ends meet what others did meanwhile.

const Order = noun({
  fields: z.object({
    a: z.int().default(0),
    b: z.int().default(0),
    status: z.string().default('queued'),
    code: z.string().optional(),
  }),
  index: ['status'],
  unique: ['code'],
})

const corners = startup('corners.test', { nouns: { Order } })

const open = corners.verb('Order.open', {
  input: z.object({ code: z.string().optional(), status: z.string().optional() }),
  reads: {},
  run: ({ input, records }) => records.Order.create(input),
})

/** Two writes of one record, begun at once. */
const both = corners.verb('Order.both', {
  target: 'record',
  input: z.object({ how: z.enum(['update', 'delete']) }),
  async run({ input, target, records }) {
    const { Order: orders } = records
    const first = orders.update(target, { a: 1 })
    await Promise.all([first, input.how === 'delete' ? orders.delete(target) : orders.update(target, { b: 2 })])
    return input.how
  },
})

/** Two creations, begun at once, of one id or of one unique value. */
const twins = corners.verb('Order.twins', {
  input: z.object({ id: z.string().optional(), code: z.string().optional() }),
  async run({ input: { id, code }, records }) {
    const one = () => records.Order.create({ code }, id === undefined ? {} : { id })
    await Promise.all([one(), one()])
    return 'both'
  },
})

/** Works a queue off, one record after the other. */
const sweep = corners.verb('Order.sweep', {
  input: z.object({ from: z.string() }),
  async run({ input, records }) {
    let swept = 0
    for (;;) {
      const next = await records.Order.first({ status: input.from })
      if (next === null) return { swept }
      await records.Order.update(next, { status: 'done' })
      swept++
    }
  },
})

/** Tries one card and then the other; the till says no to both. Its outcome tells the keys that they were asked under. */
const cards = corners.verb('Order.cards', {
  input: z.object({}),
  reads: {},
  async run({ step }) {
    try {
      await step('primary', ({ key, reject }) => reject('declined', key))
    } catch {
      // The other card, then.
    }
    return step('backup', ({ key, reject }): string => reject('declined', key))
  },
})

/** Looks whether a code is free, charges, and takes it: reads alone are declared, so that nothing is held (V6). */
const claim = corners.verb('Order.claim', {
  input: z.object({ code: z.string(), ms: z.int() }),
  reads: { Order: ['code'] },
  async run({ input, records, step, refuse }) {
    if ((await records.Order.first({ code: input.code })) !== null) return refuse('taken', 'The code is taken.')
    await step('charge', () => new Promise<string>((resolve) => setTimeout(resolve, input.ms, 'charged')))
    return records.Order.create({ code: input.code })
  },
})

export default corners.serve({ verbs: [open, both, twins, sweep, cards, claim] })
