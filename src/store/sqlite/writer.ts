import type { CommitFacts, Notice } from '../store.ts'
import { StoreUnavailable } from '../store.ts'
import { isBusy, isFailedFsync, seamError } from './database.ts'
import type { LogSync } from './logsync.ts'
import { Tx, Undo, type Open } from './tx.ts'

/** Operations of one transaction: what waits longer than this many does not hold up the event loop all at once. */
const groupMax = 256

/** How long another process may be writing before the store counts as unavailable. */
const busyMs = 5000
const busyPauseMs = 2

interface Operation {
  readonly run: (tx: Tx) => unknown
  readonly resolve: (answer: never) => void
  readonly reject: (error: unknown) => void
  /** A transaction of its own: it may be long, or undone. */
  readonly alone: boolean
}

/** What became of an operation, to be told once its commit is on disk. */
interface Finished {
  readonly tell: () => void
}

export interface WriterOptions {
  /** Makes the log durable. Null: every COMMIT syncs by itself. */
  readonly sync: LogSync | null
  readonly onDoubt: (reason: Error) => void
  /** After a group is on disk. */
  readonly onSynced: (notices: readonly Notice[]) => void
  readonly onCommit?: ((commit: CommitFacts) => void) | undefined
}

/**
 * The one queue of writes. What waits at a turn of the event loop is one transaction; nobody waits for company, and what
 * arrives while the log is synced is the next. The promises of a group settle after the fdatasync that began after its
 * COMMIT (R3). No commit happens while one is synced, so one sync covers all that anybody can have read.
 */
export class Writer {
  readonly #open: Open
  readonly #options: WriterOptions
  #queue: Operation[] = []
  #isScheduled = false
  #syncing: Promise<void> | null = null
  #pauses = 0
  #busySince: number | null = null
  /** A commit is in doubt: nothing is told to anybody any more. */
  #isInDoubt = false
  #isClosed = false

  constructor(open: Open, options: WriterOptions) {
    this.#open = open
    this.#options = options
  }

