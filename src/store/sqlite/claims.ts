import type { WaitingFor } from '../../model/action.ts'
import type { ActionId } from '../../model/ids.ts'
import type { AdoptAnswer, Claim, ClaimAnswer, Lease, PendingListing, RunState } from '../store.ts'
import {
  actionId,
  actionNumber,
  actionRow,
  boundAction,
  chainOf,
  insertAction,
  recordedOf,
  statuses,
  statusNumbers,
  toAction,
} from './actions.ts'
import { endTurn } from './holds.ts'
import { decideItem, decideItemOf, dismissalOf, openItem } from './inbox.ts'
import { keyHash } from './keys.ts'
import { leased } from './leases.ts'
import { present } from './names.ts'
import { fixedOf, journal } from './steps.ts'
import { fencesPerEpoch, type Open, type Tx } from './tx.ts'

/** The Action that a claim's key is bound to already, on record or earlier in this transaction (K5). */
export function alreadyBound(tx: Tx, { workerId, key }: Claim) {
  if (key === null) return null
  const hash = keyHash(workerId, key)
  return boundAction(tx.open, workerId, key, hash, tx.ownKeys(hash))
}

/** Puts an Action on record ahead of its settlement. */
export function claim(tx: Tx, claimed: Claim): ClaimAnswer {
  const found = alreadyBound(tx, claimed)
  if (found !== null) return { kind: 'found', action: found }
  const retried = claimed.retry === undefined ? null : retriedOf(tx, claimed)
  if (retried !== null && 'kind' in retried) return retried
  const applied = claimed.applies === undefined ? null : openItem(tx, claimed.applies)
  if (applied !== null && 'kind' in applied) return applied
  const on = retried?.on ?? (claimed.on === null ? null : present(actionNumber(tx, claimed.on), claimed.on))
  const recorded = recordedOf(tx, claimed, retried)
  insertAction(tx, recorded, on, null)
  const fence = tx.nextFence()
  tx.db.run(
    'INSERT INTO pending (action, fence, running, waiting_for) VALUES (?, ?, ?, ?)',
    recorded.n,
    fence,
    claimed.running ? tx.open.epoch : null,
    claimed.waitingFor,
  )
  if (retried !== null) tellOutcomes(tx, retried.root, claimed)
  if (applied !== null) decideItem(tx, applied.i, 'apply', recorded.worker, recorded.n)
  else if (retried !== null) decideItemOf(tx, retried.on, 'retry', recorded.worker, recorded.n)
  return { kind: 'claimed', lease: { action: claimed.id, fence }, run: runState(tx, retried?.root ?? recorded.n, 0, 0) }
}

interface Retried {
  readonly on: number
  readonly root: number
}

/** Whether the Action may be retried, and it is the chain's latest (A2), and nothing unknown would be repeated blindly (V3). */
function retriedOf(tx: Tx, { on, retry }: Claim): Retried | Exclude<ClaimAnswer, { kind: 'claimed' | 'found' }> {
  if (on === null || retry === undefined) throw new Error('a retry names the Action that it is on')
  const row = actionRow(tx, present(actionNumber(tx, on), on))
  if (row.status !== statusNumbers.failed) return { kind: 'not-retryable', status: statuses[row.status] ?? '' }
  const root = row.root ?? row.n
  const latest = chainOf(tx, root).findLast(({ status }) => status !== statusNumbers.refused)
  if (latest !== undefined && latest.n !== row.n) return { kind: 'already-retried', latest: actionId(tx, latest.n) }
  // What it held has ended with the dismissal: others have gone on from there, and it must not (V6).
  const dismissed = dismissalOf(tx, row.n)
  if (dismissed !== null) return dismissed
  const unknown = new Set<string>()
  const nowMs = tx.open.now()
  for (const { step, status, effect, atMostOnce, keyHoldsMs, startedAt } of journal(tx, root)) {
    const isUnknown = effect && (status === 'started' || status === 'unknown')
    if (isUnknown) unknown.add(step)
    const isUnsafe = isUnknown && (atMostOnce || nowMs - startedAt >= keyHoldsMs)
    if (isUnsafe && !Object.hasOwn(retry.steps ?? {}, step)) return { kind: 'outcome-required', step }
  }
  // A mistyped name must not leave an outcome untold while its teller believes otherwise (V3).
  const untellable = Object.keys(retry.steps ?? {}).find((step) => !unknown.has(step))
  if (untellable !== undefined) return { kind: 'step-not-unknown', step: untellable }
  return { on: row.n, root }
}

