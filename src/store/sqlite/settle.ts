import { actionJson, type Outcome, type SettledAction, type StepView } from '../../model/action.ts'
import type { EventId } from '../../model/ids.ts'
import { itemJson } from '../../model/item.ts'
import type { Settlement, SettleAnswer } from '../store.ts'
import {
  actionNumber,
  actionRow,
  insertAction,
  recordedOf,
  settledAction,
  settleRow,
  statuses,
  statusNumbers,
  toAction,
  type Recorded,
  type SettledColumns,
} from './actions.ts'
import { alreadyBound } from './claims.ts'
import { endTurn, releaseHolds } from './holds.ts'
import { decideItem, decideItemOf, insertItem, itemRow, openItem, toItem, type OpenItem } from './inbox.ts'
import { leased } from './leases.ts'
import { present } from './names.ts'
import { stands } from './records.ts'
import type { Tx } from './tx.ts'
import { dayOf } from './usage.ts'
import { applyWrites, planWrites } from './writes.ts'

/** Settles an Action, with all that belongs to it, or does nothing: every check comes before the first write (V1). */
export function settle(tx: Tx, settlement: Settlement): SettleAnswer {
  const { by, cancels, dismisses } = settlement
  if ('claim' in by && by.claim.retry !== undefined) throw new Error('a retry is claimed before it is settled')
  const found = 'claim' in by ? alreadyBound(tx, by.claim) : null
  if (found !== null) return { kind: 'found', action: found }
  const lease = 'lease' in by ? leased(tx, by.lease) : null
  if ('lease' in by && lease === null) return { kind: 'lost' }

  const namespace = 'claim' in by ? by.claim.namespace : tx.names.namespaceName(present(lease ?? undefined, 'lease').ns)
  const ns = present(tx.names.namespace(namespace), namespace)
  if (!stands(tx, namespace, settlement.reads)) return { kind: 'conflict' }
  const planned = planWrites(tx, ns, lease?.root ?? null, settlement.writes)
  if ('kind' in planned) return planned
  const cancelled = cancels === undefined ? null : cancellable(tx, ns, cancels.action)
  if (typeof cancelled === 'string') return { kind: 'not-cancellable', reason: cancelled }
  const dismissed = dismisses === undefined ? null : openItem(tx, dismisses)
  if (dismissed !== null && 'kind' in dismissed) return dismissed

  const recorded =
    'claim' in by ? recordedOf(tx, by.claim, null) : recordedBefore(tx, present(lease ?? undefined, 'lease').n)
  const { n, createdAt } = recorded
  let { outcome } = settlement
  if (cancelled !== null && cancels !== undefined) {
    const action = cancel(tx, recorded, cancelled, cancels.fix, cancels.eventType)
    outcome = { status: 'succeeded', output: actionJson(action) }
  }
  if (dismissed !== null) outcome = { status: 'succeeded', output: dismiss(tx, recorded, dismissed) }
  const settled: SettledColumns = {
    ...eventOf(tx, ns, createdAt, settlement.eventType),
    outcome,
    changed: applyWrites(tx, n, planned),
    steps: settlement.steps,
    attempts: lease?.attempts ?? 1,
    units: settlement.units,
  }
  if (lease === null) insertAction(tx, recorded, onNumber(tx, recorded), settled)
  else settleRow(tx, n, createdAt, settled)
  if (settlement.units > 0) tx.meter(ns, dayOf(settled.settledAt), recorded.verb, recorded.worker, settlement.units)
  if (settlement.item !== null) insertItem(tx, settlement.item, ns, n, recorded.worker, settled.settledAt)
  if (settlement.holds === 'keep') endTurn(tx, recorded.root ?? n)
  else if (lease !== null) endEffects(tx, recorded.root ?? n)
  const action = settledAction(recorded.common, settled)
  tx.notices.push({ kind: 'settled', action })
  return { kind: 'settled', action }
}

/**
 * What the chain holds ends (V6), and what its first effect fixed: nobody keeps it as it was any more, so that a retry, of a
 * rejected step say, looks at it anew. A second refund would go out on the strength of an Order that is refunded since.
 */
