import { createHash } from 'node:crypto'
import { StoreUnavailable } from '../engine/reads.ts'
import type { Answer } from '../model/call.ts'
import { pageStyle } from '../model/errorpage.ts'
import { problem, Problem, toProblemJson } from '../model/problem.ts'
import type { Exchange } from './exchange.ts'

/** The client went away before its request was whole (not an error of anybody's). */
export class ClientGone extends Error {
  override readonly name = 'ClientGone'
}

/** What an answer would show may not be on disk: it must not leave (R3). */
class NotDurable extends Error {
  override readonly name = 'NotDurable'
}

const json = ['Content-Type', 'application/json; charset=utf-8', 'Cache-Control', 'no-store']
const problemJson = ['Content-Type', 'application/problem+json; charset=utf-8', 'Cache-Control', 'no-store']

/** Answers 200 with JSON text. */
export async function answerJson(x: Exchange, text: string, headers: readonly string[] = []): Promise<void> {
  await whenDurable(x)
  x.send(200, json.concat(headers), text)
}

/** Answers with a page for a browser, which can load and run nothing. It shows nothing that is on record. */
export function sendHtml(x: Exchange, html: string): void {
  x.send(200, [...htmlHeaders], html)
}

const styleHash = createHash('sha256').update(pageStyle).digest('base64')
const htmlHeaders = [
  ...['Content-Type', 'text/html; charset=utf-8'],
  ...[
    'Content-Security-Policy',
    `default-src 'none'; style-src 'sha256-${styleHash}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'`,
  ],
  ...['Referrer-Policy', 'no-referrer'],
  ...['Vary', 'Accept'],
]

/** Answers JSON that shows nothing of what is on record. */
export function sendJson(x: Exchange, status: number, value: unknown, headers: readonly string[] = []): void {
  x.send(status, json.concat(headers), JSON.stringify(value))
}

/** Answers 304: the client has the record at this Version. */
export async function answerNotModified(x: Exchange, headers: readonly string[]): Promise<void> {
  await whenDurable(x)
  x.send(304, [...headers], '')
}

/** An Action to show: `body` is its JSON. */
interface Shown {
  readonly id: string
  readonly status: string
  readonly body: Uint8Array | string
  readonly replayed: boolean
}

/** How an Action is shown (§3): 200 once it is settled, however it ended, 202 while it is pending. */
export function answerAction(x: Exchange, action: Shown, headers: readonly string[] = []): void | Promise<void> {
  const durable = whenDurable(x)
  return durable === undefined ? sendAction(x, action, headers) : durable.then(() => sendAction(x, action, headers))
}

function sendAction(x: Exchange, { id, status, body, replayed }: Shown, headers: readonly string[]): void {
  x.action = id
  const fields = json.concat(headers)
  const settled = status !== 'pending'
  if (settled) fields.push('Action-Status', status)
  else fields.push('Location', `/${x.params.namespace}/actions/${id}`, 'Retry-After', '1')
  if (replayed) fields.push('Idempotent-Replayed', 'true')
  x.send(settled ? 200 : 202, fields, body)
}

/** What the engine gave to a call, as HTTP. */
export function answerCall(x: Exchange, answer: Answer, headers: readonly string[]): void | Promise<void> {
  return answer.kind === 'try' ? answerJson(x, answer.body, headers) : answerAction(x, answer, headers)
}

/**
 * Answers an error. A Problem says that nothing was put on record; so does a store that can't be reached. Any other error
 * is 500 as long as the call had not begun; after that its outcome is in doubt, and nobody is told anything (R1).
 */
export async function answerError(x: Exchange, error: unknown): Promise<void> {
  if (error instanceof ClientGone) return x.forget()
  const told = error instanceof NotDurable ? null : problemOf(x, error)
  if (told === null) return x.abandon(error)
  try {
    await whenDurable(x)
  } catch (notDurable) {
    // Only the log's sync can fail here: what the problem tells of may not be on disk (R3).
    return x.abandon(notDurable)
  }
  sendProblem(x, told)
}

/** Answers a problem that shows nothing of what is on record: there is nothing to wait for. */
export function sendProblem(x: Exchange, told: Problem): void {
  x.code = told.code
  if (!x.ended) x.edge.engine.signals?.rejected(told.code)
  const body = JSON.stringify(toProblemJson(told, { origin: x.edge.origin, requestId: x.requestId }))
  x.send(told.status, problemJson.concat(Object.entries(told.headers).flat()), body)
}

function problemOf(x: Exchange, error: unknown): Problem | null {
  if (error instanceof Problem) {
    // What is behind it, such as a schema of the author's that threw, is for the log alone.
    if (error.cause !== undefined) x.logError(error.cause)
    return error
  }
  if (error instanceof StoreUnavailable) {
    x.logError(error)
    return problem('store-unavailable', 'The store cannot do this right now. Nothing was put on record.')
  }
  if (x.called) return null
  x.logError(error)
  return problem('internal', 'The server made a mistake. Nothing was put on record.')
}

/** Nothing is shown to anyone before it is on disk: the single place where that is kept (R3). */
function whenDurable(x: Exchange): Promise<void> | undefined {
  return x.edge.engine.durable()?.catch((error: unknown) => {
    throw new NotDurable('the log was not synced', { cause: error })
  })
}
