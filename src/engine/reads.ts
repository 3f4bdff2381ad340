import { actionJson, isoTime, type Action } from '../model/action.ts'
import { isActionId, isItemId } from '../model/ids.ts'
import { isInInbox, itemJson } from '../model/item.ts'
import { problem } from '../model/problem.ts'
import type { RecordVersion, StoredRecord } from '../model/record.ts'
import type { Noun } from '../model/startup.ts'
import { may, maySee, type Worker } from '../model/worker.ts'
import type { InboxFilter, Paged } from '../store/store.ts'
import { listIdentity, readCursor, writeCursor } from './cursor.ts'
import type { Engine } from './engine.ts'
import { eventJson } from './event.ts'
import { actionFilter, dayRange, invalid, readLimit, recordFilters, seqAfter, type Query } from './filters.ts'

export { StoreUnavailable } from '../store/store.ts'

/**
 * What a Worker may read (§3, H1), as JSON text. Nothing of it leaves the server before `engine.durable()` has resolved
 * (R3). Rejections are thrown Problems.
 */
type Reader = Pick<Engine, 'store' | 'startups'>

/** Records of a Noun, in order of creation, filtered on its indexes. */
export async function listRecords({ store }: Reader, worker: Worker, noun: Noun, query: Query): Promise<string> {
  requireGrant(worker, `${noun.name}:read`)
  const filters = recordFilters(noun, query)
  const limit = readLimit(query)
  const { namespace } = worker
  const identity = listIdentity(
    noun.plural,
    namespace,
    Object.fromEntries(filters.map(({ field, value }) => [field, value])),
  )
  const after = readCursor(identity, query.get('after'))
  const page = await store.records(namespace, noun.name, filters, { after, limit })
  return pageJson(identity, page, (record) => recordJson(noun, record))
}

/** One record as it is. 404 `record-not-found` also for a deleted one, whose Versions stay. */
export async function oneRecord(
  { store }: Reader,
  worker: Worker,
  noun: Noun,
  id: string,
): Promise<{ json: string; version: number }> {
  requireGrant(worker, `${noun.name}:read`)
  const record = await store.record(worker.namespace, noun.name, id)
  if (record === null) throw recordNotFound(noun, id)
  if (record.version < 0) {
    throw problem('record-not-found', `${noun.plural}/${id} was deleted; its Versions are kept: /${id}/versions.`)
  }
  return { json: recordJson(noun, record), version: record.version }
}

/** A record's Versions, oldest first, those of a deleted one too. */
export async function listVersions(
  { store }: Reader,
  worker: Worker,
  noun: Noun,
  id: string,
  query: Query,
): Promise<string> {
  requireGrant(worker, `${noun.name}:read`)
  const limit = readLimit(query)
  const identity = listIdentity(`${noun.plural}/${id}/versions`, worker.namespace, {})
  const after = readCursor(identity, query.get('after'))
  const versions = await store.versions(worker.namespace, noun.name, id, after, limit + 1)
  if (versions.length === 0 && (await store.record(worker.namespace, noun.name, id)) === null) {
    throw recordNotFound(noun, id)
  }
  return pageJson(
    identity,
    cut(versions, limit, ({ version }) => version),
    versionJson,
  )
}

/** Actions in the order in which they became visible; a Worker's own, or with `actions:all` everybody's. */
export async function listActions({ store }: Reader, worker: Worker, query: Query): Promise<string> {
  const filter = actionFilter(worker, query)
  const limit = readLimit(query)
  const identity = listIdentity('actions', worker.namespace, { ...filter })
  const after = readCursor(identity, query.get('after'))
  return pageJson(identity, await store.actions(worker.namespace, filter, { after, limit }), actionJson)
}

/** One Action. 404 `action-not-found` also for one that the Worker may not see. */
export async function oneAction({ store }: Reader, worker: Worker, id: string): Promise<Action> {
  const action = isActionId(id) ? await store.action(worker.namespace, id) : null
  if (action === null || !maySee(worker, action))
    throw problem('action-not-found', 'There is no Action with this id that this Worker may see.')
  return action
}

