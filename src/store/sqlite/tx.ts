import type { IdSource } from '../../model/ids.ts'
import type { Notice } from '../store.ts'
import type { Database } from './database.ts'
import type { KeyIndex } from './keys.ts'
import type { Names } from './names.ts'

/** An open store: its connection, and what is kept in memory beside the file. */
export interface Open {
  readonly db: Database
  readonly names: Names
  readonly keys: KeyIndex
  readonly ids: IdSource
  readonly now: () => number
  /** Counts the servers that ever opened this store: a run of an earlier one has crashed (V4). */
  readonly epoch: number
  readonly counts: Counts
}

/** What commits advance. Nothing else writes Actions to the file: one server owns it (V4). */
export interface Counts {
  /** The number of the newest Action. */
  lastN: number
  /** The last seq of each namespace. */
  readonly seqs: Map<number, number>
  /** The last fencing token. */
  fence: number
  /** Holds on disk: while there are none, nothing asks for them. */
  holds: number
}

/** How many fencing tokens one epoch has. */
export const fencesPerEpoch = 2 ** 32

/**
 * One transaction: what its operations will have changed in memory, applied after the COMMIT only. An operation that
 * throws takes the whole group's transaction with it (the others are then run again, each alone), so one that answers
 * without having done anything must find that out before it writes.
 */
export class Tx {
  readonly open: Open
  readonly db: Database
  readonly names: Names
  readonly notices: Notice[] = []
  readonly #seqs = new Map<number, number>()
  readonly #keys: { hash: number; n: number }[] = []
  readonly #units = new Map<string, { ns: number; day: number; verb: number; worker: number; units: number }>()
  readonly #after: (() => void)[] = []
  #lastN: number
  #fence: number
  #holds: number

  constructor(open: Open) {
    this.open = open
    this.db = open.db
    this.names = open.names
    this.#lastN = open.counts.lastN
    this.#fence = open.counts.fence
    this.#holds = open.counts.holds
  }

  nextN(): number {
    return ++this.#lastN
  }

  nextFence(): number {
    return ++this.#fence
  }

  /** Gap-free per namespace: spent by a commit only (E1). */
  nextSeq(ns: number): number {
    const seq = (this.#seqs.get(ns) ?? this.open.counts.seqs.get(ns) ?? lastSeq(this.db, ns)) + 1
    this.#seqs.set(ns, seq)
    return seq
  }

  get holds(): number {
    return this.#holds
  }

  changeHolds(by: number): void {
    this.#holds += by
  }

  addKey(hash: number, n: number): void {
    this.#keys.push({ hash, n })
  }

  /** Actions of this very transaction whose key has this hash. */
  ownKeys(hash: number): readonly number[] {
    return this.#keys.filter((key) => key.hash === hash).map(({ n }) => n)
  }

  /** Units are added up and written once for each Verb, Worker and day of the group. */
  meter(ns: number, day: number, verb: number, worker: number, units: number): void {
    const name = `${ns} ${day} ${verb} ${worker}`
    const known = this.#units.get(name)
    if (known === undefined) this.#units.set(name, { ns, day, verb, worker, units })
    else known.units += units
  }

  afterCommit(effect: () => void): void {
    this.#after.push(effect)
  }

  /** The last writes before the COMMIT. */
  finish(): void {
    for (const { ns, day, verb, worker, units } of this.#units.values()) {
      this.db.run(
        `INSERT INTO usage (ns, day, verb, worker, units) VALUES (?, ?, ?, ?, ?)
         ON CONFLICT (ns, day, verb, worker) DO UPDATE SET units = units + excluded.units`,
        ns,
        day,
        verb,
        worker,
        units,
      )
    }
    const moved = this.open.keys.move()
    if (moved !== null) this.#after.push(moved)
  }

  /** After the COMMIT: memory follows the file. */
  apply(): void {
    const { counts, keys } = this.open
    counts.lastN = this.#lastN
    counts.fence = this.#fence
    counts.holds = this.#holds
    for (const [ns, seq] of this.#seqs) counts.seqs.set(ns, seq)
    for (const effect of this.#after) effect()
    if (this.#keys.length > 0) keys.add(this.#keys, this.#lastN)
  }
}

/** The greatest seq of a namespace, 0 when it has no Event. */
export function lastSeq(db: Database, ns: number): number {
  const row = db.get<[number]>('SELECT seq FROM actions WHERE ns = ? AND seq IS NOT NULL ORDER BY seq DESC LIMIT 1', ns)
  return row?.[0] ?? 0
}

/** Thrown by an operation that found only after its first write that nothing must be done; it runs alone. */
export class Undo<Answer> extends Error {
  override readonly name = 'Undo'
  readonly answer: Answer

  constructor(answer: Answer) {
    super('the transaction is undone')
    this.answer = answer
  }
}
