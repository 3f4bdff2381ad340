import type { WaitingFor } from '../../model/action.ts'
import type { Census, PendingCount } from '../store.ts'
import type { Open } from './tx.ts'

/** Rows counted at once: a millisecond or two of the serving thread's time. */
const pageRows = 1000

/** Where rows are told to be read by the connection, with its errors as the seam has them. */
type Read = <Answer>(reading: () => Answer) => Answer

/** Counts what is pending and what is open, page by page. */
export async function census(open: Open, read: Read): Promise<Census> {
  const pending = new Map<string, PendingCount>()
  await byPages((after) => read(() => pendingPage(open, after, pending)))
  const inbox = new Map<string, number>()
  await byPages((after) => read(() => inboxPage(open, after, inbox)))
  return {
    pending: [...pending.values()],
    inbox: [...inbox].map(([namespace, count]) => ({ namespace, open: count })),
  }
}

/** `page` gives the last position that it counted, or null when there was nothing above `after`. */
async function byPages(page: (after: number) => number | null): Promise<void> {
  for (let after = page(0); after !== null; after = page(after)) await new Promise((resolve) => setImmediate(resolve))
}

function pendingPage({ db, names }: Open, after: number, counts: Map<string, PendingCount>): number | null {
  const rows = db.all<[number, WaitingFor | null, number, number, number]>(
    `SELECT a.ns, p.waiting_for, count(*), min(a.created_at), max(p.action)
     FROM (SELECT action, waiting_for FROM pending WHERE action > ? ORDER BY action LIMIT ?) p
     JOIN actions a ON a.n = p.action GROUP BY a.ns, p.waiting_for`,
    after,
    pageRows,
  )
  for (const [ns, waitingFor, count, oldestAt] of rows) {
    const name = `${ns} ${waitingFor}`
    const known = counts.get(name)
    counts.set(name, {
      namespace: names.namespaceName(ns),
      waitingFor,
      count: count + (known?.count ?? 0),
      oldestAt: Math.min(oldestAt, known?.oldestAt ?? oldestAt),
    })
  }
  return lastOf(rows.map((row) => row[4]))
}

function inboxPage({ db, names }: Open, after: number, counts: Map<string, number>): number | null {
  const rows = db.all<[number, number, number]>(
    `SELECT ns, count(*), max(i) FROM (SELECT i, ns FROM inbox WHERE decided IS NULL AND i > ? ORDER BY i LIMIT ?)
     GROUP BY ns`,
    after,
    pageRows,
  )
  for (const [ns, count] of rows) {
    const namespace = names.namespaceName(ns)
    counts.set(namespace, count + (counts.get(namespace) ?? 0))
  }
  return lastOf(rows.map((row) => row[2]))
}

function lastOf(positions: readonly number[]): number | null {
  return positions.length === 0 ? null : Math.max(...positions)
}
