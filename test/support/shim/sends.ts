import type { DiskRecord } from './shim.ts'

/** A whole HTTP message that a process sent: a server's answer, or a request of its own to another. */
export interface SentMessage {
  /** Where the record ends that holds its first byte: what the message tells must be on disk in a log cut there. */
  readonly position: number
  /** Its first line: `HTTP/1.1 200 OK`, `POST /charges HTTP/1.1`. */
  readonly line: string
  /** By lower-case name. */
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
}

interface Stream {
  bytes: Buffer
  /** Of the records whose bytes are still in `bytes`: where each begins in it, and its position in the log. */
  parts: { from: number; readonly position: number }[]
  /** How many bytes the last send had: all of them unless `sent` says otherwise. */
  last: number
}

/** Every whole message of a log, by position. */
export function sentMessages(records: readonly DiskRecord[]): SentMessage[] {
  const streams = new Map<string, Stream>()
  const found: SentMessage[] = []
  for (const record of records) {
    const handle = `${record.pid} ${record.fd}`
    if (record.kind === 'socket') streams.set(handle, { bytes: Buffer.alloc(0), parts: [], last: 0 })
    const stream = streams.get(handle)
    if (stream === undefined) continue
    if (record.kind === 'send') {
      // What was sent before this is not cut short any more.
      found.push(...messages(stream))
      stream.parts.push({ from: stream.bytes.length, position: record.end })
      stream.bytes = Buffer.concat([stream.bytes, record.data])
      stream.last = record.data.length
    } else if (record.kind === 'sent') {
      stream.bytes = stream.bytes.subarray(0, stream.bytes.length - stream.last + record.at)
    } else if (record.kind === 'close') {
      streams.delete(handle)
      found.push(...messages(stream))
    }
  }
  for (const stream of streams.values()) found.push(...messages(stream))
  return found.sort((left, right) => left.position - right.position)
}

/** Takes the whole messages off the front of a stream. */
function* messages(stream: Stream): Generator<SentMessage> {
  for (;;) {
    const headEnd = stream.bytes.indexOf('\r\n\r\n')
    if (headEnd < 0) return
    const [line = '', ...fields] = stream.bytes.toString('latin1', 0, headEnd).split('\r\n')
    const headers: Record<string, string> = {}
    for (const field of fields) {
      const colon = field.indexOf(':')
      headers[field.slice(0, colon).toLowerCase()] = field.slice(colon + 1).trim()
    }
    const bodyAt = headEnd + 4
    if (headers['transfer-encoding'] !== undefined) throw new Error(`a chunked message is not read here: ${line}`)
    const end = bodyAt + Number(headers['content-length'] ?? 0)
    if (end > stream.bytes.length) return
    const position = stream.parts.findLast(({ from }) => from <= 0)?.position ?? 0
    yield { position, line, headers, body: stream.bytes.toString('utf8', bodyAt, end) }
    stream.bytes = stream.bytes.subarray(end)
    stream.parts = stream.parts.map((part) => ({ ...part, from: part.from - end }))
    while (stream.parts.length > 1 && (stream.parts[1]?.from ?? 1) <= 0) stream.parts.shift()
  }
}
