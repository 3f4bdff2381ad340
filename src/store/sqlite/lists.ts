import type { Action } from '../../model/action.ts'
import type { ActionFilter, Page, Paged } from '../store.ts'
import { actionNumber, actionRow, boundAction, statusNumbers, toAction } from './actions.ts'
import type { Database } from './database.ts'
import { keyHash } from './keys.ts'
import type { Open } from './tx.ts'

/** A list looks at this many rows for one page at most: a filter that few match gives short pages, not a long stall. */
const scannedPerPage = 20_000
const chunkRows = 500

/** An Action's number, and its place in the list: its number, or its seq in a list of settled ones. */
type Entry = readonly [n: number, position: number]

/** A filter in the store's own numbers. */
interface Wanted {
  readonly ns: number
  readonly status: number | null
  readonly verb: number | null
  readonly worker: number | null
  readonly on: number | null
}

/**
 * Actions in the order in which they became visible in this list: in the order of settlement when only one settled status
 * is asked for, as they came on record otherwise. A reader that pages under writes neither skips nor repeats.
 */
export function listActions(open: Open, namespace: string, filter: ActionFilter, page: Page): Paged<Action> {
  const wanted = wantedOf(open, namespace, filter)
  if (wanted === null) return { data: [], next: null }
  const source = sourceOf(open, namespace, filter, wanted)
  const found: Entry[] = []
  let position = page.after
  for (let scanned = 0; found.length <= page.limit;) {
    if (scanned >= scannedPerPage) return { data: toActions(open, found), next: position }
    const chunk = source(position, Math.max(chunkRows, page.limit + 1))
    for (const entry of chunk) if (matches(open.db, entry[0], wanted)) found.push(entry)
    const last = chunk.at(-1)
    if (last === undefined) break
    scanned += chunk.length
    position = last[1]
  }
  const shown = found.slice(0, page.limit)
  return { data: toActions(open, shown), next: found.length > page.limit ? (shown.at(-1)?.[1] ?? null) : null }
}

function toActions(open: Open, entries: readonly Entry[]): Action[] {
  return entries.map(([n]) => toAction(open, actionRow(open, n)))
}

/** Null when the filter names something that the store has never seen: nothing can match. */
function wantedOf(open: Open, namespace: string, filter: ActionFilter): Wanted | null {
  const ns = open.names.namespace(namespace)
  const verb = filter.verb === undefined ? null : open.names.verb(filter.verb)
  const on = filter.on === undefined ? null : actionNumber(open, filter.on)
  if (ns === undefined || verb === undefined || on === undefined) return null
  const worker = filter.worker === undefined ? null : workerNumber(open.db, ns, filter.worker)
  if (worker === undefined) return null
  return { ns, status: filter.status === undefined ? null : statusNumbers[filter.status], verb, worker, on }
}

function workerNumber(db: Database, ns: number, name: string): number | undefined {
  return db.get<[number]>('SELECT worker FROM workers WHERE ns = ? AND name = ?', ns, name)?.[0]
}

function matches(db: Database, n: number, wanted: Wanted): boolean {
  const row = db.get<[number, number, number, number, number | null]>(
    'SELECT ns, status, verb, worker, on_n FROM actions WHERE n = ?',
    n,
  )
  if (row === undefined) return false
  const [ns, status, verb, worker, on] = row
  return (
    ns === wanted.ns &&
    (wanted.status === null || status === wanted.status) &&
    (wanted.verb === null || verb === wanted.verb) &&
    (wanted.worker === null || worker === wanted.worker) &&
    (wanted.on === null || on === wanted.on)
  )
}

/** Candidates above a position, ascending: by the index that leaves the fewest. */
type Source = (after: number, limit: number) => readonly Entry[]

function sourceOf(open: Open, namespace: string, filter: ActionFilter, wanted: Wanted): Source {
  const { db } = open
  const { ns, status, worker, verb, on } = wanted
  const isSettledList = status !== null && status !== statusNumbers.pending
  if (filter.key !== undefined) return fixed(boundTo(open, namespace, filter.key), isSettledList)
  if (on !== null)
    return fixed(db.all<[number, number | null]>('SELECT n, seq FROM actions WHERE on_n = ?', on), isSettledList)
  if (status === statusNumbers.pending) {
    return (after, limit) =>
      db.all<[number, number]>(
        'SELECT action, action FROM pending WHERE action > ? ORDER BY action LIMIT ?',
        after,
        limit,
      )
  }
  if (status === statusNumbers.succeeded) {
    return (after, limit) =>
      db.all<[number, number]>(
        'SELECT n, seq FROM actions WHERE ns = ? AND seq > ? ORDER BY seq LIMIT ?',
        ns,
        after,
        limit,
      )
  }
  if (status !== null) {
    return (after, limit) =>
      db.all<[number, number]>(
        'SELECT n, seq FROM actions WHERE ns = ? AND status = ? AND status >= 2 AND seq > ? ORDER BY seq LIMIT ?',
        ns,
        status,
        after,
        limit,
      )
  }
  if (worker !== null) {
    return (after, limit) =>
      db.all<[number, number]>(
        'SELECT n, n FROM actions WHERE worker = ? AND n > ? ORDER BY n LIMIT ?',
        worker,
        after,
        limit,
      )
  }
  const verbs = verb === null ? verbsOf(db, ns) : [verb]
  return (after, limit) => merged(verbs.map((one) => ofVerb(db, ns, one, after, limit))).slice(0, limit)
}

function ofVerb(db: Database, ns: number, verb: number, after: number, limit: number): Entry[] {
  return db.all<[number, number]>(
    'SELECT n, n FROM actions WHERE ns = ? AND verb = ? AND n > ? ORDER BY n LIMIT ?',
    ns,
    verb,
    after,
    limit,
  )
}

function merged(lists: readonly Entry[][]): Entry[] {
  return lists.length === 1 ? (lists[0] ?? []) : lists.flat().sort(([a], [b]) => a - b)
}

/** The Verbs that a namespace has Actions of: one probe of the index each. */
function verbsOf(db: Database, ns: number): number[] {
  const verbs: number[] = []
  for (let last = 0; ;) {
    const row = db.get<[number]>('SELECT verb FROM actions WHERE ns = ? AND verb > ? ORDER BY verb LIMIT 1', ns, last)
    if (row === undefined) return verbs
    verbs.push((last = row[0]))
  }
}

/** A key is bound to one Action for each Worker at most (K2). */
function boundTo(open: Open, namespace: string, key: string): [number, number | null][] {
  const ids = open.db.all<[string]>(
    'SELECT w.id FROM workers w JOIN namespaces s ON s.ns = w.ns WHERE s.name = ? ORDER BY w.worker',
    namespace,
  )
  return ids.flatMap(([workerId]) => {
    const action = boundAction(open, workerId, key, keyHash(workerId, key), [])
    const n = action === null ? undefined : actionNumber(open, action.id)
    return action === null || n === undefined ? [] : [[n, action.status === 'pending' ? null : action.seq]]
  })
}

/** A few candidates, known at once. */
function fixed(rows: readonly (readonly [number, number | null])[], isSettledList: boolean): Source {
  const entries = rows
    .flatMap(([n, seq]): Entry[] => (isSettledList ? (seq === null ? [] : [[n, seq]]) : [[n, n]]))
    .sort(([, a], [, b]) => a - b)
  return (after, limit) => entries.filter(([, position]) => position > after).slice(0, limit)
}
