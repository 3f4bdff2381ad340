import type { UsageRow } from '../store.ts'
import type { Open } from './tx.ts'

const dayMs = 86_400_000

/** The UTC day of a time, as a number of days since 1970 (E2). */
export function dayOf(ms: number): number {
  return Math.floor(ms / dayMs)
}

/** `2026-11-30` */
export function dayText(day: number): string {
  return new Date(day * dayMs).toISOString().slice(0, 10)
}

/** Units by day, Verb and Worker; `from` inclusive, `to` exclusive, both as `2026-11-30`. */
export function usage({ db, names }: Open, namespace: string, from: string, to: string): UsageRow[] {
  const ns = names.namespace(namespace)
  if (ns === undefined) return []
  const rows = db.all<[number, number, number, number]>(
    'SELECT day, verb, worker, units FROM usage WHERE ns = ? AND day >= ? AND day < ? ORDER BY day, verb, worker',
    ns,
    dayOf(Date.parse(`${from}T00:00:00.000Z`)),
    dayOf(Date.parse(`${to}T00:00:00.000Z`)),
  )
  return rows.map(([day, verb, worker, units]) => ({
    verb: names.verbName(verb),
    worker: names.workerByNumber(worker).name,
    day: dayText(day),
    units,
  }))
}
