import type { Passed } from './front.ts'
import { clock, plain, styled } from './text.ts'

/** An Action as every interface shows it (§3): what is shown of it here. */
export interface ActionView {
  readonly id: string
  readonly namespace: string
  readonly verb: string
  readonly worker: string
  readonly idempotencyKey: string | null
  readonly status: string
  readonly target: string | null
  readonly output: unknown
  readonly error: { readonly code: string; readonly message: string } | null
  readonly fix: { readonly code: string; readonly message?: string } | null
  readonly waitingFor: string | null
  readonly steps: readonly { readonly step: string; readonly status: string; readonly attempts: number }[]
  readonly createdAt: string
  readonly settledAt: string | null
}

const styles = new Map([
  ['succeeded', 'green'],
  ['failed', 'red'],
  ['refused', 'yellow'],
  ['pending', 'blue'],
] as const)

/** One line of an Action: when, how it stands, what, whose, under which key, which, how long, and what came of it. */
export function actionLine(action: ActionView, ms: number | null): string {
  const { id, verb, target, worker, idempotencyKey, status } = action
  const head = [clock(), inColumn(status), column(plain(operation(verb, target)), 24)]
  const whose = [
    plain(worker),
    keyText(idempotencyKey),
    styled('dim', id),
    ms === null ? '' : styled('dim', `${ms} ms`),
  ]
  return spaced(...head, ...whose, stepsText(action), outcomeText(action))
}

/** What was answered to a call: an Action's line, or a shorter one. Null: nothing to show. */
export function passedLine(passed: Passed): string | null {
  const { status, headers, method, ms } = passed
  const isError = status >= 400
  const body = bodyOf(passed.body)
  if (isError) return rejectionLine(passed, body)
  if (method !== 'POST' || body === null) return null
  if (body['mode'] === 'try') return tryLine(passed, body)
  const action = body as unknown as ActionView
  if (typeof action.id !== 'string') return null
  if (headers['idempotent-replayed'] === undefined) return actionLine(action, ms)
  const { id, verb, target, worker, idempotencyKey } = action
  const what = column(plain(operation(verb, target)), 24)
  const how = styled('dim', `${id} ${ms} ms ${action.status}, first answered ${action.settledAt ?? ''}`)
  return spaced(clock(), inColumn('replayed'), what, plain(worker), keyText(idempotencyKey), how)
}

/** The Action that was answered to a call for the first time, to be followed while it is pending. */
export function answeredAction({ method, status, body }: Passed): ActionView | null {
  if (method !== 'POST' || status >= 400) return null
  const action = bodyOf(body)
  return typeof action?.['id'] === 'string' && 'steps' in action && 'verb' in action
    ? (action as unknown as ActionView)
    : null
}

function rejectionLine({ method, url, status, ms }: Passed, body: Record<string, unknown> | null): string {
  const { code, detail, firstAction, differs } = body ?? {}
  const what = `${method} ${url.split('?')[0] ?? url}`
  const first = typeof firstAction === 'string' ? `first ${firstAction}, differs: ${String(differs)}` : ''
  const why = first === '' && typeof detail === 'string' ? detail : first
  const name = styled('red', typeof code === 'string' ? code : String(status))
  return spaced(clock(), inColumn(String(status)), plain(what), name, styled('dim', `${ms} ms`), plain(why))
}

function tryLine({ url, ms }: Passed, body: Record<string, unknown>): string {
  const outcome = body as unknown as ActionView & { incomplete: string | null }
  const how = outcome.incomplete === null ? outcome.status : `incomplete at ${outcome.incomplete}`
  const what = plain(url.split('?')[0] ?? url)
  const came = outcomeText({ ...outcome, output: null })
  return spaced(clock(), inColumn('tried'), what, how, styled('dim', `${ms} ms`), came)
}

function operation(verb: string, target: string | null): string {
  return target === null ? verb : `${verb} ${target}`
}

function keyText(key: string | null): string {
  return key === null ? '' : styled('cyan', plain(key))
}

function stepsText({ steps }: ActionView): string {
  const told = steps.map(({ step, status, attempts }) => `${step} ${status}${attempts > 1 ? ` ×${attempts}` : ''}`)
  return told.length === 0 ? '' : `[${plain(told.join(', '))}]`
}

function outcomeText({ output, error, fix, waitingFor }: ActionView): string {
  if (typeof waitingFor === 'string') return `waiting for ${waitingFor}`
  const mend = error ?? fix
  if (typeof mend === 'object' && mend !== null)
    return spaced(plain(mend.code), mend.message === undefined ? '' : styled('dim', plain(mend.message)))
  const made = typeof output === 'object' && output !== null && '$id' in output ? String(output.$id) : null
  return made === null ? '' : `→ ${plain(made)}`
}

function inColumn(status: string): string {
  const style = [...styles].find(([name]) => name === status)?.[1] ?? (/^[45]/.test(status) ? 'red' : 'dim')
  return styled(style, column(status, 9))
}

function column(text: string, width: number): string {
  return text.padEnd(width)
}

function spaced(...parts: readonly string[]): string {
  return parts.filter((part) => part !== '').join('  ')
}

function bodyOf(text: string): Record<string, unknown> | null {
  try {
    const body: unknown = JSON.parse(text)
    return typeof body === 'object' && body !== null ? (body as Record<string, unknown>) : null
  } catch {
    return null
  }
}
