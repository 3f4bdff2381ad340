import type { Call } from '../../src/model/call.ts'
import { checkKey } from '../../src/model/key.ts'
import type { Worker } from '../../src/model/worker.ts'
import type { Oracle, Known, Space, Request } from './oracle.ts'
import type { Draft } from './plan.ts'

const collection = new Set(['open', 'transfer', 'deny', 'adopt', 'tally', 'enroll', 'place', 'twice'])
const ofOrders = new Set(['place', 'settle', 'twice'])
export const patientMs = 6000
const hastyMs = 25

/** Makes the requests of a draft from what is there; none when there is nothing that it could be about. */
export function requestsOf(oracle: Oracle, draft: Draft): Request[] {
  const space = oracle.spaces[draft.space % oracle.spaces.length]
  const worker = space?.workers[draft.worker % space.workers.length]
  if (space === undefined || worker === undefined) return []
  switch (draft.kind) {
    case 'call':
      return copies(oracle, draft, fresh(oracle, draft, space, worker, oracle.newKey(worker)))
    case 'try':
      // A try of one that ponders would stand before its gate, and nobody knows of it.
      return [
        fresh(
          oracle,
          draft.verb === 'ponder' ? { ...draft, verb: 'deposit' } : draft,
          space,
          worker,
          oracle.newKey(worker),
        ),
      ].flatMap((one) => (one ? [tried(one)] : []))
    case 'wrong':
      return [wrong(oracle, draft, space, worker)].flatMap((one) => one ?? [])
    case 'again':
      return [again(oracle, draft, pick(oracle.requests, draft.pick))].flatMap((one) => one ?? [])
    case 'mismatch':
      return [mismatched(oracle, draft, pick(oracle.requests, draft.pick))].flatMap((one) => one ?? [])
    case 'retry':
      return copies(oracle, { ...draft, twisted: false }, about(oracle, draft, 'retry', space, worker))
    case 'cancel':
      return copies(oracle, { ...draft, twisted: false }, about(oracle, draft, 'cancel', space, worker))
    default:
      return draft.kind satisfies never
  }
}

export function pick<T>(list: readonly T[], n: number): T | undefined {
  // Mostly what is new: there is more to be found about it.
  const near = list.slice(-12)
  return n % 3 === 0 ? list[n % Math.max(1, list.length)] : near[n % Math.max(1, near.length)]
}

function fresh(oracle: Oracle, draft: Draft, space: Space, worker: Worker, key: string): Request | null {
  const { verb } = draft
  const noun = ofOrders.has(verb) ? 'Order' : 'Account'
  const target = collection.has(verb) ? null : pick(space.idsOf(noun), draft.pick)
  const input = inputOf(draft, space, `${worker.id}-${key}`)
  if (target === undefined || input === null) return null
  const named =
    target ?? (typeof input['account'] === 'string' ? input['account'] : (input['from'] as string | undefined))
  const rec = named === undefined ? undefined : space.find(target === null ? 'Account' : noun, named)
  const version = rec && versionOf(draft, rec.version)
  const versions: Call['versions'] =
    version === undefined || rec === undefined
      ? { records: new Map() }
      : target === null
        ? { records: new Map([[`accounts/${rec.id}`, version]]) }
        : { records: new Map(), target: version }
  const own =
    draft.after === 'own'
      ? pick(
          oracle.requests.filter((one) => isOwn(oracle, one, worker)),
          draft.other,
        )?.key
      : undefined
  const after = draft.after === 'ghost' && draft.other % 4 === 0 ? 'a ghost' : (own ?? null)
  const door: string[] = []
  if (!worker.grants.includes('*') && !worker.grants.includes(`${noun}.${verb}`)) door.push('forbidden')
  else if (after === 'a ghost') door.push('predecessor-unknown')
  const waits =
    verb === 'ponder' || after !== null || oracle.hasClosedGates || `${draft.mood}${draft.moodB}`.includes('G')
  return request({
    space,
    worker,
    key,
    nouns: ofOrders.has(verb) ? 'orders' : 'accounts',
    id: target,
    verb,
    input,
    door,
    versions,
    after,
    mode: draft.mode,
    waitMs: waits ? hastyMs : patientMs,
  })
}

function isOwn(oracle: Oracle, { worker, key }: Request, by: Worker): boolean {
  return worker.id === by.id && oracle.bound(worker.id, key) !== undefined
}

