import { once } from 'node:events'
import {
  createServer,
  request,
  type ClientRequest,
  type IncomingMessage,
  type Server,
  type ServerResponse,
} from 'node:http'
import type { AddressInfo } from 'node:net'
import { bodyBytesMax, headerBytesMax } from '../../model/limits.ts'
import { problem, toProblemJson, type ProblemCode } from '../../model/problem.ts'
import { machine } from '../../server/machine.ts'
import type { Gate } from './gate.ts'

/** A body up to here is kept until its request is answered, so that the next definition can be asked the same. */
const keptBytesMax = 2 * bodyBytesMax

/** An answer up to here is looked at to be shown. */
const shownBytesMax = 4 * bodyBytesMax

/** Between two parties that each keep connections of their own (RFC 9110, section 7.6.1). */
const hopByHop = new Set(['connection', 'keep-alive', 'proxy-connection', 'transfer-encoding', 'upgrade'])

/** A request and what was answered to it, to be shown. */
export interface Passed {
  readonly method: string
  readonly url: string
  readonly request: IncomingMessage['headers']
  readonly status: number
  readonly headers: IncomingMessage['headers']
  readonly body: string
  readonly ms: number
}

export interface FrontOptions {
  /** The addresses of those that serve. */
  readonly gate: Gate<string>
  readonly onPassed: (passed: Passed) => void
}

/**
 * What clients of `dev` are connected to: hands each request on to the definition that serves, byte for byte. While one
 * definition follows another, requests wait; none is refused, and none is sent twice unless it was told that nothing of it
 * is on record (R1).
 */
export class Front {
  readonly #server: Server
  readonly #options: FrontOptions
  #origin = ''

  constructor(options: FrontOptions) {
    this.#options = options
    const limits = { maxHeaderSize: 2 * headerBytesMax, requireHostHeader: false, requestTimeout: 0 }
    this.#server = createServer(limits, (req, res) => void this.#pass(req, res))
    this.#server.on('checkContinue', (req, res) => void this.#pass(req, res))
    this.#server.on('checkExpectation', (req, res) => void this.#pass(req, res))
    this.#server.on('clientError', (_error, socket) => {
      if (socket.writable) socket.end(`HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Length: 0\r\n\r\n`)
      else socket.destroy()
    })
  }

  /** Begins to listen; gives the address that clients use. Rejects with Node's error (`EADDRINUSE` …). */
  async listen(host: string, port: number): Promise<string> {
    this.#server.listen({ host, port })
    await once(this.#server, 'listening')
    const { address, port: got, family } = this.#server.address() as AddressInfo
    const named = ['0.0.0.0', '::'].includes(address) ? '127.0.0.1' : family === 'IPv6' ? `[${address}]` : address
    this.#origin = `http://${named}:${got}`
    return this.#origin
  }

  /** Takes no further connection; those on which nothing is asked are closed. */
  close(): void {
    this.#server.close()
    this.#server.closeIdleConnections()
  }

  async #pass(req: IncomingMessage, res: ServerResponse): Promise<void> {
    const startedAt = machine.now()
    const body = new KeptBody(req)
    res.on('error', () => {}) // its reader is gone
    for (;;) {
      const url = await this.#options.gate.pass()
      if (res.destroyed) return
      if (!body.isWhole) return void res.destroy()
      if (url === null) return this.#answer(req, res, 'no-definition', startedAt)
      const attempt = await ask(url, req, res, body)
      if (attempt === 'nothing-sent') {
        // It ended a moment ago, and its parent is about to notice.
        await new Promise((soon) => setTimeout(soon, 20))
      } else if (attempt === 'nothing-on-record') continue
      else if (attempt === 'unknown') return void res.destroy()
      else return this.#tell(req, attempt.answer, attempt.body, startedAt)
    }
  }

  #answer(req: IncomingMessage, res: ServerResponse, code: ProblemCode, startedAt: number): void {
    const told = problem(code, 'The definition has errors, which `startup-builder dev` shows. Mend it and save.')
    const body = JSON.stringify(toProblemJson(told, { origin: this.#origin, requestId: 'req_dev' }))
    const headers = { ...told.headers, 'content-type': 'application/problem+json; charset=utf-8', connection: 'close' }
    res.writeHead(told.status, { ...headers, 'content-length': Buffer.byteLength(body) }).end(body)
    req.resume()
    this.#tell(req, { statusCode: told.status, headers }, body, startedAt)
  }

  #tell(
    { method = '', url = '', headers: asked }: IncomingMessage,
    answer: Pick<IncomingMessage, 'statusCode' | 'headers'>,
    body: string,
    startedAt: number,
  ): void {
    const { statusCode: status = 0, headers } = answer
    this.#options.onPassed({ method, url, request: asked, status, headers, body, ms: machine.now() - startedAt })
  }
}

/** What came of asking a definition. */
type Attempt =
  { readonly answer: IncomingMessage; readonly body: string } | 'nothing-sent' | 'nothing-on-record' | 'unknown'

