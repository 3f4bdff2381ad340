import type { Action, Bound } from '../model/action.ts'
import type { Call } from '../model/call.ts'
import { isItemId } from '../model/ids.ts'
import { isInInbox, type InboxItem } from '../model/item.ts'
import type { ParsedInput } from '../model/json.ts'
import { problem } from '../model/problem.ts'
import { may } from '../model/worker.ts'
import type { Claim, Settlement } from '../store/store.ts'
import { invalidInput, startupOf } from './door.ts'
import type { Core } from './core.ts'
import { alreadyDecided, badBody, claimOf, isObject, type Made } from './made.ts'
import { claimed, retryOf, stepsSaid, versionsSaid } from './retry.ts'

/**
 * `Inbox.apply` (W4): sends the item's Action again against the Versions that the item showed, as a new Action on the old
 * one. A refused one may get another input; a failed one is retried, and goes on from what its steps did.
 */
export async function apply(core: Core, request: Call, bound: Bound, input: ParsedInput): Promise<Made> {
  const item = await itemOf(core, request)
  const { action } = item
  if (!may(request.worker, action.verb))
    throw problem('forbidden', `${request.worker.name} has no grant ${action.verb}.`, { grant: action.verb })
  mustBeShown(item, versionsSaid(core, request, action))
  if (item.kind === 'failed') {
    const steps = stepsSaid('Inbox.apply', request, input)
    // What it read before its effect stands as it was then (V6): the Versions shown are those, and bring nothing anew.
    return retryOf(core, request, bound, action, { steps, versions: {}, applies: item.id })
  }
  const claim: Claim = {
    ...claimOf(core, request, bound, await inputToApply(core, action, input)),
    verb: action.verb,
    target: action.target,
    on: action.id,
    decidedAgainst: item.records,
    // Decided anew, by somebody who saw what became of the calls before it: it is queued behind none of them any more.
    decidedAfter: [],
    applies: item.id,
  }
  const { id, worker, workerId, key } = claim
  return claimed(core, request, claim, { id, worker, workerId, key }, await core.store.claim(claim))
}

/** `Inbox.dismiss` (W4): closes the item, and ends what the chain of a failed Action still holds (V6). */
export async function dismiss(core: Core, request: Call, bound: Bound, input: ParsedInput): Promise<Made> {
  const item = await itemOf(core, request)
  const [unknown] = Object.keys(input.value)
  if (unknown !== undefined) throw badBody('Inbox.dismiss', unknown, 'is unknown; a dismissal takes no input')
  const answer = await core.store.settle(dismissal(core, request, bound, input.text, item))
  switch (answer.kind) {
    case 'settled':
    case 'found':
      return answer
    case 'already-decided':
      throw alreadyDecided(answer.item, answer.decided)
    case 'conflict':
    case 'blocked':
    case 'lost':
    case 'not-cancellable':
      throw new Error(`a dismissal reads and writes no record and was answered ${answer.kind}`)
    default:
      return answer satisfies never
  }
}

/** The open item that a call decides, in an inbox of this Worker (404). */
async function itemOf(core: Core, { route, worker }: Call): Promise<InboxItem> {
  const id = route.id ?? ''
  const item = isItemId(id) ? await core.store.item(route.namespace, id) : null
  if (item === null || !isInInbox(worker, item)) {
    throw problem('item-not-found', 'There is no item with this id in an inbox of this Worker.')
  }
  // Told before what the rest of the request lacks; the commit checks it again.
  if (item.decision !== null) throw alreadyDecided(item.id, item.decision)
  return item
}

/** Whoever decides says what was seen: exactly the Versions that the item shows, of no record more or fewer (W4). */
function mustBeShown({ records }: InboxItem, said: Readonly<Record<string, number>>): void {
  const names = new Set([...Object.keys(records), ...Object.keys(said)])
  if ([...names].every((record) => records[record] === said[record])) return
  const shown = Object.entries(records).map(([record, version]) => `${record}=${version}`)
  const detail =
    shown.length === 0
      ? 'Record-Version must be left out: the item shows no Versions.'
      : `Record-Version must say the Versions that the item shows: ${shown.join(', ')}.`
  throw problem('version-required', detail, { shown: records })
}

/** The input as it was recorded, or `{ "input": … }` in its stead; either must fit the Verb as it is now (400). */
async function inputToApply(core: Core, action: Action, { value }: ParsedInput): Promise<string> {
  const unknown = Object.keys(value).find((member) => member !== 'input')
  if (unknown !== undefined) throw badBody('Inbox.apply', unknown, 'is unknown; an apply takes input alone')
  if ('input' in value && !isObject(value['input'])) throw badBody('Inbox.apply', 'input', 'is an object')
  const text = 'input' in value ? JSON.stringify(value['input']) : action.input
  const startup = startupOf(core, action.namespace)
  const verb = startup.verbs.get(action.verb)
  if (verb === undefined) throw problem('operation-not-found', `${startup.namespace} has no ${action.verb} any more.`)
  const checked = await verb.check(JSON.parse(text))
  if ('faults' in checked) throw invalidInput(action.verb, checked.faults)
  return text
}

function dismissal(core: Core, request: Call, bound: Bound, input: string, item: InboxItem): Settlement {
  return {
    by: { claim: { ...claimOf(core, request, bound, input), verb: 'Inbox.dismiss', target: item.id } },
    // Replaced by the item as it then is, in the very transaction.
    outcome: { status: 'succeeded', output: 'null' },
    eventType: 'Inbox.dismissed',
    steps: [],
    reads: { records: [], lookups: [] },
    writes: [],
    units: 0,
    item: null,
    holds: 'release',
    dismisses: item.id,
  }
}