function versionOf({ version, other }: Draft, current: number): number | undefined {
  if (version === 'none') return undefined
  if (version === 'current') return current
  return version === 'older' ? Math.max(1, current - 1 - (other % 3)) : current + 7
}

function inputOf(draft: Draft, space: Space, tag: string): Record<string, unknown> | null {
  const { verb, amount, mood, moodB, bomb } = draft
  const account = pick(space.idsOf('Account'), draft.pick)
  const paid = mood === '' ? { tag } : { tag, mood }
  switch (verb) {
    case 'open':
      return { owner: `owner ${draft.owner}`, balance: amount }
    case 'deposit':
      return { amount }
    case 'annotate':
      return draft.note === 0 ? {} : { note: `note ${draft.note}` }
    case 'ponder':
      return { amount, gate: `gate ${draft.other % 4} ${tag}` }
    case 'transfer':
      return account === undefined ? null : { from: account, to: pick(space.idsOf('Account'), draft.other), amount }
    case 'deny':
      return { why: 'as ever' }
    case 'adopt':
      return { owner: `owner ${draft.owner}` }
    case 'tally':
      return { note: `note ${draft.note}` }
    case 'enroll':
      return { owner: `owner ${draft.owner}`, ...paid }
    case 'place':
      return account === undefined ? null : { account, amount, ...paid }
    case 'settle':
      return bomb ? { bomb, ...paid } : paid
    case 'twice':
      return account === undefined ? null : { account, amount, ...paid, ...(moodB === '' ? {} : { moodB }) }
    default:
      return {}
  }
}

interface Parts {
  readonly space: Space
  readonly worker: Worker
  readonly key: string
  readonly nouns: string
  readonly id: string | null
  readonly verb: string
  readonly input: Readonly<Record<string, unknown>>
  readonly door: readonly string[]
  readonly versions: Call['versions']
  readonly after: string | null
  readonly mode: 'do' | 'send'
  readonly waitMs: number
}

function request(parts: Parts): Request {
  const { space, worker, key, nouns, id, verb, input, door, versions, after, mode, waitMs } = parts
  const call: Call = {
    worker,
    route: { namespace: space.namespace, nouns, id, verb },
    key: checkKey(key),
    mode,
    waitMs: mode === 'send' ? 0 : waitMs,
    versions,
    decidedAfter: after === null ? null : checkKey(after),
    body: Buffer.from(JSON.stringify(input)),
  }
  const noun = nouns === 'actions' ? 'Action' : nouns === 'orders' ? 'Order' : 'Account'
  return { call, worker, space, key, operation: `${noun}.${verb}`, target: id, input, print: printOf(input), door }
}

/** Members in one order; none of these inputs is nested. */
export function printOf(input: Readonly<Record<string, unknown>>): string {
  return JSON.stringify(Object.entries(input).sort(([left], [right]) => (left < right ? -1 : 1)))
}

/** The same call several times at once under one key, and perhaps another call among them. */
function copies(oracle: Oracle, draft: Draft, one: Request | null): Request[] {
  if (one === null) return []
  const all = Array.from({ length: draft.copies }, () => one)
  const odd = draft.twisted && draft.copies > 1 ? twist(draft, one) : null
  return odd === null || oracle.hasClosedGates ? all : [...all, odd]
}

function twist(draft: Draft, one: Request): Request | null {
  if (typeof one.input['amount'] === 'number')
    return changed(one, { input: { ...one.input, amount: one.input['amount'] + 1 } })
  if (one.operation !== 'Account.open') return null
  return draft.bomb
    ? changed(one, { verb: 'adopt', input: { owner: 'owner 1' } })
    : changed(one, { input: { owner: 'owner 1', balance: 77 } })
}

function changed(one: Request, to: { verb?: string; id?: string; input?: Readonly<Record<string, unknown>> }): Request {
  const { call, space, worker, key, door } = one
  const { nouns, id, verb } = call.route
  const mode = call.mode === 'send' ? 'send' : 'do'
  const parts = {
    space,
    worker,
    key,
    nouns,
    id,
    verb,
    input: one.input,
    door,
    versions: call.versions,
    after: call.decidedAfter,
  }
  return request({ ...parts, mode, waitMs: call.waitMs, ...to })
}

function tried(one: Request): Request {
  return { ...one, call: { ...one.call, mode: 'try', key: null, waitMs: 0 } }
}

