import { hash as digest } from 'node:crypto'
import type { Database } from './database.ts'
import { readMeta } from './meta.ts'

/** Keys of the newest Actions that are kept in memory before they are moved to the table: about 20 MB. */
export const keysInMemory = 2 ** 18

/** Keys moved in one group commit: half a millisecond's work, and enough neighbours to share pages. */
const chunkKeys = 256

/** Moved keys for each new one, so that a generation is in the table well before the next is full. */
const movedPerNew = 2

const buckets = 256
const bucketSpan = 2 ** 52 / buckets

/**
 * A 52-bit hash of a Worker and its key. Collisions are harmless, since the whole key is compared; SHA-256, so that nobody
 * can make many of them on purpose.
 */
export function keyHash(workerId: string, key: string): number {
  const text = `${workerId}\0${key}`
  let hash = hashes.get(text)
  if (hash === undefined) {
    const bytes = digest('sha256', text, 'buffer')
    hash = bytes.readUIntBE(0, 6) * 16 + ((bytes[6] ?? 0) >>> 4)
    if (hashes.size >= hashesRemembered) hashes.clear()
    hashes.set(text, hash)
  }
  return hash
}

/** A call's key is looked up at the door, again at its commit, and then added: its hash is made once. */
const hashes = new Map<string, number>()
const hashesRemembered = 1024

/** Keys of Actions that came on record one after another, by hash; also in buckets by hash, to be sorted bit by bit. */
class Generation {
  readonly #byHash = new Map<number, number | number[]>()
  readonly #buckets: number[][] = Array.from({ length: buckets }, () => [])
  size = 0

  add(hash: number, n: number): void {
    const known = this.#byHash.get(hash)
    this.size++
    if (known === undefined) {
      this.#byHash.set(hash, n)
      this.#buckets[Math.floor(hash / bucketSpan)]?.push(hash)
    } else this.#byHash.set(hash, typeof known === 'number' ? [known, n] : [...known, n])
  }

  actions(hash: number): readonly number[] {
    const known = this.#byHash.get(hash)
    return known === undefined ? none : typeof known === 'number' ? [known] : known
  }

  /** One bucket's hashes in ascending order. */
  sorted(bucket: number): Float64Array {
    return Float64Array.from(this.#buckets[bucket] ?? []).sort()
  }
}

const none: readonly number[] = []

/** A generation on its way into the table, in ascending order of hashes, and how far it got. */
interface Drain {
  readonly generation: Generation
  /** All Actions up to this one are in the table when the drain is over. */
  readonly upTo: number
  readonly bucket: number
  readonly sorted: Float64Array
  readonly at: number
}

/**
 * The key index with deferred, sorted inserts. Inserting hashes as they come touches a page of its own for each: the cost
 * of a key then grows with their number. So the newest stay in memory (rebuilt at open from the Actions above the
 * watermark) and go to the table in ascending order, a chunk with a group commit; the last chunk moves the watermark.
 * A crash in between repeats some inserts, which are ignored.
 */
export class KeyIndex {
  readonly #db: Database
  readonly #inMemory: number
  readonly #chunk: number
  #young = new Generation()
  #drain: Drain | null = null
  #owed = 0

  constructor(db: Database, inMemory: number) {
    this.#db = db
    this.#inMemory = inMemory
    this.#chunk = Math.min(chunkKeys, inMemory)
  }

  /** Reads the keys of the Actions above the watermark. Gives how many. */
  load(): number {
    for (let after = readMeta(this.#db, 'keys_indexed'); ;) {
      const rows = this.#db.all<[number, string, Uint8Array]>(
        `SELECT a.n, w.id, a.key FROM actions a JOIN workers w ON w.worker = a.worker
         WHERE a.n > ? AND a.key IS NOT NULL ORDER BY a.n LIMIT 10000`,
        after,
      )
      for (const [n, workerId, key] of rows) this.#young.add(keyHash(workerId, keyText(key)), n)
      const last = rows.at(-1)
      if (last === undefined) return this.#young.size
      after = last[0]
    }
  }

  /** Newest Actions whose key has this hash; the caller compares the whole key. */
  inMemory(hash: number): readonly number[] {
    const young = this.#young.actions(hash)
    const old = this.#drain?.generation.actions(hash) ?? none
    return old.length === 0 ? young : [...young, ...old]
  }

  /** Older Actions whose key has this hash; the caller compares the whole key. */
  inTable(hash: number): readonly number[] {
    const rows = this.#db.all<[number]>('SELECT action FROM keys WHERE hash = ?', hash)
    return rows.length === 0 ? none : rows.map(([n]) => n)
  }

  /** After their commit: the new keys are in memory from here on. */
  add(keys: readonly { readonly hash: number; readonly n: number }[], lastN: number): void {
    for (const { hash, n } of keys) this.#young.add(hash, n)
    this.#owed += keys.length * movedPerNew
    if (this.#drain !== null || this.#young.size < this.#inMemory) return
    this.#drain = { generation: this.#young, upTo: lastN, bucket: 0, sorted: this.#young.sorted(0), at: 0 }
    this.#young = new Generation()
  }

  /** Within a transaction: moves a chunk if one is due. Gives what to do once it is committed. */
  move(): (() => void) | null {
    const drain = this.#drain
    if (drain === null || this.#owed < this.#chunk) return null
    let { bucket, sorted, at } = drain
    for (let moved = 0; moved < this.#chunk;) {
      const hash = sorted[at]
      if (hash === undefined) {
        if (++bucket === buckets) break
        sorted = drain.generation.sorted(bucket)
        at = 0
        continue
      }
      for (const n of drain.generation.actions(hash)) {
        this.#db.run('INSERT OR IGNORE INTO keys (hash, action) VALUES (?, ?)', hash, n)
        moved++
      }
      at++
    }
    const over = bucket === buckets
    if (over) this.#db.run(`UPDATE meta SET value = ? WHERE name = 'keys_indexed'`, drain.upTo)
    return () => {
      this.#owed = Math.max(0, this.#owed - this.#chunk)
      this.#drain = over ? null : { ...drain, bucket, sorted, at }
    }
  }
}

export function keyText(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('utf8')
}
