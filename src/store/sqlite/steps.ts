import type { StepStatus } from '../../model/action.ts'
import { bytesToId } from '../../model/ids.ts'
import type { Fixed, JournalEntry } from '../../model/journal.ts'
import type { Blocked, Conflict, Lease, Lost, StepStart } from '../store.ts'
import { actionNumber } from './actions.ts'
import { blockedBy, endTurn, takeHolds, takeTurn } from './holds.ts'
import { leased, type Leased } from './leases.ts'
import { present } from './names.ts'
import { stands } from './records.ts'
import type { Open, Tx } from './tx.ts'

type JournalColumns = [
  string,
  number,
  StepStatus,
  string | null,
  string | null,
  number,
  number,
  number,
  number,
  number,
  Uint8Array,
]

/** The chain's journal, in the order in which its steps first started. */
export function journal({ db }: Pick<Open, 'db'>, root: number): JournalEntry[] {
  const rows = db.all<JournalColumns>(
    `SELECT j.step, j.generation, j.status, j.input, j.outcome, j.attempts, j.started_at, j.effect, j.at_most_once,
            j.key_holds_ms, a.id
     FROM journal j JOIN actions a ON a.n = j.action WHERE j.root = ? ORDER BY j.place`,
    root,
  )
  return rows.map(
    ([step, generation, status, input, outcome, attempts, startedAt, effect, atMostOnce, holdsMs, action]) => ({
      step,
      generation,
      status,
      input,
      outcome,
      attempts,
      startedAt,
      effect: effect === 1,
      atMostOnce: atMostOnce === 1,
      keyHoldsMs: holdsMs,
      action: `act_${bytesToId(action)}`,
    }),
  )
}

export function fixedOf({ db }: Pick<Open, 'db'>, root: number): Fixed | null {
  const row = db.get<[string]>('SELECT fixed FROM chains WHERE root = ?', root)
  return row === undefined ? null : (JSON.parse(row[0]) as Fixed)
}

/** A step starts (V2), and with an effect all that this fixes and holds (V1, V6). */
export function startStep(tx: Tx, start: StepStart): { kind: 'started' } | Conflict | Blocked | Lost {
  const action = leased(tx, start.lease)
  if (action === null) return { kind: 'lost' }
  const { effect } = start
  if (effect !== null) {
    if (!stands(tx, tx.names.namespaceName(action.ns), effect.reads)) return { kind: 'conflict' }
    const blocked = blockedBy(tx, tx.holds, action.ns, effect.fixed.holds, action.root)
    if (blocked !== null) return blocked
    takeHolds(tx, action.ns, action.root, effect.fixed.holds)
    tx.db.run(
      'INSERT INTO chains (root, fixed) VALUES (?, ?) ON CONFLICT (root) DO UPDATE SET fixed = excluded.fixed',
      action.root,
      JSON.stringify(effect.fixed),
    )
    if (effect.keep !== null) dropOthers(tx, action.root, [...effect.keep, start.entry.step])
  }
  putEntry(tx, action, start.entry)
  tx.db.run('UPDATE pending SET ran_ms = ? WHERE action = ?', start.ranMs, action.n)
  return { kind: 'started' }
}

export function endStep(tx: Tx, lease: Lease, entry: JournalEntry, ranMs: number): 'ok' | 'lost' {
  const action = leased(tx, lease)
  if (action === null) return 'lost'
  putEntry(tx, action, entry)
  tx.db.run('UPDATE pending SET ran_ms = ? WHERE action = ?', ranMs, action.n)
  // Progress: whatever crashed the process before, this Action got further (V4). What is run again each time is none.
  const isProgress = entry.effect && (entry.status === 'done' || entry.status === 'rejected')
  if (isProgress) tx.db.run('UPDATE pending SET crashes = 0 WHERE action = ?', action.n)
  return 'ok'
}

/** An Action that met conflicts takes its turn (V6), in the place of its earlier one; with none it only ends that. */
export function hold(tx: Tx, lease: Lease, resources: readonly string[]): { kind: 'held' } | Blocked | Lost {
  const action = leased(tx, lease)
  if (action === null) return { kind: 'lost' }
  const blocked = blockedBy(tx, tx.holds, action.ns, resources, action.root)
  if (blocked !== null) return blocked
  if (resources.length === 0) endTurn(tx, action.root)
  else takeTurn(tx, action.ns, action.root, resources)
  return { kind: 'held' }
}

function putEntry(tx: Tx, { root }: Leased, entry: JournalEntry): void {
  tx.db.run(
    `INSERT INTO journal (root, step, place, generation, status, input, outcome, attempts, started_at, effect, at_most_once,
       key_holds_ms, action)
     VALUES (?, ?, (SELECT coalesce(max(place), 0) + 1 FROM journal WHERE root = ?), ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
     ON CONFLICT (root, step) DO UPDATE SET generation = excluded.generation, status = excluded.status,
       input = excluded.input, outcome = excluded.outcome, attempts = excluded.attempts, started_at = excluded.started_at,
       effect = excluded.effect, at_most_once = excluded.at_most_once, key_holds_ms = excluded.key_holds_ms,
       action = excluded.action`,
    root,
    entry.step,
    root,
    entry.generation,
    entry.status,
    entry.input,
    entry.outcome,
    entry.attempts,
    entry.startedAt,
    entry.effect ? 1 : 0,
    entry.atMostOnce ? 1 : 0,
    entry.keyHoldsMs,
    present(actionNumber(tx, entry.action), entry.action),
  )
}

/**
 * Steps without an effect that this run no longer reaches are dropped when the first effect starts (V2). A rejected one
 * stays: should a later run reach it, it is asked under the next generation of its key.
 */
function dropOthers(tx: Tx, root: number, kept: readonly string[]): void {
  tx.db.run(
    'DELETE FROM journal WHERE root = ? AND effect = 0 AND step NOT IN (SELECT value FROM json_each(?))',
    root,
    JSON.stringify(kept),
  )
}
