import type { Database } from './database.ts'
import { present } from './names.ts'

/** A number that the store keeps for itself. */
export function readMeta(db: Database, name: 'epoch' | 'keys_indexed'): number {
  return present(db.get<[number]>('SELECT value FROM meta WHERE name = ?', name), `meta ${name}`)[0]
}
