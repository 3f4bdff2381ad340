import type { Action, Bound, SettledAction } from '../model/action.ts'
import type { Call } from '../model/call.ts'
import { isActionId, type ActionId, type ItemId } from '../model/ids.ts'
import type { Decided } from '../model/item.ts'
import { problem, shortened } from '../model/problem.ts'
import { may, maySee } from '../model/worker.ts'
import type { Claim } from '../store/store.ts'
import type { Core } from './core.ts'
import type { Run } from './run.ts'

/** What a built-in call made: a run of a new Action, its own settled Action, or that its key is another's already. */
export type Made =
  | { readonly kind: 'run'; readonly run: Run }
  | { readonly kind: 'settled'; readonly action: SettledAction }
  | { readonly kind: 'found'; readonly action: Action }

/**
 * The Action that a built-in call is about: on record (404), of an operation that this Worker may call (403) (A1, A3). Who
 * may neither call the operation nor see the Action is told of none: a 403 would say that it is there (H1).
 */
export async function targetOf(core: Core, { route, worker }: Call): Promise<Action> {
  const id = route.id ?? ''
  const action = isActionId(id) ? await core.store.action(route.namespace, id) : null
  if (action === null || !(may(worker, action.verb) || maySee(worker, action)))
    throw problem('action-not-found', `There is no Action ${id} that this Worker may see.`)
  if (!may(worker, action.verb))
    throw problem('forbidden', `${worker.name} has no grant ${action.verb}.`, { grant: action.verb })
  return action
}

/** What a built-in call puts on record as its own Action, or as the one that it makes. */
export function claimOf(core: Core, request: Call, bound: Bound, input: string): Claim {
  const { worker, key, route, mode } = request
  const id: ActionId = `act_${core.ids.next()}`
  return {
    id,
    namespace: route.namespace,
    workerId: worker.id,
    worker: worker.name,
    key,
    bound,
    verb: bound.operation,
    target: route.id,
    input,
    mode: mode === 'send' ? 'send' : 'do',
    on: null,
    decidedAgainst: {},
    decidedAfter: [],
    createdAt: core.machine.now(),
    waitingFor: null,
    running: true,
  }
}

/** A body that a built-in call can't have: 400, naming the member. */
export function badBody(operation: string, member: string, message: string) {
  const path = shortened(member)
  return problem('invalid-input', `The input does not fit ${operation}. ${path} ${message}`, {
    errors: [{ path, message }],
  })
}

export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** 409: an item is decided once (W4). */
export function alreadyDecided(item: ItemId, { decision, by, action }: Decided) {
  const detail = `${item} was decided already: ${decision}, by ${by}, as ${action}.`
  return problem('already-decided', detail, { decision, decidedBy: by, action })
}
