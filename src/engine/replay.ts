import type { Bound } from '../model/action.ts'
import type { ActionId } from '../model/ids.ts'
import { problem, type Problem } from '../model/problem.ts'

/** What of a second request differs from what its key is bound to (K3, K4): nothing, and it is a replay. */
export function differences(first: Bound, second: Bound): string[] {
  const differs: string[] = []
  if (first.operation !== second.operation) differs.push('operation')
  if (first.target !== second.target) differs.push('target')
  // The first byte is the scheme: a later one would compute the older scheme's print to compare (K3).
  if (Buffer.compare(first.fingerprint, second.fingerprint) !== 0) differs.push('input')
  return differs
}

/** 409 `idempotency-mismatch` (K4): names the Action that the key is bound to, which is the same Worker's own. */
export function mismatch(firstAction: ActionId, differs: readonly string[]): Problem {
  const what = `${differs.join(' and ')} ${differs.length === 1 ? 'is' : 'are'} another`
  return problem('idempotency-mismatch', `This key is bound to ${firstAction}, whose ${what}. Nothing ran.`, {
    firstAction,
    differs,
  })
}
