import type { TestPayments } from '../support/server.ts'
import type { Shop, ShownAction } from './shop.ts'

interface ShownEvent {
  readonly id: string
  readonly seq: number
  readonly action: string
}

/** What an audit goes on from: an Event that was read once is never looked for again. */
export interface AuditState {
  lastSeq: number
  /** Events by Action. */
  readonly events: Map<string, ShownEvent>
  /** Calls whose settled answer has been compared with the record. */
  compared: number
}

export function newAudit(): AuditState {
  return { lastSeq: 0, events: new Map(), compared: 0 }
}

/**
 * Holds a shop's books against the server's and the payment provider's, when nothing is under way any more. Gives what
 * is wrong, in sentences.
 */
export async function audit(shop: Shop, token: string, payments: TestPayments, state: AuditState): Promise<string[]> {
  const faults = [...shop.faults]
  await readEvents(shop, token, state, faults)
  const actions = shop.calls.flatMap(({ settled }) => (settled === null ? [] : [JSON.parse(settled) as ShownAction]))
  for (const action of actions) {
    const event = state.events.get(action.id)
    if (event?.id !== action.event) faults.push(`${action.id} says Event ${action.event}, the list says ${event?.id}`)
  }
  await compareRecords(shop, token, state, faults)
  await comparePayments(actions, payments, faults)
  return faults
}

async function readEvents(shop: Shop, token: string, state: AuditState, faults: string[]): Promise<void> {
  for (;;) {
    const { data } = await get<{ data: ShownEvent[] }>(shop, token, `events?after=${state.lastSeq}&limit=1000`)
    for (const event of data) {
      if (event.seq !== state.lastSeq + 1) faults.push(`Event ${event.seq} follows ${state.lastSeq}`)
      state.lastSeq = event.seq
      if (state.events.has(event.action)) faults.push(`${event.action} has two Events`)
      state.events.set(event.action, event)
    }
    if (data.length === 0) return
  }
}

/** Every answered Action is on record as it was answered, byte for byte. */
async function compareRecords(shop: Shop, token: string, state: AuditState, faults: string[]): Promise<void> {
  const calls = shop.calls.slice(state.compared)
  state.compared = shop.calls.length
  const compare = async (): Promise<void> => {
    for (let call = calls.pop(); call !== undefined; call = calls.pop()) {
      if (call.action === null) continue
      const text = await getText(shop, token, `actions/${call.action}`)
      if (text !== call.settled) faults.push(`${call.key} was answered ${call.settled}, and the record says ${text}`)
    }
  }
  await Promise.all(Array.from({ length: 8 }, compare))
}

/** What the provider took is what succeeded Orders say, one to one; the same for what it gave back. */
async function comparePayments(
  actions: readonly ShownAction[],
  payments: TestPayments,
  faults: string[],
): Promise<void> {
  const [charges, refunds] = await Promise.all([payments.charges(), payments.refunds()])
  const byId = new Map(charges.map((charge) => [charge.id, charge]))
  const orders = new Map<string, ShownAction>()
  for (const action of new Map(actions.map((one) => [one.id, one])).values()) {
    if (action.verb !== 'Order.place' || action.status !== 'succeeded') continue
    const chargeId = String(action.output?.['chargeId'])
    const charge = byId.get(chargeId)
    if (charge === undefined) faults.push(`${action.id} succeeded, and there is no charge ${chargeId}`)
    else if (charge.amount !== action.output?.['price']) faults.push(`${action.id} says another price than ${chargeId}`)
    const other = orders.get(chargeId)
    if (other !== undefined) faults.push(`${action.id} and ${other.id} share ${chargeId}`)
    orders.set(chargeId, action)
  }
  for (const { id, key } of charges) if (!orders.has(id)) faults.push(`charge ${id} (key ${key}) is nobody's`)
  if (new Set(charges.map(({ key }) => key)).size !== charges.length) faults.push('two charges have one key')

  const refunded = new Map<string, number>()
  for (const { charge } of refunds) refunded.set(charge, (refunded.get(charge) ?? 0) + 1)
  const refundActions = actions.filter(({ verb, status }) => verb === 'Order.refund' && status === 'succeeded')
  const succeeded = new Set(refundActions.map(({ target }) => target))
  for (const [chargeId, action] of orders) {
    const expected = succeeded.has(String(action.output?.['$id'])) ? 1 : 0
    const count = refunded.get(chargeId) ?? 0
    if (count !== expected) faults.push(`${chargeId} was refunded ${count} times, ${expected} succeeded`)
  }
}

async function getText(shop: Shop, token: string, path: string): Promise<string> {
  const response = await fetch(`${shop.url}/glyphs.store/${path}`, { headers: { authorization: `Bearer ${token}` } })
  return response.text()
}

async function get<T>(shop: Shop, token: string, path: string): Promise<T> {
  return JSON.parse(await getText(shop, token, path)) as T
}
