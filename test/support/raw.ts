import { connect } from 'node:net'
import type { Socket } from 'node:net'

/** An answer as it came over the wire. */
export interface RawResponse {
  readonly status: number
  /** Lower-case names; lines of one name joined with `, `. */
  readonly headers: Readonly<Record<string, string>>
  /** Every field line as it was sent. */
  readonly lines: readonly (readonly [name: string, value: string])[]
  readonly bytes: Buffer
  /** The body as UTF-8. */
  readonly body: string
  /** The body as JSON. Throws when it isn't. */
  json(): never
}

/** One TCP connection, and HTTP/1.1 by hand: for what fetch can't or won't say. */
export interface RawConnection {
  readonly socket: Socket
  /** Sends bytes as they are; a string as latin1, so that `\xff` is the byte FF. */
  send(bytes: string | Uint8Array): void
  /** The next answer on this connection, in order (so pipelining works). Throws when it ends before the answer is whole. */
  response(options?: { readonly head?: boolean; readonly timeoutMs?: number }): Promise<RawResponse>
  /** Resolves when the other side has closed: `reset` when it did so with a RST. */
  closed(timeoutMs?: number): Promise<'ended' | 'reset'>
  /** Says that nothing more is sent, and goes on reading. */
  finish(): void
  /** Cuts the connection. */
  destroy(): void
}

const timeoutMsDefault = 20_000

/** Connects to the server of a URL. */
export async function connectRaw(url: string): Promise<RawConnection> {
  const { hostname, port } = new URL(url)
  const socket = connect({
    host: hostname.replace(/^\[|\]$/g, ''),
    port: Number(port),
    noDelay: true,
    allowHalfOpen: true,
  })
  await new Promise<void>((resolve, reject) => {
    socket.once('connect', resolve)
    socket.once('error', reject)
  })
  let received = Buffer.alloc(0)
  let over: 'ended' | 'reset' | null = null
  let wake = (): void => {}
  socket.on('data', (chunk: Buffer) => {
    received = Buffer.concat([received, chunk])
    wake()
  })
  const finish = (how: 'ended' | 'reset') => () => {
    over ??= how
    wake()
  }
  socket.on('error', finish('reset'))
  socket.on('end', finish('ended'))
  socket.on('close', finish('ended'))

  /** Waits until `look` finds something in what came, or the connection is over. */
  async function until<T>(look: () => T | undefined, timeoutMs: number, what: string): Promise<T> {
    const deadline = Date.now() + timeoutMs
    for (;;) {
      const found = look()
      if (found !== undefined) return found
      if (over !== null && what !== 'the close') {
        throw new Error(
          `the connection ${over} before ${what} was whole: ${JSON.stringify(received.toString('latin1').slice(0, 500))}`,
        )
      }
      const leftMs = deadline - Date.now()
      if (leftMs <= 0) throw new Error(`waited ${timeoutMs} ms for ${what}`)
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, leftMs)
        wake = () => {
          clearTimeout(timer)
          resolve()
        }
      })
    }
  }

  async function response({ head = false, timeoutMs = timeoutMsDefault } = {}): Promise<RawResponse> {
    const parsed = await until(() => parseResponse(received, head, over !== null), timeoutMs, 'an answer')
    received = received.subarray(parsed.length)
    // 1xx are not the answer: the answer follows.
    return parsed.response.status < 200 ? response({ head, timeoutMs }) : parsed.response
  }

  return {
    socket,
    send: (bytes) => void socket.write(typeof bytes === 'string' ? Buffer.from(bytes, 'latin1') : bytes),
    response,
    closed: (timeoutMs = timeoutMsDefault) => until(() => over ?? undefined, timeoutMs, 'the close'),
    finish: () => void socket.end(),
    destroy: () => void socket.destroy(),
  }
}

