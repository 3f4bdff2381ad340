import { noun, startup } from 'startup-builder'
import { z } from 'zod'

// The Startup of the contract's tests: each Verb shows one thing that a Verb may do, or must not.

const how = z.enum(['ok', 'lost', 'down', 'no', 'broken', 'hang', 'slow']).default('ok')
const after = z.enum(['ok', 'throw', 'refuse', 'hang', 'once']).default('ok')

const Offer = noun({ fields: z.object({ price: z.int(), currency: z.string().default('EUR') }) })
const Order = noun({
  fields: z.object({
    status: z.string().default('open'),
    total: z.number().default(0),
    note: z.string().optional(),
    price: z.number().optional(),
    till: z.string().optional(),
    group: z.string().optional(),
  }),
  index: ['group'],
})
const Person = noun({ fields: z.object({ email: z.string(), name: z.string().optional() }), unique: ['email'] })

const kiln = startup('kiln.test', { nouns: { Offer, Order, Person } })

interface StepCall {
  key: string
  input: unknown
  signal: AbortSignal
  reject: (code: string, message: string) => never
}

/** Calls the till under the derived key; its 402 is a definitive no, everything else that is not 200 is unknown. */
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

/** What this process did before, by a name that the test gives: a Verb that behaves otherwise the second time. */
const seen = new Set<string>()
function firstTime(name: string): boolean {
  if (seen.has(name)) return false
  seen.add(name)
  return true
}

const forever = (): Promise<never> => new Promise(() => undefined)

/** Does to a Verb what its input says, after its step: the ways in which a run ends badly. */
async function ending(
  way: z.infer<typeof after>,
  refuse: (code: string, message: string) => never,
  name: string,
): Promise<void> {
  if (way === 'throw') throw new Error('the secret sauce is thyme')
  if (way === 'refuse') refuse('changed-my-mind', 'It would rather not.')
  if (way === 'hang') await forever()
  if (way === 'once' && firstTime(name)) throw new Error('only the first time')
}

const publish = kiln.verb('Offer.publish', {
  input: z.object({ id: z.string().optional(), price: z.int() }),
  reads: {},
  run: ({ input, records }) =>
    records.Offer.create({ price: input.price }, input.id === undefined ? {} : { id: input.id }),
})

const reprice = kiln.verb('Offer.reprice', {
  target: 'record',
  input: z.object({ price: z.int() }),
  writes: ['price'],
  run: ({ input, target, records }) => records.Offer.update(target, { price: input.price }),
})

const remove = kiln.verb('Order.remove', {
  target: 'record',
  input: z.object({}),
  async run({ target, records }) {
    await records.Order.delete(target)
    return { removed: target.$id }
  },
})

const open = kiln.verb('Order.open', {
  input: z.object({
    id: z.string().optional(),
    total: z.number().optional(),
    note: z.string().optional(),
    group: z.string().optional(),
  }),
  reads: {},
  run: ({ input: { id, ...fields }, records }) => records.Order.create(fields, id === undefined ? {} : { id }),
})

/** Depends on what it writes and on input members of a field's name, and on nothing else. */
const edit = kiln.verb('Order.edit', {
  target: 'record',
  input: z.object({ note: z.string().optional(), total: z.number().optional() }),
  writes: ['note', 'total'],
  run: ({ input, target, records }) => records.Order.update(target, input),
})

const stamp = kiln.verb('Order.stamp', {
  target: 'record',
  input: z.object({ status: z.string() }),
  reads: ['note'],
  writes: ['status'],
  run: ({ input, target, records }) => records.Order.update(target, { status: input.status }),
})

const setTotal = kiln.verb('Order.setTotal', {
  target: 'record',
  input: z.object({ total: z.number() }),
  writes: ['total'],
  run: ({ input, target, records }) => records.Order.update(target, { total: input.total }),
})

const setNote = kiln.verb('Order.setNote', {
  target: 'record',
  input: z.object({ note: z.string() }),
  writes: ['note'],
  run: ({ input, target, records }) => records.Order.update(target, { note: input.note }),
})

