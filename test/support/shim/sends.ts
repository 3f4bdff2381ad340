import type { DiskRecord } from './shim.ts'

/**
 * A whole HTTP message that a process sent: a server's answer, or a request of its own to another. Of one in chunks, which a
 * stream of Events is, each chunk counts as a message of its own.
 */
export interface SentMessage {
  /** Where the record ends that holds its first byte, or its chunk's: what the message tells must be on disk in a log cut there. */
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
  /** A message in chunks that has begun, and is not over. */
  chunked: Pick<SentMessage, 'line' | 'headers'> | null
}

/** Every whole message of a log, by position. */
export function sentMessages(records: readonly DiskRecord[]): SentMessage[] {
  const streams = new Map<string, Stream>()
  const found: SentMessage[] = []
  for (const record of records) {
    const handle = `${record.pid} ${record.fd}`
    if (record.kind === 'socket') streams.set(handle, { bytes: Buffer.alloc(0), parts: [], last: 0, chunked: null })
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
    if (stream.chunked !== null) {
      const chunk = takeChunk(stream, stream.chunked)
      if (chunk === null) return
      if (chunk.body === '') stream.chunked = null
      else yield chunk
      continue
    }
    const headEnd = stream.bytes.indexOf('\r\n\r\n')
    if (headEnd < 0) return
    const [line = '', ...fields] = stream.bytes.toString('latin1', 0, headEnd).split('\r\n')
    const headers: Record<string, string> = {}
    for (const field of fields) {
      const colon = field.indexOf(':')
      headers[field.slice(0, colon).toLowerCase()] = field.slice(colon + 1).trim()
    }
    const bodyAt = headEnd + 4
    if (headers['transfer-encoding'] !== undefined) {
      stream.chunked = { line, headers }
      drop(stream, bodyAt)
      continue
    }
    const end = bodyAt + Number(headers['content-length'] ?? 0)
    if (end > stream.bytes.length) return
    yield { position: positionOf(stream), line, headers, body: stream.bytes.toString('utf8', bodyAt, end) }
    drop(stream, end)
  }
}

/** Takes a whole chunk off the front of a stream; null while there is none. The last one of a message is empty. */
function takeChunk(stream: Stream, of: Pick<SentMessage, 'line' | 'headers'>): SentMessage | null {
  const sizeEnd = stream.bytes.indexOf('\r\n')
  const bytes = parseInt(stream.bytes.toString('latin1', 0, Math.max(0, sizeEnd)), 16)
  const end = sizeEnd + 2 + bytes
  if (sizeEnd < 0 || stream.bytes.length < end + 2) return null
  const chunk = { ...of, position: positionOf(stream), body: stream.bytes.toString('utf8', sizeEnd + 2, end) }
  drop(stream, end + 2)
  return chunk
}

/** The position of the record that holds the first byte of what is left. */
function positionOf({ parts }: Stream): number {
  return parts.findLast(({ from }) => from <= 0)?.position ?? 0
}

function drop(stream: Stream, bytes: number): void {
  stream.bytes = stream.bytes.subarray(bytes)
  stream.parts = stream.parts.map((part) => ({ ...part, from: part.from - bytes }))
  while (stream.parts.length > 1 && (stream.parts[1]?.from ?? 1) <= 0) stream.parts.shift()
}