/** Events in order, after a seq. All or 403, so that a filter can't look like a gap (H1). */
export async function listEvents({ store }: Reader, worker: Worker, query: Query): Promise<string> {
  requireGrant(worker, 'events')
  const limit = readLimit(query)
  const events = await store.events(worker.namespace, seqAfter(query.get('after')), limit + 1)
  const { data, next } = cut(events, limit, ({ seq }) => seq)
  return listJson(data.map(eventJson), next === null ? null : String(next))
}

/** Units by Verb, Worker and UTC day of settlement. All or 403 (H1). */
export async function listUsage({ store }: Reader, worker: Worker, query: Query): Promise<string> {
  requireGrant(worker, 'usage')
  const { from, to } = dayRange(query)
  const rows = await store.usage(worker.namespace, from, to)
  const data = rows.map(({ verb, worker: name, day, units }) => JSON.stringify({ verb, worker: name, day, units }))
  return listJson(data, null)
}

/** What waits for the Worker: its own items, and with the grant `inbox` every failed one (W4). */
export async function listInbox({ store }: Reader, worker: Worker, query: Query): Promise<string> {
  const limit = readLimit(query)
  const status = query.get('status')
  if (status !== undefined && status !== 'open' && status !== 'decided')
    throw invalid('status must be open or decided.')
  const all = may(worker, 'inbox')
  const filter: InboxFilter = { workerId: worker.id, all, ...(status === undefined ? {} : { status }) }
  const identity = listIdentity('inbox', worker.namespace, { ...filter })
  const after = readCursor(identity, query.get('after'))
  return pageJson(identity, await store.inbox(worker.namespace, filter, { after, limit }), itemJson)
}

/** One inbox item. 404 `item-not-found` also for one that the Worker may not see. */
export async function oneItem({ store }: Reader, worker: Worker, id: string): Promise<string> {
  const item = isItemId(id) ? await store.item(worker.namespace, id) : null
  if (item === null || !isInInbox(worker, item)) {
    throw problem('item-not-found', 'There is no item with this id in an inbox of this Worker.')
  }
  return itemJson(item)
}

/** Whether the store answers: one small read. */
export async function isReachable({ store }: Reader): Promise<boolean> {
  try {
    await store.namespaces()
    return true
  } catch {
    // Whatever the store throws here, StoreUnavailable or worse: it can't be read, and `false` says just that.
    return false
  }
}

/** The namespace's Noun with this plural; 404 `not-found` when it has none. */
export function nounAt({ startups }: Reader, worker: Worker, plural: string): Noun {
  const noun = startups.get(worker.namespace)?.nounsByPlural.get(plural)
  if (noun !== undefined) return noun
  throw problem('not-found', `${worker.namespace} has no Noun whose plural is ${plural}.`)
}

function requireGrant(worker: Worker, grant: string): void {
  if (!may(worker, grant)) throw problem('forbidden', `This needs the grant ${grant}.`)
}

function recordNotFound(noun: Noun, id: string): Error {
  return problem('record-not-found', `There is no ${noun.plural}/${id}.`)
}

/** The first `limit` of what was asked for with one more, and the position of the last when there is more. */
function cut<T>(found: readonly T[], limit: number, position: (member: T) => number): Paged<T> {
  const last = found[limit - 1]
  if (found.length <= limit || last === undefined) return { data: found, next: null }
  return { data: found.slice(0, limit), next: position(last) }
}

function pageJson<T>(identity: string, page: Paged<T>, json: (member: T) => string): string {
  return listJson(page.data.map(json), page.next === null ? null : writeCursor(identity, page.next))
}

function listJson(data: readonly string[], next: string | null): string {
  return `{"data":[${data.join(',')}],"next":${JSON.stringify(next)}}`
}

/** An old record is shown with the defaults of fields that came later (N2). */
function recordJson(noun: Noun, { id, version, fields }: StoredRecord): string {
  return JSON.stringify({ $id: id, $noun: noun.name, $version: version, ...noun.complete(fields) })
}

function versionJson({ version, changes, action, at }: RecordVersion): string {
  // An absent value is shown as null, so that each change has the same three members (§3).
  const shown = changes.map(({ field, from, to }) => ({ field, from: from ?? null, to: to ?? null }))
  return JSON.stringify({ version, changes: shown, action, at: isoTime(at) })
}
