import { createServer } from 'node:http'
import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import { asksFor, refusal } from './ledger.ts'
import type { Ledger, PaymentRequest } from './ledger.ts'

/** How long `tok_slow` takes: long enough to kill the caller, to reprice the offer or to ask twice meanwhile. */
const slowMs = 2_000
/** How many calls of one key are told 503 by `tok_down` before it works. */
const downCalls = 2
/** A request is three short members; whatever is longer is a mistake. */
const bodyBytesMax = 64 * 1024
const keyCharsMax = 255

/** A request that can't be understood. It is answered 400 and not kept: the key stays free for the mended one. */
class InvalidRequest extends Error {
  readonly code: string
  constructor(code: string, message: string) {
    super(message)
    this.code = code
  }
}

/** The provider's HTTP side: `POST /charges`, `POST /refunds`, and the lists that an audit reads. */
export function paymentServer(ledger: Ledger): Server {
  const server = createServer({ keepAliveTimeout: 60_000 }, (request, response) => {
    // Once the server is closing, each answer also ends its connection.
    if (!server.listening) response.setHeader('connection', 'close')
    route(ledger, request, response).catch((error: unknown) => {
      if (error instanceof InvalidRequest) return send(response, refusal(400, error.code, error.message))
      // Its sender is gone before the request was whole: nothing was done, and nobody is there to be told.
      if (!request.complete) return
      // Whether it was recorded is not known here, and 500 says just that: ask again with the same key.
      process.stderr.write(`payments: ${String(error)}\n`)
      send(response, refusal(500, 'internal', 'Something went wrong; send it again with the same Idempotency-Key'))
    })
  })
  return server
}

async function route(ledger: Ledger, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const path = request.url?.split('?')[0] ?? '/'
  switch (`${request.method} ${path}`) {
    case 'GET /charges':
      return sendList(response, ledger.charges())
    case 'GET /refunds':
      return sendList(response, ledger.refunds())
    case 'GET /calls':
      return sendList(response, ledger.calls())
    case 'POST /charges':
      return pay(ledger, '/charges', request, response)
    case 'POST /refunds':
      return pay(ledger, '/refunds', request, response)
    default:
      return send(response, refusal(404, 'not_found', `No ${request.method} ${path} here`))
  }
}

async function pay(ledger: Ledger, path: PaymentRequest['path'], request: IncomingMessage, response: ServerResponse) {
  const key = keyOf(request)
  const calls = ledger.countCall(key, path)
  const wanted = path === '/charges' ? toCharge(await readJson(request)) : toRefund(await readJson(request))

  if (isFaulty('down', wanted) && calls <= downCalls) {
    return send(response, refusal(503, 'unavailable', 'Try again later'))
  }
  // A caller that hangs up meanwhile is charged all the same: it has to ask again to learn of it.
  if (isFaulty('slow', wanted) && !ledger.knows(key)) await sleep(slowMs)

  const answer = ledger.answer(key, wanted)
  if (isFaulty('lost', wanted) && answer.status === 200 && !answer.replayed) {
    request.socket.destroy()
    return
  }
  if (answer.replayed) response.setHeader('idempotent-replayed', 'true')
  send(response, answer)
}

function isFaulty(fault: 'slow' | 'lost' | 'down', wanted: PaymentRequest): boolean {
  return wanted.path === '/charges' ? wanted.card === `tok_${fault}` : asksFor(fault, wanted.reason)
}

function keyOf(request: IncomingMessage): string {
  const key = request.headers['idempotency-key']
  if (typeof key !== 'string' || key === '') {
    throw new InvalidRequest('idempotency_key_required', 'Send an Idempotency-Key with every charge and refund')
  }
  if (key.length > keyCharsMax) {
    throw new InvalidRequest('invalid_idempotency_key', `A key has at most ${keyCharsMax} characters`)
  }
  return key
}

type Members = Partial<Record<string, unknown>>

function toCharge(body: Members): PaymentRequest {
  const { amount, currency = 'usd', card, ...rest } = body
  refuseUnknown(rest)
  if (!isAmount(amount)) throw new InvalidRequest('invalid_amount', 'amount is a positive integer, in minor units')
  if (typeof currency !== 'string' || !/^[a-z]{3}$/i.test(currency)) {
    throw new InvalidRequest('invalid_currency', 'currency is three letters, such as usd')
  }
  if (typeof card !== 'string') throw new InvalidRequest('invalid_request', 'card is a string, such as tok_ok')
  return { path: '/charges', amount, currency, card }
}

function toRefund(body: Members): PaymentRequest {
  const { charge, amount = null, reason = null, ...rest } = body
  refuseUnknown(rest)
  if (typeof charge !== 'string') throw new InvalidRequest('invalid_request', 'charge is the id of a charge')
  if (amount !== null && !isAmount(amount)) {
    throw new InvalidRequest('invalid_amount', 'amount is a positive integer, in minor units')
  }
  if (reason !== null && typeof reason !== 'string') throw new InvalidRequest('invalid_request', 'reason is a string')
  return { path: '/refunds', charge, amount, reason }
}

function isAmount(value: unknown): value is number {
  return Number.isSafeInteger(value) && Number(value) > 0
}

function refuseUnknown(rest: Members): void {
  const [name] = Object.keys(rest)
  if (name !== undefined) throw new InvalidRequest('unknown_parameter', `There is no parameter ${name}`)
}

async function readJson(request: IncomingMessage): Promise<Members> {
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of request as AsyncIterable<Buffer>) {
    bytes += chunk.length
    // The rest is read and dropped, so that the answer reaches a client that is still sending.
    if (bytes <= bodyBytesMax) chunks.push(chunk)
  }
  if (bytes > bodyBytesMax) throw new InvalidRequest('body_too_large', `A body has at most ${bodyBytesMax} bytes`)
  const body = parse(Buffer.concat(chunks).toString('utf8'))
  if (typeof body !== 'object' || body === null || Array.isArray(body)) {
    throw new InvalidRequest('invalid_json', 'The body is a JSON object')
  }
  return body
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    throw new InvalidRequest('invalid_json', 'The body is not JSON')
  }
}

function send(response: ServerResponse, { status, body }: { status: number; body: string }): void {
  response.writeHead(status, { 'content-type': 'application/json' }).end(body)
}

function sendList(response: ServerResponse, data: readonly object[]): void {
  send(response, { status: 200, body: JSON.stringify({ data }) })
}
