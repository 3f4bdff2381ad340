import { isoTime, type Outcome } from '../model/action.ts'
import type { StoredEvent } from '../store/store.ts'

/** An Event as E1 has it. */
export function eventJson(event: StoredEvent): string {
  const { id, seq, type, action, worker, records, outcome, at } = event
  return (
    `{"id":"${id}","seq":${seq},"type":${JSON.stringify(type)},"action":"${action}","worker":${JSON.stringify(worker)},` +
    `"records":${JSON.stringify(records)},"data":${dataJson(outcome)},"at":"${isoTime(at)}"}`
  )
}

/** An Event's data: the output, or the error or fix (E1). */
function dataJson(outcome: Outcome): string {
  switch (outcome.status) {
    case 'succeeded':
      return outcome.output
    case 'failed':
      return JSON.stringify(outcome.error)
    case 'refused':
      return JSON.stringify(outcome.fix)
  }
}