  /** Runs an operation in the next group; what it answers is on disk when the promise resolves. */
  submit<Answer>(run: (tx: Tx) => Answer, alone = false): Promise<Answer> {
    if (this.#isClosed) return Promise.reject(new StoreUnavailable('the store is closed'))
    return new Promise<Answer>((resolve, reject) => {
      this.#queue.push({ run, resolve, reject, alone })
      this.#schedule()
    })
  }

  /** Resolves when all that can be read now is on disk; undefined when it is. */
  durable(): Promise<void> | undefined {
    return this.#syncing ?? undefined
  }

  /** Holds the queue back while `work` runs; the event loop stays free. */
  async pausedFor(work: () => Promise<void>): Promise<void> {
    this.#pauses++
    try {
      while (this.#syncing !== null) await this.#syncing
      await work()
    } finally {
      this.#pauses--
      this.#schedule()
    }
  }

  /** Takes nothing more; resolves when all that was taken is done. */
  async close(): Promise<void> {
    this.#isClosed = true
    while (!this.#isInDoubt && (this.#queue.length > 0 || this.#syncing !== null)) {
      if (this.#syncing !== null) await this.#syncing
      else await new Promise((resolve) => setImmediate(resolve))
    }
  }

  #schedule(): void {
    if (this.#isScheduled || this.#syncing !== null || this.#pauses > 0 || this.#isInDoubt) return
    if (this.#queue.length === 0) return
    this.#isScheduled = true
    setImmediate(() => this.#turn())
  }

  #turn(): void {
    this.#isScheduled = false
    if (this.#syncing !== null || this.#pauses > 0 || this.#isInDoubt || this.#queue.length === 0) return
    if (!this.#begin()) return
    const group = this.#take()
    const writesBefore = this.#open.db.writes
    const finished: Finished[] = []
    const notices: Notice[] = []
    this.#runTogether(group, finished, notices)
    if (this.#isInDoubt) return
    const tell = (syncMs: number | null) => {
      for (const one of finished) one.tell()
      if (syncMs !== null) this.#options.onCommit?.({ operations: group.length, syncMs })
      this.#options.onSynced(notices)
      this.#schedule()
    }
    const { sync } = this.#options
    if (sync === null || this.#open.db.writes === writesBefore) tell(null)
    else if (group.length === 1 && this.#queue.length === 0 && sync.isQuick) this.#syncAtOnce(sync, tell)
    else this.#sync(sync, tell)
  }

  /** Begins a transaction; when another process is writing, tries again in a moment instead of blocking the event loop. */
  #begin(): boolean {
    try {
      this.#open.db.control('BEGIN IMMEDIATE')
      this.#busySince = null
      return true
    } catch (error) {
      const now = performance.now()
      this.#busySince ??= now
      if (isBusy(error) && now - this.#busySince < busyMs) {
        this.#isScheduled = true
        setTimeout(() => this.#turn(), busyPauseMs)
        return false
      }
      this.#busySince = null
      for (const { reject } of this.#queue.splice(0)) reject(seamError(error))
      return false
    }
  }

  #take(): Operation[] {
    const first = this.#queue.findIndex(({ alone }) => alone)
    if (first === 0) return this.#queue.splice(0, 1)
    return this.#queue.splice(0, Math.min(groupMax, first === -1 ? groupMax : first))
  }

  /** One transaction for all. When one of them fails it is undone, and each runs in a transaction of its own. */
  #runTogether(group: readonly Operation[], finished: Finished[], notices: Notice[]): void {
    const tx = new Tx(this.#open)
    try {
      const answers = group.map(({ run }) => run(tx))
      this.#commit(tx, notices)
      group.forEach(({ resolve }, i) => finished.push({ tell: () => resolve(answers[i] as never) }))
    } catch (error) {
      if (!this.#rollback(error)) return
      const [only] = group
      if (only !== undefined && group.length === 1) finished.push(afterUndo(only, error))
      else for (const operation of group) this.#runAlone(operation, finished, notices)
    }
  }

  #runAlone(operation: Operation, finished: Finished[], notices: Notice[]): void {
    if (this.#isInDoubt) return
    try {
      this.#open.db.control('BEGIN IMMEDIATE')
      const tx = new Tx(this.#open)
      const answer = operation.run(tx)
      this.#commit(tx, notices)
      finished.push({ tell: () => operation.resolve(answer as never) })
    } catch (error) {
      if (this.#rollback(error)) finished.push(afterUndo(operation, error))
    }
  }

  #commit(tx: Tx, notices: Notice[]): void {
    tx.finish()
    this.#open.db.control('COMMIT')
    tx.apply()
    notices.push(...tx.notices)
  }

  /** Undoes a transaction; false when its outcome is in doubt. SQLite may have undone it by itself. */
  #rollback(cause: unknown): boolean {
    try {
      if (this.#open.db.inTransaction) this.#open.db.control('ROLLBACK')
    } catch (error) {
      this.#doubt(error)
      return false
    }
    // Numbers given within it may be given again, to other names.
    this.#open.names.forget()
    if (!isFailedFsync(cause)) return true
    this.#doubt(cause)
    return false
  }

  /** Nothing else runs between the COMMIT and this sync, so nobody sees what it has not put on disk (R3). */
  #syncAtOnce(sync: LogSync, tell: (syncMs: number) => void): void {
    let ms: number
    try {
      ms = sync.atOnce()
    } catch (error) {
      this.#doubt(error)
      return
    }
    tell(ms)
  }

  #sync(sync: LogSync, tell: (syncMs: number) => void): void {
    this.#syncing = new Promise<void>((resolve) => {
      sync.meanwhile((error, ms) => {
        // What the failed sync did not write the kernel has forgotten: a second one would answer for nothing (R3).
        if (error !== null) {
          this.#doubt(error)
          return
        }
        this.#syncing = null
        resolve()
        tell(ms)
      })
    })
  }

  #doubt(cause: unknown): void {
    if (this.#isInDoubt) return
    this.#isInDoubt = true
    this.#syncing ??= new Promise(() => undefined)
    this.#options.onDoubt(cause instanceof Error ? cause : new Error(String(cause)))
  }
}

function afterUndo(operation: Operation, error: unknown): Finished {
  if (error instanceof Undo) return { tell: () => operation.resolve(error.answer as never) }
  return { tell: () => operation.reject(seamError(error)) }
}
