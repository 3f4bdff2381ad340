import type { Fix } from './action.ts'
import { canonical } from './fingerprint.ts'
import type { Fields, RecordVersion } from './record.ts'

/** Whether two values are one JSON value: member order and `-0` don't matter (K3's notion of sameness). */
export function sameJson(left: unknown, right: unknown): boolean {
  if (left === right) return true
  if (typeof left !== 'object' || typeof right !== 'object' || left === null || right === null) return false
  return canonical(left) === canonical(right)
}

/** A field that no longer has the value that was decided on, and the Action that changed it last (W2). */
export interface StaleChange {
  readonly field: string
  /** Absent, as `to` is, for a Worker who may not read the Noun (H1). */
  readonly from?: unknown
  readonly to?: unknown
  readonly action: string | null
}

/** What a decision is compared with: one record, at the Version it was decided on and now. */
export interface Comparison {
  /** The record's fields at the Version that was decided on. */
  readonly decidedOn: Fields
  readonly current: Fields
  /** The Versions since then, ascending. */
  readonly since: readonly RecordVersion[]
  /** Whether an Action is a predecessor in the caller's own queue: its last values are laid over (W3). */
  readonly isOwn: (action: string) => boolean
  /** Whether the Verb depends on a field (W2). */
  readonly dependsOn: (field: string) => boolean
  /** Whether the caller may read the Noun: only then is it told the values, and else the names of the fields alone (H1). */
  readonly showsValues: boolean
}

/** The fields that the Verb depends on and whose value differs from what was decided on, the caller's own changes apart. */
export function staleChanges(comparison: Comparison): StaleChange[] {
  const expected = new Map(Object.entries(comparison.decidedOn))
  const lastChange = new Map<string, string>()
  for (const { changes, action } of comparison.since) {
    const own = comparison.isOwn(action)
    for (const change of changes) {
      if (own && 'to' in change) expected.set(change.field, change.to)
      else if (own) expected.delete(change.field)
      lastChange.set(change.field, action)
    }
  }
  const stale: StaleChange[] = []
  for (const field of new Set([...expected.keys(), ...Object.keys(comparison.current)])) {
    if (!comparison.dependsOn(field) || sameJson(expected.get(field), comparison.current[field])) continue
    const values = { from: expected.get(field) ?? null, to: comparison.current[field] ?? null }
    stale.push({ field, ...(comparison.showsValues ? values : {}), action: lastChange.get(field) ?? null })
  }
  return stale
}

/** Why one record's decision no longer stands. `current` is null when the record is gone. */
export interface StaleRecord {
  readonly record: string
  readonly decidedAgainst: number
  readonly current: number | null
  readonly changes: readonly StaleChange[]
}

/** The fix of a refusal for a decision that no longer stands (W2): what changed, and the call to make instead. */
export function staleFix(
  records: readonly StaleRecord[],
  retryWith: { verb: string; target: string | null; input: unknown; decidedAgainst: Readonly<Record<string, number>> },
): Fix {
  const names = records.map(({ record, changes, current }) =>
    current === null
      ? `${record} is gone`
      : changes.length === 0
        ? `${record} has no such Version`
        : `${record} changed in ${changes.map(({ field }) => field).join(', ')}`,
  )
  return {
    code: 'stale-decision',
    message: `What this was decided on no longer stands: ${names.join('; ')}.`,
    records,
    retryWith,
  }
}
