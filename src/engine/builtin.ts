import type { Action, Bound, Fix, SettledAction } from '../model/action.ts'
import type { Call, Route } from '../model/call.ts'
import { isActionId, type ActionId } from '../model/ids.ts'
import type { ParsedInput } from '../model/json.ts'
import { problem } from '../model/problem.ts'
import { may } from '../model/worker.ts'
import type { Claim, Settlement } from '../store/store.ts'
import { decisionOf, startupOf } from './door.ts'
import type { Core } from './core.ts'
import { Run } from './run.ts'

/** What a built-in call made: a run of a new Action, its own settled Action, or that its key is another's already. */
export type Made =
  | { readonly kind: 'run'; readonly run: Run }
  | { readonly kind: 'settled'; readonly action: SettledAction }
  | { readonly kind: 'found'; readonly action: Action }

const builtins = new Map([
  ['actions/retry', retry],
  ['actions/cancel', cancel],
])

/** Whether a route is a built-in call of the platform (§6): a durable call like any other, with a key of its own. */
export function isBuiltin({ nouns, id, verb }: Route): boolean {
  return id !== null && builtins.has(`${nouns}/${verb}`)
}

export function runBuiltin(core: Core, request: Call, bound: Bound, input: ParsedInput): Promise<Made> {
  const handle = builtins.get(`${request.route.nouns}/${request.route.verb}`)
  if (handle === undefined) throw new Error(`${bound.operation} is no built-in call`)
  return handle(core, request, bound, input)
}

/** The Action that a built-in call is about: on record (404), of an operation that this Worker may call (403) (A1, A3). */
async function targetOf(core: Core, { route, worker }: Call): Promise<Action> {
  const id = route.id ?? ''
  const action = isActionId(id) ? await core.store.action(route.namespace, id) : null
  if (action === null) throw problem('action-not-found', `There is no Action ${id}.`)
  if (!may(worker, action.verb))
    throw problem('forbidden', `${worker.name} has no grant ${action.verb}.`, { grant: action.verb })
  return action
}

/** `Action.retry` (A1): a new Action of the same operation, target, input and chain; the failed one stays as it is. */
async function retry(core: Core, request: Call, bound: Bound, input: ParsedInput): Promise<Made> {
  const failed = await targetOf(core, request)
  const startup = startupOf(core, request.route.namespace)
  if (failed.verb.startsWith('Action.'))
    throw problem('not-retryable', `${failed.verb} is never retried.`, { status: failed.status })
  const steps = stepsSaid(request, input)
  const versions = decisionOf(startup, {
    ...request,
    route: { ...request.route, nouns: pluralOf(startup, failed.verb), id: failed.target },
  })
  const origin = await originOf(core, failed)
  const claim: Claim = {
    ...claimOf(core, request, bound, failed.input),
    verb: failed.verb,
    target: failed.target,
    on: failed.id,
    decidedAgainst: { ...failed.decidedAgainst, ...versions },
    decidedAfter: failed.decidedAfter,
    retry: { steps },
  }
  const answer = await core.store.claim(claim)
  switch (answer.kind) {
    case 'claimed': {
      const { worker } = request
      const verb = startup.verbs.get(failed.verb) ?? null
      const { lease, run: state } = answer
      return {
        kind: 'run',
        run: Run.start(core, { startup, verb, worker, claim, input: undefined, lease, state, origin, attempts: 1 }),
      }
    }
    case 'found':
      return answer
    case 'not-retryable':
      throw problem('not-retryable', `Only a failed Action can be retried; ${failed.id} is ${answer.status}.`, {
        status: answer.status,
      })
    case 'already-retried':
      throw problem(
        'already-retried',
        `${failed.id} was retried already; the latest of its chain is ${answer.latest}.`,
        { latest: answer.latest },
      )
    case 'outcome-required':
      throw problem(
        'outcome-required',
        `Nobody knows whether step ${answer.step} ran, and it can't be asked again: say its outcome, or that it shall run again.`,
        { step: answer.step },
      )
    default:
      return answer satisfies never
  }
}

