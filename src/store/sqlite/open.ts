import {
  accessSync,
  closeSync,
  constants,
  existsSync,
  fdatasyncSync,
  fsyncSync,
  mkdirSync,
  openSync,
  realpathSync,
  statSync,
} from 'node:fs'
import { basename, dirname, join, resolve } from 'node:path'
import { Database, isBusy, isDamaged } from './database.ts'
import { first } from './migrations/001-first.ts'
import { present } from './names.ts'

/** The store's file can't be opened: one sentence for people. Nothing was changed. */
export class StoreOpenError extends Error {
  override readonly name = 'StoreOpenError'
}

/** In the order in which they are applied: the file's version is how many it has seen. */
const migrations: readonly string[] = [first]

/** `sbst`: whose SQLite file this is. */
export const applicationId = 0x73627374

/** How long an owner, or a writer, is waited for. */
const patienceMs = 5000
const retryMs = 50

export type Role = 'server' | 'admin'

/** The file's own path, links resolved, so that one store has one lock; its folder is made if need be. */
export function pathOf(given: string, mustExist: boolean): string {
  const path = resolve(given)
  if (existsSync(path)) {
    const real = realpathSync(path)
    if (statSync(real).isDirectory()) throw new StoreOpenError(`${given} is a folder: give the path of a file in it`)
    return withWritableFolder(given, real)
  }
  if (mustExist) throw new StoreOpenError(`there is no store at ${given}`)
  try {
    makeFolder(dirname(path))
  } catch (error) {
    throw new StoreOpenError(`the folder of ${given} can't be made: ${reason(error)}`, { cause: error })
  }
  return withWritableFolder(given, join(realpathSync(dirname(path)), basename(path)))
}

/** With those above it. Node's own recursive form never returns where the system lets nobody make a folder, in /proc say. */
function makeFolder(path: string): void {
  if (existsSync(path) && statSync(path).isDirectory()) return
  makeFolder(dirname(path))
  mkdirSync(path)
}

function withWritableFolder(given: string, path: string): string {
  try {
    accessSync(dirname(path), constants.W_OK)
    if (existsSync(path)) accessSync(path, constants.R_OK | constants.W_OK)
  } catch (error) {
    throw new StoreOpenError(`${given} can't be written: ${reason(error)}`, { cause: error })
  }
  return path
}

/** Why the system refused something, in a few words. */
export function reason(error: unknown): string {
  const code = error instanceof Error && 'code' in error ? error.code : null
  if (code === 'EACCES' || code === 'EPERM') return 'permission denied'
  if (code === 'EROFS') return 'the file system is read-only'
  if (code === 'ENOTDIR' || code === 'EEXIST') return 'a part of the path is a file'
  return error instanceof Error ? error.message : String(error)
}

/**
 * The right to serve a store (V4): SQLite's exclusive lock, which the operating system holds, on a file beside it. It ends
 * with the process, however that ends; a file with a process id would outlive it.
 */
export async function takeOwnership(given: string, path: string): Promise<Database> {
  const lock = opened(given, () => new Database(`${path}-lock`, 0))
  for (let waitedMs = 0; ; waitedMs += retryMs) {
    try {
      lock.execute('PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = MEMORY; BEGIN EXCLUSIVE')
      return lock
    } catch (error) {
      if (!isBusy(error)) throw asOpenError(given, error)
      if (waitedMs >= patienceMs) {
        lock.close()
        throw new StoreOpenError(`the store ${given} is in use by another server`, { cause: error })
      }
    }
    await new Promise((resolve) => setTimeout(resolve, retryMs))
  }
}

