/**
 * What a good engineer writes by hand for this one endpoint: Fastify and one SQLite file, a key that is looked up and
 * compared, and key, record and result in one transaction, on disk before the answer (WAL, synchronous=FULL).
 * Each request commits by itself; with `--group`, what came in one turn of the event loop commits together.
 */
import { hash, randomUUID } from 'node:crypto'
import { DatabaseSync } from 'node:sqlite'
import fastify, { type FastifyReply } from 'fastify'
import type { Order } from '../order.ts'
import { data, group, port } from './options.ts'

const db = new DatabaseSync(data)
db.exec(`
  PRAGMA journal_mode = WAL;
  PRAGMA synchronous = FULL;
  CREATE TABLE IF NOT EXISTS idempotency_keys (
    worker INTEGER NOT NULL,
    key TEXT NOT NULL,
    fingerprint BLOB NOT NULL,
    order_id TEXT NOT NULL,
    response TEXT NOT NULL,
    PRIMARY KEY (worker, key)
  ) STRICT;
  CREATE TABLE IF NOT EXISTS orders (
    id TEXT PRIMARY KEY,
    version INTEGER NOT NULL,
    offer TEXT NOT NULL,
    customer TEXT NOT NULL,
    currency TEXT NOT NULL,
    price INTEGER NOT NULL,
    note TEXT NOT NULL,
    created_at INTEGER NOT NULL
  ) STRICT;
`)
const begin = db.prepare('BEGIN IMMEDIATE')
const commit = db.prepare('COMMIT')
const rollback = db.prepare('ROLLBACK')
const findKey = db.prepare('SELECT fingerprint, order_id, response FROM idempotency_keys WHERE worker = ? AND key = ?')
const insertKey = db.prepare(
  'INSERT INTO idempotency_keys (worker, key, fingerprint, order_id, response) VALUES (?, ?, ?, ?, ?)',
)
const insertOrder = db.prepare(
  'INSERT INTO orders (id, version, offer, customer, currency, price, note, created_at) VALUES (?, 1, ?, ?, ?, ?, ?, ?)',
)

interface Request {
  readonly worker: number
  readonly key: string
  readonly fingerprint: Uint8Array
  readonly order: Order
}

interface Answer {
  readonly status: number
  readonly replayed: boolean
  readonly body: string
}

/** What an earlier request with this key was answered, a conflict if it was another one, null if there was none. */
function replay({ worker, key, fingerprint }: Request): Answer | null {
  const found = findKey.get(worker, key) as { fingerprint: Uint8Array; order_id: string; response: string } | undefined
  if (found === undefined) return null
  if (Buffer.compare(found.fingerprint, fingerprint) === 0) return { status: 200, replayed: true, body: found.response }
  const body = JSON.stringify({ code: 'idempotency-mismatch', status: 409, firstOrder: found.order_id })
  return { status: 409, replayed: false, body }
}

/** Key, record and result. Within a transaction. */
function place({ worker, key, fingerprint, order }: Request): Answer {
  const id = randomUUID()
  const createdAt = Date.now()
  const body = JSON.stringify({ id, version: 1, ...order, createdAt: new Date(createdAt).toISOString() })
  insertOrder.run(id, order.offer, order.customer, order.currency, order.price, order.note, createdAt)
  insertKey.run(worker, key, fingerprint, id, body)
  return { status: 200, replayed: false, body }
}

function inTransaction<T>(work: () => T): T {
  begin.run()
  try {
    const result = work()
    commit.run()
    return result
  } catch (error) {
    if (db.isTransaction) rollback.run()
    throw error
  }
}

interface Waiting {
  readonly request: Request
  readonly resolve: (answer: Answer) => void
  readonly reject: (error: unknown) => void
}

let waiting: Waiting[] = []

/** Puts a request into the transaction of this turn of the event loop. */
function placeTogether(request: Request): Promise<Answer> {
  return new Promise((resolve, reject) => {
    if (waiting.push({ request, resolve, reject }) === 1) setImmediate(commitTogether)
  })
}

function commitTogether(): void {
  const batch = waiting
  waiting = []
  try {
    // Another of the same batch may have had the same key.
    const answers = inTransaction(() => batch.map(({ request }) => replay(request) ?? place(request)))
    batch.forEach(({ resolve }, i) => resolve(answers[i] as Answer))
  } catch (error) {
    for (const { reject } of batch) reject(error)
  }
}

const workers = new Map([['Bearer bench-token', 1]])

const string = { type: 'string', maxLength: 1000 }
const body = {
  type: 'object',
  properties: { offer: string, customer: string, currency: string, price: { type: 'integer' }, note: string },
  required: ['offer', 'customer', 'currency', 'price', 'note'],
  additionalProperties: false,
}

const app = fastify({ logger: false, exposeHeadRoutes: false, ajv: { customOptions: { removeAdditional: false } } })

app.get('/readyz', () => ({ ready: true }))

app.post<{ Body: Order }>('/bench.store/orders/place', { schema: { body } }, async (request, reply) => {
  const worker = workers.get(request.headers.authorization ?? '')
  if (worker === undefined) return refuse(reply, 401, 'unauthorized')
  const key = request.headers['idempotency-key']
  if (typeof key !== 'string' || key === '' || key.length > 255) return refuse(reply, 400, 'invalid-idempotency-key')
  const fingerprint = hash('sha256', `orders/place\n${JSON.stringify(request.body)}`, 'buffer')
  const asked: Request = { worker, key, fingerprint, order: request.body }
  const answer = replay(asked) ?? (group ? await placeTogether(asked) : inTransaction(() => place(asked)))
  if (answer.replayed) reply.header('Idempotent-Replayed', 'true')
  return reply.code(answer.status).type('application/json').send(answer.body)
})

function refuse(reply: FastifyReply, status: number, code: string): FastifyReply {
  return reply.code(status).send({ code, status })
}

await app.listen({ port, host: '127.0.0.1' })

process.once('SIGTERM', () => {
  void app.close().then(() => db.close())
})
