import { STATUS_CODES } from 'node:http'
import type { Duplex } from 'node:stream'
import { problem, toProblemJson, type Problem } from '../model/problem.ts'
import { exchangeOn, noSniffing, type Edge } from './exchange.ts'

/** How long a connection stays open for its client to read why it was refused, in milliseconds. */
const lingerMs = 1_000

const refused = new WeakSet<Duplex>()

/**
 * Answers what Node's parser would not read: as a problem, then the connection ends. Where an answer to an earlier
 * request of the connection is still owed, nothing is written: it would be taken for that answer (R1).
 */
export function refuseMalformed(
  edge: Edge,
  requestId: () => string,
  error: NodeJS.ErrnoException,
  socket: Duplex,
): void {
  // The parser reports each further piece of what it can't read.
  if (refused.has(socket)) return
  refused.add(socket)
  const exchange = exchangeOn(socket)
  if (exchange?.isAnswering === true && !exchange.over && error.code !== 'ECONNRESET') {
    // Its request was answered early, and the rest of it is broken: that answer goes out, and nothing after it.
    socket.end()
    setTimeout(() => socket.destroy(), lingerMs).unref()
    return
  }
  const unowed = exchange === undefined || exchange.over || exchange.mayBeAnswered
  if (error.code === 'ECONNRESET' || !socket.writable || !unowed) {
    socket.destroy()
    return
  }
  exchange?.cut()
  refuse(edge, requestId(), problemOf(error), socket, error.code ?? null)
}

/** `CONNECT` asks for a tunnel: this is no proxy. Node hands over the connection, which ends with the answer. */
export function refuseConnect(edge: Edge, requestId: () => string, socket: Duplex): void {
  // As above: an answer that is still owed would be mistaken for this one, or this one for it (R1).
  if (exchangeOn(socket)?.over === false) {
    socket.destroy()
    return
  }
  const allow = 'GET, HEAD, POST'
  const told = problem('method-not-allowed', `This server takes ${allow}.`, {}, { Allow: allow })
  refuse(edge, requestId(), told, socket, null)
}

function refuse(edge: Edge, id: string, told: Problem, socket: Duplex, parser: string | null): void {
  edge.engine.signals?.rejected(told.code)
  edge.log?.info({ requestId: id, status: told.status, code: told.code, parser }, 'request refused')
  socket.end(asHttp(told, JSON.stringify(toProblemJson(told, { origin: edge.origin, requestId: id }))))
  setTimeout(() => socket.destroy(), lingerMs).unref()
}

function problemOf({ code }: NodeJS.ErrnoException): Problem {
  switch (code) {
    case 'HPE_HEADER_OVERFLOW':
      return problem('headers-too-large', 'The request line and headers are larger than the server reads.')
    case 'ERR_HTTP_REQUEST_TIMEOUT':
      return problem('request-timeout', 'The request did not arrive in time.')
    default:
      return problem('malformed-request', 'The request is not valid HTTP.')
  }
}

function asHttp({ status, headers }: Problem, body: string): string {
  const fields = Object.entries({
    ...headers,
    'Content-Type': 'application/problem+json; charset=utf-8',
    'Cache-Control': 'no-store',
    [noSniffing[0]]: noSniffing[1],
    'Content-Length': String(Buffer.byteLength(body)),
    Connection: 'close',
  })
  const lines = fields.map(([name, value]) => `${name}: ${value}\r\n`).join('')
  return `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ''}\r\n${lines}\r\n${body}`
}