/** Opens the file, brings it to the present version and asserts how durable it is. */
export async function openFile(given: string, path: string, role: Role): Promise<Database> {
  const db = opened(given, () => new Database(path, patienceMs))
  try {
    checkIdentity(given, db, role)
    await useWal(db)
    // Without an owner's fdatasync of its own, each COMMIT of an admin's command syncs by itself.
    db.execute(role === 'server' ? 'PRAGMA synchronous = NORMAL' : 'PRAGMA synchronous = FULL')
    db.execute('PRAGMA wal_autocheckpoint = 0; PRAGMA cache_size = -65536; PRAGMA cell_size_check = ON')
    migrate(given, db)
    assertPragma(db, 'PRAGMA journal_mode', 'wal')
    assertPragma(db, 'PRAGMA synchronous', role === 'server' ? 1 : 2)
    assertPragma(db, 'PRAGMA wal_autocheckpoint', 0)
    // From here on a writer in another process is waited for without blocking the event loop, see writer.ts.
    if (role === 'server') db.execute('PRAGMA busy_timeout = 0')
    return db
  } catch (error) {
    db.close()
    throw asOpenError(given, error)
  }
}

/** Whose file it is, before anything in it is touched. */
function checkIdentity(given: string, db: Database, role: Role): void {
  const [application] = present(db.get<[number]>('PRAGMA application_id'), 'application_id')
  const version = versionOf(db)
  const [tables] = present(db.get<[number]>('SELECT count(*) FROM sqlite_schema'), 'sqlite_schema')
  if (application !== applicationId && (application !== 0 || version !== 0 || tables !== 0)) {
    throw new StoreOpenError(`${given} is a SQLite database of something else; it was left as it is`)
  }
  if (version > migrations.length) {
    throw new StoreOpenError(
      `${given} was written by a newer version of startup-builder (format ${version}, this one knows ${migrations.length}); it was left as it is`,
    )
  }
  if (role === 'admin' && version > 0 && version < migrations.length) {
    throw new StoreOpenError(`${given} is of an older version: serve it once with this one first`)
  }
}

function versionOf(db: Database): number {
  return present(db.get<[number]>('PRAGMA user_version'), 'user_version')[0]
}

/** Changing the mode needs the file alone for a moment, and SQLite does not wait for that by itself. */
async function useWal(db: Database): Promise<void> {
  for (let waitedMs = 0; ; waitedMs += retryMs) {
    try {
      if (db.get<[string]>('PRAGMA journal_mode = WAL')?.[0] === 'wal') return
    } catch (error) {
      if (!isBusy(error)) throw error
    }
    if (waitedMs >= patienceMs) throw new StoreOpenError('the store stays locked by another process')
    await new Promise((resolve) => setTimeout(resolve, retryMs))
  }
}

function migrate(given: string, db: Database): void {
  if (versionOf(db) === migrations.length) return
  db.control('BEGIN IMMEDIATE')
  try {
    // Another process may have done it in the meantime.
    for (let version = versionOf(db); version < migrations.length; version++) {
      db.execute(present(migrations[version], `migration ${version + 1}`))
      db.execute(`PRAGMA application_id = ${applicationId}; PRAGMA user_version = ${version + 1}`)
    }
    db.control('COMMIT')
  } catch (error) {
    if (db.inTransaction) db.control('ROLLBACK')
    throw asOpenError(given, error)
  }
}

function assertPragma(db: Database, sql: string, expected: string | number): void {
  const value = db.get<[string | number]>(sql)?.[0]
  if (value !== expected)
    throw new StoreOpenError(`${sql} is ${value}, not ${expected}: the store would not be durable`)
}

function opened(given: string, open: () => Database): Database {
  try {
    return open()
  } catch (error) {
    throw asOpenError(given, error)
  }
}

function asOpenError(given: string, error: unknown): Error {
  if (error instanceof StoreOpenError) return error
  if (isDamaged(error)) {
    return new StoreOpenError(`${given} is no startup-builder store, or it is damaged; it was left as it is`, {
      cause: error,
    })
  }
  if (isBusy(error)) return new StoreOpenError(`the store ${given} stays locked by another process`, { cause: error })
  return new StoreOpenError(`${given} can't be opened: ${reason(error)}`, { cause: error })
}

/**
 * A descriptor of the log's file, to sync it by, and the assurance that all that is there now is on disk: what a process
 * that was killed had committed is visible again, and must not be shown before it is (R3).
 */
export function openLog(path: string): number {
  const walFd = openSync(`${path}-wal`, 'r+')
  fdatasyncSync(walFd)
  const folder = openSync(dirname(path), 'r')
  fsyncSync(folder)
  closeSync(folder)
  return walFd
}
