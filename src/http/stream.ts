import type { ServerResponse } from 'node:http'
import type { Batch, Following } from '../engine/streams.ts'
import { seqAfter } from '../engine/filters.ts'
import {
  heartbeatMs,
  heartbeatsUntakenMax,
  streamRetryMs,
  streamRetryMsMax,
  streamsPerWorkerShareMax,
  streamsShareMax,
} from '../model/limits.ts'
import { problem } from '../model/problem.ts'
import { parseAuthorization } from '../model/key.ts'
import { may, type Worker } from '../model/worker.ts'
import type { Exchange, OpenStream } from './exchange.ts'

/** Answers with the namespace's Events after a seq, as they come, until the client goes or may no longer follow (E1). */
export async function streamEvents(x: Exchange, worker: Worker, after: number): Promise<void> {
  if (!may(worker, 'events')) throw problem('forbidden', `${worker.name} has no grant events.`, { grant: 'events' })
  if (x.req.method === 'HEAD') {
    x.beginStream([...streamHeaders]).end()
    return
  }
  requirePlace(x, worker)
  const stream = new EventStream(x, worker, after)
  x.edge.streams.add(stream)
  try {
    await stream.begin()
  } catch (error) {
    stream.end('it could not begin')
    throw error
  }
}

/** Where a stream begins: after what its client saw last, which a client that comes back says in `Last-Event-ID` (E1). */
export function streamFrom(after: string | undefined, lastEventId: string | string[] | undefined): number {
  const from = seqAfter(after)
  return lastEventId === undefined ? from : seqAfter(String(lastEventId))
}

/**
 * Whether `Accept` gives a stream a higher weight than JSON, or names it with the same (RFC 9110, 12.5.1): of what fits, the
 * range that says most counts.
 */
export function prefersStream(accept: string | undefined): boolean {
  if (accept === undefined) return false
  const weights = new Map<string, number>()
  for (const range of accept.split(',')) {
    const [type = '', ...parameters] = range.split(';').map((part) => part.trim().toLowerCase())
    weights.set(type, weightOf(parameters))
  }
  const any = weights.get('*/*') ?? 0
  const named = weights.get('text/event-stream')
  const stream = named ?? weights.get('text/*') ?? any
  const json = weights.get('application/json') ?? weights.get('application/*') ?? any
  return stream > json || (named !== undefined && stream > 0 && stream === json)
}

function weightOf(parameters: readonly string[]): number {
  const q = parameters.find((parameter) => parameter.startsWith('q='))
  const weight = q === undefined ? 1 : Number(q.slice(2))
  return weight >= 0 && weight <= 1 ? weight : 0
}

/** `no-transform` and the last one keep proxies from holding back what should arrive now. */
const streamHeaders = [
  ...['Content-Type', 'text/event-stream; charset=utf-8'],
  ...['Cache-Control', 'no-store, no-transform'],
  ...['X-Accel-Buffering', 'no'],
]

/** A comment, which clients pass over: it shows them and the proxies between that the connection lives. */
const heartbeat = Buffer.from(':\n\n')

/** 503 `busy` when the server has as many streams as it may, 429 `too-many-streams` when the Worker has. */
function requirePlace({ edge }: Exchange, worker: Worker): void {
  if (edge.streams.size >= Math.floor(edge.connectionsMax * streamsShareMax)) {
    throw problem('busy', 'As many streams are open here as may be at once.')
  }
  let own = 0
  for (const stream of edge.streams) if (stream.worker.id === worker.id) own++
  if (own < Math.floor(edge.connectionsMax * streamsPerWorkerShareMax)) return
  throw problem('too-many-streams', `${worker.name} has ${own} streams open, as many as one Worker may.`)
}

/** That a token ended under a stream is no attempt of its client's: it is not counted against its address (§10). */
const nobody = { address: '' }

/** One reader of a namespace's Events. It keeps its position, and of the Events only what its connection has not taken. */
class EventStream implements OpenStream {
  readonly worker: Worker
  readonly #x: Exchange
  readonly #following: Following
  #after: number
  #res: ServerResponse | null = null
  #beat: NodeJS.Timeout | undefined
  /** The connection takes no more for now; nothing is written until it has taken what it has. */
  #isFull = false
  #isReading = false
  #isOver = false
  #beatsUntaken = 0

  constructor(x: Exchange, worker: Worker, after: number) {
    this.#x = x
    this.worker = worker
    this.#after = after
    this.#following = x.edge.engine.follow(worker.namespace, () => this.#go())
  }

