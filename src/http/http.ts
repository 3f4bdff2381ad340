import { METHODS, type IncomingMessage, type ServerResponse } from 'node:http'
import { Server as NetServer } from 'node:net'
import type { Duplex } from 'node:stream'
import fastify, { type FastifyInstance, type FastifyReply, type FastifyRequest } from 'fastify'
import type { Engine, Log } from '../engine/engine.ts'
import {
  answerStalledMs,
  connectionsMax as connectionsMaxDefault,
  headerBytesMax,
  headerLinesMax,
  headersTimeoutMs,
  keepAliveTimeoutMs,
  requestTimeoutMs,
} from '../model/limits.ts'
import { problem, type Problem } from '../model/problem.ts'
import { answerError, sendProblem } from './answers.ts'
import { answerPreflight, corsHeaders } from './cors.ts'
import { Exchange, type Edge, type Metrics, type Params } from './exchange.ts'
import { guardConnections } from './connections.ts'
import { isTwice } from './fieldlines.ts'
import { refuseConnect, refuseMalformed } from './malformed.ts'
import { isPath, paths, type Path } from './routes.ts'

export interface HttpOptions {
  /** Gets one line for each request, and what went wrong. None: nothing is logged, and nothing is spent on it. */
  readonly logger?: Log
  /** What `/metrics` shows. None: it is 404. */
  readonly metrics?: Metrics | null
  /** Origins of browser pages that may call (H2); `*` is any. None unless given. */
  readonly allowedOrigins?: readonly string[]
  /** The address under which clients know the server, for absolute links; unless given, the one it listens on. */
  readonly origin?: string
  /** Most connections open at once; one more is closed unanswered. */
  readonly connectionsMax?: number
  /** Addresses and CIDR ranges of proxies whose `X-Forwarded-For` is believed; none unless given. */
  readonly trustedProxies?: readonly string[]
}

/** The HTTP interface of an engine (§3). */
export interface Http {
  /** Begins to listen; gives the address: `http://127.0.0.1:4000`. Rejects with Node's error (`EADDRINUSE` …). */
  listen(at: { readonly host: string; readonly port: number }): Promise<string>
  /** From now on new requests, and those whose body is not whole yet, are told 503 `shutting-down`. */
  refuseNew(): void
  /**
   * Stops gracefully: refuses what is new, and ends once all that was accepted is answered, which is the engine's to see to.
   * Resolves when every connection is closed, which happens after `graceMs` in any case. May be called again, to bound it
   * anew.
   */
  close(graceMs?: number): Promise<void>
}

/** How long answers may take to reach their clients once all have been given, in milliseconds, before a stop cuts them. */
const lingerMs = 1_000

/** Bytes ↔ Calls and Answers: the HTTP interface of an engine. */
export function createHttp(engine: Engine, options: HttpOptions = {}): Http {
  const { logger = null, metrics = null, allowedOrigins = [], origin, trustedProxies = [] } = options
  const { connectionsMax = connectionsMaxDefault } = options
  const edge: Edge = {
    engine,
    log: logger,
    metrics,
    allowedOrigins: new Set(allowedOrigins),
    origin: origin ?? 'http://127.0.0.1',
    stopping: false,
    connectionsMax,
    streams: new Set(),
    open: new Set(),
    onQuiet: () => {},
  }
  const requestId = requestIds(engine)
  const app = framework(edge, requestId, trustedProxies)
  guardConnections(app.server, edge, connectionsMax)
  for (const path of paths) route(app, edge, path)
  route(app, edge, { path: '/*' })
  return {
    async listen(at) {
      const address = await app.listen({ ...at })
      if (origin === undefined) edge.origin = address
      return address
    },
    refuseNew: () => refuseNew(edge),
    close: closing(app, edge),
  }
}

function refuseNew(edge: Edge): void {
  edge.stopping = true
  for (const stream of edge.streams) stream.end('the server is shutting down')
  for (const { stopReading } of edge.open) stopReading?.(problem('shutting-down', 'The server is shutting down.'))
}

