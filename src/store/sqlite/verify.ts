import type { VerifyCounts } from '../store.ts'
import type { Open } from './tx.ts'

export function verify(open: Open, report: (fault: string) => void): VerifyCounts {
  void report
  const count = (sql: string) => open.db.get<[number]>(sql)?.[0] ?? 0
  return {
    actions: count('SELECT count(*) FROM actions'),
    pending: count('SELECT count(*) FROM pending'),
    records: count('SELECT count(*) FROM records WHERE version > 0'),
    events: count('SELECT count(*) FROM actions WHERE status > 0'),
    keys: count('SELECT count(*) FROM actions WHERE key IS NOT NULL'),
  }
}
