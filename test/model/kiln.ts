import { noun, startup, type StepCall } from 'startup-builder'
import { z } from 'zod'
import { Declined, type Port } from './outside.ts'

const Account = noun({
  fields: z.object({ owner: z.string(), balance: z.int(), note: z.string().optional() }),
  index: ['note'],
  unique: ['owner'],
})

const Order = noun({
  fields: z.object({
    account: z.string(),
    amount: z.int(),
    seen: z.int(),
    receipt: z.string(),
    state: z.enum(['placed', 'settled']),
  }),
  index: ['account'],
})

const amount = z.int().nonnegative()
const paid = { tag: z.string(), mood: z.string().default('') }

type Paying = { tag: string; mood: string; [fact: string]: unknown }

/** A step's function: hands the derived key to the till, and tells its definitive no. */
function pay(outside: Port, step: string) {
  return async ({ key, input, reject }: StepCall<Paying>): Promise<{ receipt: string }> => {
    const { tag, mood, ...facts } = input
    try {
      return await outside.till({ key, tag, step, mood, facts })
    } catch (error) {
      if (error instanceof Declined) return reject('till-declined', error.message)
      throw error
    }
  }
}

/** Three attempts a step: the pauses between them are short where chance is handed in as zero. */
const attempts = 3

/**
 * A Startup whose Verbs do, between them, all that a Verb can do: it is what the model test calls at random, and what the
 * fault tests break at every call of the store.
 */
export function kiln(namespace: string, outside: Port) {
  const kilns = startup(namespace, { nouns: { Account, Order } })

  const open = kilns.verb('Account.open', {
    input: z.object({ owner: z.string(), balance: amount }),
    run: ({ input, records }) => records.Account.create(input),
  })
  const deposit = kilns.verb('Account.deposit', {
    target: 'record',
    input: z.object({ amount }),
    writes: ['balance'],
    run: ({ input, target, records }) => records.Account.update(target, { balance: target.balance + input.amount }),
    meter: (input) => input.amount,
  })
  const annotate = kilns.verb('Account.annotate', {
    target: 'record',
    input: z.object({ note: z.string().optional() }),
    writes: ['note'],
    run: ({ input, target, records }) => records.Account.update(target, { note: input.note }),
  })
  const ponder = kilns.verb('Account.ponder', {
    target: 'record',
    input: z.object({ amount, gate: z.string() }),
    writes: ['balance'],
    async run({ input, target, records }) {
      await outside.gate(input.gate)
      return records.Account.update(target, { balance: target.balance + input.amount })
    },
  })
  const transfer = kilns.verb('Account.transfer', {
    input: z.object({ from: z.string(), to: z.string(), amount }),
    async run({ input, records, refuse }) {
      const from = await records.Account.get(input.from)
      const to = await records.Account.get(input.to)
      if (from.$id === to.$id) return refuse('one-account', 'from and to are one Account')
      if (from.balance < input.amount) return refuse('too-little', `${from.$id} holds ${from.balance}`)
      await records.Account.update(from, { balance: from.balance - input.amount })
      await records.Account.update(to, { balance: to.balance + input.amount })
      return { from: from.balance - input.amount, to: to.balance + input.amount }
    },
  })
  const close = kilns.verb('Account.close', {
    target: 'record',
    input: z.object({}),
    async run({ target, records }) {
      await records.Account.delete(target)
      return null
    },
  })
  const explode = kilns.verb('Account.explode', {
    target: 'record',
    input: z.object({}),
    async run({ target, records }) {
      await records.Account.update(target, { balance: -1 })
      throw new Error('it explodes, as it should')
    },
  })
  const deny = kilns.verb('Account.deny', {
    input: z.object({ why: z.string() }),
    run: ({ input, refuse }) => refuse('denied', input.why),
  })
  const adopt = kilns.verb('Account.adopt', {
    input: z.object({ owner: z.string() }),
    async run({ input, records }) {
      const known = await records.Account.first({ owner: input.owner })
      return known ?? (await records.Account.create({ owner: input.owner, balance: 0 }))
    },
  })
  const tally = kilns.verb('Account.tally', {
    input: z.object({ note: z.string() }),
    async run({ input, records }) {
      const found = await records.Account.find({ note: input.note })
      return { count: found.length, total: found.reduce((sum, { balance }) => sum + balance, 0) }
    },
  })
  const enroll = kilns.verb('Account.enroll', {
    input: z.object({ owner: z.string(), ...paid }),
    async run({ input: { owner, tag, mood }, records, step, refuse }) {
      if (await records.Account.first({ owner })) return refuse('taken', `${owner} has an Account`)
      await step('fee', { tag, mood }, pay(outside, 'fee'), { attempts, try: () => ({ receipt: 'tried' }) })
      return records.Account.create({ owner, balance: 0 })
    },
  })

  const place = kilns.verb('Order.place', {
    input: z.object({ account: z.string(), amount, ...paid }),
    reads: { Account: ['balance'] },
    async run({ input: { account, amount, tag, mood }, records, step }) {
      const { balance: seen } = await records.Account.get(account)
      const { receipt } = await step('charge', { tag, mood, amount, seen }, pay(outside, 'charge'), {
        attempts,
        try: () => ({ receipt: 'tried' }),
      })
      return records.Order.create({ account, amount, seen, receipt, state: 'placed' })
    },
  })
  const settle = kilns.verb('Order.settle', {
    target: 'record',
    input: z.object({ bomb: z.boolean().default(false), ...paid }),
    reads: ['amount'],
    writes: ['state'],
    async run({ input: { tag, mood, bomb }, target, action, records, step, refuse }) {
      if (target.state !== 'placed') return refuse('not-placed', `${target.$id} is ${target.state}`)
      await step('payout', { tag, mood, amount: target.amount }, pay(outside, 'payout'), { attempts })
      if (bomb && (await outside.isFirst(tag, action.id))) throw new Error('it throws after the step, as it should')
      return records.Order.update(target, { state: 'settled' })
    },
  })
  const twice = kilns.verb('Order.twice', {
    event: 'Order.doubled',
    input: z.object({ account: z.string(), amount, moodB: z.string().default(''), ...paid }),
    async run({ input: { account, amount, tag, mood, moodB }, records, step, refuse }) {
      const held = await records.Account.get(account)
      if (held.balance < amount) return refuse('too-little', `${account} holds ${held.balance}`)
      const first = await step('one', { tag, mood, amount }, pay(outside, 'one'), { attempts })
      const two = { tag, mood: moodB, of: first.receipt }
      const { receipt } = await step('two', two, pay(outside, 'two'), { attempts })
      await records.Account.update(held, { balance: held.balance - amount })
      return records.Order.create({ account, amount, seen: held.balance, receipt, state: 'placed' })
    },
  })

  return kilns.serve({
    // prettier-ignore
    verbs: [
      open, deposit, annotate, ponder, transfer, close, explode,
      deny, adopt, tally, enroll, place, settle, twice,
    ],
  })
}