/**
 * New connections are refused at once. Those that are open stay so until all is answered, those on which nothing is asked
 * too: a request that is on its way on one of them is told why, not cut off.
 */
function closing(app: FastifyInstance, edge: Edge): Http['close'] {
  let ended: Promise<void> | undefined
  const quiet = new Promise<void>((resolve) => (edge.onQuiet = () => edge.stopping && resolve()))

  function end(): Promise<void> {
    ended ??= app.close()
    return ended
  }

  return async (graceMs) => {
    refuseNew(edge)
    // Not the HTTP server's own, which would close idle connections as well.
    NetServer.prototype.close.call(app.server)
    if (edge.open.size === 0) edge.onQuiet()
    const late = new Promise<'late'>((resolve) => {
      if (graceMs !== undefined) setTimeout(resolve, graceMs, 'late').unref()
    })
    const how = await Promise.race([quiet, late])
    // Connections on which nothing is asked, and clients that don't read, are not waited for.
    const cut = setTimeout(() => app.server.closeAllConnections(), how === 'late' ? 0 : lingerMs)
    await end()
    clearTimeout(cut)
  }
}

/** `req_` and a text that differs between runs of the server and between their requests. */
function requestIds(engine: Engine): () => string {
  const run = Buffer.from(engine.machine.randomBytes(6)).toString('hex')
  let count = 0
  return () => `req_${run}_${(count++).toString(36)}`
}

/**
 * Fastify finds the route and owns the server. Bodies and answers are ours: its parser would read a body before the door
 * has looked at the headers (R2), and would reset a connection whose body is still being sent.
 */
function framework(edge: Edge, requestId: () => string, trustedProxies: readonly string[]): FastifyInstance {
  const app = fastify({
    logger: false,
    genReqId: requestId,
    trustProxy: trustedProxies.length > 0 && [...trustedProxies],
    // Requests that come while it stops are told so as a problem.
    return503OnClosing: false,
    keepAliveTimeout: keepAliveTimeoutMs,
    requestTimeout: requestTimeoutMs,
    connectionTimeout: answerStalledMs,
    http: { maxHeaderSize: headerBytesMax, headersTimeout: headersTimeoutMs, requireHostHeader: false },
    exposeHeadRoutes: false,
    routerOptions: { maxParamLength: headerBytesMax, querystringParser: () => ({}) },
    // A path that is no percent-encoded UTF-8 is none of ours.
    frameworkErrors: (_error, request, reply) => serve(edge, { path: '*' }, '', request, reply),
    clientErrorHandler: (error, socket) => refuseMalformed(edge, requestId, error, socket),
    rewriteUrl: ({ url = '/' }) => (url.startsWith('/') ? url : originForm(url)),
  })
  app.server.on('checkContinue', (req: IncomingMessage, res: ServerResponse) => {
    waitingToContinue.add(req)
    app.server.emit('request', req, res)
  })
  app.server.on('connect', (_req: IncomingMessage, socket: Duplex) => refuseConnect(edge, requestId, socket))
  // An expectation that is not known may be ignored (RFC 9110, section 10.1.1).
  app.server.on('checkExpectation', (req: IncomingMessage, res: ServerResponse) => app.server.emit('request', req, res))
  // The framework knows few methods by itself; `CONNECT` is no method of a path.
  for (const method of METHODS) {
    if (method !== 'CONNECT' && !app.supportedMethods.includes(method)) app.addHttpMethod(method)
  }
  // Reached only by methods that Node has and the framework can't have.
  app.setNotFoundHandler((request, reply) => serve(edge, { path: '*' }, 'GET, HEAD, POST', request, reply))
  return app
}

/** Requests whose client waits for `100 Continue` before it sends the body. */
const waitingToContinue = new WeakSet<IncomingMessage>()

