import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Engine, Log } from '../engine/engine.ts'
import { drainBodyMs, drainBytesMax, pipelinedMax } from '../model/limits.ts'
import type { Worker } from '../model/worker.ts'
import { addressOf } from './address.ts'

/** What all requests share. */
export interface Edge {
  readonly engine: Engine
  /** None: nothing is logged, and nothing is spent on it. */
  readonly log: Log | null
  /** Null: there is no `/metrics`. */
  readonly metrics: Metrics | null
  /** Origins of browsers that may call; `*` is any (H2). */
  readonly allowedOrigins: ReadonlySet<string>
  /** The server's own address, for the absolute links in answers: `http://127.0.0.1:4000`. */
  origin: string
  /** A stop has begun: nothing new is begun. */
  stopping: boolean
  /** Connections that may be open at once. */
  readonly connectionsMax: number
  /** Streams of Events that are open (E1). A stop ends them: their clients come back and lose nothing. */
  readonly streams: Set<OpenStream>
  /** What was begun and is not answered yet. */
  readonly open: Set<Exchange>
  /** Called each time that nothing is open any more. */
  onQuiet: () => void
}

/** An answer that goes on until somebody ends it. */
export interface OpenStream {
  readonly worker: Worker
  end(why: string): void
}

/** Who sent a request, as far as trusted proxies tell. */
export interface Peer {
  readonly ip: string
}

/** What `/metrics` shows. */
export interface Metrics {
  readonly contentType: string
  /** `streams`: how many are open. */
  text(streams: number): Promise<string>
}

export type Params = Readonly<Partial<Record<'namespace' | 'nouns' | 'id' | 'verb' | 'code', string>>>

/** The exchange that each connection began last, for what Node's parser reports about a connection. */
const latest = new WeakMap<object, Exchange>()

/** One request and its answer. Exactly one of `send` and `abandon` ends it. */
export class Exchange {
  readonly edge: Edge
  readonly req: IncomingMessage
  readonly res: ServerResponse
  readonly requestId: string
  /** The pattern of the path, for the log: it holds no id and no key. */
  route: string
  readonly params: Params
  /** Whether the request has a body, as its headers tell. */
  readonly hasBody: boolean
  worker: Worker | null = null
  /** The Action that the answer shows, for the log. */
  action: string | null = null
  /** The code of the problem that was answered, for the log. */
  code: string | null = null
  /** From here on an unknown error no longer means that nothing is on record (R1). */
  called = false
  /** The client waits for `100 Continue` before it sends its body. */
  expectsContinue = false
  /** Ends the reading of its body, which is under way, with an error. */
  stopReading: ((error: Error) => void) | null = null
  /** Headers of the answer that are known before it is: those of CORS, and of the throttle. */
  readonly headers: string[] = []
  readonly #peer: Peer
  readonly #startedAt: number
  /** An earlier exchange of the same connection that was under way when this one came (pipelining). */
  #before: Exchange | null
  /** Shared by all exchanges of the connection: how many of them are under way, and whether one was its last. */
  readonly #connection: { underWay: number; isEnding: boolean }
  #isLast = false
  #ended = false

