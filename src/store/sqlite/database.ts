import { DatabaseSync, type SQLInputValue, type StatementSync } from 'node:sqlite'
import { StoreUnavailable } from '../store.ts'

/** What a column holds. Integers are read as numbers: none of ours is beyond 2^53. */
export type Value = null | number | string | Uint8Array

/**
 * One connection, with its statements prepared once. Rows come as arrays in the order of the SELECT. Parameters are plain
 * `?`: node:sqlite on Node 22 can't bind numbered ones by position.
 */
export class Database {
  readonly #sqlite: DatabaseSync
  readonly #statements = new Map<string, StatementSync>()
  /** Counts statements that wrote: a group that wrote nothing has nothing to sync. */
  writes = 0

  constructor(path: string, busyMs: number) {
    this.#sqlite = new DatabaseSync(path, { timeout: busyMs })
  }

  get<Row extends readonly unknown[]>(sql: string, ...values: Value[]): Row | undefined {
    return this.#statement(sql).get(...(values as SQLInputValue[])) as unknown as Row | undefined
  }

  all<Row extends readonly unknown[]>(sql: string, ...values: Value[]): Row[] {
    return this.#statement(sql).all(...(values as SQLInputValue[])) as unknown as Row[]
  }

  /** Rows one by one. The statement stays open meanwhile, so never on the serving connection outside a transaction. */
  *each<Row extends readonly unknown[]>(sql: string, ...values: Value[]): Generator<Row, void, undefined> {
    const statement = this.#sqlite.prepare(sql)
    statement.setReturnArrays(true)
    for (const row of statement.iterate(...(values as SQLInputValue[]))) yield row as unknown as Row
  }

  /** Writes; gives how many rows changed. */
  run(sql: string, ...values: Value[]): number {
    this.writes++
    return Number(this.#statement(sql).run(...(values as SQLInputValue[])).changes)
  }

  /** A transaction's bounds. */
  control(sql: 'BEGIN' | 'BEGIN IMMEDIATE' | 'COMMIT' | 'ROLLBACK'): void {
    this.#statement(sql).run()
  }

  /** Several statements as they are: pragmas and migrations. */
  execute(sql: string): void {
    this.#sqlite.exec(sql)
  }

  get inTransaction(): boolean {
    return this.#sqlite.isTransaction
  }

  close(): void {
    this.#statements.clear()
    this.#sqlite.close()
  }

  #statement(sql: string): StatementSync {
    const known = this.#statements.get(sql)
    if (known !== undefined) return known
    const statement = this.#sqlite.prepare(sql)
    statement.setReturnArrays(true)
    this.#statements.set(sql, statement)
    return statement
  }
}

/** SQLite's result codes, as far as somebody here reacts to one. */
const codes = {
  busy: 5,
  locked: 6,
  noMemory: 7,
  readOnly: 8,
  io: 10,
  corrupt: 11,
  full: 13,
  cantOpen: 14,
  notADatabase: 26,
}
const ioFsync = 1034
const ioDirectoryFsync = 1290

/** SQLite's extended result code of an error, or null when it is no error of SQLite's. */
export function sqliteCode(error: unknown): number | null {
  if (!(error instanceof Error) || !('errcode' in error)) return null
  return typeof error.errcode === 'number' ? error.errcode : null
}

function primaryCode(error: unknown): number | null {
  const code = sqliteCode(error)
  return code === null ? null : code & 0xff
}

/** Another connection is writing right now. */
export function isBusy(error: unknown): boolean {
  const code = primaryCode(error)
  return code === codes.busy || code === codes.locked
}

/** The file is no database, or not a whole one. */
export function isDamaged(error: unknown): boolean {
  const code = primaryCode(error)
  return code === codes.corrupt || code === codes.notADatabase
}

/** After a failed fsync nobody knows what is on disk (R3). */
export function isFailedFsync(error: unknown): boolean {
  const code = sqliteCode(error)
  return code === ioFsync || code === ioDirectoryFsync
}

const unavailableCodes: ReadonlySet<number | null> = new Set(Object.values(codes))

/** An error as the seam tells it: what the disk refuses is `StoreUnavailable`; a fault of the code stays itself. */
export function seamError(error: unknown): unknown {
  if (!(error instanceof Error) || !unavailableCodes.has(primaryCode(error))) return error
  return new StoreUnavailable(`the store is unavailable: ${error.message}`, { cause: error })
}