/** `http://host/path` as the target of a request means `/path` (RFC 9112, section 3.2.2). */
function originForm(url: string): string {
  return /^https?:\/\/[^/?#]*(\/.*)$/i.exec(url)?.[1] ?? '/'
}

/** Registers a path with every method: what it does not have is 405, before the token is looked at (R2). */
function route(app: FastifyInstance, edge: Edge, path: Path): void {
  const allowed = [path.get && 'GET, HEAD', path.post && 'POST'].filter((methods) => methods !== undefined).join(', ')
  app.route({
    method: app.supportedMethods,
    url: path.path,
    // The answer is given here: it is where no body has been read yet.
    onRequest: (request, reply) => serve(edge, path, allowed, request, reply),
    handler: () => undefined,
  })
}

/** Takes a request out of the framework's hands and answers it. */
function serve(edge: Edge, path: Path, allowed: string, request: FastifyRequest, reply: FastifyReply): void {
  reply.hijack()
  const { id: requestId, raw } = request
  const params = (request.params ?? {}) as Params
  const x = new Exchange(edge, raw, reply.raw, { requestId, route: path.path, params, peer: request })
  if (x.isTooLate) return x.cut()
  if (waitingToContinue.has(raw)) x.expectsContinue = true
  if (edge.allowedOrigins.size > 0) x.headers.push(...corsHeaders(edge, raw.headers.origin))
  try {
    const answered = handle(x, path, allowed)
    if (answered !== undefined) answered.catch((error: unknown) => void answerError(x, error))
  } catch (error) {
    void answerError(x, error)
  }
}

/** What whoever watches the process asks while it stops, too. */
const toldWhileStopping = new Set(['/healthz', '/readyz', '/metrics'])

function handle(x: Exchange, path: Path, allowed: string): void | Promise<void> {
  const { edge, req } = x
  const isRead = req.method === 'GET' || req.method === 'HEAD'
  if (edge.stopping && !toldWhileStopping.has(path.path)) {
    return sendProblem(x, problem('shutting-down', 'The server is shutting down.'))
  }
  const fault = faultOf(x)
  if (fault !== null) {
    // Whoever passed it on may see another end of this request than we do: nothing more is read from the connection.
    x.isLast()
    return sendProblem(x, fault)
  }
  if (x.isFlood) {
    return sendProblem(x, problem('busy', 'More requests were sent ahead on this connection than are begun at once.'))
  }
  if (allowed === '' || !isPath(edge, x.params)) {
    return sendProblem(x, problem('not-found', 'There is nothing at this path.'))
  }
  const handler = isRead ? path.get : req.method === 'POST' ? path.post : undefined
  if (handler !== undefined) return handler(x)
  if (answerPreflight(x, allowed)) return
  sendProblem(x, problem('method-not-allowed', `This path takes ${allowed}.`, {}, { Allow: allowed }))
}

/** What is wrong with a request that its parser lets pass: what two servers in a row could read in two ways. */
function faultOf({ req }: Exchange): Problem | null {
  const { httpVersion, rawHeaders, headers } = req
  const { host, 'transfer-encoding': encoding } = headers
  if (httpVersion !== '1.1' && httpVersion !== '1.0') return malformed('This server speaks HTTP/1.1 and HTTP/1.0.')
  if (httpVersion === '1.1' && host === undefined) return malformed('A request needs the header Host.')
  if (host !== undefined && isTwice(rawHeaders, 'host')) return malformed('A request has one header Host.')
  if (encoding !== undefined && (httpVersion === '1.0' || encoding.toLowerCase() !== 'chunked')) {
    return malformed('The only Transfer-Encoding is chunked, in HTTP/1.1.')
  }
  if (rawHeaders.length > headerLinesMax * 2) {
    return problem('headers-too-large', `A request has at most ${headerLinesMax} header lines.`)
  }
  return null
}

function malformed(detail: string): Problem {
  return problem('malformed-request', detail)
}
