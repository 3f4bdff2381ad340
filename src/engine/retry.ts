import type { Action, Bound } from '../model/action.ts'
import type { Call } from '../model/call.ts'
import type { ItemId } from '../model/ids.ts'
import type { ParsedInput } from '../model/json.ts'
import { problem } from '../model/problem.ts'
import type { Startup } from '../model/startup.ts'
import { may } from '../model/worker.ts'
import type { Claim, ClaimAnswer } from '../store/store.ts'
import { decisionOf, startupOf } from './door.ts'
import type { Core } from './core.ts'
import { alreadyDecided, badBody, claimOf, isObject, targetOf, type Made } from './made.ts'
import { Run } from './run.ts'
import type { RunPlan } from './running.ts'

/** `Action.retry` (A1): a new Action of the same operation, target, input and chain; the failed one stays as it is. */
export async function retry(core: Core, request: Call, bound: Bound, input: ParsedInput): Promise<Made> {
  const failed = await targetOf(core, request)
  if (/^(Action|Inbox)\./.test(failed.verb))
    throw problem('not-retryable', `${failed.verb} is never retried.`, { status: failed.status })
  const versions = versionsSaid(core, request, failed)
  return retryOf(core, request, bound, failed, { steps: stepsSaid('Action.retry', request, input), versions })
}

/** What a retry says beside the Action that it is on. */
export interface RetrySaid {
  readonly steps: StepsSaid | null
  /** Versions that the retry brings anew. */
  readonly versions: Readonly<Record<string, number>>
  /** The inbox item of which it is the decision (W4). */
  readonly applies?: ItemId
}

/** A retry of a failed Action, as `Action.retry` or as the `apply` of its inbox item. */
export async function retryOf(
  core: Core,
  request: Call,
  bound: Bound,
  failed: Action,
  { steps, versions, applies }: RetrySaid,
): Promise<Made> {
  const origin = await originOf(core, failed)
  const claim: Claim = {
    ...claimOf(core, request, bound, failed.input),
    verb: failed.verb,
    target: failed.target,
    on: failed.id,
    decidedAgainst: { ...failed.decidedAgainst, ...versions },
    decidedAfter: failed.decidedAfter,
    retry: { steps },
    ...(applies === undefined ? {} : { applies }),
  }
  return claimed(core, request, claim, origin, await core.store.claim(claim))
}

/** Runs what a retry or an apply has put on record, or says why it put nothing there. */
export function claimed(core: Core, request: Call, claim: Claim, origin: RunPlan['origin'], answer: ClaimAnswer): Made {
  switch (answer.kind) {
    case 'claimed': {
      const { lease, run: state } = answer
      const startup = startupOf(core, claim.namespace)
      const verb = startup.verbs.get(claim.verb) ?? null
      const plan = { startup, verb, worker: request.worker, claim, input: undefined, lease, state, origin, attempts: 1 }
      return { kind: 'run', run: Run.start(core, plan) }
    }
    case 'found':
      return answer
    case 'not-retryable':
      throw problem('not-retryable', `Only a failed Action can be retried; ${claim.on} is ${answer.status}.`, {
        status: answer.status,
      })
    case 'already-retried':
      throw problem(
        'already-retried',
        `${claim.on} was retried already; the latest of its chain is ${answer.latest}.`,
        {
          latest: answer.latest,
        },
      )
    case 'outcome-required':
      throw problem(
        'outcome-required',
        `Nobody knows whether step ${answer.step} ran, and it can't be asked again: say its outcome, or that it shall run again.`,
        { step: answer.step },
      )
    case 'step-not-unknown':
      throw badBody(claim.bound.operation, `steps.${answer.step}`, 'is no step of this chain whose outcome is unknown')
    case 'already-decided':
      throw alreadyDecided(answer.item, answer.decided)
    default:
      return answer satisfies never
  }
}

/** The Versions that a call about another Action says; one alone is that of the other's target (W1). */
export function versionsSaid(core: Core, request: Call, action: Action): Readonly<Record<string, number>> {
  const startup = startupOf(core, request.route.namespace)
  const nouns = pluralOf(startup, action.verb)
  return decisionOf(startup, { ...request, route: { ...request.route, nouns, id: action.target } })
}

async function originOf(core: Core, action: Action) {
  const root = action.root === action.id ? action : ((await core.store.action(action.namespace, action.root)) ?? action)
  return { id: root.id, worker: root.worker, workerId: root.workerId, key: root.key }
}

function pluralOf(startup: Startup, verb: string): string {
  return startup.nouns.get(verb.split('.')[0] ?? '')?.plural ?? ''
}

export type StepsSaid = NonNullable<NonNullable<Claim['retry']>['steps']>

/** `{ "steps": { "charge#1": { "outcome": … } } }` or `{ "runAgain": true }` (V3): for Workers with the grant `inbox`. */
export function stepsSaid(operation: string, { worker }: Call, { value }: ParsedInput): StepsSaid | null {
  const unknown = Object.keys(value).find((member) => member !== 'steps')
  if (unknown !== undefined) throw badBody(operation, unknown, 'is unknown; a retry takes steps alone')
  const { steps } = value
  if (steps === undefined) return null
  if (!isObject(steps)) throw badBody(operation, 'steps', 'is an object, by step: { "charge#1": { "outcome": … } }')
  if (!may(worker, 'inbox'))
    throw problem('forbidden', `Saying how a step ended takes the grant inbox, which ${worker.name} lacks.`, {
      grant: 'inbox',
    })
  const said: Record<string, StepsSaid[string]> = {}
  for (const [step, word] of Object.entries(steps)) said[step] = stepSaid(operation, step, word)
  return said
}

function stepSaid(operation: string, step: string, word: unknown): StepsSaid[string] {
  if (isObject(word) && Object.keys(word).length === 1) {
    if (word['runAgain'] === true) return { runAgain: true }
    if ('outcome' in word) return { outcome: JSON.stringify(word['outcome']) }
  }
  throw badBody(operation, `steps.${step}`, 'is { "outcome": … } or { "runAgain": true }')
}
