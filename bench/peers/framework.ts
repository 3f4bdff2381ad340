/** The framework with no engine: finds the route, parses the body, answers a JSON of an Action's size. Stores nothing. */
import fastify from 'fastify'
import type { Order } from '../order.ts'
import { port } from './options.ts'

const app = fastify({ logger: false, exposeHeadRoutes: false })

app.get('/readyz', () => ({ ready: true }))

app.post<{ Params: { namespace: string; verb: string }; Body: Order }>('/:namespace/:nouns/:verb', (request) => ({
  id: 'act_01kba2v7q8e5tr3x0m9cfn4wzd',
  namespace: request.params.namespace,
  verb: 'Order.place',
  worker: 'bench',
  idempotencyKey: request.headers['idempotency-key'],
  status: 'succeeded',
  mode: 'do',
  target: null,
  input: request.body,
  output: { $id: 'order_01kba2v7q8e5tr3x0m9cfn4wze', $noun: 'Order', $version: 1, ...request.body },
  error: null,
  fix: null,
  on: null,
  decidedAgainst: {},
  decidedAfter: [],
  waitingFor: null,
  steps: [],
  event: 'evt_01kba2v7q8e5tr3x0m9cfn4wzf',
  attempts: 1,
  createdAt: '2026-11-30T12:00:00.000Z',
  settledAt: '2026-11-30T12:00:00.001Z',
}))

await app.listen({ port, host: '127.0.0.1' })
