import { bytesToId, isId } from '../../model/ids.ts'
import type { Database } from './database.ts'

/** Records looked at for their ids: those made last. */
const recordsSeen = 1000

/** The greatest unique part of any id on record, so that ids stay monotonic over restarts (§3); null in a new store. */
export function lastId(db: Database): string | null {
  const bytes = [
    db.get<[Uint8Array | null]>('SELECT max(id) FROM actions')?.[0],
    db.get<[Uint8Array | null]>('SELECT max(id) FROM inbox')?.[0],
    ...db.all<[number]>('SELECT ns FROM namespaces').map(([ns]) => lastEvent(db, ns)),
  ]
  const ids = bytes.flatMap((id) => (id ? [bytesToId(id)] : []))
  const records = db.all<[string]>('SELECT id FROM records ORDER BY r DESC LIMIT ?', recordsSeen)
  for (const [id] of records) if (isId('', id.slice(-26))) ids.push(id.slice(-26))
  return ids.reduce<string | null>((greatest, id) => (greatest === null || id > greatest ? id : greatest), null)
}

/** Event ids ascend with seq. */
function lastEvent(db: Database, ns: number): Uint8Array | undefined {
  return db.get<[Uint8Array]>('SELECT event FROM actions WHERE ns = ? AND seq > 0 ORDER BY seq DESC LIMIT 1', ns)?.[0]
}
