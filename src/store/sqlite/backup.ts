import {
  closeSync,
  existsSync,
  fstatSync,
  fsyncSync,
  ftruncateSync,
  lstatSync,
  openSync,
  readSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
  writeSync,
} from 'node:fs'
import { basename, dirname, join, resolve } from 'node:path'
import { walBytes } from './checkpointer.ts'
import { Database } from './database.ts'
import { applicationId, openFile, pathOf, reason, StoreOpenError, takeOwnership } from './open.ts'

/** What is compared and written at once: few calls to the system, and little written for one page that differs. */
const runBytes = 256 * 2 ** 10

/** What SQLite keeps beside a database. One that is left of another file would be taken for the copy's own. */
const companions = ['-wal', '-shm', '-journal'] as const

/** Where a copy goes: its final path, and that under which it is made. */
export interface Destination {
  readonly given: string
  readonly path: string
  readonly partial: string
  readonly replace: boolean
}

/** What a copy took, in bytes. */
export interface Copied {
  readonly bytes: number
  /** What was not in the partial copy already. */
  readonly writtenBytes: number
  /** By how much the source's log had grown when the copy was done with it. */
  readonly logBytes: number
}

export type Progress = (doneBytes: number, totalBytes: number) => void

/**
 * Finds out whether a copy may go there, and throws a StoreOpenError if not; nothing was changed then. `mend` is what to do
 * about a file that is there already.
 */
export function destinationOf(given: string, source: string, replace: boolean, mend: string): Destination {
  const path = destinationPath(given)
  if (existsSync(path)) {
    if (path === pathOf(source, true)) throw new StoreOpenError(`${given} is the data file itself`)
    if (statSync(path).isDirectory()) throw new StoreOpenError(`${given} is a folder: give the path of a file in it`)
    if (!replace) throw new StoreOpenError(`${given} exists already: ${mend}`)
  }
  for (const companion of companions) {
    if (!existsSync(path + companion)) continue
    throw new StoreOpenError(
      `${given}${companion} lies there: ${given} is in use, or was not closed; move it away together with it first`,
    )
  }
  if (existsSync(path) && !isStore(path))
    throw new StoreOpenError(`${given} is no startup-builder store; it was left as it is`)
  return { given, path, partial: `${path}.partial`, replace }
}

/** Links resolved, so that the copy is made on the disk on which it will lie. */
function destinationPath(given: string): string {
  const path = resolve(given)
  if (existsSync(path)) return realpathSync(path)
  if (lstatSync(path, { throwIfNoEntry: false }) !== undefined)
    throw new StoreOpenError(`${given} is a link to nothing`)
  // Made for nobody: a mistyped path, or a disk that isn't mounted, would fill the wrong one.
  if (!existsSync(dirname(path))) throw new StoreOpenError(`there is no folder ${dirname(path)}`)
  return join(realpathSync(dirname(path)), basename(path))
}

/** By its header: opening it would touch it. */
function isStore(path: string): boolean {
  const fd = openSync(path, 'r')
  try {
    const header = Buffer.alloc(72)
    readSync(fd, header, 0, 72, 0)
    return header.toString('latin1', 0, 16) === 'SQLite format 3\0' && header.readUInt32BE(68) === applicationId
  } finally {
    closeSync(fd)
  }
}

/** Nobody else makes the same copy meanwhile. Ends with the process, or when what it gives is called. */
export async function takeDestination({ given, partial }: Destination): Promise<() => void> {
  let lock: Database
  try {
    lock = await takeOwnership(given, partial)
  } catch (error) {
    if (!(error instanceof StoreOpenError)) throw error
    const why = error.message.includes('in use') ? `another backup to ${given} is running` : error.message
    throw new StoreOpenError(why, { cause: error })
  }
  return () => {
    rmSync(`${partial}-lock`, { force: true })
    lock.close()
  }
}

/** No server begins on the path meanwhile (V4). Ends with the process, or when what it gives is called. */
export async function ownDestination({ given, path }: Destination): Promise<() => void> {
  const lock = await takeOwnership(given, path)
  return () => lock.close()
}

/**
 * Makes the partial copy equal to the store as it is now, or a moment later, while a server writes to it. Only what differs
 * is written, so one that was cut off goes on. Never in a process that serves the store: closing a descriptor of the
 * database file ends the locks that this process has on it.
 *
 * Why the copy is whole: a read transaction is held on the source. While it lasts,
 *
 * - the database file changes only by what the log held when the transaction began (a checkpoint stops at the oldest
 *   reader), so a page that was read before, or while, it changed is in the log that is copied after it;
 * - the log does not begin anew, with one exception: all of it was in the database already when the transaction began. Then
 *   nothing is copied into the database meanwhile, and a log that begins anew during its copy shows by its header, and
 *   is copied again.
 *
 * The end of the log may be a transaction of which not all was written yet; SQLite drops that by its checksums.
 */
