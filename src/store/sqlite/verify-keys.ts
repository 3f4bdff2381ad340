import { actionId } from './actions.ts'
import { keyHash, keyText } from './keys.ts'
import { readMeta } from './meta.ts'
import type { Open } from './tx.ts'
import type { Report } from './verify-actions.ts'

/** One Action a key (K5), and a key index that finds each: in the table up to the watermark, from the Actions' tail above it. */
export function auditKeys(open: Open, report: Report): void {
  const indexedUpTo = readMeta(open.db, 'keys_indexed')
  const inTable = auditTable(open, report, indexedUpTo)
  const [wanted] = open.db.get<[number]>(
    'SELECT count(*) FROM actions WHERE key IS NOT NULL AND n <= ?',
    indexedUpTo,
  ) ?? [0]
  if (inTable !== wanted)
    report(`The key index has ${inTable} of ${wanted} keys: some Actions can't be found by their key.`)
  auditTail(open, report, indexedUpTo)
}

/** Gives how many good entries the table has up to the watermark. Entries above it are of a chunk that was moved early. */
function auditTable(open: Open, report: Report, indexedUpTo: number): number {
  let good = 0
  let lastHash = -1
  let bound: string[] = []
  for (const [hash, n] of open.db.each<[number, number]>('SELECT hash, action FROM keys ORDER BY hash, action')) {
    const name = keyName(open, n)
    if (name === null || name.hash !== hash) {
      report(`The key index leads to Action number ${n}, which ${name === null ? 'has no key' : 'has another key'}.`)
      continue
    }
    if (hash !== lastHash) bound = []
    if (bound.includes(name.text)) report(`${actionId(open, n)} is a second Action of one key.`)
    bound.push(name.text)
    lastHash = hash
    if (n <= indexedUpTo) good++
  }
  return good
}

/** Keys that are not in the table yet: each is compared with the table, and with the others by hash. */
function auditTail(open: Open, report: Report, indexedUpTo: number): void {
  const tail = new Map<number, number>()
  const twins = new Map<number, number[]>()
  const rows = open.db.each<[number]>('SELECT n FROM actions WHERE n > ? AND key IS NOT NULL ORDER BY n', indexedUpTo)
  for (const [n] of rows) {
    const name = keyName(open, n)
    if (name === null) continue
    const first = tail.get(name.hash)
    if (first === undefined) tail.set(name.hash, n)
    else twins.set(name.hash, [...(twins.get(name.hash) ?? [first]), n])
    const older = open.keys.inTable(name.hash).filter((other) => other !== n)
    if (older.some((other) => keyName(open, other)?.text === name.text))
      report(`${actionId(open, n)} is a second Action of one key.`)
  }
  for (const numbers of twins.values()) {
    const texts = numbers.map((n) => keyName(open, n)?.text)
    numbers.forEach((n, i) => {
      if (texts.indexOf(texts[i]) < i) report(`${actionId(open, n)} is a second Action of one key.`)
    })
  }
}

function keyName({ db }: Open, n: number): { hash: number; text: string } | null {
  const row = db.get<[string, Uint8Array | null]>(
    'SELECT w.id, a.key FROM actions a JOIN workers w ON w.worker = a.worker WHERE a.n = ?',
    n,
  )
  if (row === undefined || row[1] === null) return null
  const key = keyText(row[1])
  return { hash: keyHash(row[0], key), text: `${row[0]}\0${key}` }
}
