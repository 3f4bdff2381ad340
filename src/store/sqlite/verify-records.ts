import { isDeepStrictEqual } from 'node:util'
import type { Change, Fields } from '../../model/record.ts'
import type { ManifestNoun } from '../../model/manifest.ts'
import { recordKey } from '../../model/names.ts'
import { statusNumbers } from './actions.ts'
import { indexText } from './deploy.ts'
import { undo } from './records.ts'
import type { Open } from './tx.ts'
import type { Report } from './verify-actions.ts'

/** Each record's Versions run from 1 to the present one, each made by an Action that succeeded, and undoing them fits. */
export function auditRecords(open: Open, report: Report): void {
  const { db, names } = open
  const nouns = new Set(db.all<[number]>('SELECT noun FROM nouns').map(([noun]) => noun))
  let versions = 0
  const rows = db.each<[number, number, string, number, string]>('SELECT r, noun, id, version, fields FROM records')
  for (const [r, noun, id, version, fields] of rows) {
    if (!nouns.has(noun)) report(`Record ${id} is of a Noun that is not registered.`)
    else
      auditVersions(
        open,
        report,
        recordKey(names.nounByNumber(noun).plural, id),
        r,
        version,
        JSON.parse(fields) as Fields,
      )
    versions += Math.abs(version)
  }
  const [kept] = db.get<[number]>('SELECT count(*) FROM versions') ?? [0]
  if (kept !== versions) report(`The records have ${versions} Versions in all, and ${kept} are kept.`)
}

function auditVersions({ db }: Open, report: Report, name: string, r: number, version: number, fields: Fields): void {
  const rows = db.all<[number, string | null, number | null, string | null]>(
    `SELECT v.version, v.changes, a.status, a.changed FROM versions v LEFT JOIN actions a ON a.n = v.action
     WHERE v.record = ? ORDER BY v.version DESC`,
    r,
  )
  if (rows.length !== Math.abs(version))
    report(`${name} is at Version ${Math.abs(version)} and has ${rows.length} Versions.`)
  let then: Fields = Object.assign(Object.create(null) as Fields, fields)
  let expected = Math.abs(version)
  for (const [number, changes, status, changed] of rows) {
    if (number !== expected--) report(`${name} has a Version ${number} where ${expected + 1} belongs.`)
    if (status !== statusNumbers.succeeded) report(`${name} has a Version ${number} that no succeeded Action made.`)
    else if (!tells(changed, r, number)) report(`${name} has a Version ${number} that its Action knows nothing of.`)
    if ((changes === null) !== (number === 1))
      report(`${name} has a Version ${number} ${changes === null ? 'without' : 'with'} changes.`)
    if (changes === null) continue
    const parsed = JSON.parse(changes) as Change[]
    if (!parsed.every((change) => fits(then, change)))
      report(`${name} at Version ${number} is not what its changes made.`)
    then = undo(then, parsed)
  }
}

function tells(changed: string | null, r: number, version: number): boolean {
  const pairs = changed === null ? [] : (JSON.parse(changed) as number[])
  return pairs.some((record, i) => i % 2 === 0 && record === r && pairs[i + 1] === version)
}

function fits(fields: Fields, change: Change): boolean {
  if (!('to' in change)) return !Object.hasOwn(fields, change.field)
  return Object.hasOwn(fields, change.field) && isDeepStrictEqual(fields[change.field], change.to)
}

/** Each index holds what the live records' fields say, once, and nothing else; a unique value is one record's. */
export function auditIndexes({ db, names }: Open, report: Report): void {
  const indexes = db.all<[number, number, string, number, string]>(
    'SELECT f.nf, f.noun, f.field, f.is_unique, n.manifest FROM index_fields f JOIN nouns n ON n.noun = f.noun',
  )
  for (const [nf, noun, field, isUnique, manifest] of indexes) {
    const name = `${names.nounByNumber(noun).name}.${field}`
    const fallback =
      (JSON.parse(manifest) as ManifestNoun).fields.find((known) => known.field === field)?.default ?? null
    let expected = 0
    for (const [r, id, fields] of db.each<[number, string, string]>(
      'SELECT r, id, fields FROM records WHERE noun = ? AND version > 0 ORDER BY r',
      noun,
    )) {
      const value = indexText(JSON.parse(fields) as Fields, field, fallback)
      if (value === null) continue
      expected++
      const entry = db.get<[number]>(
        'SELECT 1 FROM record_index WHERE nf = ? AND value = ? AND record = ?',
        nf,
        value,
        r,
      )
      if (entry === undefined) report(`The index ${name} lacks ${id}.`)
    }
    const [entries] = db.get<[number]>('SELECT count(*) FROM record_index WHERE nf = ?', nf) ?? [0]
    if (entries !== expected) report(`The index ${name} has ${entries} entries for ${expected} records.`)
    if (isUnique === 1) auditUnique(db, report, name, nf)
  }
  const [orphans] = db.get<[number]>(
    'SELECT count(*) FROM record_index WHERE nf NOT IN (SELECT nf FROM index_fields)',
  ) ?? [0]
  if (orphans > 0) report(`${orphans} index entries belong to no index.`)
}

function auditUnique(db: Open['db'], report: Report, name: string, nf: number): void {
  const twice = db.each<[string]>('SELECT value FROM record_index WHERE nf = ? GROUP BY value HAVING count(*) > 1', nf)
  for (const [value] of twice) report(`${name} is unique, and more than one record has ${value}.`)
}
