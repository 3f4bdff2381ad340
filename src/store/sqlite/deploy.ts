import type { Manifest, ManifestField, ManifestNoun } from '../../model/manifest.ts'
import type { Fields } from '../../model/record.ts'
import type { DeployAnswer } from '../store.ts'
import type { Database } from './database.ts'
import { present } from './names.ts'
import { Undo, type Tx } from './tx.ts'

/**
 * Records a namespace's definition (N2) in one transaction: registers names for ever, builds new indexes, drops old ones.
 * Faults undo it all.
 */
export function deploy(tx: Tx, manifest: Manifest): DeployAnswer {
  const answer = record(tx, manifest)
  if (answer.faults.length > 0) throw new Undo(answer)
  tx.names.forgetDefinitions()
  return answer
}

/** What `deploy` would find: done whole, so that it is the same, and undone. */
export function deployFaults(tx: Tx, manifest: Manifest): never {
  throw new Undo(record(tx, manifest).faults)
}

function record(tx: Tx, manifest: Manifest): DeployAnswer {
  const ns = tx.names.internNamespace(manifest.namespace)
  const faults = manifest.nouns.flatMap((noun) => deployNoun(tx, ns, noun))
  for (const { noun, operation } of manifest.verbs) {
    const plural = manifest.nouns.find((known) => known.noun === noun)?.plural
    if (plural === undefined) continue
    tx.db.run('INSERT OR IGNORE INTO operations (ns, nouns, operation) VALUES (?, ?, ?)', ns, plural, operation)
  }
  return { faults, seeded: isSeeded(tx.db, ns), operations: operationsOf(tx.db, ns) }
}

function isSeeded(db: Database, ns: number): boolean {
  return db.get<[number]>('SELECT seeded FROM namespaces WHERE ns = ?', ns)?.[0] === 1
}

function operationsOf(db: Database, ns: number): { nouns: string; operation: string }[] {
  const rows = db.all<[string, string]>('SELECT nouns, operation FROM operations WHERE ns = ?', ns)
  return rows.map(([nouns, operation]) => ({ nouns, operation }))
}

export function markSeeded(tx: Tx, namespace: string): void {
  tx.db.run('UPDATE namespaces SET seeded = 1 WHERE ns = ?', tx.names.internNamespace(namespace))
}

function deployNoun(tx: Tx, ns: number, next: ManifestNoun): string[] {
  const row = tx.db.get<[number, string]>('SELECT noun, manifest FROM nouns WHERE ns = ? AND name = ?', ns, next.noun)
  const last = row === undefined ? null : (JSON.parse(row[1]) as ManifestNoun)
  tx.db.run(
    `INSERT INTO nouns (ns, name, plural, manifest) VALUES (?, ?, ?, ?)
     ON CONFLICT (ns, name) DO UPDATE SET plural = excluded.plural, manifest = excluded.manifest`,
    ns,
    next.noun,
    next.plural,
    JSON.stringify(next),
  )
  const [noun] = present(
    tx.db.get<[number]>('SELECT noun FROM nouns WHERE ns = ? AND name = ?', ns, next.noun),
    `Noun ${next.noun}`,
  )
  const faults = last === null ? [] : lacking(tx.db, noun, last, next)
  return [...faults, ...indexNoun(tx.db, noun, last, next)]
}

/** New fields that old records lack and that no default fills (N2). */
function lacking(db: Database, noun: number, last: ManifestNoun, next: ManifestNoun): string[] {
  const suspects = next.fields.filter((field) => isMandatory(field) && !isMandatory(fieldOf(last, field.field)))
  const faults = new Map<string, string>()
  if (suspects.length === 0) return []
  for (const { id, fields } of liveRecords(db, noun)) {
    for (const { field } of suspects) {
      if (faults.has(field) || Object.hasOwn(fields, field)) continue
      faults.set(
        field,
        `${next.noun}.${field} is required and has no plain default, and records without it exist (${id}): make it optional or give it a default value.`,
      )
    }
    if (faults.size === suspects.length) break
  }
  return [...faults.values()]
}

function isMandatory(field: ManifestField | undefined): boolean {
  return field !== undefined && field.required && field.default === null
}

function fieldOf(noun: ManifestNoun | null, field: string): ManifestField | undefined {
  return noun?.fields.find((known) => known.field === field)
}