/** Declares nothing: it depends on every field of every Noun. */
const touch = kiln.verb('Order.touch', {
  target: 'record',
  input: z.object({}),
  run: ({ target, records }) => records.Order.update(target, { status: `${target.status}!` }),
})

const increment = kiln.verb('Order.increment', {
  target: 'record',
  input: z.object({}),
  writes: ['total'],
  run: ({ target, records }) => records.Order.update(target, { total: target.total + 1 }),
})

const place = kiln.verb('Order.place', {
  input: z.object({ offer: z.string(), how, after, ms: z.number().default(0), name: z.string().default('') }),
  reads: { Offer: ['price'] },
  async run({ input, records, step, refuse }) {
    const offer = await records.Offer.get(input.offer)
    const paid = await step('charge', { amount: offer.price, how: input.how, ms: input.ms }, till, {
      try: () => ({ id: 'till_try' }),
    })
    await ending(input.after, refuse, input.name)
    return records.Order.create({ price: offer.price, till: paid.id, status: 'placed' })
  },
})

const refund = kiln.verb('Order.refund', {
  target: 'record',
  input: z.object({ how, after, ms: z.number().default(0), name: z.string().default('') }),
  writes: ['status'],
  timeout: 4000,
  async run({ input, target, records, step, refuse }) {
    if (target.status === 'refunded') return refuse('refunded-already', 'It was refunded.')
    await step('refund', { how: input.how, ms: input.ms }, till, {
      try: () => ({ id: 'till_try' }),
      attempts: input.how === 'broken' ? 2 : 5,
    })
    await ending(input.after, refuse, input.name)
    return records.Order.update(target, { status: 'refunded' })
  },
})

const pair = kiln.verb('Order.pair', {
  input: z.object({
    name: z.string(),
    amounts: z.array(z.int()),
    fail: z.boolean().default(false),
    skip: z.string().optional(),
  }),
  reads: {},
  async run({ input, records, step }) {
    const ids: string[] = []
    for (const amount of input.amounts) {
      if (input.skip !== undefined && !firstTime(`${input.name} first`) && amount === input.amounts[0]) continue
      ids.push((await step('charge', { amount }, till)).id)
    }
    if (input.fail && firstTime(input.name)) throw new Error('after both')
    return records.Order.create({ till: ids.join(' ') })
  },
})

/** The step's input is another one each time that it runs. */
const diverge = kiln.verb('Order.diverge', {
  input: z.object({ name: z.string() }),
  reads: {},
  async run({ input, step }) {
    const isFirst = firstTime(input.name)
    await step('charge', { amount: isFirst ? 1 : 2 }, till)
    if (isFirst) throw new Error('the first time')
    return 'unreachable'
  },
})

const once = kiln.verb('Order.once', {
  input: z.object({ how }),
  reads: {},
  async run({ input, step }) {
    return await step('mail', { how: input.how }, till, { atMostOnce: true })
  },
})

const forgetful = kiln.verb('Order.forgetful', {
  input: z.object({ how }),
  reads: {},
  async run({ input, step }) {
    return await step('charge', { how: input.how }, till, { keyHolds: 1000, attempts: 1 })
  },
})

const look = kiln.verb('Order.look', {
  input: z.object({ how, then: z.enum(['ok', 'refuse', 'throw']).default('ok') }),
  reads: {},
  async run({ input, step, refuse }) {
    const seenThere = await step('look', { how: input.how }, till, { effect: false, attempts: 1 })
    if (input.then === 'refuse') return refuse('seen-enough', 'It only looked.')
    if (input.then === 'throw') throw new Error('it only looked')
    return seenThere
  },
})

const caught = kiln.verb('Order.caught', {
  input: z.object({}),
  reads: {},
  async run({ records, step }) {
    try {
      await step('charge', { how: 'no' }, till)
    } catch (error) {
      return records.Order.create({ note: (error as { code: string }).code })
    }
    return null
  },
})

/** Its clock, chance and ids, as they are after its step; it fails the first time. */
const clock = kiln.verb('Order.clock', {
  input: z.object({ name: z.string() }),
  reads: {},
  async run({ input, records, step, now, random }) {
    const drawn = [random(), random()]
    await step('charge', { amount: 1, now, drawn }, till)
    const order = await records.Order.create({ note: input.name })
    await step('tell', { now, drawn, order: order.$id }, till)
    if (firstTime(input.name)) throw new Error('the first time')
    return { now, drawn, order: order.$id }
  },
})

