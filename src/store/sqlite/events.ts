import { bytesToId } from '../../model/ids.ts'
import { recordKey } from '../../model/names.ts'
import type { StoredEvent } from '../store.ts'
import { toOutcome } from './actions.ts'
import { present } from './names.ts'
import type { Open } from './tx.ts'

type EventColumns = [Uint8Array, number, number, Uint8Array, number, number, string, string | null, number]

/** Events above a seq, in their order (E1). An Event is folded into its Action's row. */
export function events(open: Open, namespace: string, after: number, limit: number): StoredEvent[] {
  const { db, names } = open
  const ns = names.namespace(namespace)
  if (ns === undefined) return []
  const rows = db.all<EventColumns>(
    `SELECT event, seq, event_type, id, worker, status, outcome, changed, created_at + took_ms FROM actions
     WHERE ns = ? AND seq > ? ORDER BY seq LIMIT ?`,
    ns,
    after,
    limit,
  )
  return rows.map(([event, seq, type, action, worker, status, outcome, changed, at]) => ({
    id: `evt_${bytesToId(event)}`,
    seq,
    type: names.eventTypeName(type),
    action: `act_${bytesToId(action)}`,
    worker: names.workerByNumber(worker).name,
    records: changed === null ? [] : changedRecords(open, JSON.parse(changed) as number[]),
    outcome: toOutcome(status, outcome),
    at,
  }))
}

function changedRecords({ db, names }: Open, changed: readonly number[]): StoredEvent['records'] {
  const records: { record: string; version: number }[] = []
  for (let i = 0; i + 1 < changed.length; i += 2) {
    const [r = 0, version = 0] = changed.slice(i, i + 2)
    const row = db.get<[number, string]>('SELECT noun, id FROM records WHERE r = ?', r)
    const [noun, id] = present(row, `record ${r}`)
    records.push({ record: recordKey(names.nounByNumber(noun).plural, id), version })
  }
  return records
}