export async function copyStore(source: string, to: Destination, progress: Progress): Promise<Copied> {
  const path = pathOf(source, true)
  if (statSync(path).size === 0 && !existsSync(`${path}-wal`)) throw new StoreOpenError(`${source} is empty: no store`)
  const db = await openFile(source, path, 'admin')
  const fds: number[] = []
  try {
    const from = openedFile(fds, path, 'r')
    // What an earlier attempt made of its log belongs to pages that are about to change.
    for (const companion of companions) rmSync(to.partial + companion, { force: true })
    const into = openedFile(fds, to.partial, existsSync(to.partial) ? 'r+' : 'w+', fstatSync(from).mode & 0o777)
    // The bulk first, without holding the log up; torn or old pages are made good by the second round, which only compares.
    const bulk = copyDatabase(from, into, progress)
    db.control('BEGIN')
    db.get('SELECT count(*) FROM sqlite_schema')
    const rest = copyDatabase(from, into, progress)
    const log = openedFile(fds, `${path}-wal`, 'r')
    const copyOfLog = openedFile(fds, `${to.partial}-wal`, 'w', fstatSync(from).mode & 0o777)
    const logBytes = copyLog(log, copyOfLog)
    db.control('ROLLBACK')
    return { bytes: fstatSync(into).size, writtenBytes: bulk + rest + logBytes, logBytes }
  } catch (error) {
    throw asCopyError(to, error)
  } finally {
    // The connection first: see above.
    db.close()
    for (const fd of fds) closeSync(fd)
  }
}

function openedFile(fds: number[], path: string, flags: string, mode = 0o666): number {
  const fd = openSync(path, flags, mode)
  fds.push(fd)
  return fd
}

/** Writes what differs; gives how much that was. */
function copyDatabase(from: number, into: number, progress: Progress): number {
  const theirs = Buffer.allocUnsafe(runBytes)
  const ours = Buffer.allocUnsafe(runBytes)
  let written = 0
  let at = 0
  for (;;) {
    const run = theirs.subarray(0, readWhole(from, theirs, at))
    if (run.length === 0) break
    if (!run.equals(ours.subarray(0, readWhole(into, ours.subarray(0, run.length), at)))) {
      writeWhole(into, run, at)
      written += run.length
    }
    at += run.length
    progress(at, Math.max(at, fstatSync(from).size))
  }
  ftruncateSync(into, at)
  return written
}

/** Copies the log, again if it began anew meanwhile; gives its length. */
function copyLog(from: number, into: number): number {
  const buffer = Buffer.allocUnsafe(runBytes)
  for (;;) {
    const before = headerOf(from)
    const length = walBytes(from)
    let at = 0
    ftruncateSync(into, 0)
    while (at < length) {
      const run = buffer.subarray(0, readWhole(from, buffer.subarray(0, Math.min(runBytes, length - at)), at))
      if (run.length === 0) break
      writeWhole(into, run, at)
      at += run.length
    }
    if (headerOf(from).equals(before)) return at
  }
}

/** A log that has not begun has none. */
function headerOf(fd: number): Buffer {
  const header = Buffer.alloc(32)
  readSync(fd, header, 0, 32, 0)
  return header
}

function readWhole(fd: number, buffer: Buffer, at: number): number {
  let filled = 0
  while (filled < buffer.length) {
    const count = readSync(fd, buffer, filled, buffer.length - filled, at + filled)
    if (count === 0) break
    filled += count
  }
  return filled
}

function writeWhole(fd: number, bytes: Buffer, at: number): void {
  for (let done = 0; done < bytes.length;) done += writeSync(fd, bytes, done, bytes.length - done, at + done)
}

/** Brings the copied log into the copy, which is one file from here on; gives the last seq of each namespace. */
export function seal(to: Destination): ReadonlyMap<string, number> {
  const db = new Database(to.partial, 0)
  try {
    db.execute('PRAGMA synchronous = FULL')
    db.get('PRAGMA wal_checkpoint(TRUNCATE)')
    const rows = db.all<[string, number | null]>(
      'SELECT name, (SELECT max(seq) FROM actions a WHERE a.ns = n.ns AND seq IS NOT NULL) FROM namespaces n ORDER BY ns',
    )
    return new Map(rows.map(([name, seq]) => [name, seq ?? 0]))
  } catch (error) {
    throw asCopyError(to, error)
  } finally {
    db.close()
  }
}

/** Gives the finished copy its name, once all of it is on disk; gives its length in bytes. */
export function publish(to: Destination): number {
  try {
    const fd = openSync(to.partial, 'r+')
    const { size } = fstatSync(fd)
    fsyncSync(fd)
    closeSync(fd)
    if (!to.replace && existsSync(to.path)) throw new StoreOpenError(`${to.given} exists by now; it was left as it is`)
    renameSync(to.partial, to.path)
    const folder = openSync(dirname(to.path), 'r')
    fsyncSync(folder)
    closeSync(folder)
    return size
  } catch (error) {
    throw asCopyError(to, error)
  }
}

/** What the disk of the copy refuses, as one sentence. The source's errors are SQLite's, and stay what they are. */
function asCopyError(to: Destination, error: unknown): unknown {
  if (error instanceof StoreOpenError || !(error instanceof Error)) return error
  if (!('code' in error)) return error
  const isFull = error.code === 'ENOSPC' || error.code === 'EDQUOT' || ('errcode' in error && error.errcode === 13)
  const why = isFull ? 'the disk is full' : reason(error)
  return new StoreOpenError(`${to.given} can't be written: ${why}; what is copied stays, and is gone on with`, {
    cause: error,
  })
}
