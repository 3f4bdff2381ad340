import { bytesToId, idToBytes, isItemId, type ItemId } from '../../model/ids.ts'
import type { Decided, InboxItem, NewItem } from '../../model/item.ts'
import type { AlreadyDecided, InboxFilter, Page, Paged } from '../store.ts'
import { actionId, actionRow, toAction } from './actions.ts'
import { present } from './names.ts'
import type { Open, Tx } from './tx.ts'

export function insertItem(tx: Tx, item: NewItem, ns: number, action: number, worker: number, at: number): void {
  tx.db.run(
    'INSERT INTO inbox (id, ns, action, worker, kind, records, would, at) VALUES (?, ?, ?, ?, ?, ?, ?, ?)',
    idToBytes(item.id.slice(5)),
    ns,
    action,
    worker,
    item.kind,
    JSON.stringify(item.records),
    item.would,
    at,
  )
}

/** Decides the open item of an Action, if it has one (W4): by whom, and by which Action. */
export function decideItemOf(tx: Tx, action: number, decision: string, by: number, decidedAction: number): void {
  const row = tx.db.get<[number]>('SELECT i FROM inbox WHERE action = ? AND decided IS NULL', action)
  if (row !== undefined) decideItem(tx, row[0], decision, by, decidedAction)
}

export function decideItem(tx: Tx, i: number, decision: string, by: number, decidedAction: number): void {
  tx.db.run(
    `UPDATE inbox SET decided = (SELECT coalesce(max(decided), 0) + 1 FROM inbox), decision = ?, decided_by = ?,
       decided_action = ? WHERE i = ? AND decided IS NULL`,
    decision,
    by,
    decidedAction,
    i,
  )
}

/** An open item and the Action that it is about, by their numbers. */
export interface OpenItem {
  readonly i: number
  readonly action: number
}

/** The item to decide; or how it was decided, by which it stays. */
export function openItem(tx: Tx, id: ItemId): OpenItem | AlreadyDecided {
  const row = tx.db.get<[number]>('SELECT i FROM inbox WHERE id = ?', idToBytes(id.slice(5)))
  const [i] = present(row, id)
  const columns = itemRow(tx.open, i)
  const decided = decisionOf(tx.open, columns)
  return decided === null ? { i, action: columns[2] } : { kind: 'already-decided', item: id, decided }
}

/** How a failed Action was dismissed, after which it is closed to `Action.retry` too; null while it was not (W4). */
export function dismissalOf(tx: Tx, action: number): AlreadyDecided | null {
  const row = tx.db.get<[number, Uint8Array]>(
    `SELECT i, id FROM inbox WHERE action = ? AND decision = 'dismiss'`,
    action,
  )
  if (row === undefined) return null
  const decided = decisionOf(tx.open, itemRow(tx.open, row[0]))
  return decided === null ? null : { kind: 'already-decided', item: `item_${bytesToId(row[1])}`, decided }
}

type ItemColumns = [
  number,
  Uint8Array,
  number,
  NewItem['kind'],
  string,
  string | null,
  number,
  string | null,
  number | null,
  number | null,
]

function decisionOf(open: Open, row: ItemColumns): Decided | null {
  const [, , , , , , , decision, by, decidedAction] = row
  if (decision === null || by === null || decidedAction === null) return null
  return { decision, by: open.names.workerByNumber(by).name, action: actionId(open, decidedAction) }
}

export function toItem(open: Open, row: ItemColumns): InboxItem {
  const [, id, action, kind, records, would, at, decision] = row
  return {
    id: `item_${bytesToId(id)}`,
    kind,
    records: JSON.parse(records) as Record<string, number>,
    would,
    action: toAction(open, actionRow(open, action)),
    status: decision === null ? 'open' : 'decided',
    decision: decisionOf(open, row),
    at,
  }
}

export function itemRow(open: Open, i: number): ItemColumns {
  const row = open.db.get<ItemColumns>(
    `SELECT i, id, action, kind, records, would, at, decision, decided_by, decided_action FROM inbox WHERE i = ?`,
    i,
  )
  return present(row, `inbox item ${i}`)
}

export function item(open: Open, namespace: string, id: ItemId): InboxItem | null {
  const ns = open.names.namespace(namespace)
  if (ns === undefined || !isItemId(id)) return null
  const row = open.db.get<[number]>('SELECT i FROM inbox WHERE id = ? AND ns = ?', idToBytes(id.slice(5)), ns)
  return row === undefined ? null : toItem(open, itemRow(open, row[0]))
}

/** Items in the order in which they came to be; decided ones, when only those are asked for, in the order of decision. */
export function inbox(open: Open, namespace: string, filter: InboxFilter, page: Page): Paged<InboxItem> {
  const ns = open.names.namespace(namespace)
  const worker = open.names.worker(filter.workerId)
  if (ns === undefined || worker === undefined) return { data: [], next: null }
  const rows = positions(open, ns, worker.worker, filter, page.after, page.limit + 1)
  const shown = rows.slice(0, page.limit)
  return {
    data: shown.map(([i]) => toItem(open, itemRow(open, i))),
    next: rows.length > page.limit ? (shown.at(-1)?.[1] ?? null) : null,
  }
}

/** Numbers and positions of the items that a filter lets through. */
function positions(
  { db }: Open,
  ns: number,
  worker: number,
  { all, status }: InboxFilter,
  after: number,
  limit: number,
): [number, number][] {
  // With `all`, the failed ones of every Worker too; their kind is asked for as none otherwise.
  const kind = all ? 'failed' : ''
  if (status === 'decided') {
    return db.all<[number, number]>(
      'SELECT i, decided FROM inbox WHERE decided > ? AND ns = ? AND (worker = ? OR kind = ?) ORDER BY decided LIMIT ?',
      after,
      ns,
      worker,
      kind,
      limit,
    )
  }
  if (status === 'open') {
    return db.all<[number, number]>(
      `SELECT i, i FROM inbox WHERE worker = ? AND i > ? AND decided IS NULL
       UNION SELECT i, i FROM inbox WHERE ns = ? AND kind = ? AND i > ? AND decided IS NULL ORDER BY 1 LIMIT ?`,
      worker,
      after,
      ns,
      kind,
      after,
      limit,
    )
  }
  return db.all<[number, number]>(
    `SELECT i, i FROM inbox WHERE worker = ? AND i > ?
     UNION SELECT i, i FROM inbox WHERE ns = ? AND kind = ? AND i > ? ORDER BY 1 LIMIT ?`,
    worker,
    after,
    ns,
    kind,
    after,
    limit,
  )
}
