import { fstatSync, readSync } from 'node:fs'
import { isMainThread, parentPort, Worker, workerData } from 'node:worker_threads'
import { Database, isFailedFsync } from './database.ts'

/** The log is copied into the database once it is this long, and again for each step that it grows by. */
const copyBytes = 16 * 2 ** 20
const stepBytes = 8 * 2 ** 20
/** So long that writers wait a moment, so that it can begin anew. */
const pauseBytes = 64 * 2 ** 20
/** Groups between two looks at the log's length: a look asks the system, and 8 groups are a few megabytes at most. */
const groupsPerLook = 8

/** What the thread answers to a request to copy. */
type Copied =
  { readonly kind: 'copied' } | { readonly kind: 'failed'; readonly message: string; readonly isDoubt: boolean }

interface Told {
  readonly checkpoint: string
}

/**
 * Copies the log (WAL) into the database, in a thread with a connection of its own: on the serving thread it would stall
 * everybody for 60 to 200 ms.
 */
export class Checkpointer {
  readonly #path: string
  readonly #walFd: number
  readonly #pausedFor: (work: () => Promise<void>) => Promise<void>
  readonly #onDoubt: (reason: Error) => void
  #thread: Worker | null = null
  #running: Promise<void> | null = null
  #copiedBytes = 0
  #unseenGroups = 0
  #isClosed = false

  constructor(
    path: string,
    walFd: number,
    pausedFor: (work: () => Promise<void>) => Promise<void>,
    onDoubt: (reason: Error) => void,
  ) {
    this.#path = path
    this.#walFd = walFd
    this.#pausedFor = pausedFor
    this.#onDoubt = onDoubt
  }

  /** After a group is on disk: begins to copy when the log has grown enough. */
  look(): void {
    if (this.#running !== null || this.#isClosed || ++this.#unseenGroups < groupsPerLook) return
    this.#unseenGroups = 0
    const bytes = walBytes(this.#walFd)
    if (bytes < this.#copiedBytes) this.#copiedBytes = 0
    if (bytes < copyBytes || bytes - this.#copiedBytes < stepBytes) return
    this.#copiedBytes = bytes
    this.#running = this.#copy(bytes >= pauseBytes).finally(() => {
      this.#running = null
    })
  }

  /**
   * The log begins anew only when all of it is copied at the moment of a write. While writers go on appending it never is:
   * then they wait while the little that came during the long copy is copied too.
   */
  async #copy(withPause: boolean): Promise<void> {
    await this.#ask()
    if (withPause) await this.#pausedFor(() => this.#ask())
  }

  async #ask(): Promise<void> {
    const thread = (this.#thread ??= this.#begin())
    const copied = await new Promise<Copied>((resolve) => {
      const end = (answer: Copied) => {
        thread.off('message', onMessage).off('error', onError).off('exit', onExit)
        resolve(answer)
      }
      const onMessage = (answer: Copied) => end(answer)
      const onError = (error: unknown) => end({ kind: 'failed', message: String(error), isDoubt: false })
      const onExit = () => end({ kind: 'failed', message: 'the thread ended', isDoubt: false })
      thread.on('message', onMessage).on('error', onError).on('exit', onExit)
      thread.postMessage('copy')
    })
    // One that failed otherwise (a full disk) copied nothing and is tried again when the log has grown by a step.
    if (copied.kind === 'failed' && copied.isDoubt) this.#onDoubt(new Error(copied.message))
  }

  #begin(): Worker {
    // This very file, so that it is found both as source and as built.
    const told: Told = { checkpoint: this.#path }
    const thread = new Worker(new URL(import.meta.url), {
      workerData: told,
      execArgv: ['--disable-warning=ExperimentalWarning'],
    })
    thread
      .on('error', () => undefined)
      .on('exit', () => {
        if (this.#thread === thread) this.#thread = null
      })
    thread.unref()
    return thread
  }

  async close(): Promise<void> {
    this.#isClosed = true
    await this.#running
    const thread = this.#thread
    if (thread === null) return
    await new Promise<void>((resolve) => {
      thread.once('exit', () => resolve())
      thread.ref()
      thread.postMessage('close')
    })
  }
}

const headerBytes = 32
const frameHeaderBytes = 24

/**
 * How long the log is by its content: after it has begun anew its file keeps its length, and the frames of before have
 * another salt than the header. Frames with the header's salt come first, so their number is found by bisection.
 * Reading the log's file is safe: unlike those of the database and its index, no lock rests on it that a close would end.
 */
export function walBytes(walFd: number): number {
  const { size } = fstatSync(walFd)
  if (size < copyBytes) return size
  const header = Buffer.allocUnsafe(headerBytes)
  readSync(walFd, header, 0, headerBytes, 0)
  const frameBytes = frameHeaderBytes + header.readUInt32BE(8)
  const salt = Buffer.allocUnsafe(8)
  let low = 0
  let high = Math.floor((size - headerBytes) / frameBytes)
  while (low < high) {
    const middle = Math.floor((low + high) / 2)
    readSync(walFd, salt, 0, 8, headerBytes + middle * frameBytes + 8)
    if (salt.equals(header.subarray(16, 24))) low = middle + 1
    else high = middle
  }
  return headerBytes + low * frameBytes
}

/** The thread: copies when asked to. `synchronous` must not be off, or the log would begin anew before its copy is on disk. */
function serve({ checkpoint }: Told): void {
  const port = parentPort
  if (port === null) return
  const db = new Database(checkpoint, 5000)
  db.execute('PRAGMA synchronous = NORMAL')
  port.on('message', (message: 'copy' | 'close') => {
    if (message === 'close') {
      db.close()
      port.close()
      return
    }
    port.postMessage(copy(db))
  })
}

function copy(db: Database): Copied {
  try {
    db.get('PRAGMA wal_checkpoint(PASSIVE)')
    return { kind: 'copied' }
  } catch (error) {
    return {
      kind: 'failed',
      message: error instanceof Error ? error.message : String(error),
      isDoubt: isFailedFsync(error),
    }
  }
}

function isTold(data: unknown): data is Told {
  return typeof data === 'object' && data !== null && 'checkpoint' in data && typeof data.checkpoint === 'string'
}

if (!isMainThread && isTold(workerData)) serve(workerData)