async function originOf(core: Core, action: Action) {
  const root = action.root === action.id ? action : ((await core.store.action(action.namespace, action.root)) ?? action)
  return { id: root.id, worker: root.worker, workerId: root.workerId, key: root.key }
}

function pluralOf(startup: ReturnType<typeof startupOf>, verb: string): string {
  return startup.nouns.get(verb.split('.')[0] ?? '')?.plural ?? ''
}

type StepsSaid = NonNullable<NonNullable<Claim['retry']>['steps']>

/** `{ "steps": { "charge#1": { "outcome": … } } }` or `{ "runAgain": true }` (V3): for Workers with the grant `inbox`. */
function stepsSaid({ worker }: Call, { value }: ParsedInput): StepsSaid | null {
  const unknown = Object.keys(value).find((member) => member !== 'steps')
  if (unknown !== undefined) throw badRetry(unknown, 'is unknown; a retry takes steps alone')
  const { steps } = value
  if (steps === undefined) return null
  if (!isObject(steps)) throw badRetry('steps', 'is an object, by step: { "charge#1": { "outcome": … } }')
  if (!may(worker, 'inbox'))
    throw problem('forbidden', `Saying how a step ended takes the grant inbox, which ${worker.name} lacks.`, {
      grant: 'inbox',
    })
  const said: Record<string, StepsSaid[string]> = {}
  for (const [step, word] of Object.entries(steps)) said[step] = stepSaid(step, word)
  return said
}

function stepSaid(step: string, word: unknown): StepsSaid[string] {
  if (isObject(word) && Object.keys(word).length === 1) {
    if (word['runAgain'] === true) return { runAgain: true }
    if ('outcome' in word) return { outcome: JSON.stringify(word['outcome']) }
  }
  throw badRetry(`steps.${step}`, 'is { "outcome": … } or { "runAgain": true }')
}

function badRetry(path: string, message: string) {
  return problem('invalid-input', `The input does not fit Action.retry. ${path} ${message}`, {
    errors: [{ path, message }],
  })
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** `Action.cancel` (A3): settles a pending Action that has started no step with an effect, and itself, in one commit. */
async function cancel(core: Core, request: Call, bound: Bound, input: ParsedInput): Promise<Made> {
  const action = await targetOf(core, request)
  const [unknown] = Object.keys(input.value)
  if (unknown !== undefined) {
    const errors = [{ path: unknown, message: 'is unknown; a cancel takes no input' }]
    throw problem('invalid-input', 'The input does not fit Action.cancel, which takes none.', { errors })
  }
  const answer = await core.store.settle(cancellation(core, request, bound, input.text, action))
  switch (answer.kind) {
    case 'settled':
    case 'found':
      return answer
    case 'not-cancellable':
      throw problem('not-cancellable', answer.reason, { action: action.id })
    case 'conflict':
    case 'blocked':
    case 'lost':
      throw new Error(`a cancel reads and writes no record and was answered ${answer.kind}`)
    default:
      return answer satisfies never
  }
}

function cancellation(core: Core, request: Call, bound: Bound, input: string, action: Action): Settlement {
  const fix: Fix = { code: 'cancelled', message: `Cancelled by ${request.worker.name}.` }
  const verb = core.startups.get(action.namespace)?.verbs.get(action.verb)
  return {
    by: { claim: { ...claimOf(core, request, bound, input), verb: 'Action.cancel', target: action.id } },
    // Replaced by the cancelled Action as it then is, in the very transaction.
    outcome: { status: 'succeeded', output: 'null' },
    eventType: 'Action.cancelled',
    steps: [],
    reads: { records: [], lookups: [] },
    writes: [],
    units: 0,
    item: null,
    holds: 'release',
    cancels: {
      action: action.id,
      fix: { status: 'refused', fix },
      eventType: verb?.eventTypes.refused ?? `${action.verb}.refused`,
    },
  }
}

function claimOf(core: Core, request: Call, bound: Bound, input: string): Claim {
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
