import type { Known, Oracle, Request } from './oracle.ts'
import type { Reply } from './world.ts'

/** A request, what its key was bound to before it was sent, and what it was answered. */
export interface Exchange {
  readonly request: Request
  readonly before: { readonly known: Known; readonly status: string } | undefined
  readonly reply: Reply
  /** What the Action that a retry or a cancel names was, when it was sent. */
  readonly targetBefore:
    | {
        readonly known: Known
        readonly status: string
        readonly isLatest: boolean
        readonly chained: number
        readonly needsOutcome: 'yes' | 'no' | 'perhaps'
      }
    | undefined
}

type Say = (sentence: string) => void

/** What a request is judged by once all that happened beside it is known (K4). */
export function judge(oracle: Oracle, exchange: Exchange, say: Say): void {
  const { request, reply } = exchange
  const name = `${request.operation} of ${request.worker.name} under ${request.key}`
  const tell: Say = (sentence) => say(`${name}: ${sentence}`)
  if (reply.kind === 'lost') return
  if (request.call.mode === 'try') return judgeTry(exchange, tell)
  const known = oracle.bound(request.worker.id, request.key)
  if (known === undefined) return judgeUnbound(oracle, exchange, tell)
  const differs = differences(request, known)
  if (differs.length > 0) return judgeMismatch(exchange, known, differs, tell)
  judgeSame(exchange, known, tell)
}

function differences({ operation, target, print }: Request, { bound }: Known): string[] {
  const differs: string[] = []
  if (bound.operation !== operation) differs.push('operation')
  if (bound.target !== target) differs.push('target')
  if (bound.print !== print) differs.push('input')
  return differs
}

function judgeTry({ request, reply }: Exchange, tell: Say): void {
  if (reply.kind === 'try') {
    if (request.door.length > 0) tell(`was tried, and must be ${request.door.join()}`)
  } else if (reply.kind !== 'problem' || !request.door.includes(reply.code))
    tell(`a try was answered ${JSON.stringify(reply)}`)
}

/** Nothing is on record: it was turned away at the door, for a reason (R1). */
function judgeUnbound(oracle: Oracle, exchange: Exchange, tell: Say): void {
  const { request, reply } = exchange
  if (reply.kind !== 'problem') return tell(`answered ${JSON.stringify(reply)}, and nothing is on record`)
  if (request.door.includes(reply.code)) return
  const may = refusalsOf(oracle, exchange)
  if (!may.includes(reply.code))
    tell(`answered ${JSON.stringify(reply)}, and not one of ${[...request.door, ...may].join() || 'none'}`)
}

/** What a retry or a cancel may be turned away with, by what became of its Action (A2, A3). */
function refusalsOf(oracle: Oracle, { request, targetBefore }: Exchange): string[] {
  if (request.door.length > 0 || targetBefore === undefined) return []
  const { known, status, isLatest, chained } = targetBefore
  if (request.operation === 'Action.cancel') return ['not-cancellable']
  if (known.verb.startsWith('Action.')) return ['not-retryable']
  // Another retry was let in meanwhile: it counts as long as it is pending, though it may be refused in the end.
  const isAlone = isLatest && oracle.chainOf(known).members.length === chained
  const asks = targetBefore.needsOutcome === 'no' ? [] : ['outcome-required']
  if (status === 'failed') return [...(isAlone ? [] : ['already-retried']), ...(isLatest ? asks : [])]
  return status === 'pending' ? ['not-retryable', 'already-retried'] : ['not-retryable']
}

function judgeMismatch(
  { request, reply, before }: Exchange,
  known: Known,
  differs: readonly string[],
  tell: Say,
): void {
  // It may have come to the door before the other had its key.
  if (before === undefined && reply.kind === 'problem' && request.door.includes(reply.code)) return
  if (reply.kind !== 'problem' || reply.code !== 'idempotency-mismatch')
    return tell(`answered ${JSON.stringify(reply)}, and its key is ${known.id}'s`)
  if (reply.extra['firstAction'] !== known.id)
    tell(`a mismatch names ${String(reply.extra['firstAction'])}, not ${known.id}`)
  if (JSON.stringify(reply.extra['differs']) !== JSON.stringify(differs))
    tell(`a mismatch in ${String(reply.extra['differs'])}, not ${differs.join()}`)
}

function judgeSame({ request, reply, before }: Exchange, known: Known, tell: Say): void {
  if (reply.kind !== 'action') {
    // It came to the door before the one that got in.
    if (before === undefined && reply.kind === 'problem' && request.door.includes(reply.code)) return
    return tell(`answered ${JSON.stringify(reply)}, and ${known.id} is on record`)
  }
  if (reply.id !== known.id) tell(`answered ${reply.id}, and its key is ${known.id}'s`)
  if (reply.status !== 'pending' && known.body !== null && reply.body !== known.body)
    tell(`answered ${reply.body}, and it settled ${known.body}`)
  if (reply.status === 'pending' && reply.replayed) tell('a pending Action is no replay')
  if (before !== undefined && before.status !== 'pending' && !reply.replayed)
    tell(`a replay does not say that it is one: ${reply.body}`)
  if (reply.status === 'pending' && request.call.waitMs > 1000) tell(`is still pending after ${request.call.waitMs} ms`)
}

/** Of requests that made an Action together, one at least is no replay: the first (K4). */
export function judgeFirst(exchanges: readonly Exchange[], say: Say): void {
  const firsts = new Map<string, boolean>()
  for (const { request, before, reply } of exchanges) {
    if (before !== undefined || reply.kind !== 'action') continue
    const name = `${request.worker.name} ${request.key}`
    firsts.set(name, (firsts.get(name) ?? false) || !reply.replayed)
  }
  for (const [name, isFirst] of firsts)
    if (!isFirst) say(`${name}: all answers of the requests that made it say that they are replays`)
}