/**
 * What a Worker says of unknown outcomes (V3). An outcome is journaled as done. `runAgain` lets the key count as fresh again:
 * the step stays unknown, with the Action that left it so, and the run of the retry, another Action, starts it anew.
 */
function tellOutcomes(tx: Tx, root: number, { retry }: Claim): void {
  for (const [step, said] of Object.entries(retry?.steps ?? {})) {
    if ('outcome' in said) {
      tx.db.run(
        `UPDATE journal SET status = 'done', outcome = ?
         WHERE root = ? AND step = ? AND effect = 1 AND status IN ('started', 'unknown')`,
        said.outcome,
        root,
        step,
      )
    } else {
      tx.db.run(
        `UPDATE journal SET status = 'unknown', started_at = ?
         WHERE root = ? AND step = ? AND effect = 1 AND status IN ('started', 'unknown')`,
        tx.open.now(),
        root,
        step,
      )
    }
  }
}

function runState(tx: Tx, root: number, ranMs: number, crashes: number): RunState {
  return { journal: journal(tx, root), fixed: fixedOf(tx, root), ranMs, crashes }
}

/** Takes a pending Action over: a fresh fencing token, one more attempt, and a crash if a run of an earlier server was cut off (V4). */
export function adopt(tx: Tx, id: ActionId): AdoptAnswer {
  const n = present(actionNumber(tx, id), id)
  const state = tx.db.get<[number | null, number, number]>(
    'SELECT running, crashes, ran_ms FROM pending WHERE action = ?',
    n,
  )
  if (state === undefined) return { kind: 'settled' }
  const [running, crashesBefore, ranMs] = state
  const crashes = crashesBefore + (running !== null && running < tx.open.epoch ? 1 : 0)
  const fence = tx.nextFence()
  tx.db.run(
    'UPDATE pending SET fence = ?, attempts = attempts + 1, crashes = ?, running = ?, waiting_for = NULL WHERE action = ?',
    fence,
    crashes,
    tx.open.epoch,
    n,
  )
  const row = actionRow(tx, n)
  const root = row.root ?? n
  endTurn(tx, root)
  return {
    kind: 'adopted',
    action: toAction(tx.open, row),
    lease: { action: id, fence },
    run: runState(tx, root, ranMs, crashes),
  }
}

/** Says why an Action waits: it has no turn then, and can't be what crashes the process (V4, V6). Null: it runs again. */
export function wait(tx: Tx, lease: Lease, waitingFor: WaitingFor | null, ranMs: number): 'ok' | 'lost' {
  const action = leased(tx, lease)
  if (action === null) return 'lost'
  tx.db.run(
    'UPDATE pending SET waiting_for = ?, ran_ms = ?, running = ? WHERE action = ?',
    waitingFor,
    ranMs,
    waitingFor === null ? tx.open.epoch : null,
    action.n,
  )
  if (waitingFor !== null) endTurn(tx, action.root)
  return 'ok'
}

/** Gives Actions back unharmed: a graceful stop is no crash (V4). */
export function release(tx: Tx, leases: readonly Lease[]): void {
  for (const lease of leases) {
    const action = leased(tx, lease)
    if (action === null) continue
    tx.db.run('UPDATE pending SET fence = 0, running = NULL WHERE action = ?', action.n)
    endTurn(tx, action.root)
  }
}

/** Pending Actions that nobody of this process holds, oldest first. */
export function pending({ db, names, epoch }: Open, after: number, limit: number): PendingListing[] {
  const rows = db.all<[number, number | null, number, WaitingFor | null, number, number]>(
    `SELECT p.action, p.running, p.crashes, p.waiting_for, a.ns, a.verb FROM pending p JOIN actions a ON a.n = p.action
     WHERE p.action > ? AND p.fence < ? ORDER BY p.action LIMIT ?`,
    after,
    epoch * fencesPerEpoch,
    limit,
  )
  return rows.map(([n, running, crashes, waitingFor, ns, verb]) => ({
    action: actionId({ db }, n),
    position: n,
    namespace: names.namespaceName(ns),
    verb: names.verbName(verb),
    waitingFor,
    crashes: crashes + (running !== null && running < epoch ? 1 : 0),
  }))
}
