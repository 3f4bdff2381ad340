import type { Change, Fields, IndexValue, RecordVersion, Reads, StoredRecord } from '../../model/record.ts'
import { bytesToId } from '../../model/ids.ts'
import type { Page, Paged } from '../store.ts'
import type { Database } from './database.ts'
import type { NounName } from './names.ts'
import type { Open } from './tx.ts'

type Reading = Pick<Open, 'db' | 'names'>

/** A list looks at this many rows for one page at most: a filter that few match gives short pages, not a long stall. */
const scannedPerPage = 20_000

function nounOf({ names }: Reading, namespace: string, noun: string): NounName | undefined {
  const ns = names.namespace(namespace)
  return ns === undefined ? undefined : names.noun(ns, noun)
}

export function record(open: Reading, namespace: string, noun: string, id: string): StoredRecord | null {
  const known = nounOf(open, namespace, noun)
  if (known === undefined) return null
  const row = open.db.get<[number, string]>(
    'SELECT version, fields FROM records WHERE noun = ? AND id = ?',
    known.noun,
    id,
  )
  return row === undefined ? null : { noun, id, version: row[0], fields: JSON.parse(row[1]) as Fields }
}

/** The record with this number, as lists of numbers lead to it. */
function recordByNumber({ db }: Reading, noun: string, r: number): StoredRecord[] {
  const row = db.get<[string, number, string]>('SELECT id, version, fields FROM records WHERE r = ?', r)
  return row === undefined ? [] : [{ noun, id: row[0], version: row[1], fields: JSON.parse(row[2]) as Fields }]
}

export function find(
  open: Reading,
  namespace: string,
  noun: string,
  field: string,
  value: IndexValue,
  limit: number,
): StoredRecord[] {
  const known = nounOf(open, namespace, noun)
  if (known === undefined) return []
  const index = open.names.indexField(known.noun, field)
  if (index === undefined) throw new Error(`${noun}.${field} has no index`)
  return indexed(open.db, index.nf, value, 0, limit).flatMap((r) => recordByNumber(open, noun, r))
}

/** Numbers of records by an index value, oldest first. */
function indexed(db: Database, nf: number, value: IndexValue, after: number, limit: number): number[] {
  const rows = db.all<[number]>(
    'SELECT record FROM record_index WHERE nf = ? AND value = ? AND record > ? ORDER BY record LIMIT ?',
    nf,
    JSON.stringify(value),
    after,
    limit,
  )
  return rows.map(([r]) => r)
}

export function records(
  open: Reading,
  namespace: string,
  noun: string,
  filters: readonly { field: string; value: IndexValue }[],
  { after, limit }: Page,
): Paged<StoredRecord> {
  const known = nounOf(open, namespace, noun)
  if (known === undefined) return { data: [], next: null }
  const [first, ...others] = filters.map(({ field, value }) => {
    const index = open.names.indexField(known.noun, field)
    if (index === undefined) throw new Error(`${noun}.${field} has no index`)
    return { nf: index.nf, value }
  })
  const found: number[] = []
  let position = after
  for (let scanned = 0; found.length <= limit;) {
    if (scanned >= scannedPerPage) return { data: pageOf(open, noun, found), next: position }
    const count = Math.max(limit + 1, 200)
    const chunk = first
      ? indexed(open.db, first.nf, first.value, position, count)
      : live(open.db, known.noun, position, count)
    for (const r of chunk) if (others.every(({ nf, value }) => isIndexed(open.db, nf, value, r))) found.push(r)
    scanned += chunk.length
    if (chunk.length < count) break
    position = chunk.at(-1) ?? position
  }
  const page = found.slice(0, limit)
  return { data: pageOf(open, noun, page), next: found.length > limit ? (page.at(-1) ?? null) : null }
}

function pageOf(open: Reading, noun: string, numbers: readonly number[]): StoredRecord[] {
  return numbers.flatMap((r) => recordByNumber(open, noun, r))
}

function live(db: Database, noun: number, after: number, limit: number): number[] {
  const rows = db.all<[number]>(
    'SELECT r FROM records WHERE noun = ? AND version > 0 AND r > ? ORDER BY r LIMIT ?',
    noun,
    after,
    limit,
  )
  return rows.map(([r]) => r)
}

