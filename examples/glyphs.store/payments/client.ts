import type { Charge, Refund } from './ledger.ts'

/** Amounts are in minor units. */
export type ChargeInput = { amount: number; currency?: string | undefined; card: string }
export type RefundInput = { charge: string; amount?: number | undefined; reason?: string | undefined }

/** What a step hands to its function: the derived key, the signal, and the way to say "a definitive no". */
export type StepCall = { key: string; signal: AbortSignal; reject: (code: string, message: string) => never }

/**
 * The payment provider, as a Verb's steps use it: `({ key, input, signal, reject }) => payments.charge(input, { key, signal, reject })`.
 * A yes is returned and a definitive no is `reject`ed. Whatever else happens is thrown: its outcome is unknown,
 * and the step asks again under the same key (V2).
 */
export const payments = {
  charge: (input: ChargeInput, call: StepCall): Promise<Charge> => post<Charge>('/charges', input, call),
  refund: (input: RefundInput, call: StepCall): Promise<Refund> => post<Refund>('/refunds', input, call),
}

/**
 * The refusals after which nothing was paid under this key. 409 isn't one: the key is somebody's, and may well have
 * paid for another request. 408, 425, 429 and 5xx say nothing about what happened.
 */
const definitiveStatuses = new Set([400, 402, 404, 422])

async function post<T extends { id: string }>(path: string, input: object, call: StepCall): Promise<T> {
  // Read at each call, so that a test or a deploy can point it elsewhere.
  const url = (process.env['PAYMENTS_URL'] ?? 'http://127.0.0.1:4010').replace(/\/+$/, '') + path
  const response = await fetch(url, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'idempotency-key': call.key },
    body: JSON.stringify(input),
    signal: call.signal,
    redirect: 'error', // a followed redirect may turn the POST into a GET
  })
  const body: unknown = await response.json()
  if (response.ok && isPaid<T>(body)) return body
  // Only an error in the provider's own form is its answer; a proxy's 404 page is nobody's.
  if (definitiveStatuses.has(response.status) && isRefusal(body))
    return call.reject(body.error.code, body.error.message)
  const why = isRefusal(body) ? body.error.code : 'an answer that is not the provider’s'
  throw new Error(`The outcome of POST ${path} is unknown: ${response.status}, ${why}`)
}

function isPaid<T extends { id: string }>(body: unknown): body is T {
  return typeof body === 'object' && body !== null && 'id' in body && typeof body.id === 'string'
}

function isRefusal(body: unknown): body is { error: { code: string; message: string } } {
  if (typeof body !== 'object' || body === null || !('error' in body)) return false
  const { error } = body
  if (typeof error !== 'object' || error === null || !('code' in error) || !('message' in error)) return false
  return typeof error.code === 'string' && typeof error.message === 'string'
}
