import type { VerifyCounts } from '../store.ts'
import { auditActions, auditChains, auditEvents, type Report } from './verify-actions.ts'
import { auditKeys } from './verify-keys.ts'
import { auditIndexes, auditRecords } from './verify-records.ts'
import { auditRest } from './verify-rest.ts'
import type { Open } from './tx.ts'

/** The parts of the audit, each naming what it walks over. */
const audits: readonly (readonly [string, (open: Open, report: Report) => void])[] = [
  ['the file', auditFile],
  ['Actions', auditActions],
  ['Events', auditEvents],
  ['chains', auditChains],
  ['keys', auditKeys],
  ['records', auditRecords],
  ['indexes', auditIndexes],
  ['run states, inbox and tokens', auditRest],
]

/** Every invariant, over one state of the whole store, row by row; also beside a server, and on a copy. */
export function verify(open: Open, report: Report): VerifyCounts {
  open.db.control('BEGIN')
  try {
    for (const [what, audit] of audits) {
      try {
        audit(open, report)
      } catch (error) {
        // A damaged file, or a row so wrong that it can't be walked over.
        report(`The audit of ${what} could not be finished: ${error instanceof Error ? error.message : String(error)}`)
      }
    }
    return countsOf(open)
  } finally {
    if (open.db.inTransaction) open.db.control('ROLLBACK')
  }
}

function auditFile({ db }: Open, report: Report): void {
  for (const [line] of db.all<[string]>('PRAGMA integrity_check(20)'))
    if (line !== 'ok') report(`The file is damaged: ${line}`)
}

function countsOf({ db }: Open): VerifyCounts {
  const count = (sql: string): number => db.get<[number]>(sql)?.[0] ?? 0
  return {
    actions: count('SELECT count(*) FROM actions'),
    pending: count('SELECT count(*) FROM pending'),
    records: count('SELECT count(*) FROM records WHERE version > 0'),
    events: count('SELECT count(*) FROM actions WHERE seq IS NOT NULL'),
    keys: count('SELECT count(*) FROM actions WHERE key IS NOT NULL'),
  }
}