/** What the door turns away (R2): nothing comes on record, and the key stays free. */
function wrong(oracle: Oracle, draft: Draft, space: Space, worker: Worker): Request | null {
  const parts = {
    space,
    worker,
    key: oracle.newKey(worker),
    versions: { records: new Map() },
    after: null,
    mode: draft.mode,
    waitMs: patientMs,
  }
  const mayNot = !worker.grants.includes('*')
  const or = (code: string): readonly string[] => [mayNot ? 'forbidden' : code]
  switch (draft.pick % 5) {
    case 0:
      return request({
        ...parts,
        nouns: 'accounts',
        id: 'account_that_never_was',
        verb: 'explode',
        input: {},
        door: or('record-not-found'),
      })
    case 1:
      return request({ ...parts, nouns: 'accounts', id: null, verb: 'fly', input: {}, door: ['operation-not-found'] })
    case 2:
      return request({
        ...parts,
        nouns: 'accounts',
        id: null,
        verb: 'open',
        input: { owner: 'x', balance: 1, more: 1 },
        door: or('invalid-input'),
      })
    case 3:
      return request({
        ...parts,
        nouns: 'accounts',
        id: null,
        verb: 'adopt',
        input: { owner: draft.amount },
        door: or('invalid-input'),
      })
    default:
      return request({
        ...parts,
        nouns: 'actions',
        id: 'act_00000000000000000000000000',
        verb: 'retry',
        input: {},
        door: ['action-not-found'],
      })
  }
}

/** The same request again, perhaps years later: its members in another order mean the same. */
function again(oracle: Oracle, draft: Draft, first: Request | undefined): Request | null {
  if (first === undefined || first.call.mode === 'try') return null
  const input = Object.fromEntries(Object.entries(first.input).reverse())
  const waits = oracle.hasClosedGates || first.call.waitMs === hastyMs
  const call = { ...first.call, mode: draft.mode, waitMs: draft.mode === 'send' ? 0 : waits ? hastyMs : patientMs }
  return { ...first, input, call: { ...call, body: Buffer.from(JSON.stringify(draft.bomb ? input : first.input)) } }
}

/** Another call under a key that is bound: nothing runs (K4). */
function mismatched(oracle: Oracle, draft: Draft, first: Request | undefined): Request | null {
  if (first === undefined || first.call.mode === 'try' || oracle.bound(first.worker.id, first.key) === undefined)
    return null
  if (draft.pick % 3 === 0) return changed(first, { input: { ...first.input, more: draft.amount } })
  if (draft.pick % 3 === 1) return changed(first, { verb: otherVerb(first.call.route) })
  const other = pick(first.space.idsOf('Account'), draft.other)
  return first.target === null || other === undefined ? null : changed(first, { id: other })
}

function otherVerb({ nouns, verb }: Call['route']): string {
  if (nouns === 'actions') return verb === 'retry' ? 'cancel' : 'retry'
  return verb === 'deny' ? 'tally' : 'deny'
}

/** A retry or a cancel of an Action; what it comes to is judged once it is known what else happened at that time. */
function about(oracle: Oracle, draft: Draft, verb: 'retry' | 'cancel', space: Space, worker: Worker): Request | null {
  const worth = (one: Known): boolean =>
    one.space === space && (verb === 'retry' ? one.status === 'failed' : one.status === 'pending')
  const all = [...oracle.actions.values()].filter((one) => one.space === space)
  const action = pick(draft.other % 4 === 0 ? all : all.filter(worth), draft.pick)
  if (action === undefined) return null
  const mayNot = !worker.grants.includes('*') && !worker.grants.includes(action.verb)
  // Who may not see the Action either is told of none (H1).
  const sees = action.worker.id === worker.id || worker.grants.some((grant) => grant === '*' || grant === 'actions:all')
  const waits =
    oracle.hasClosedGates ||
    action.verb === 'Account.ponder' ||
    /G/.test(JSON.stringify(action.input)) ||
    action.after !== null
  return request({
    space, worker, key: oracle.newKey(worker), nouns: 'actions', id: action.id, verb, input: {},
    door: mayNot ? [sees ? 'forbidden' : 'action-not-found'] : [], versions: { records: new Map() }, after: null, mode: draft.mode, waitMs: waits ? hastyMs : patientMs,
  }) // prettier-ignore
}
