import { noun, startup } from 'startup-builder'
import { z } from 'zod'

// The Startup of the race tests: each Verb is one half of a race that somebody could lose.

const Counter = noun({ fields: z.object({ n: z.int() }) })
const Doctor = noun({ fields: z.object({ shift: z.string(), onCall: z.boolean() }), index: ['shift'] })
const Seat = noun({ fields: z.object({ row: z.string() }), index: ['row'] })
const Handle = noun({ fields: z.object({ name: z.string() }), unique: ['name'] })
const Order = noun({ fields: z.object({ status: z.enum(['placed', 'refunded']), amount: z.int() }) })

const race = startup('race.test', { nouns: { Counter, Doctor, Seat, Handle, Order } })

interface StepCall {
  key: string
  input: unknown
  signal: AbortSignal
  reject: (code: string, message: string) => never
}

async function till({ key, input, signal, reject }: StepCall): Promise<{ id: string }> {
  const response = await fetch(`${process.env['TILL_URL']}/`, {
    method: 'POST',
    headers: { 'Idempotency-Key': key, 'Content-Type': 'application/json' },
    body: JSON.stringify(input),
    signal,
  })
  if (response.status === 402) return reject('till-says-no', 'The till says no.')
  if (!response.ok) throw new Error(`the till answered ${response.status}`)
  return (await response.json()) as { id: string }
}

/** Lets everybody else read what this Verb has read, before it writes. */
const others = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 1))
/** Long enough that a burst of calls reads before the first of them settles. */
const lookAround = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 20))

const open = race.verb('Counter.open', {
  input: z.object({ n: z.int().default(0) }),
  run: ({ input, records }) => records.Counter.create(input),
})
const increment = race.verb('Counter.increment', {
  target: 'record',
  input: z.object({}),
  writes: ['n'],
  async run({ target, records }) {
    await others()
    return records.Counter.update(target, { n: target.n + 1 })
  },
})
/** Each reads both, and changes one: together they must not go below zero. */
const lower = race.verb('Counter.lower', {
  input: z.object({ mine: z.string(), other: z.string() }),
  async run({ input, records, refuse }) {
    const mine = await records.Counter.get(input.mine)
    const other = await records.Counter.get(input.other)
    if (mine.n + other.n < 1) return refuse('too-low', `${mine.n} and ${other.n}`)
    await lookAround()
    return records.Counter.update(mine, { n: mine.n - 1 })
  },
})
/** Takes both, in the order in which they are named, and pays between. */
const both = race.verb('Counter.both', {
  input: z.object({ first: z.string(), second: z.string(), how: z.string().default('ok'), ms: z.int().default(0) }),
  async run({ input: { first, second, how, ms }, records, step }) {
    const one = await records.Counter.get(first)
    await others()
    const two = await records.Counter.get(second)
    await step('pay', { how, ms, seen: [one.n, two.n] }, till)
    await records.Counter.update(one, { n: one.n + 1 })
    return records.Counter.update(two, { n: two.n + 1 })
  },
})

const hire = race.verb('Doctor.hire', {
  input: z.object({ shift: z.string() }),
  run: ({ input, records }) => records.Doctor.create({ ...input, onCall: true }),
})
const leave = race.verb('Doctor.leave', {
  target: 'record',
  input: z.object({}),
  async run({ target, records, refuse }) {
    const onCall = (await records.Doctor.find({ shift: target.shift })).filter((doctor) => doctor.onCall)
    if (onCall.length < 2) return refuse('last-one', `${target.$id} is the last one on call`)
    await lookAround()
    return records.Doctor.update(target, { onCall: false })
  },
})

const take = race.verb('Seat.take', {
  input: z.object({ row: z.string() }),
  async run({ input, records }) {
    const taken = await records.Seat.first({ row: input.row })
    await lookAround()
    return taken ?? (await records.Seat.create(input))
  },
})
const register = race.verb('Handle.register', {
  input: z.object({ name: z.string() }),
  async run({ input, records }) {
    await others()
    return records.Handle.create(input)
  },
})

const place = race.verb('Order.place', {
  input: z.object({ amount: z.int() }),
  run: ({ input, records }) => records.Order.create({ ...input, status: 'placed' }),
})
/** Throws once in this process after its step, if told to: what ran before a person mended the code. */
const bombed = new Set<string>()
const refund = race.verb('Order.refund', {
  target: 'record',
  input: z.object({ how: z.string().default('ok'), ms: z.int().default(0), bomb: z.boolean().default(false) }),
  reads: ['amount'],
  writes: ['status'],
  async run({ input: { how, ms, bomb }, target, records, step, refuse }) {
    if (target.status !== 'placed') return refuse('not-refundable', `${target.$id} is ${target.status}`)
    await step('refund', { how, ms, order: target.$id, amount: target.amount }, till, { attempts: 2 })
    if (bomb && !bombed.has(target.$id)) {
      bombed.add(target.$id)
      throw new Error('it throws after the step, once')
    }
    return records.Order.update(target, { status: 'refunded' })
  },
})

export default race.serve({ verbs: [open, increment, lower, both, hire, leave, take, register, place, refund] })