/** Sends one request on a connection of its own and gives its answer. */
export async function rawRequest(
  url: string,
  bytes: string | Uint8Array | readonly (string | Uint8Array)[],
  options?: { readonly head?: boolean; readonly timeoutMs?: number },
): Promise<RawResponse> {
  const connection = await connectRaw(url)
  try {
    for (const part of Array.isArray(bytes)
      ? (bytes as readonly (string | Uint8Array)[])
      : [bytes as string | Uint8Array]) {
      connection.send(part)
    }
    return await connection.response(options)
  } finally {
    connection.destroy()
  }
}

/**
 * The bytes of a request. Field lines are written as given, in their order, twice when given twice; `Host` and, with a
 * body, `Content-Length` are added unless given. A string is latin1; a body may be bytes.
 */
export function rawMessage(
  method: string,
  path: string,
  lines: readonly (readonly [name: string, value: string])[] = [],
  body?: string | Uint8Array,
): Buffer {
  const bytes =
    body === undefined ? Buffer.alloc(0) : typeof body === 'string' ? Buffer.from(body, 'utf8') : Buffer.from(body)
  const has = (name: string): boolean => lines.some(([given]) => given.toLowerCase() === name)
  const all = [...lines]
  if (!has('host')) all.unshift(['Host', '127.0.0.1'])
  if (body !== undefined && !has('content-length') && !has('transfer-encoding')) {
    all.push(['Content-Length', String(bytes.length)])
  }
  const head = `${method} ${path} HTTP/1.1\r\n${all.map(([name, value]) => `${name}: ${value}\r\n`).join('')}\r\n`
  return Buffer.concat([Buffer.from(head, 'latin1'), bytes])
}

/** The answer at the start of what came, with its length in bytes; undefined while it is not whole. */
function parseResponse(
  bytes: Buffer,
  head: boolean,
  over: boolean,
): { response: RawResponse; length: number } | undefined {
  const headEnd = bytes.indexOf('\r\n\r\n')
  if (headEnd < 0) return undefined
  const [statusLine = '', ...fields] = bytes.subarray(0, headEnd).toString('latin1').split('\r\n')
  const status = Number(/^HTTP\/1\.[01] (\d{3})/.exec(statusLine)?.[1])
  if (!Number.isInteger(status)) throw new Error(`no HTTP answer: ${statusLine}`)
  const lines = fields.map((line) => {
    const colon = line.indexOf(':')
    return [line.slice(0, colon), line.slice(colon + 1).trim()] as const
  })
  const headers: Record<string, string> = {}
  for (const [name, value] of lines) {
    const lower = name.toLowerCase()
    headers[lower] = headers[lower] === undefined ? value : `${headers[lower]}, ${value}`
  }
  const rest = bytes.subarray(headEnd + 4)
  const found =
    head || status < 200 || status === 204 || status === 304
      ? { body: Buffer.alloc(0), length: 0 }
      : bodyOf(rest, headers, over)
  if (found === undefined) return undefined
  const body = found.body.toString('utf8')
  const response = { status, headers, lines, bytes: found.body, body, json: () => JSON.parse(body) as never }
  return { response, length: headEnd + 4 + found.length }
}

function bodyOf(
  rest: Buffer,
  headers: Readonly<Record<string, string>>,
  over: boolean,
): { body: Buffer; length: number } | undefined {
  if (headers['transfer-encoding']?.toLowerCase() === 'chunked') return chunkedBody(rest)
  const declared = headers['content-length']
  // Without either, the body ends with the connection.
  if (declared === undefined) return over ? { body: rest, length: rest.length } : undefined
  const length = Number(declared)
  return rest.length < length ? undefined : { body: Buffer.from(rest.subarray(0, length)), length }
}

function chunkedBody(rest: Buffer): { body: Buffer; length: number } | undefined {
  const chunks: Buffer[] = []
  let at = 0
  for (;;) {
    const lineEnd = rest.indexOf('\r\n', at)
    if (lineEnd < 0) return undefined
    const size = parseInt(rest.subarray(at, lineEnd).toString('latin1'), 16)
    const end = lineEnd + 2 + size
    if (rest.length < end + 2) return undefined
    chunks.push(rest.subarray(lineEnd + 2, end))
    at = end + 2
    if (size === 0) return { body: Buffer.concat(chunks), length: at }
  }
}
