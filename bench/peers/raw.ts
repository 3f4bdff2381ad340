/** What SQLite itself can do here: rows of an Action's size, 64 to a transaction, synchronous=FULL. No HTTP, no look-up. */
import { DatabaseSync } from 'node:sqlite'
import { inputOf, keyOf } from '../order.ts'
import { data, seconds } from './options.ts'

const rowsPerCommit = 64

const db = new DatabaseSync(data)
db.exec(`
  PRAGMA journal_mode = WAL;
  PRAGMA synchronous = FULL;
  CREATE TABLE IF NOT EXISTS actions (n INTEGER PRIMARY KEY, key TEXT NOT NULL, input TEXT NOT NULL, output TEXT NOT NULL) STRICT;
`)
const insert = db.prepare('INSERT INTO actions (key, input, output) VALUES (?, ?, ?)')
const begin = db.prepare('BEGIN IMMEDIATE')
const commit = db.prepare('COMMIT')

const startedAt = performance.now()
const until = startedAt + seconds * 1000
let rows = 0
while (performance.now() < until) {
  begin.run()
  for (let i = 0; i < rowsPerCommit; i++, rows++) {
    const input = inputOf(rows, false)
    insert.run(keyOf('raw', rows), input, input)
  }
  commit.run()
}
process.stdout.write(JSON.stringify({ perSecond: (rows / (performance.now() - startedAt)) * 1000 }))
db.close()
