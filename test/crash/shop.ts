import { setTimeout as sleep } from 'node:timers/promises'
import type { Chance } from '../support/shim/disk.ts'

/** One durable call of a Worker of glyphs.store, over all its attempts. */
export interface DurableCall {
  readonly what: 'place' | 'refund' | 'retry' | 'reprice' | 'register' | 'publish'
  readonly key: string
  readonly path: string
  readonly body: string
  /** The Action's id, once any answer told it. */
  action: string | null
  /** The Action as the first answer that showed it settled had it, byte for byte. */
  settled: string | null
  /** The status of an answer that said that nothing was put on record, and won't be. */
  rejected: number | null
}

export interface ShownAction {
  readonly id: string
  readonly verb: string
  readonly status: 'pending' | 'succeeded' | 'failed' | 'refused'
  readonly target: string | null
  readonly idempotencyKey: string | null
  readonly input: Readonly<Record<string, unknown>>
  readonly output: Readonly<Record<string, unknown>> | null
  readonly error: { readonly code: string } | null
  readonly on: string | null
  readonly event: string | null
}

export interface ShopOptions {
  readonly token: string
  readonly random: Chance
  /** Told apart from another shop's on the same server by its keys. */
  readonly name?: string
  /** Some Offers with titles of this many characters, so that the log grows fast. */
  readonly titleChars?: number
}

const cards = [
  ...Array.from({ length: 28 }, () => 'tok_ok'),
  ...Array.from({ length: 6 }, () => 'tok_declined'),
  ...Array.from({ length: 5 }, () => 'tok_lost'),
  ...Array.from({ length: 3 }, () => 'tok_down'),
  'tok_slow',
]

/** What says "this request put nothing on record, and the same request never will": a retry that came too late. */
const lateRetry = new Set(['already-retried', 'not-retryable'])

/** A shop's Workers: they place Orders, refund, retry and reprice, and keep what they were told. */
export class Shop {
  url = ''
  readonly calls: DurableCall[] = []
  /** Calls on the way right now. */
  readonly inFlight = new Set<DurableCall>()
  /** What no server may answer, in sentences. */
  readonly faults: string[] = []
  readonly #options: ShopOptions
  readonly #orders: string[] = []
  readonly #failed: string[] = []
  #stopped = true

  constructor(options: ShopOptions) {
    this.#options = options
  }