const slow = kiln.verb('Order.slow', {
  input: z.object({ ms: z.number() }),
  reads: {},
  async run({ input, records }) {
    await new Promise((resolve) => setTimeout(resolve, input.ms))
    return records.Order.create({ note: 'slow' })
  },
})

const late = kiln.verb('Order.late', {
  input: z.object({ how: z.enum(['none', 'hang']) }),
  reads: {},
  timeout: 400,
  async run({ input, step }) {
    if (input.how === 'hang') await step('charge', { how: 'hang' }, till)
    return forever()
  },
})

const fail = kiln.verb('Order.fail', {
  input: z.object({ name: z.string().optional() }),
  reads: {},
  run({ input }) {
    if (input.name !== undefined && !firstTime(input.name)) return 'mended'
    throw new Error('the secret sauce is thyme')
  },
})

const decline = kiln.verb('Order.decline', {
  input: z.object({}),
  reads: {},
  run: ({ refuse }) => refuse('not-today', 'Come back tomorrow.', { tomorrow: true }),
})

const output = kiln.verb('Order.output', {
  input: z.object({ kind: z.enum(['bigint', 'cycle', 'large', 'nothing', 'text', 'function']) }),
  reads: {},
  run({ input }): unknown {
    if (input.kind === 'bigint') return { n: 1n }
    if (input.kind === 'large') return 'x'.repeat(1_100_000)
    if (input.kind === 'function') return () => 1
    if (input.kind === 'text') return 'text'
    if (input.kind === 'nothing') return undefined
    const cycle: Record<string, unknown> = {}
    cycle['self'] = cycle
    return cycle
  },
})

/** Reads another Order only after its step, and changes it. */
const notHeld = kiln.verb('Order.notHeld', {
  target: 'record',
  input: z.object({ other: z.string() }),
  writes: ['status'],
  async run({ input, records, step }) {
    await step('charge', { amount: 1 }, till)
    return records.Order.update(input.other, { status: 'taken' })
  },
})

const metered = kiln.verb('Order.metered', {
  input: z.object({ units: z.number() }),
  reads: {},
  meter: (input) => input.units,
  run: () => 'metered',
})

const register = kiln.verb('Person.register', {
  input: z.object({ email: z.string(), id: z.string().optional() }),
  reads: {},
  run: ({ input, records }) =>
    records.Person.create({ email: input.email }, input.id === undefined ? {} : { id: input.id }),
})

const rename = kiln.verb('Person.rename', {
  target: 'record',
  input: z.object({ email: z.string() }),
  writes: ['email'],
  run: ({ input, target, records }) => records.Person.update(target, { email: input.email }),
})

/** Creates one Order of a group unless there is one: a phantom must not let two in. */
const ensure = kiln.verb('Order.ensure', {
  input: z.object({ group: z.string() }),
  reads: { Order: ['group'] },
  async run({ input, records, refuse }) {
    const found = await records.Order.find({ group: input.group })
    await new Promise((resolve) => setTimeout(resolve, 5))
    if (found.length > 0) return refuse('there-is-one', 'There is one already.')
    return records.Order.create({ group: input.group })
  },
})

/** Writes a field that it does not declare. */
const liar = kiln.verb('Order.liar', {
  target: 'record',
  input: z.object({}),
  writes: ['note'],
  run: ({ target, records }) =>
    (records.Order.update as (record: unknown, patch: object) => Promise<unknown>)(target, { status: 'lied' }),
})

const echo = kiln.verb('Order.echo', {
  input: z.looseObject({}),
  reads: {},
  run: ({ input }) => input,
})

export default kiln.serve({
  verbs: [
    publish, reprice, remove, open, edit, stamp, setTotal, setNote, touch, increment, place, refund, pair, diverge, once, forgetful,
    look, caught, clock, slow, late, fail, decline, output, notHeld, metered, register, rename, ensure, liar, echo,
  ],
}) // prettier-ignore