/** Asks one definition and, unless nothing is on record and another may be asked, hands its answer to the client. */
async function ask(url: string, req: IncomingMessage, res: ServerResponse, body: KeptBody): Promise<Attempt> {
  const { hostname, port } = new URL(url)
  const { method = 'GET', url: path = '/' } = req
  // A connection for each request: one that is kept may be closed by the other side just when it is used again.
  const asked = request({ hostname, port, method, path, headers: [...endToEnd(req), ...framing(req)], agent: false })
  asked.setNoDelay(true)
  asked.on('continue', () => res.writeContinue())
  const gone = (): void => void asked.destroy()
  res.once('close', gone)
  try {
    // Sends what stands before the body. Node would write the fields as UTF-8 by `flushHeaders`; they are bytes (K1).
    asked.write(Buffer.alloc(0))
    const stop = body.sendTo(asked)
    const answered = await answerOf(asked)
    if (typeof answered === 'string') {
      stop()
      return res.destroyed ? 'unknown' : answered
    }
    if (answered.statusCode === 503 && body.isWhole) {
      const text = await textOf(answered)
      if (text !== null && text.includes('"code":"shutting-down"')) {
        stop()
        return 'nothing-on-record'
      }
      writeHead(res, answered)
      res.end(text)
      return { answer: answered, body: text ?? '' }
    }
    const shown = await handOn(answered, res)
    stop()
    return { answer: answered, body: shown }
  } finally {
    res.off('close', gone)
  }
}

function answerOf(asked: ClientRequest): Promise<IncomingMessage | 'nothing-sent' | 'unknown'> {
  return new Promise((resolve) => {
    asked.once('response', resolve)
    asked.on('error', (error: NodeJS.ErrnoException) =>
      resolve(error.code === 'ECONNREFUSED' ? 'nothing-sent' : 'unknown'),
    )
    asked.once('close', () => resolve('unknown'))
  })
}

/** The answer as it comes; gives what is to be shown of it. A stream of events is handed on and never ends here. */
async function handOn(answer: IncomingMessage, res: ServerResponse): Promise<string> {
  writeHead(res, answer)
  res.flushHeaders()
  const isShown = /json/.test(answer.headers['content-type'] ?? '')
  const shown: Buffer[] = []
  let bytes = 0
  try {
    for await (const chunk of answer as AsyncIterable<Buffer>) {
      bytes += chunk.length
      if (isShown && bytes <= shownBytesMax) shown.push(chunk)
      if (!res.write(chunk)) await Promise.race([once(res, 'drain'), once(res, 'close')])
      if (res.destroyed) break
    }
    res.end()
  } catch {
    // It was cut off: so is what the client gets of it, that it can't be taken for whole.
    res.destroy()
  }
  return bytes <= shownBytesMax ? Buffer.concat(shown).toString('utf8') : ''
}

function writeHead(res: ServerResponse, answer: IncomingMessage): void {
  res.sendDate = false
  if (!res.headersSent) res.writeHead(answer.statusCode ?? 502, answer.statusMessage, endToEnd(answer))
}

async function textOf(answer: IncomingMessage): Promise<string | null> {
  const chunks: Buffer[] = []
  try {
    for await (const chunk of answer as AsyncIterable<Buffer>) chunks.push(chunk)
  } catch {
    return null
  }
  return Buffer.concat(chunks).toString('utf8')
}

/** Header fields as they came, each line by itself: two of one name must not become one (K1). */
function endToEnd({ rawHeaders }: IncomingMessage): string[] {
  const kept: string[] = []
  for (let at = 0; at + 1 < rawHeaders.length; at += 2) {
    const [name = '', value = ''] = rawHeaders.slice(at, at + 2)
    if (!hopByHop.has(name.toLowerCase())) kept.push(name, value)
  }
  return kept
}

/** How long the body is: told of a request that has none too, which would else be given an empty one. */
function framing({ headers }: IncomingMessage): string[] {
  if (headers['transfer-encoding'] !== undefined) return ['Transfer-Encoding', 'chunked']
  return headers['content-length'] === undefined ? ['Content-Length', '0'] : []
}

/** A request's body: handed on as it comes, and kept so that it can be handed on again. */
class KeptBody {
  readonly #req: IncomingMessage
  #kept: Buffer[] = []
  #bytes = 0
  #to: ClientRequest | null = null

  constructor(req: IncomingMessage) {
    this.#req = req
    req.on('error', () => this.#to?.destroy())
    req.on('data', (chunk: Buffer) => {
      this.#bytes += chunk.length
      if (this.#bytes <= keptBytesMax) this.#kept.push(chunk)
      else this.#kept = []
      const to = this.#to
      if (to === null || to.write(chunk)) return
      req.pause()
      to.once('drain', () => req.resume())
    })
    req.on('end', () => this.#to?.end())
    // What comes before there is anybody to hand it to stays where it is.
    req.pause()
  }

  /** Whether all of it that came so far could be handed on once more. */
  get isWhole(): boolean {
    return this.#bytes <= keptBytesMax
  }

  /** Hands on what is kept and what comes; gives what ends that. */
  sendTo(asked: ClientRequest): () => void {
    for (const chunk of this.#kept) asked.write(chunk)
    this.#to = asked
    if (this.#req.readableEnded) asked.end()
    else this.#req.resume()
    asked.on('error', () => {}) // told by its answer
    return () => {
      this.#to = null
      // What nobody reads any more must not keep its sender waiting (R2).
      if (!this.#req.readableEnded) this.#req.resume()
    }
  }
}
