import { setTimeout as sleep } from 'node:timers/promises'
import { context, propagation } from '@opentelemetry/api'
import { noun, startup } from 'startup-builder'
import { z } from 'zod'

// What the tests of traces serve: a Verb that hands its step's span on to a downstream, and ones that end badly.

const Order = noun({ fields: z.object({ total: z.int() }) })
const traced = startup('traced.test', { nouns: { Order } })

async function charge(key: string, body: object): Promise<unknown> {
  const headers: Record<string, string> = { 'Idempotency-Key': key, 'Content-Type': 'application/json' }
  propagation.inject(context.active(), headers)
  const response = await fetch(String(process.env['DOWNSTREAM_URL']), {
    method: 'POST',
    headers,
    body: JSON.stringify(body),
  })
  if (!response.ok) throw new Error(`the downstream answered ${response.status}`)
  return response.json()
}

const place = traced.verb('Order.place', {
  input: z.object({ total: z.int(), how: z.string().default('ok'), secret: z.string().default('') }),
  reads: {},
  async run({ input: { total, how, secret }, records, step }) {
    await step('charge', { total, how, secret }, ({ key, input, reject }) =>
      how === 'no' ? reject('no-funds', 'not enough') : charge(key, input as object),
    )
    return records.Order.create({ total })
  },
})

/** No step: one commit. `ms` is how long it takes. */
const note = traced.verb('Order.note', {
  input: z.object({ total: z.int().default(0), ms: z.int().default(0), fails: z.boolean().default(false) }),
  reads: {},
  async run({ input: { total, ms, fails }, records }) {
    if (ms > 0) await sleep(ms)
    if (fails) throw new Error('a secret in a message')
    return records.Order.create({ total })
  },
})

export default traced.serve({ verbs: [place, note] })