  /** Works with so many Workers until `stop`; resolves when all have noticed. */
  async work(workers: number): Promise<void> {
    this.#stopped = false
    await Promise.all(Array.from({ length: workers }, () => this.#worker()))
  }

  stop(): void {
    this.#stopped = true
  }

  async #worker(): Promise<void> {
    while (!this.#stopped) {
      const random = this.#options.random()
      if (random < 0.16) await this.#look()
      else await this.send(random < 0.22 ? (this.#again() ?? this.#next()) : this.#next())
    }
  }

  /** Sends a call, once. Whether it was answered is in the call. */
  async send(call: DurableCall): Promise<void> {
    this.inFlight.add(call)
    try {
      const response = await fetch(this.url + call.path, {
        method: 'POST',
        headers: {
          authorization: `Bearer ${this.#options.token}`,
          'content-type': 'application/json',
          'idempotency-key': call.key,
        },
        body: call.body,
      })
      this.#answered(call, response.status, await response.text())
    } catch (error) {
      // `fetch` says TypeError when there is no answer; the pause keeps its repetition from eating the machine.
      if (!(error instanceof TypeError)) throw error
      await sleep(5)
    } finally {
      this.inFlight.delete(call)
    }
  }

  /** Sends whatever isn't settled again, with its key, until it is. Throws when that takes longer than `ms`, or an answer is a fault. */
  async settleAll(ms: number): Promise<void> {
    const deadline = Date.now() + ms
    const open = this.open()
    const next = async (): Promise<void> => {
      for (let call = open.pop(); call !== undefined; call = open.pop()) {
        while (call.settled === null && call.rejected === null) {
          if (this.faults.length > 0) throw new Error(this.faults.join('\n'))
          if (Date.now() > deadline) throw new Error(`${call.what} ${call.key} did not settle within ${ms} ms`)
          await this.send(call)
        }
      }
    }
    await Promise.all(Array.from({ length: 8 }, next))
  }

  /** Calls without a final answer. */
  open(): DurableCall[] {
    return this.calls.filter(({ settled, rejected }) => settled === null && rejected === null)
  }

  #answered(call: DurableCall, status: number, text: string): void {
    if (status === 200 || status === 202) {
      const action = JSON.parse(text) as ShownAction
      if (call.action !== null && call.action !== action.id) {
        this.faults.push(`${call.key} was Action ${call.action} and became ${action.id}`)
      }
      call.action = action.id
      if (status === 202) return
      if (call.settled === null) this.#learn(action)
      else if (call.settled !== text) this.faults.push(`${call.key} was answered ${call.settled} and then ${text}`)
      call.settled ??= text
      return
    }
    const { code } = JSON.parse(text) as { code: string }
    if (status === 409 && call.what === 'retry' && lateRetry.has(code) && call.action === null) call.rejected = status
    // "Not now": sent again by `settleAll`.
    else if (status !== 503) this.faults.push(`${call.what} ${call.path} was answered ${status}: ${text}`)
  }

  #learn(action: ShownAction): void {
    if (action.status === 'failed') this.#failed.push(action.id)
    if (action.verb === 'Order.place' && action.status === 'succeeded')
      this.#orders.push(String(action.output?.['$id']))
  }

  /** An earlier call, to be sent once more. */
  #again(): DurableCall | undefined {
    return pick(this.calls.slice(-200), this.#options.random)
  }

  #next(): DurableCall {
    const { random } = this.#options
    const kind = random()
    const order = pick(this.#orders, random)
    const failed = pick(this.#failed.slice(-20), random)
    if (kind < 0.12 && order !== undefined) {
      const reason = random() < 0.2 ? 'it was lost' : 'not wanted'
      return this.add('refund', `/glyphs.store/orders/${order}/refund`, { reason })
    }
    if (kind < 0.26 && failed !== undefined) return this.add('retry', `/glyphs.store/actions/${failed}/retry`, {})
    if (kind < 0.34) {
      const price = 1000 + Math.floor(random() * 9000)
      return this.add('reprice', '/glyphs.store/offers/offer_serif_family/reprice', { price })
    }
    if (kind < 0.42) {
      const name = `customer ${this.calls.length}`
      return this.add('register', '/glyphs.store/customers/register', { name, email: `${this.#key()}@glyphs.store` })
    }
    const { titleChars } = this.#options
    if (kind < 0.5 && titleChars !== undefined) {
      const title = Array.from({ length: titleChars / 8 }, () => random().toString(36).slice(2, 10)).join('')
      return this.add('publish', '/glyphs.store/offers/publish', { title, price: 100, currency: 'EUR' })
    }
    const offer = random() < 0.7 ? 'offer_serif_family' : 'offer_mono_family'
    const mode = random() < 0.15 ? '?mode=send' : ''
    return this.add('place', `/glyphs.store/orders/place${mode}`, { offer, card: pick(cards, random) ?? 'tok_ok' })
  }

  /** Makes a call of the shop's, to be sent. */
  add(what: DurableCall['what'], path: string, input: object): DurableCall {
    const body = JSON.stringify(input)
    const call = { what, key: this.#key(), path, body, action: null, settled: null, rejected: null }
    this.calls.push(call)
    return call
  }

  #key(): string {
    return `${this.#options.name ?? 'shop'}-${this.calls.length}`
  }

  /** Reads, tries and clashes: they put nothing on record, and show what others are doing. */
  async #look(): Promise<void> {
    const { random, token } = this.#options
    const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' }
    // Not one that may still be unknown to the server: its key would be bound to this.
    const earlier = pick(
      this.calls.slice(-200).filter(({ action }) => action !== null),
      random,
    )
    const looks = [
      () => fetch(`${this.url}/glyphs.store/actions?limit=20&status=pending`, { headers }),
      () => fetch(`${this.url}/glyphs.store/orders?status=placed&limit=50`, { headers }),
      () =>
        fetch(`${this.url}/glyphs.store/events?after=${Math.floor(random() * this.calls.length)}&limit=20`, {
          headers,
        }),
      () => fetch(`${this.url}/glyphs.store/offers/offer_serif_family`, { headers }),
      () => {
        const body = JSON.stringify({ offer: 'offer_serif_family' })
        return fetch(`${this.url}/glyphs.store/orders/place?mode=try`, { method: 'POST', headers, body })
      },
      () => {
        const clash = { ...headers, 'idempotency-key': earlier?.key ?? 'nobody' }
        const body = '{"name":"another","email":"another@glyphs.store"}'
        return fetch(`${this.url}/glyphs.store/customers/register`, { method: 'POST', headers: clash, body })
      },
    ]
    // Without an earlier call there is nothing to clash with.
    const look = looks[Math.floor(random() * (earlier === undefined ? looks.length - 1 : looks.length))]
    try {
      const response = await look?.()
      await response?.arrayBuffer()
    } catch (error) {
      if (!(error instanceof TypeError)) throw error
      await sleep(5)
    }
  }
}

export function pick<T>(all: readonly T[], random: Chance): T | undefined {
  return all[Math.floor(random() * all.length)]
}