  /** Answers, once it is known that the store can be read: what goes wrong before is told as a problem. */
  async begin(): Promise<void> {
    this.#isReading = true
    const first = await this.#following.after(this.#after)
    this.#isReading = false
    const { edge, res } = this.#x
    if (edge.stopping) throw problem('shutting-down', 'The server is shutting down.')
    if (res.destroyed || this.#x.ended) {
      this.#over('its client went before it began')
      return this.#x.cut()
    }
    this.#res = this.#x.beginStream([...streamHeaders])
    res.on('drain', () => this.#drained())
    res.once('close', () => this.#over('its client went'))
    // Written to while its client went: `close` follows.
    res.on('error', () => undefined)
    this.#beat = setInterval(() => this.#heartbeat(), heartbeatMs)
    this.#write(Buffer.from(`retry: ${this.#retryMs()}\n\n`))
    if (first !== null) this.#give(first)
    this.#go()
  }

  end(why: string): void {
    if (this.#isOver) return
    this.#over(why)
    this.#res?.end()
  }

  /** Gives what there is, as long as the connection takes it. */
  #go(): void {
    while (!this.#isFull && !this.#isReading && !this.#isOver && this.#res !== null) {
      let next: ReturnType<Following['after']>
      try {
        next = this.#following.after(this.#after)
      } catch (error) {
        return this.#fail(error)
      }
      if (next === null) return
      if (next instanceof Promise) return this.#giveLater(next)
      this.#give(next)
    }
  }

  #giveLater(reading: Promise<Batch | null>): void {
    this.#isReading = true
    reading.then(
      (batch) => {
        this.#isReading = false
        if (batch === null) return
        this.#give(batch)
        this.#go()
      },
      (error: unknown) => this.#fail(error),
    )
  }

  #give(batch: Batch): void {
    if (this.#isOver || !this.#mayGoOn()) return
    const last = batch.at(-1)
    if (last !== undefined) this.#after = last.seq
    this.#write(bytesOf(batch))
  }

  #write(bytes: Buffer): void {
    if (this.#res?.write(bytes) === false) this.#isFull = true
  }

  #drained(): void {
    this.#isFull = false
    this.#beatsUntaken = 0
    this.#go()
  }

  #heartbeat(): void {
    if (!this.#mayGoOn()) return
    if (!this.#isFull) {
      this.#write(heartbeat)
      return
    }
    this.#beatsUntaken++
    if (this.#beatsUntaken < heartbeatsUntakenMax) return
    this.#over('its client took nothing for too long')
    this.#x.req.socket.destroy()
  }

  /** Whether the token still lets its Worker follow (H1): asked anew before anything is shown, so that a revocation ends it. */
  #mayGoOn(): boolean {
    try {
      const token = parseAuthorization(this.#x.req.headers.authorization)
      const worker = this.#x.edge.engine.enter(token, this.worker.namespace, nobody)
      if (worker instanceof Promise)
        worker.then((found) => this.#mustFollow(found)).catch((error: unknown) => this.#fail(error))
      else this.#mustFollow(worker)
    } catch (error) {
      this.#fail(error)
    }
    return !this.#isOver
  }

  #mustFollow(worker: Worker): void {
    if (!may(worker, 'events')) this.end('its Worker may no longer follow')
  }

  /** Its token is revoked, or the store can't be read: the client comes back and is told so, or goes on where it was. */
  #fail(error: unknown): void {
    this.end(error instanceof Error ? error.message : 'a fault')
  }

  #over(why: string): void {
    if (this.#isOver) return
    this.#isOver = true
    clearInterval(this.#beat)
    this.#following.stop()
    const { edge, requestId } = this.#x
    edge.streams.delete(this)
    edge.log?.info({ requestId, worker: this.worker.name, after: this.#after, why }, 'stream ended')
  }

  /** Differs between clients, so that they don't all come back in one moment when a server starts again. */
  #retryMs(): number {
    const [high = 0, low = 0] = this.#x.edge.engine.machine.randomBytes(2)
    return Math.round(streamRetryMs + ((high * 256 + low) / 65_536) * (streamRetryMsMax - streamRetryMs))
  }
}

/** A batch's bytes, made once for all its readers. They go when the batch goes. */
const bytes = new WeakMap<Batch, Buffer>()

/**
 * Events as server-sent events (WHATWG HTML, 9.2). They have no `event:`, so that a client gets every type by listening to
 * `message`, those too that a later definition adds; the type is in the data. JSON has no line breaks of its own.
 */
function bytesOf(batch: Batch): Buffer {
  let made = bytes.get(batch)
  if (made === undefined) {
    made = Buffer.from(batch.map(({ seq, json }) => `id: ${seq}\ndata: ${json}\n\n`).join(''))
    bytes.set(batch, made)
  }
  return made
}
