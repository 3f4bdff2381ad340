import type { IndexChange, RecordWrite } from '../../model/record.ts'
import { resourcesOf } from '../../model/record.ts'
import type { Blocked, Conflict } from '../store.ts'
import { blockedBy } from './holds.ts'
import { present } from './names.ts'
import type { Tx } from './tx.ts'

/** A record write that may be made: what it changes is as it was read, and free. */
interface PlannedWrite {
  readonly write: RecordWrite
  readonly noun: number
  /** The record's number; null for a creation. */
  readonly r: number | null
  readonly entries: readonly PlannedEntry[]
}

interface PlannedEntry {
  readonly nf: number
  readonly isUnique: boolean
  readonly from: string | null
  readonly to: string | null
}

/**
 * Finds out whether these writes can be made, before any of them is: records that are no longer as they were read, ids and
 * unique values that are taken (conflict), resources that another chain holds (blocked).
 */
export function planWrites(
  tx: Tx,
  ns: number,
  root: number | null,
  writes: readonly RecordWrite[],
): PlannedWrite[] | Conflict | Blocked {
  const planned: PlannedWrite[] = []
  for (const write of writes) {
    const { noun } = present(tx.names.noun(ns, write.noun), `Noun ${write.noun}`)
    const row = tx.db.get<[number, number]>('SELECT r, version FROM records WHERE noun = ? AND id = ?', noun, write.id)
    const expected = write.kind === 'create' ? undefined : write.version - 1
    if (row?.[1] !== expected)
      return write.kind === 'create' ? { kind: 'conflict', isTaken: true } : { kind: 'conflict' }
    planned.push({
      write,
      noun,
      r: row?.[0] ?? null,
      entries: write.indexes.flatMap((change) => entry(tx, noun, change)),
    })
  }
  const blocked = tx.holds === 0 ? null : blockedBy(tx, tx.holds, ns, writes.flatMap(resourcesOf), root)
  if (blocked !== null) return blocked
  return isTaken(tx, planned) ? { kind: 'conflict', isTaken: true } : planned
}

function entry(tx: Tx, noun: number, change: IndexChange): PlannedEntry[] {
  const { field, from, to } = change
  if (from === to) return []
  const index = present(tx.names.indexField(noun, field), `index on ${field}`)
  return [
    {
      nf: index.nf,
      isUnique: index.isUnique,
      from: from === undefined ? null : JSON.stringify(from),
      to: to === undefined ? null : JSON.stringify(to),
    },
  ]
}

/** Whether a unique value that these writes set is another record's, and is not set free by one of them. */
function isTaken(tx: Tx, planned: readonly PlannedWrite[]): boolean {
  const set = new Set<string>()
  for (const { r, entries } of planned) {
    for (const { nf, isUnique, to } of entries) {
      if (!isUnique || to === null) continue
      const value = `${nf} ${to}`
      if (set.has(value)) throw new Error('two writes of one Action set the same unique value')
      set.add(value)
      const holders = tx.db.all<[number]>('SELECT record FROM record_index WHERE nf = ? AND value = ?', nf, to)
      if (holders.some(([holder]) => holder !== r && !leaves(planned, holder, nf, to))) return true
    }
  }
  return false
}

function leaves(planned: readonly PlannedWrite[], r: number, nf: number, value: string): boolean {
  return planned.some((other) => other.r === r && other.entries.some((gone) => gone.nf === nf && gone.from === value))
}

/** Makes the writes; gives JSON of `[record, version, …]`, null when there are none. */
export function applyWrites(tx: Tx, n: number, planned: readonly PlannedWrite[]): string | null {
  if (planned.length === 0) return null
  for (const { r, entries } of planned) {
    for (const { nf, from } of entries) {
      if (from === null || r === null) continue
      tx.db.run('DELETE FROM record_index WHERE nf = ? AND value = ? AND record = ?', nf, from, r)
    }
  }
  const changed: number[] = []
  for (const plan of planned) {
    const r = applyWrite(tx, n, plan)
    changed.push(r, plan.write.version)
    for (const { nf, to } of plan.entries) {
      if (to !== null) tx.db.run('INSERT OR IGNORE INTO record_index (nf, value, record) VALUES (?, ?, ?)', nf, to, r)
    }
  }
  return JSON.stringify(changed)
}

function applyWrite(tx: Tx, n: number, { write, noun, r }: PlannedWrite): number {
  const fields = JSON.stringify(write.fields)
  if (r === null) {
    const [created] = present(
      tx.db.get<[number]>(
        'INSERT INTO records (noun, id, version, fields) VALUES (?, ?, 1, ?) RETURNING r',
        noun,
        write.id,
        fields,
      ),
      'record just made',
    )
    tx.db.run('INSERT INTO versions (record, version, action, changes) VALUES (?, 1, ?, NULL)', created, n)
    return created
  }
  const version = write.kind === 'delete' ? -write.version : write.version
  tx.db.run('UPDATE records SET version = ?, fields = ? WHERE r = ?', version, fields, r)
  tx.db.run(
    'INSERT INTO versions (record, version, action, changes) VALUES (?, ?, ?, ?)',
    r,
    write.version,
    n,
    JSON.stringify(write.changes),
  )
  return r
}
