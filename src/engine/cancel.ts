import type { Action, Bound, Fix } from '../model/action.ts'
import type { Call } from '../model/call.ts'
import type { ParsedInput } from '../model/json.ts'
import { problem, shortened } from '../model/problem.ts'
import type { Settlement } from '../store/store.ts'
import type { Core } from './core.ts'
import { claimOf, targetOf, type Made } from './made.ts'

/** `Action.cancel` (A3): settles a pending Action that has started no step with an effect, and itself, in one commit. */
export async function cancel(core: Core, request: Call, bound: Bound, input: ParsedInput): Promise<Made> {
  const action = await targetOf(core, request)
  const [unknown] = Object.keys(input.value)
  if (unknown !== undefined) {
    const errors = [{ path: shortened(unknown), message: 'is unknown; a cancel takes no input' }]
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
    case 'already-decided':
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
