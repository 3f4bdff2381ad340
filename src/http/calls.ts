import type { IncomingHttpHeaders } from 'node:http'
import type { Counted } from '../engine/throttle.ts'
import type { Call, RecordVersions, TraceHeaders } from '../model/call.ts'
import { parseAuthorization, parseDecidedAfter, parseKeyHeaders, type Key } from '../model/key.ts'
import { waitSecondsDefault } from '../model/limits.ts'
import { parsePrefer, preferenceApplied, type Preferences } from '../model/prefer.ts'
import { problem } from '../model/problem.ts'
import { parseRecordVersion } from '../model/recordversion.ts'
import type { Worker } from '../model/worker.ts'
import { answerCall } from './answers.ts'
import { readBody } from './body.ts'
import type { Exchange } from './exchange.ts'
import { isTwice, linesOf } from './fieldlines.ts'
import { allowOnly, parseQuery } from './query.ts'

/** Where a call goes: decoded parts of the path. Built-in ones have the nouns `actions` and `inbox`. */
export type Target = Omit<Call['route'], 'namespace'>

/** A call, in the door's order (R2): token, namespace, syntax of the headers, throttle, body; the rest is the engine's. */
export async function serveCall(x: Exchange, target: Target): Promise<void> {
  const { engine } = x.edge
  const { namespace = '' } = x.params
  const entered = enter(x, namespace)
  const worker = entered instanceof Promise ? await entered : entered
  x.worker = worker

  const said = readHeaders(x)
  const counted = engine.throttle(worker, 'call', target)
  tellCounted(x, counted instanceof Promise ? await counted : counted)
  const read = readBody(x)
  const body = read instanceof Promise ? await read : read

  const route = { namespace, nouns: target.nouns, id: target.id, verb: target.verb }
  const { key, mode, waitMs, versions, decidedAfter } = said
  // Answered meanwhile, because its connection broke: what was refused must not run (R1).
  if (x.ended) return
  x.called = true
  const trace = engine.isTraced ? traceOf(x.req.headers) : undefined
  const answer = await engine.call({ worker, route, key, mode, waitMs, versions, decidedAfter, body, trace })
  const answered = answerCall(x, answer, said.applied === undefined ? noHeaders : ['Preference-Applied', said.applied])
  if (answered !== undefined) await answered
}

/** The caller's span (W3C Trace Context). One that is malformed is ignored, as the recommendation has it. */
function traceOf({ traceparent, tracestate }: IncomingHttpHeaders): TraceHeaders {
  if (typeof traceparent !== 'string') return {}
  return tracestate === undefined ? { traceparent } : { traceparent, tracestate: joined(tracestate) }
}

/** The Worker of the request's token, in this namespace (null: in its own). More than one token is none. */
export function enter(x: Exchange, namespace: string | null): Worker | Promise<Worker> {
  const { rawHeaders, headers } = x.req
  const token = isTwice(rawHeaders, 'authorization') ? null : parseAuthorization(headers.authorization)
  return x.edge.engine.enter(token, namespace, x)
}

/** What was counted tells what is left with its answer, whatever that will be (§10). */
export function tellCounted(x: Exchange, counted: Counted): void {
  if (counted !== null) x.headers.push(...counted)
}

interface Said extends Pick<Call, 'key' | 'mode' | 'waitMs' | 'versions' | 'decidedAfter'> {
  readonly applied: string | undefined
}

/** What the headers and the query say, in the door's order: key, Mode, `Prefer`, versions, predecessor (R2). */
function readHeaders(x: Exchange): Said {
  const { rawHeaders, headers, url = '' } = x.req
  const key = parseKeyHeaders(rawHeaders)
  const query = parseQuery(url)
  allowOnly(query, ['mode'])
  const named = modeOf(query.get('mode'))
  requireKey(key, named)
  const { mode, waitMs, applied } = waiting(
    named,
    headers.prefer === undefined ? null : parsePrefer(joined(headers.prefer)),
  )
  const versions =
    headers['record-version'] === undefined ? noVersions : parseRecordVersion(linesOf(rawHeaders, 'record-version'))
  if (headers['if-match'] !== undefined) {
    throw problem('use-record-version', 'If-Match is not read here: send the Version as Record-Version: 3.')
  }
  const decidedAfter = headers['decided-after'] === undefined ? null : parseDecidedAfter(rawHeaders)
  return { key, mode, waitMs, versions, decidedAfter, applied }
}

const noHeaders: readonly string[] = []
const noVersions: RecordVersions = { records: new Map() }

function requireKey(key: Key | null, mode: Call['mode'] | null): void {
  if (key !== null || mode === 'try') return
  throw problem(
    'idempotency-key-required',
    'A durable call needs the header Idempotency-Key; only ?mode=try needs none.',
  )
}

function modeOf(text: string | undefined): Call['mode'] | null {
  if (text === undefined) return null
  if (text === 'do' || text === 'send' || text === 'try') return text
  throw problem('invalid-mode', `${JSON.stringify(text.slice(0, 100))} is not a Mode: do, send and try are.`)
}

const waitMsDefault = waitSecondsDefault * 1000
const doAndWait = { mode: 'do', waitMs: waitMsDefault, applied: undefined } as const

/**
 * How the call is made and waited on (§3). A Mode in the query wins over `Prefer`; `respond-async` alone is `send`, with
 * `wait=N` it is `do` that waits N.
 */
export function waiting(
  named: Call['mode'] | null,
  prefer: Preferences | null,
): { mode: Call['mode']; waitMs: number; applied: string | undefined } {
  if (named === 'try') return { mode: 'try', waitMs: 0, applied: undefined }
  if (prefer === null) return named === 'send' ? { mode: 'send', waitMs: 0, applied: undefined } : doAndWait
  const { respondAsync, wait } = prefer
  if (named === 'send') return { mode: 'send', waitMs: 0, applied: applied({ respondAsync }) }
  if (named === null && respondAsync && wait === undefined) {
    return { mode: 'send', waitMs: 0, applied: applied({ respondAsync }) }
  }
  if (wait === undefined) return doAndWait
  return { mode: 'do', waitMs: wait * 1000, applied: applied({ respondAsync: named === null && respondAsync, wait }) }
}

function applied(preferences: Preferences): string | undefined {
  return preferenceApplied(preferences)
}

/** Node types a header that it doesn't know as one or many. */
function joined(value: string | string[]): string {
  return typeof value === 'string' ? value : value.join(', ')
}