function isIndexed(db: Database, nf: number, value: IndexValue, r: number): boolean {
  const row = db.get<[number]>(
    'SELECT 1 FROM record_index WHERE nf = ? AND value = ? AND record = ?',
    nf,
    JSON.stringify(value),
    r,
  )
  return row !== undefined
}

/** Whether all that was read still stands (V6): each record's Version, and each look-up's whole list. */
export function stands(open: Reading, namespace: string, reads: Reads): boolean {
  return (
    reads.records.every(({ noun, id, version }) => versionNow(open, namespace, noun, id) === version) &&
    reads.lookups.every(({ noun, field, value, limit, found }) => {
      const now = find(open, namespace, noun, field, value, limit)
      return (
        now.length === found.length &&
        found.every(({ id, version }, i) => now[i]?.id === id && now[i].version === version)
      )
    })
  )
}

/** A record's Version as reads remember it: 0 when it never existed, negative once deleted. */
function versionNow(open: Reading, namespace: string, noun: string, id: string): number {
  const known = nounOf(open, namespace, noun)
  if (known === undefined) return 0
  return open.db.get<[number]>('SELECT version FROM records WHERE noun = ? AND id = ?', known.noun, id)?.[0] ?? 0
}

/** The fields as they were before these changes. */
export function undo(fields: Fields, changes: readonly Change[]): Fields {
  const before = Object.assign(Object.create(null) as Record<string, unknown>, fields)
  for (const change of changes) {
    if ('from' in change) before[change.field] = change.from
    else delete before[change.field]
  }
  return before
}

export function recordAt(
  open: Reading,
  namespace: string,
  noun: string,
  id: string,
  version: number,
): StoredRecord | null {
  const known = nounOf(open, namespace, noun)
  const row = known && rowOf(open.db, known.noun, id)
  if (row === undefined || version < 1 || version > Math.abs(row.version)) return null
  const fields = fieldsAt(open.db, row, version)
  return { noun, id, version: row.version < 0 && version === -row.version ? row.version : version, fields }
}

interface RecordRow {
  readonly r: number
  readonly version: number
  readonly fields: Fields
}

function rowOf(db: Database, noun: number, id: string): RecordRow | undefined {
  const row = db.get<[number, number, string]>(
    'SELECT r, version, fields FROM records WHERE noun = ? AND id = ?',
    noun,
    id,
  )
  return row === undefined ? undefined : { r: row[0], version: row[1], fields: JSON.parse(row[2]) as Fields }
}

/** Any Version is the present one with all later changes undone. */
function fieldsAt(db: Database, { r, fields }: RecordRow, version: number): Fields {
  const later = db.all<[string]>(
    'SELECT changes FROM versions WHERE record = ? AND version > ? ORDER BY version DESC',
    r,
    version,
  )
  let then = fields
  for (const [changes] of later) then = undo(then, JSON.parse(changes) as Change[])
  return { ...then }
}

export function versions(
  open: Reading,
  namespace: string,
  noun: string,
  id: string,
  after: number,
  limit: number,
): RecordVersion[] {
  const known = nounOf(open, namespace, noun)
  const row = known && rowOf(open.db, known.noun, id)
  if (row === undefined) return []
  const rows = open.db.all<[number, string | null, Uint8Array, number]>(
    `SELECT v.version, v.changes, a.id, a.created_at + a.took_ms FROM versions v JOIN actions a ON a.n = v.action
     WHERE v.record = ? AND v.version > ? ORDER BY v.version LIMIT ?`,
    row.r,
    after,
    limit,
  )
  return rows.map(([version, changes, action, at]) => ({
    version,
    changes: changes === null ? creation(fieldsAt(open.db, row, 1)) : (JSON.parse(changes) as Change[]),
    action: `act_${bytesToId(action)}`,
    at,
    deleted: version === -row.version,
  }))
}

/** A creation changes every field that it sets. */
function creation(fields: Fields): Change[] {
  return Object.entries(fields).map(([field, to]) => ({ field, to }))
}
