import {
  isReachable,
  listActions,
  listEvents,
  listInbox,
  listRecords,
  listUsage,
  listVersions,
  nounAt,
  oneAction,
  oneItem,
  oneRecord,
} from '../engine/reads.ts'
import { seqAfter } from '../engine/filters.ts'
import { actionJson } from '../model/action.ts'
import { waitSecondsMax } from '../model/limits.ts'
import { problem } from '../model/problem.ts'
import type { Startup } from '../model/startup.ts'
import type { Worker } from '../model/worker.ts'
import { answerAction, answerJson, answerNotModified, sendJson } from './answers.ts'
import { enter, tellCounted } from './calls.ts'
import { toldDefinition, toldOpenapi, type Told } from './definition.ts'
import type { Exchange } from './exchange.ts'
import { allowOnly, parseQuery, type Query } from './query.ts'
import { prefersStream, streamEvents, streamFrom } from './stream.ts'

/** Token, namespace and throttle of a read, in the door's order (R2); null stands for the token's own namespace. */
async function enterToRead(x: Exchange, namespace: string | null): Promise<Worker> {
  const entered = enter(x, namespace)
  x.worker = entered instanceof Promise ? await entered : entered
  const counted = x.edge.engine.throttle(x.worker, 'read')
  tellCounted(x, counted instanceof Promise ? await counted : counted)
  return x.worker
}

/** The Worker and the query of a read under a namespace; `known` are the members that the query may have. */
async function begin(x: Exchange, known: readonly string[]): Promise<{ worker: Worker; query: Query }> {
  const worker = await enterToRead(x, x.params.namespace ?? '')
  const query = parseQuery(x.req.url ?? '')
  allowOnly(query, known)
  return { worker, query }
}

export async function showMe(x: Exchange): Promise<void> {
  const worker = await enterToRead(x, null)
  const { id, name, kind, namespace, grants } = worker
  allowOnly(parseQuery(x.req.url ?? ''), [])
  await answerJson(x, JSON.stringify({ id, name, kind, namespace, grants, limits: x.edge.engine.limits(worker) }))
}

export function showDefinition(x: Exchange): Promise<void> {
  return showTold(x, toldDefinition)
}

export function showOpenapi(x: Exchange): Promise<void> {
  return showTold(x, (startup) => toldOpenapi(startup, x.edge.origin))
}

/** What is told of a definition is the same for every Worker of the namespace: what it may call, `/me` says. */
async function showTold(x: Exchange, tell: (startup: Startup) => Told): Promise<void> {
  const { worker } = await begin(x, [])
  const startup = x.edge.engine.startups.get(worker.namespace)
  if (startup === undefined) throw problem('not-found', 'The definition of this namespace is not loaded.')
  const { json, etag } = tell(startup)
  const headers = ['ETag', etag]
  if (hasThis(x.req.headers['if-none-match'], etag)) return answerNotModified(x, headers)
  return answerJson(x, json, headers)
}

export async function showRecords(x: Exchange): Promise<void> {
  const worker = await enterToRead(x, x.params.namespace ?? '')
  const { engine } = x.edge
  const noun = nounAt(engine, worker, x.params.nouns ?? '')
  // Each further member of the query is a filter, and one that can't be is refused as such.
  await answerJson(x, await listRecords(engine, worker, noun, parseQuery(x.req.url ?? '')))
}

export async function showRecord(x: Exchange): Promise<void> {
  const { worker } = await begin(x, [])
  const { engine } = x.edge
  const noun = nounAt(engine, worker, x.params.nouns ?? '')
  const { json, version } = await oneRecord(engine, worker, noun, x.params.id ?? '')
  const etag = `"${version}"`
  const headers = ['ETag', etag]
  if (hasThis(x.req.headers['if-none-match'], etag)) return answerNotModified(x, headers)
  return answerJson(x, json, headers)
}

export async function showVersions(x: Exchange): Promise<void> {
  const { worker, query } = await begin(x, ['limit', 'after'])
  const { engine } = x.edge
  const noun = nounAt(engine, worker, x.params.nouns ?? '')
  await answerJson(x, await listVersions(engine, worker, noun, x.params.id ?? '', query))
}

export async function showActions(x: Exchange): Promise<void> {
  const { worker, query } = await begin(x, ['status', 'verb', 'worker', 'key', 'on', 'limit', 'after'])
  await answerJson(x, await listActions(x.edge.engine, worker, query))
}

export async function showAction(x: Exchange): Promise<void> {
  const { worker, query } = await begin(x, ['wait'])
  const { engine } = x.edge
  const waitMs = readWait(query.get('wait'))
  const found = await oneAction(engine, worker, x.params.id ?? '')
  const action = found.status === 'pending' && waitMs > 0 ? await engine.waitSettled(found, waitMs) : found
  await answerAction(x, { id: action.id, status: action.status, body: actionJson(action), replayed: false })
}

/** A list, or for who asks for one a stream (E1). */
export async function showEvents(x: Exchange): Promise<void> {
  const streams = prefersStream(x.req.headers.accept)
  const { worker, query } = await begin(x, streams ? ['after'] : ['limit', 'after'])
  if (streams) return streamEvents(x, worker, streamFrom(query.get('after'), x.req.headers['last-event-id']))
  await answerJson(x, await listEvents(x.edge.engine, worker, resumed(x, query)))
}

export async function showUsage(x: Exchange): Promise<void> {
  const { worker, query } = await begin(x, ['from', 'to'])
  await answerJson(x, await listUsage(x.edge.engine, worker, query))
}

export async function showInbox(x: Exchange): Promise<void> {
  const { worker, query } = await begin(x, ['status', 'limit', 'after'])
  await answerJson(x, await listInbox(x.edge.engine, worker, query))
}

export async function showItem(x: Exchange): Promise<void> {
  const { worker } = await begin(x, [])
  await answerJson(x, await oneItem(x.edge.engine, worker, x.params.id ?? ''))
}

/** Liveness: the process answers. */
export function showHealth(x: Exchange): void {
  sendJson(x, 200, { status: 'ok' })
}

/** Readiness: the store is reachable, leases are taken over, and no stop has begun (§3). */
export async function showReadiness(x: Exchange): Promise<void> {
  const { engine, stopping } = x.edge
  const store = await isReachable(engine)
  const ready = store && engine.ready && !stopping
  const facts = { status: ready ? 'ready' : 'not-ready', store, leases: engine.ready, stopping }
  sendJson(x, ready ? 200 : 503, facts, ready ? [] : ['Retry-After', '1'])
}

/** What a client of a stream has seen, by its `Last-Event-ID`: never ignored, though `after` goes first in a list (§3). */
function resumed({ req }: Exchange, query: Query): Query {
  const last = req.headers['last-event-id']
  if (last === undefined) return query
  const seen = String(last)
  seqAfter(seen)
  return query.has('after') ? query : new Map([...query, ['after', seen]])
}

/** `?wait=N` in milliseconds: whole seconds, at most 300. Throws `invalid-wait`. */
function readWait(text: string | undefined): number {
  if (text === undefined) return 0
  if (/^\d+$/.test(text)) return Math.min(Number(text), waitSecondsMax) * 1000
  throw problem('invalid-wait', 'wait must be a whole number of seconds, 0 or more.')
}

/** Whether `If-None-Match` names this tag, compared weakly (RFC 9110, section 13.1.2). */
function hasThis(ifNoneMatch: string | undefined, etag: string): boolean {
  if (ifNoneMatch === undefined) return false
  return ifNoneMatch.split(',').some((part) => {
    const tag = part.trim()
    return tag === '*' || tag === etag || tag === `W/${etag}`
  })
}
