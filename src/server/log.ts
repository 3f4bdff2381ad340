import { writeSync } from 'node:fs'

/** Least important first. A log of one level has its lines and those of the levels after it; `silent` has none. */
export const logLevels = ['info', 'warn', 'error', 'silent'] as const
export type LogLevel = (typeof logLevels)[number]

/** Lines kept for one write before it is made at once: a burst must not grow without bound. */
const linesMax = 1000

/** How long a line waits for a reader of the log that is slower than the server, in milliseconds, before it is dropped. */
const slowReaderMs = 100

/** A log of JSON objects, one a line: `{"level":"info","time":"…","msg":"listening","url":"…"}`. */
export interface Log {
  info(facts: object, message: string): void
  warn(facts: object, message: string): void
  error(facts: object, message: string): void
  /** Writes what is waiting. Call it before the process ends. */
  flush(): void
}

/**
 * Makes a log that writes to a file descriptor (1 is standard output). The lines of one turn of the event loop go out in
 * one write, so that a log costs a system call a turn and not one a line.
 */
export function createLog(level: LogLevel, now: () => number, descriptor = 1): Log {
  const least = logLevels.indexOf(level)
  let lines: string[] = []
  let scheduled = false

  function flush(): void {
    scheduled = false
    if (lines.length === 0) return
    const text = lines.join('')
    lines = []
    writeWhole(descriptor, Buffer.from(text))
  }

  function line(of: LogLevel, facts: object, message: string): void {
    lines.push(toLine({ level: of, time: new Date(now()).toISOString(), msg: message }, facts))
    if (lines.length >= linesMax) return flush()
    if (scheduled) return
    scheduled = true
    setImmediate(flush)
  }

  const at = (of: LogLevel) =>
    logLevels.indexOf(of) < least ? () => {} : (facts: object, message: string) => line(of, facts, message)
  return { info: at('info'), warn: at('warn'), error: at('error'), flush }
}

/** A log that fails would take down what it is about: facts that are no JSON are left out. */
function toLine(head: object, facts: object): string {
  try {
    return `${JSON.stringify({ ...head, ...facts }, readable)}\n`
  } catch {
    return `${JSON.stringify({ ...head, facts: 'unreadable' })}\n`
  }
}

function readable(_name: string, value: unknown): unknown {
  if (value instanceof Error) return { name: value.name, message: value.message, stack: value.stack }
  return typeof value === 'bigint' ? String(value) : value
}

/** Writes bytes whole. A reader that is gone, or a full disk, takes nothing more: then they are dropped. */
function writeWhole(descriptor: number, bytes: Uint8Array): void {
  let left = bytes
  let waitedMs = 0
  while (left.length > 0) {
    try {
      left = left.subarray(writeSync(descriptor, left))
    } catch (error) {
      const full = error instanceof Error && 'code' in error && error.code === 'EAGAIN'
      if (!full || waitedMs >= slowReaderMs) return
      waitedMs += 1
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1)
    }
  }
}