function endEffects(tx: Tx, root: number): void {
  releaseHolds(tx, root)
  tx.db.run('DELETE FROM chains WHERE root = ?', root)
}

function onNumber(tx: Tx, { common }: Recorded): number | null {
  return common.on === null ? null : present(actionNumber(tx, common.on), common.on)
}

/** An Action that an earlier commit put on record. */
function recordedBefore(tx: Tx, n: number): Recorded {
  const row = actionRow(tx, n)
  const { id, namespace, verb, worker, workerId, key, bound, mode, target, input, on, root, ...rest } = toAction(
    tx.open,
    row,
  )
  const { decidedAgainst, decidedAfter, createdAt } = rest
  return {
    n,
    ns: row.ns,
    worker: row.worker,
    verb: row.verb,
    createdAt,
    root: row.root,
    common: {
      id,
      namespace,
      verb,
      worker,
      workerId,
      key,
      bound,
      mode,
      target,
      input,
      on,
      root,
      decidedAgainst,
      decidedAfter,
      createdAt,
    },
  }
}

/** The Event of a settlement: the next seq of its namespace, and a time that is never before the Action's (E1). */
function eventOf(tx: Tx, ns: number, createdAt: number, eventType: string) {
  return {
    seq: tx.nextSeq(ns),
    event: `evt_${tx.open.ids.next()}` satisfies EventId,
    eventType: tx.names.internEventType(eventType),
    settledAt: Math.max(tx.open.now(), createdAt),
  }
}

interface Cancelled {
  readonly recorded: Recorded
  readonly steps: readonly StepView[]
  readonly attempts: number
}

/** The Action to cancel, or a sentence why it can't be (A3): it is settled, or an effect may have happened in its chain. */
function cancellable(tx: Tx, ns: number, id: string): Cancelled | string {
  const n = actionNumber(tx, id)
  if (n === undefined) return `There is no Action ${id}.`
  const row = actionRow(tx, n)
  if (row.ns !== ns) return `There is no Action ${id}.`
  if (row.status !== statusNumbers.pending) return `It is ${statuses[row.status] ?? 'settled'} already.`
  const effect = tx.db.get<[string]>(
    `SELECT step FROM journal WHERE root = ? AND effect = 1 AND status <> 'rejected' ORDER BY place LIMIT 1`,
    row.root ?? n,
  )
  if (effect !== undefined) return `Its step ${effect[0]} has started.`
  const action = toAction(tx.open, row)
  return { recorded: recordedBefore(tx, n), steps: action.steps, attempts: action.attempts }
}

/** Settles the cancelled Action, with an Event of its own before the cancelling one's. */
function cancel(
  tx: Tx,
  by: Recorded,
  { recorded, steps, attempts }: Cancelled,
  outcome: Outcome,
  eventType: string,
): SettledAction {
  const settled: SettledColumns = {
    ...eventOf(tx, recorded.ns, recorded.createdAt, eventType),
    outcome,
    changed: null,
    steps,
    attempts,
    units: 0,
  }
  settleRow(tx, recorded.n, recorded.createdAt, settled)
  decideItemOf(tx, recorded.n, 'cancel', by.worker, by.n)
  endEffects(tx, recorded.root ?? recorded.n)
  const action = settledAction(recorded.common, settled)
  tx.notices.push({ kind: 'settled', action })
  return action
}

/** Closes an item, and with one that failed what its chain holds (V6); gives the item as it then is (A3). */
function dismiss(tx: Tx, by: Recorded, { i, action }: OpenItem): string {
  const item = toItem(tx.open, itemRow(tx.open, i))
  decideItem(tx, i, 'dismiss', by.worker, by.n)
  if (item.kind === 'failed') endEffects(tx, actionRow(tx, action).root ?? action)
  const decision = { decision: 'dismiss', by: by.common.worker, action: by.common.id }
  return itemJson({ ...item, status: 'decided', decision })
}
