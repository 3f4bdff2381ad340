import { noun, startup } from 'startup-builder'
import { z } from 'zod'

// What the tests of the throttle serve (§10): one Startup for each kind of limit.

const Order = noun({ fields: z.object({ note: z.string() }) })

function define(
  namespace: string,
  limits: { throttle?: { rate: number; burst: number }; ring?: { rate: number; burst: number } } = {},
) {
  const gate = startup(namespace, { nouns: { Order } })
  const place = gate.verb('Order.place', {
    input: z.object({ note: z.string().default('') }),
    reads: {},
    run: ({ input, records }) => records.Order.create(input),
  })
  const ring = gate.verb('Order.ring', {
    input: z.object({}),
    reads: {},
    ...(limits.ring === undefined ? {} : { throttle: limits.ring }),
    run: () => 'ding',
  })
  return gate.serve({
    verbs: [place, ring],
    ...(limits.throttle === undefined ? {} : { throttle: limits.throttle }),
  })
}

export default [
  // So slow that nothing comes back while a test runs.
  define('wide.test', { throttle: { rate: 0.001, burst: 1000 } }),
  define('gate.test', { throttle: { rate: 0.001, burst: 3 }, ring: { rate: 0.002, burst: 1 } }),
  define('open.test'),
  define('bell.test', { ring: { rate: 0.001, burst: 1 } }),
  define('seldom.test', { throttle: { rate: 0.3, burst: 1 } }),
  define('brisk.test', { throttle: { rate: 7, burst: 1 } }),
]