  constructor(
    edge: Edge,
    req: IncomingMessage,
    res: ServerResponse,
    of: { requestId: string; route: string; params: Params; peer: Peer },
  ) {
    this.edge = edge
    this.req = req
    this.res = res
    this.requestId = of.requestId
    this.route = of.route
    this.params = of.params
    this.#peer = of.peer
    const { 'content-length': length, 'transfer-encoding': encoding } = req.headers
    this.hasBody = encoding !== undefined || (length !== undefined && Number(length) !== 0)
    this.#startedAt = edge.log === null ? 0 : edge.engine.machine.now()
    const before = latest.get(req.socket)
    this.#before = before === undefined || before.over ? null : before
    this.#connection = before === undefined ? { underWay: 0, isEnding: false } : before.#connection
    this.#connection.underWay++
    // A connection that is never idle must not keep every exchange it ever had.
    if (before !== undefined && before.#before?.over === true) before.#before = null
    latest.set(req.socket, this)
    edge.open.add(this)
  }

  /** By what failed tokens are counted (§10). */
  get address(): string {
    return addressOf(this.#peer.ip)
  }

  /** Whether it was answered, or never will be. */
  get ended(): boolean {
    return this.#ended
  }

  /** The connection ends with the answer to this: what was sent after it is read by nobody. */
  isLast(): void {
    this.#isLast = true
    this.#connection.isEnding = true
  }

  /** Whether an exchange before it was the last of its connection. */
  get isTooLate(): boolean {
    return this.#connection.isEnding
  }

  /** Whether its answer was given and goes out next, though it may wait for the rest of its request. */
  get isAnswering(): boolean {
    return this.#ended && (this.#before === null || this.#before.over)
  }

  /** Whether more was sent ahead on its connection than is begun at once. */
  get isFlood(): boolean {
    return this.#connection.underWay > pipelinedMax
  }

  /** Whether its answer has left, and with it those of all before it on the connection. */
  get over(): boolean {
    return this.res.writableFinished || this.req.socket.destroyed
  }

  /** Whether an answer written past it would be taken for its answer, or for that of one before it (R1). */
  get mayBeAnswered(): boolean {
    return !this.#ended && !this.called && (this.#before === null || this.#before.over)
  }

  /** Ends the exchange from outside: the connection was answered by whom its parser told. */
  cut(): void {
    this.#end()
  }

  /**
   * Answers. `fields` are the headers, names and values in turn; the array is used up. The caller has waited for `engine.durable()` (R3). An answer that
   * is early, while its body is still being sent, does not reset the connection (R2).
   */
  send(status: number, fields: string[], body: Uint8Array | string): void {
    if (this.#ended) return
    this.#end()
    const { res } = this
    const early = this.hasBody && !this.req.complete
    fields.push(...noSniffing)
    if (this.headers.length > 0) fields.push(...this.headers)
    if (status !== 204 && status !== 304) {
      fields.push('Content-Length', String(typeof body === 'string' ? Buffer.byteLength(body) : body.length))
    }
    // Who was never told to continue may send its body or not: only the connection's end is clear to both sides.
    if (this.#isLast || this.edge.stopping || (early && this.expectsContinue)) fields.push('Connection', 'close')
    if (!res.destroyed) {
      res.writeHead(status, fields)
      if (early) this.#endLate(body)
      else if (typeof body === 'string' || body.length > oneWriteBytesMax) res.end(body)
      else res.end(latin1(body), 'latin1')
    }
    this.#log(status)
  }

  /**
   * Begins an answer that its caller writes and ends: a stop does not wait for it. The connection ends with it, since nobody
   * knows when another answer could follow.
   */
  beginStream(fields: string[]): ServerResponse {
    this.#end()
    const { res } = this
    fields.push(...noSniffing, ...this.headers, 'Connection', 'close')
    if (!res.destroyed) res.writeHead(200, fields)
    this.#log(200)
    return res
  }

  /** Closes the connection unanswered: it is not known whether the call is on record (R1). */
  abandon(error: unknown): void {
    if (this.#ended) return
    this.#end()
    this.edge.engine.signals?.unanswered()
    this.req.socket.destroy()
    const { requestId, route, action, worker } = this
    this.edge.log?.error(
      { requestId, route, action, worker: worker?.name ?? null, error: described(error), class: 'OutcomeInDoubt' },
      'closed a connection unanswered, since the outcome of its call is in doubt',
    )
  }

  /** Its client is gone before the request was whole: nothing was begun, and nobody is there to be told. */
  forget(): void {
    if (this.#ended) return
    this.#end()
    this.#log(null)
  }

  /** An error that nobody expected, for the log alone: never in an answer (V5). */
  logError(error: unknown): void {
    const { requestId, route } = this
    this.edge.log?.error({ requestId, route, error: described(error) }, 'an error that nobody expected')
  }

  #end(): void {
    const { edge } = this
    this.#ended = true
    this.#connection.underWay--
    edge.open.delete(this)
    if (edge.open.size === 0) edge.onQuiet()
  }

  /** The answer goes out at once, its end only when the rest of the body has been read and dropped. */
  #endLate(body: Uint8Array | string): void {
    const { req, res } = this
    let bytes = 0
    const give = (up: boolean): void => {
      clearTimeout(timer)
      req.off('data', drop)
      if (up) req.socket.destroy()
      else res.end()
    }
    const drop = (chunk: Buffer): void => {
      bytes += chunk.length
      if (bytes > drainBytesMax) give(true)
    }
    const timer = setTimeout(give, drainBodyMs, true)
    res.write(body)
    req.once('end', () => give(false))
    req.once('close', () => give(false))
    req.on('data', drop)
    req.resume()
  }

  #log(status: number | null): void {
    const { log, engine } = this.edge
    if (log === null) return
    const { requestId, route, action, worker, code } = this
    const ms = engine.machine.now() - this.#startedAt
    const facts = { requestId, method: this.req.method, route, status, ms, worker: worker?.name ?? null, action }
    log.info(code === null ? facts : { ...facts, code }, status === null ? 'request not received' : 'request')
  }
}

/** On every answer: a browser takes it for what it is declared as, and for nothing else. */
export const noSniffing = ['X-Content-Type-Options', 'nosniff'] as const

/** Up to here a body is put behind its headers, so that one write does for both; above, the copy costs more. */
const oneWriteBytesMax = 16 * 1024

/** One character for each byte: written as latin1, they are the very bytes again. */
function latin1(bytes: Uint8Array): string {
  const buffer = Buffer.isBuffer(bytes) ? bytes : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  return buffer.toString('latin1')
}

/** The exchange that a connection began last. */
export function exchangeOn(socket: object): Exchange | undefined {
  return latest.get(socket)
}

/** For the log: what and where. */
function described(error: unknown): object {
  if (!(error instanceof Error)) return { name: typeof error }
  const stack = error.stack?.slice(error.stack.indexOf('\n    at ') + 1)
  return { name: error.name, message: error.message, stack }
}
