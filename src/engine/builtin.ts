import type { Bound } from '../model/action.ts'
import type { Call, Route } from '../model/call.ts'
import type { ParsedInput } from '../model/json.ts'
import { cancel } from './cancel.ts'
import type { Core } from './core.ts'
import { apply, dismiss } from './inbox.ts'
import type { Made } from './made.ts'
import { retry } from './retry.ts'

const builtins = new Map([
  ['actions/retry', retry],
  ['actions/cancel', cancel],
  ['inbox/apply', apply],
  ['inbox/dismiss', dismiss],
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