interface WantedIndex {
  readonly field: string
  readonly isUnique: boolean
  readonly default: string | null
}

/** Drops what is declared no more, builds what is new, and what a changed default has made wrong. */
function indexNoun(db: Database, noun: number, last: ManifestNoun | null, next: ManifestNoun): string[] {
  const wanted = new Map<string, WantedIndex>()
  for (const field of next.index)
    wanted.set(field, { field, isUnique: false, default: fieldOf(next, field)?.default ?? null })
  for (const field of next.unique)
    wanted.set(field, { field, isUnique: true, default: fieldOf(next, field)?.default ?? null })
  const had = db.all<[number, string, number]>('SELECT nf, field, is_unique FROM index_fields WHERE noun = ?', noun)
  const kept = new Set<string>()
  for (const [nf, field] of had) {
    const index = wanted.get(field)
    if (index !== undefined && index.default === (fieldOf(last, field)?.default ?? null)) kept.add(field)
    else dropIndex(db, nf)
  }
  build(
    db,
    noun,
    [...wanted.values()].filter(({ field }) => !kept.has(field)),
  )
  const faults: string[] = []
  for (const { field, isUnique } of wanted.values()) {
    const wasUnique = had.some(([, known, unique]) => known === field && unique === 1 && kept.has(field))
    db.run('UPDATE index_fields SET is_unique = ? WHERE noun = ? AND field = ?', isUnique ? 1 : 0, noun, field)
    if (!isUnique || wasUnique) continue
    const twice = duplicate(db, noun, field)
    if (twice === null) continue
    faults.push(
      `${next.noun}.${field} is unique, and more than one record has ${twice}: make them differ or remove it from unique.`,
    )
  }
  return faults
}

function dropIndex(db: Database, nf: number): void {
  db.run('DELETE FROM record_index WHERE nf = ?', nf)
  db.run('DELETE FROM index_fields WHERE nf = ?', nf)
}

function build(db: Database, noun: number, indexes: readonly WantedIndex[]): void {
  if (indexes.length === 0) return
  const numbered = indexes.map((index) => {
    db.run(
      'INSERT INTO index_fields (noun, field, is_unique) VALUES (?, ?, ?)',
      noun,
      index.field,
      index.isUnique ? 1 : 0,
    )
    const row = db.get<[number]>('SELECT nf FROM index_fields WHERE noun = ? AND field = ?', noun, index.field)
    return { ...index, nf: present(row, `index on ${index.field}`)[0] }
  })
  for (const { r, fields } of liveRecords(db, noun)) {
    for (const { nf, field, default: fallback } of numbered) {
      const value = indexText(fields, field, fallback)
      if (value !== null) db.run('INSERT INTO record_index (nf, value, record) VALUES (?, ?, ?)', nf, value, r)
    }
  }
}

/** What an index holds of a record: the JSON of a scalar, of the default where the record lacks the field; null: nothing. */
export function indexText(fields: Fields, field: string, fallback: string | null): string | null {
  const value: unknown = Object.hasOwn(fields, field)
    ? fields[field]
    : fallback === null
      ? undefined
      : JSON.parse(fallback)
  return typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean'
    ? JSON.stringify(value)
    : null
}

function duplicate(db: Database, noun: number, field: string): string | null {
  const row = db.get<[string]>(
    `SELECT i.value FROM index_fields f JOIN record_index i ON i.nf = f.nf WHERE f.noun = ? AND f.field = ?
     GROUP BY i.value HAVING count(*) > 1 LIMIT 1`,
    noun,
    field,
  )
  return row?.[0] ?? null
}

interface LiveRecord {
  readonly r: number
  readonly id: string
  readonly fields: Fields
}

/** Every live record of a Noun, a thousand in memory at a time. */
function* liveRecords(db: Database, noun: number): Generator<LiveRecord, void, undefined> {
  for (let after = 0; ;) {
    const rows = db.all<[number, string, string]>(
      'SELECT r, id, fields FROM records WHERE noun = ? AND version > 0 AND r > ? ORDER BY r LIMIT 1000',
      noun,
      after,
    )
    for (const [r, id, fields] of rows) yield { r, id, fields: JSON.parse(fields) as Fields }
    const last = rows.at(-1)
    if (last === undefined) return
    after = last[0]
  }
}
