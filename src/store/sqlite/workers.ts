import type { Throttle } from '../../model/startup.ts'
import type { Worker, WorkerKind } from '../../model/worker.ts'
import type { WorkerListing } from '../store.ts'
import { present } from './names.ts'
import type { Open, Tx } from './tx.ts'

interface CachedToken {
  readonly worker: Worker
  readonly expiresAt: number | null
}

/** Live tokens in memory, forgotten as soon as any other connection has committed anything (V4). */
export class Tokens {
  readonly #open: Open
  readonly #cache = new Map<string, CachedToken>()
  #dataVersion = 0

  constructor(open: Open) {
    this.#open = open
  }

  forget(): void {
    this.#cache.clear()
  }

  /** The Worker of a live token; null for one that is unknown, expired or revoked, or whose Worker is gone. */
  worker(hash: Uint8Array): Worker | null {
    const dataVersion = present(this.#open.db.get<[number]>('PRAGMA data_version'), 'data_version')[0]
    if (dataVersion !== this.#dataVersion || this.#cache.size > 10_000) this.#cache.clear()
    this.#dataVersion = dataVersion
    const name = Buffer.from(hash.buffer, hash.byteOffset, hash.byteLength).toString('latin1')
    let token = this.#cache.get(name)
    if (token === undefined) {
      token = readToken(this.#open, hash)
      if (token === undefined) return null
      this.#cache.set(name, token)
    }
    return token.expiresAt !== null && token.expiresAt <= this.#open.now() ? null : token.worker
  }
}

function readToken({ db, names }: Open, hash: Uint8Array): CachedToken | undefined {
  const row = db.get<[number | null, string, number, string, WorkerKind, string, number | null, number | null]>(
    `SELECT t.expires_at, w.id, w.ns, w.name, w.kind, w.grants, w.rate, w.burst
     FROM tokens t JOIN workers w ON w.worker = t.worker
     WHERE t.hash = ? AND t.revoked_at IS NULL AND w.removed_at IS NULL`,
    hash,
  )
  if (row === undefined) return undefined
  const [expiresAt, id, ns, name, kind, grants, rate, burst] = row
  const worker = { id, namespace: names.namespaceName(ns), name, kind, grants: JSON.parse(grants) as string[] }
  return { worker: { ...worker, ...limited(rate, burst) }, expiresAt }
}

/** A Worker's own limit, where it has one. */
function limited(rate: number | null, burst: number | null): { throttle?: Throttle } {
  return rate === null || burst === null ? {} : { throttle: { rate, burst } }
}

/** A Worker's name is never given to another one, not after a removal either (SPEC §1). */
export function addWorker(
  tx: Tx,
  worker: Worker,
  hash: Uint8Array | null,
  expiresAt: number | null,
): 'added' | 'name-taken' {
  const ns = tx.names.internNamespace(worker.namespace)
  const taken = tx.db.get<[number]>('SELECT 1 FROM workers WHERE ns = ? AND name = ?', ns, worker.name)
  if (taken !== undefined) return 'name-taken'
  tx.db.run(
    'INSERT INTO workers (id, ns, name, kind, grants, created_at, rate, burst) VALUES (?, ?, ?, ?, ?, ?, ?, ?)',
    worker.id,
    ns,
    worker.name,
    worker.kind,
    JSON.stringify(worker.grants),
    tx.open.now(),
    worker.throttle?.rate ?? null,
    worker.throttle?.burst ?? null,
  )
  if (hash !== null) addToken(tx, worker.id, hash, expiresAt)
  return 'added'
}

export function addToken(tx: Tx, workerId: string, hash: Uint8Array, expiresAt: number | null): void {
  const { worker } = present(tx.names.worker(workerId), `Worker ${workerId}`)
  tx.db.run(
    'INSERT INTO tokens (hash, worker, created_at, expires_at) VALUES (?, ?, ?, ?)',
    hash,
    worker,
    tx.open.now(),
    expiresAt,
  )
}

/** Ends all tokens of a Worker, and with `remove` the Worker; its row stays, so that its name stays taken. */
export function revokeWorker(tx: Tx, workerId: string, remove: boolean): void {
  const { worker } = present(tx.names.worker(workerId), `Worker ${workerId}`)
  const now = tx.open.now()
  tx.db.run('UPDATE tokens SET revoked_at = ? WHERE worker = ? AND revoked_at IS NULL', now, worker)
  if (remove) tx.db.run('UPDATE workers SET removed_at = ? WHERE worker = ? AND removed_at IS NULL', now, worker)
}

/** Gives a Worker a limit of its own, or takes it away (§10). */
export function limitWorker(tx: Tx, workerId: string, throttle: Throttle | null): void {
  const { worker } = present(tx.names.worker(workerId), `Worker ${workerId}`)
  const { rate, burst } = throttle ?? { rate: null, burst: null }
  tx.db.run('UPDATE workers SET rate = ?, burst = ? WHERE worker = ?', rate, burst, worker)
}

type WorkerColumns = [
  ...[number, string, number, string, WorkerKind, string],
  ...[number, number | null, number | null, number | null],
]

/** Workers of one namespace or of all, removed ones too, in the order in which they were added. */
export function workers({ db, names }: Open, namespace: string | null): WorkerListing[] {
  const ns = namespace === null ? null : names.namespace(namespace)
  if (ns === undefined) return []
  const rows = db.all<WorkerColumns>(
    `SELECT worker, id, ns, name, kind, grants, created_at, removed_at, rate, burst FROM workers
     WHERE ? IS NULL OR ns = ? ORDER BY worker`,
    ns,
    ns,
  )
  return rows.map(([worker, id, workerNs, name, kind, grants, createdAt, removedAt, rate, burst]) => ({
    id,
    namespace: names.namespaceName(workerNs),
    name,
    kind,
    grants: JSON.parse(grants) as string[],
    ...limited(rate, burst),
    createdAt,
    removed: removedAt !== null,
    tokens: tokensOf(db, worker),
  }))
}

function tokensOf(db: Open['db'], worker: number): WorkerListing['tokens'] {
  const rows = db.all<[number, number | null, number | null]>(
    'SELECT created_at, expires_at, revoked_at FROM tokens WHERE worker = ? ORDER BY created_at, hash',
    worker,
  )
  return rows.map(([createdAt, expiresAt, revokedAt]) => ({ createdAt, expiresAt, revoked: revokedAt !== null }))
}
