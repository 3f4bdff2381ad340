import { actionId, chainOf, statusNumbers } from './actions.ts'
import type { Open } from './tx.ts'
import type { Report } from './verify-actions.ts'

/** No orphans: what belongs to an Action, a chain or a Worker has one, in the status that it needs. */
export function auditRest(open: Open, report: Report): void {
  const { db } = open
  for (const [n] of db.each<[number]>(
    'SELECT p.action FROM pending p LEFT JOIN actions a ON a.n = p.action WHERE a.n IS NULL OR a.status <> 0',
  )) {
    report(`There is a run state of Action number ${n}, which is not pending.`)
  }
  for (const [root, step] of db.each<[number, string]>(
    `SELECT j.root, j.step FROM journal j LEFT JOIN actions r ON r.n = j.root LEFT JOIN actions a ON a.n = j.action
     WHERE r.n IS NULL OR r.root IS NOT NULL OR a.n IS NULL OR coalesce(a.root, a.n) <> j.root`,
  )) {
    report(`The journal has ${step} of Action number ${root}, to whose chain it does not belong.`)
  }
  for (const [root] of db.each<[number]>(
    'SELECT c.root FROM chains c LEFT JOIN actions a ON a.n = c.root WHERE a.n IS NULL OR a.root IS NOT NULL',
  )) {
    report(`There is fixed what a chain read that does not exist, of Action number ${root}.`)
  }
  auditHolds(open, report)
  auditInbox(open, report)
  for (const [worker] of db.each<[number]>(
    'SELECT DISTINCT t.worker FROM tokens t LEFT JOIN workers w ON w.worker = t.worker WHERE w.worker IS NULL',
  )) {
    report(`There is a token of Worker number ${worker}, who does not exist.`)
  }
}

/** Holds are of a chain that is pending, or that failed with an effect done or unknown; turns of a pending one only (V6). */
function auditHolds(open: Open, report: Report): void {
  for (const [root, turn] of open.db.each<[number, number]>('SELECT DISTINCT root, turn FROM holds')) {
    const chain = chainOf(open, root)
    const latest = chain.findLast(({ status }) => status !== statusNumbers.refused)
    if (latest === undefined) report(`There are holds of Action number ${root}, whose chain is over or does not exist.`)
    if (latest === undefined || latest.status === statusNumbers.pending) continue
    const id = actionId(open, latest.n)
    if (turn === 1) report(`${id} is settled and its chain has a turn.`)
    else if (latest.status !== statusNumbers.failed || !hasHappened(open, root))
      report(`${id} is settled and its chain holds records.`)
  }
}

function hasHappened({ db }: Open, root: number): boolean {
  const row = db.get<[number]>(
    `SELECT 1 FROM journal WHERE root = ? AND effect = 1 AND status <> 'rejected' LIMIT 1`,
    root,
  )
  return row !== undefined
}

function auditInbox({ db }: Open, report: Report): void {
  const rows = db.each<[number, string, number | null, number | null, number | null, number | null]>(
    `SELECT i.i, i.kind, i.decided_action, a.status, d.n, w.worker FROM inbox i LEFT JOIN actions a ON a.n = i.action
     LEFT JOIN actions d ON d.n = i.decided_action LEFT JOIN workers w ON w.worker = i.worker`,
  )
  for (const [i, kind, decidedAction, status, decider, worker] of rows) {
    const isOf = kind === 'approval' ? status !== null : status !== null && status === (kind === 'failed' ? 2 : 3)
    if (!isOf) report(`Inbox item number ${i} is ${kind}, and its Action is not.`)
    if (decidedAction !== null && decider === null)
      report(`Inbox item number ${i} was decided by an Action that does not exist.`)
    if (worker === null) report(`Inbox item number ${i} is of a Worker who does not exist.`)
  }
}
