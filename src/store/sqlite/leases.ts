import { idToBytes } from '../../model/ids.ts'
import type { Lease } from '../store.ts'
import type { Tx } from './tx.ts'

/** The pending Action that a lease stands for. */
export interface Leased {
  readonly n: number
  readonly ns: number
  /** The chain's first Action; itself unless it is a retry. */
  readonly root: number
  readonly attempts: number
}

/** Compare-and-set on the fencing token: null when the Action is settled or somebody else's (V4). */
export function leased({ db }: Tx, lease: Lease): Leased | null {
  const row = db.get<[number, number, number | null, number, number]>(
    `SELECT a.n, a.ns, a.root, p.attempts, p.fence FROM actions a JOIN pending p ON p.action = a.n WHERE a.id = ?`,
    idToBytes(lease.action.slice(4)),
  )
  if (row === undefined || row[4] !== lease.fence || lease.fence === 0) return null
  return { n: row[0], ns: row[1], root: row[2] ?? row[0], attempts: row[3] }
}
