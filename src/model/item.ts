import { isoTime, type Action } from './action.ts'
import type { ActionId, ItemId } from './ids.ts'
import { may, type Worker } from './worker.ts'

/** What lands in an inbox with the settlement of an Action (W4). */
export interface NewItem {
  readonly id: ItemId
  readonly kind: 'refused' | 'failed' | 'approval'
  /** The Versions shown, `offers/offer_x` → 8. */
  readonly records: Readonly<Record<string, number>>
  readonly would: string | null
}

/** How an item was decided (`retry`, `apply`, `dismiss` …), by whom, and the Action that did it. */
export interface Decided {
  readonly decision: string
  readonly by: string
  readonly action: ActionId
}

/** An item of an inbox: its Action as it is now, and what became of it. */
export interface InboxItem extends NewItem {
  readonly action: Action
  readonly status: 'open' | 'decided'
  readonly decision: Decided | null
  readonly at: number
}

/** What is approved is in the inboxes of those who may approve it; the rest in its caller's (W4, W5). */
export function isInInbox(worker: Worker, item: InboxItem): boolean {
  if (item.kind === 'approval') return may(worker, `approve:${item.action.verb}`)
  return item.action.workerId === worker.id || (item.kind === 'failed' && may(worker, 'inbox'))
}

/** An item as W4 has it, as JSON text. */
export function itemJson({ id, kind, action, records, would, status, decision, at }: InboxItem): string {
  const outcome = action.status === 'pending' ? null : action.outcome
  const fix = outcome?.status === 'refused' ? JSON.stringify(outcome.fix) : 'null'
  const error = outcome?.status === 'failed' ? JSON.stringify(outcome.error) : 'null'
  return (
    `{"id":"${id}","kind":"${kind}","action":"${action.id}","fix":${fix},"error":${error},` +
    `"records":${JSON.stringify(records)},"would":${would ?? 'null'},"status":"${status}",` +
    `"decision":${JSON.stringify(decision?.decision ?? null)},"decidedBy":${JSON.stringify(decision?.by ?? null)},` +
    `"at":"${isoTime(at)}"}`
  )
}
