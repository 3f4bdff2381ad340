import { request, type IncomingHttpHeaders, type IncomingMessage } from 'node:http'

/** An Event as a stream told it: the `id` field beside the Event of the `data` field. */
export interface Streamed {
  readonly id: string
  readonly name: string
  readonly event: {
    readonly id: string
    readonly seq: number
    readonly type: string
    readonly action: string
    readonly worker: string
    readonly data: unknown
  }
}

/** A client of a stream, as WHATWG HTML 9.2 has one: what is not ended by an empty line never happened. */
export interface StreamClient {
  readonly status: number
  readonly headers: IncomingHttpHeaders
  readonly events: readonly Streamed[]
  /** Comments so far: heartbeats. */
  readonly comments: number
  /** `retry` in milliseconds, if one came. */
  readonly retryMs: number | null
  /** All text of an answer that is no stream. */
  readonly text: string
  /** Resolves once there are this many Events; rejects when it ends before, or takes too long. */
  count(events: number, withinMs?: number): Promise<readonly Streamed[]>
  /** Resolves when the stream is over: `ended` by the server, or `cut`. */
  readonly over: Promise<'ended' | 'cut'>
  /** Takes nothing more from the connection, until it is told to. */
  pause(): void
  resume(): void
  cut(): void
}

export interface StreamOptions {
  readonly after?: number | string
  readonly lastEventId?: string
  readonly accept?: string
  readonly method?: string
  /** Cuts the connection when exactly this many bytes of the body have come. */
  readonly bytesMax?: number
}

/** Opens a stream, or gets what is answered instead. */
export async function openStream(
  server: { readonly url: string },
  namespace: string,
  token: string,
  { after, lastEventId, accept = 'text/event-stream', method = 'GET', bytesMax = Infinity }: StreamOptions = {},
): Promise<StreamClient> {
  const url = `${server.url}/${namespace}/events${after === undefined ? '' : `?after=${after}`}`
  const headers = {
    authorization: `Bearer ${token}`,
    accept,
    ...(lastEventId === undefined ? {} : { 'last-event-id': lastEventId }),
  }
  const response = await new Promise<IncomingMessage>((resolve, reject) => {
    const sent = request(url, { method, headers, agent: false }, resolve)
    sent.once('error', reject)
    sent.end()
  })
  return client(response, bytesMax)
}

function client(response: IncomingMessage, bytesMax: number): StreamClient {
  const events: Streamed[] = []
  const chunks: Buffer[] = []
  const isStream = response.headers['content-type']?.startsWith('text/event-stream') === true
  let [comments, retryMs, bytes, rest, hasEnded]: [number, number | null, number, Buffer, boolean] = [
    0,
    null,
    0,
    Buffer.alloc(0),
    false,
  ]
  let [id, name, data]: [string, string, string[]] = ['', 'message', []]
  let wake = (): void => {}

  function line(text: string): void {
    if (text === '') {
      if (data.length > 0) events.push({ id, name, event: JSON.parse(data.join('\n')) as Streamed['event'] })
      ;[name, data] = ['message', []]
      return
    }
    const colon = text.indexOf(':')
    const field = colon < 0 ? text : text.slice(0, colon)
    const value = colon < 0 ? '' : text.slice(colon + 1).replace(/^ /, '')
    if (field === '') comments++
    else if (field === 'id') id = value
    else if (field === 'event') name = value
    else if (field === 'data') data.push(value)
    else if (field === 'retry') retryMs = Number(value)
    else throw new Error(`no field of a stream: ${text}`)
  }

  response.on('data', (chunk: Buffer) => {
    const taken = chunk.subarray(0, bytesMax - bytes)
    bytes += taken.length
    if (!isStream) chunks.push(taken)
    else {
      rest = Buffer.concat([rest, taken])
      for (let end = rest.indexOf(10); end >= 0; end = rest.indexOf(10)) {
        line(rest.subarray(0, end).toString('utf8'))
        rest = rest.subarray(end + 1)
      }
    }
    if (bytes >= bytesMax) response.destroy()
    wake()
  })
  const over = new Promise<'ended' | 'cut'>((resolve) => {
    response.once('end', () => (hasEnded = true))
    // A connection that breaks is what is looked for.
    response.on('error', () => undefined)
    response.once('close', () => resolve(hasEnded ? 'ended' : 'cut'))
  })
  let isOver = false
  void over.then(() => {
    isOver = true
    wake()
  })

  return {
    status: response.statusCode ?? 0,
    headers: response.headers,
    events,
    get comments() {
      return comments
    },
    get retryMs() {
      return retryMs
    },
    get text() {
      return Buffer.concat(chunks).toString('utf8')
    },
    over,
    async count(wanted, withinMs = 20_000) {
      const deadline = Date.now() + withinMs
      while (events.length < wanted) {
        if (isOver) throw new Error(`the stream was over after ${events.length} of ${wanted} Events`)
        const leftMs = deadline - Date.now()
        if (leftMs <= 0) throw new Error(`${events.length} of ${wanted} Events after ${withinMs} ms`)
        await new Promise<void>((resolve) => {
          const timer = setTimeout(resolve, leftMs)
          wake = () => {
            clearTimeout(timer)
            resolve()
          }
        })
      }
      return events
    },
    pause: () => void response.pause(),
    resume: () => void response.resume(),
    cut: () => void response.destroy(),
  }
}
