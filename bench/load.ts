/**
 * The load, in a process of its own: keep-alive connections with one request in flight on each, the same for every
 * contestant. It takes one job at a time from its parent and answers with what it saw.
 */
import { connect } from 'node:net'
import { inputOf, keyOf, path } from './order.ts'

/** Which key each request carries; keys are numbers behind a prefix, and so are the inputs under them. */
export type Keys =
  /** Never sent before: `from` and on. */
  | { readonly kind: 'fresh'; readonly prefix: string; readonly from: number }
  /** Any of the first `count`, again and again. */
  | { readonly kind: 'any'; readonly prefix: string; readonly count: number }
  /** Each of the first `count` at most once, in random order. */
  | { readonly kind: 'once'; readonly prefix: string; readonly count: number; readonly seed: number }

export interface Job {
  readonly port: number
  readonly connections: number
  /** Requests before these seconds are over are not counted. */
  readonly warmSeconds: number
  readonly seconds: number
  /** Most requests, those of the warm-up among them. */
  readonly requestsMax: number
  readonly keys: Keys
  readonly token: string
  /** Sends another input than the first time under each key. */
  readonly changed: boolean
  readonly expect: { readonly status: number; readonly replayed: boolean }
}

/** What the load saw. Times in milliseconds. */
export interface Seen {
  readonly sent: number
  readonly counted: number
  readonly perSecond: number
  readonly p50: number
  readonly p99: number
  readonly max: number
  /** The longest time in which no connection got an answer. */
  readonly longestStall: number
  /** Which part of one core the load itself took. */
  readonly loadCpu: number
  /** An answer that was not the expected one, if there was any. */
  readonly wrong: string | null
}

class Load {
  readonly #job: Job
  readonly #next: () => number | null
  readonly #done: (seen: Seen) => void
  readonly #head: string
  readonly #latencies: number[] = []
  readonly #countFrom: number
  readonly #countTo: number
  readonly #cpu = process.cpuUsage()
  readonly #startedAt = performance.now()
  #open: number
  #sent = 0
  #lastAnswerAt = performance.now()
  #lastCountedAt = 0
  #longestStall = 0
  #wrong: string | null = null

  constructor(job: Job, done: (seen: Seen) => void) {
    this.#job = job
    this.#done = done
    this.#next = numbers(job.keys)
    this.#head =
      `POST ${path} HTTP/1.1\r\nHost: 127.0.0.1:${job.port}\r\nAuthorization: Bearer ${job.token}\r\n` +
      'Content-Type: application/json\r\nIdempotency-Key: '
    this.#countFrom = this.#startedAt + job.warmSeconds * 1000
    this.#countTo = this.#countFrom + job.seconds * 1000
    this.#open = job.connections
    for (let i = 0; i < job.connections; i++) this.#connect()
  }

  #connect(): void {
    let received = ''
    let sentAt = 0
    const send = (): void => {
      sentAt = performance.now()
      const request = sentAt < this.#countTo ? this.#request() : null
      if (request === null) socket.end()
      else socket.write(request, 'latin1')
    }
    const take = (bytes: number, buffer: Uint8Array): boolean => {
      received += Buffer.from(buffer.buffer, buffer.byteOffset, bytes).toString('latin1')
      if (!isWhole(received)) return true
      this.#answered(sentAt, received)
      received = ''
      send()
      return true
    }
    const socket = connect({
      host: '127.0.0.1',
      port: this.#job.port,
      noDelay: true,
      // Bytes as they come, without a stream's cost: the load should leave the machine to the contestant.
      onread: { buffer: Buffer.alloc(65_536), callback: take },
    })
    socket.on('connect', send)
    socket.on('error', (error) => (this.#wrong ??= error.message))
    socket.on('close', () => {
      if (received !== '') this.#wrong ??= 'a connection was closed in the middle of an answer'
      if (--this.#open === 0) this.#done(this.#seen())
    })
  }

  #request(): string | null {
    const n = this.#sent < this.#job.requestsMax ? this.#next() : null
    if (n === null) return null
    this.#sent++
    const body = inputOf(n, this.#job.changed)
    return `${this.#head}${keyOf(this.#job.keys.prefix, n)}\r\nContent-Length: ${body.length}\r\n\r\n${body}`
  }

  #answered(sentAt: number, answer: string): void {
    const now = performance.now()
    const { status, replayed } = this.#job.expect
    if (!answer.startsWith(`HTTP/1.1 ${status} `) || replayedHeader.test(answer) !== replayed) this.#wrong ??= answer
    if (sentAt >= this.#countFrom && now <= this.#countTo) {
      this.#latencies.push(now - sentAt)
      this.#longestStall = Math.max(this.#longestStall, now - this.#lastAnswerAt)
      this.#lastCountedAt = now
    }
    this.#lastAnswerAt = now
  }

  #seen(): Seen {
    const sorted = Float64Array.from(this.#latencies).sort()
    const at = (part: number): number => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))] ?? 0
    // Keys may run out before the time does.
    const seconds = (this.#lastCountedAt - this.#countFrom) / 1000
    const { user, system } = process.cpuUsage(this.#cpu)
    return {
      sent: this.#sent,
      counted: sorted.length,
      perSecond: sorted.length === 0 ? 0 : sorted.length / seconds,
      p50: at(0.5),
      p99: at(0.99),
      max: at(1),
      longestStall: this.#longestStall,
      loadCpu: (user + system) / 1000 / (performance.now() - this.#startedAt),
      wrong: this.#wrong,
    }
  }
}

const replayedHeader = /\r\nidempotent-replayed: true\r\n/i
const lengthHeader = /\r\ncontent-length: (\d+)\r\n/i

function isWhole(received: string): boolean {
  const headEnd = received.indexOf('\r\n\r\n')
  if (headEnd < 0) return false
  const length = lengthHeader.exec(received)?.[1]
  return length !== undefined && received.length >= headEnd + 4 + Number(length)
}

/** The numbers of the keys, one after another; null when there are no more. */
function numbers(keys: Keys): () => number | null {
  if (keys.kind === 'fresh') {
    let n = keys.from
    return () => n++
  }
  if (keys.kind === 'any') return () => Math.floor(Math.random() * keys.count)
  const order = shuffled(keys.count, keys.seed)
  let i = 0
  return () => order[i++] ?? null
}

function shuffled(count: number, seed: number): Uint32Array {
  const order = Uint32Array.from({ length: count }, (_, n) => n)
  let state = seed >>> 0
  for (let i = count - 1; i > 0; i--) {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    const j = Math.floor((state / 2 ** 32) * (i + 1))
    const [a = 0, b = 0] = [order[i], order[j]]
    order[i] = b
    order[j] = a
  }
  return order
}

process.on('message', (job: Job) => {
  new Load(job, (seen) => process.send?.(seen))
})
