/** The one request of the benchmark: a Verb without steps that creates one record with about 120 bytes of fields. */

export const namespace = 'bench.store'
export const path = '/bench.store/orders/place'

/** The fields of an Order, and the input that they come from as they are. */
export interface Order {
  readonly offer: string
  readonly customer: string
  readonly currency: string
  readonly price: number
  readonly note: string
}

/** The input under the key of this number, as JSON; `changed` is another input for the same key. */
export function inputOf(n: number, changed: boolean): string {
  const customer = `customer_${String(n % 5000).padStart(6, '0')}`
  const price = changed ? 5900 : 4900
  return `{"offer":"offer_serif_family","customer":"${customer}","currency":"EUR","price":${price},"note":"cart ${String(n).padStart(8, '0')}"}`
}

export function keyOf(prefix: string, n: number): string {
  return `${prefix}_${n}-checkout`
}
