import { connect } from 'node:net'
import type { Sent } from './requests.ts'

/** What came back. */
export interface Got {
  readonly status: number
  /** The head as it came, for what must not be in it. */
  readonly head: string
  readonly headers: ReadonlyMap<string, string>
  readonly body: string
}

/** How long a request whose framing is broken waits for an answer before its side of the connection is closed, in ms. */
const patienceMs = 60

/**
 * Sends a request on a connection of its own. Gives its answer, whole, or the head alone of one that goes on; null when
 * the connection was closed without one. Throws when there is neither within a minute.
 */
export function exchange(url: string, { bytes, method, isBroken }: Sent): Promise<Got | null> {
  const { hostname, port } = new URL(url)
  return new Promise((resolve, reject) => {
    const socket = connect({ host: hostname, port: Number(port), noDelay: true, allowHalfOpen: true })
    let received = Buffer.alloc(0)
    const timer = setTimeout(() => reject(new Error('no answer within a minute')), 60_000)
    const patience = isBroken ? setTimeout(() => socket.end(), patienceMs) : undefined
    const finish = (got: Got | null) => {
      clearTimeout(timer)
      clearTimeout(patience)
      socket.destroy()
      resolve(got)
    }
    socket.on('data', (chunk: Buffer) => {
      received = Buffer.concat([received, chunk])
      const got = read(received, method === 'HEAD')
      if (got !== null) finish(got)
    })
    socket.on('error', () => finish(null))
    socket.on('end', () => finish(read(received, true)))
    socket.write(bytes)
  })
}

/** The first answer in what came, once it is whole. */
function read(received: Buffer, isHead: boolean): Got | null {
  const headEnd = received.indexOf('\r\n\r\n')
  if (headEnd < 0) return null
  const head = received.subarray(0, headEnd).toString('latin1')
  const [statusLine = '', ...lines] = head.split('\r\n')
  const status = Number(/^HTTP\/1\.1 (\d{3}) /.exec(statusLine)?.[1])
  const rest = received.subarray(headEnd + 4)
  if (status === 100) return read(rest, isHead)
  const headers = new Map(
    lines.map((line) => [line.slice(0, line.indexOf(':')).toLowerCase(), line.slice(line.indexOf(':') + 1).trim()]),
  )
  const length = headers.get('content-length')
  const isWhole = isHead || status === 204 || status === 304 || length === undefined || rest.length >= Number(length)
  return isWhole ? { status, head, headers, body: rest.toString('utf8') } : null
}
