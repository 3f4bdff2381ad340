// Commits rows one by one and says which are committed, so that the power-loss check can be tried on a program whose
// durability is known: `node toy-writer.mjs FILE full|off|own ROWS`. `own` syncs the log by itself, off the thread.
import { closeSync, fdatasync, fsyncSync, openSync } from 'node:fs'
import { createServer } from 'node:http'
import { dirname } from 'node:path'
import { DatabaseSync } from 'node:sqlite'

const [file = '', mode = 'full', rows = '100'] = process.argv.slice(2)
const db = new DatabaseSync(file)
db.exec('PRAGMA journal_mode = WAL')
db.exec(
  `PRAGMA synchronous = ${mode === 'full' ? 'FULL' : mode === 'off' ? 'OFF' : 'NORMAL'}; PRAGMA wal_autocheckpoint = 20`,
)
db.exec('CREATE TABLE IF NOT EXISTS kept (n INTEGER PRIMARY KEY, filler TEXT)')
const folder = openSync(dirname(file), 'r')
if (mode === 'own') fsyncSync(folder)
closeSync(folder)
const log = openSync(`${file}-wal`, 'r')
const insert = db.prepare('INSERT INTO kept (filler) VALUES (?)')

// Over HTTP, since what a connection sends is what the shim records.
const server = createServer((_, response) => {
  const { lastInsertRowid } = insert.run('x'.repeat(500))
  const answer = () => response.end(JSON.stringify({ committed: Number(lastInsertRowid) }))
  if (mode === 'own') fdatasync(log, answer)
  else answer()
})
await new Promise((resolve) => server.listen(0, '127.0.0.1', () => resolve(null)))
const address = server.address()
const port = typeof address === 'object' ? address?.port : address
for (let row = 0; row < Number(rows); row++) await (await fetch(`http://127.0.0.1:${port}`)).text()
process.exit(0)
