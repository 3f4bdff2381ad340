import type { Throttle } from './startup.ts'

/** One limit that a call counts against, and by what name it is remembered. Two limits never share a name. */
export interface Bucket {
  readonly name: string
  readonly limit: Throttle
}

/** Whether a call got in, and how each of its buckets stands since, in the order in which they were given. */
export interface Taken {
  readonly taken: boolean
  readonly levels: readonly Level[]
}

export interface Level {
  /** Calls that would get in right now, one after the other. */
  readonly remaining: number
  /** Milliseconds until one more would; 0 when there can't be more. */
  readonly nextMs: number
  /** Milliseconds until a call that this bucket turned away gets in; 0 when it was not this bucket that did. */
  readonly waitMs: number
}

/** Sums of fractions are off by less than this, in milliseconds: who waited as told must not fail by a rounding. */
const roundingMs = 0.001

/** Below this many buckets nothing is looked through. */
const fewBuckets = 1000

/** How often buckets are looked through for the ones to drop when there are as many as may be, in milliseconds. */
const sweepEveryMs = 1000

/** What stands for every new bucket while there are as many as may be. */
const shared = 'shared'

/**
 * GCRA (§10): each bucket is one number, the theoretical arrival time of the next call at the steady rate, in milliseconds.
 * A call is let in while that lies no further ahead than the burst allows, in all of its buckets; it counts in all of
 * them or in none. One whose time has passed says no more than one that was never there, and is dropped.
 */
export class Buckets {
  readonly #arrivals = new Map<string, number>()
  readonly #max: number
  #sweepAbove = fewBuckets
  #sweptAt = -Infinity

  /** Beyond `max` buckets new ones share one, so that a flood of names takes no more memory. */
  constructor(max = Infinity) {
    this.#max = max
  }

  /** Buckets that are remembered. */
  get size(): number {
    return this.#arrivals.size
  }

  /** Counts one call in all buckets, or in none when one of them has no room for it. `now` in milliseconds. */
  take(buckets: readonly Bucket[], now: number): Taken {
    const dues = buckets.map((bucket) => this.#due(bucket, now))
    const waits = buckets.map(({ limit }, i) => waitMs(limit, dues[i] ?? now, now))
    const taken = waits.every((ms) => ms === 0)
    const levels = buckets.map(({ name, limit }, i) => {
      const due = dues[i] ?? now
      if (!taken) return levelOf(limit, due, now, waits[i] ?? 0)
      const next = due + spacingMs(limit)
      this.#remember(name, next, now)
      return levelOf(limit, next, now, 0)
    })
    return { taken, levels }
  }

  /** When a call would be due at the steady rate. */
  #due({ name, limit }: Bucket, now: number): number {
    const known = this.#arrivals.has(name) || !this.#isFull(now) ? name : shared
    const arrival = this.#arrivals.get(known) ?? now
    const latest = now + limit.burst * spacingMs(limit)
    if (arrival <= latest) return Math.max(arrival, now)
    // The clock stepped back, or the limit is another one: nobody waits longer than an empty bucket takes. That is kept, or
    // it would begin anew for who comes back as told.
    this.#arrivals.set(known, latest)
    return latest
  }

  #remember(name: string, arrival: number, now: number): void {
    this.#arrivals.set(this.#arrivals.has(name) || !this.#isFull(now) ? name : shared, arrival)
    if (this.#arrivals.size <= this.#sweepAbove) return
    this.#sweep(now)
    this.#sweepAbove = Math.max(fewBuckets, 2 * this.#arrivals.size)
  }

  #isFull(now: number): boolean {
    if (this.#arrivals.size < this.#max) return false
    if (Math.abs(now - this.#sweptAt) >= sweepEveryMs) this.#sweep(now)
    return this.#arrivals.size >= this.#max
  }

  #sweep(now: number): void {
    this.#sweptAt = now
    for (const [name, arrival] of this.#arrivals) if (arrival <= now) this.#arrivals.delete(name)
  }
}

function levelOf(limit: Throttle, due: number, now: number, waits: number): Level {
  const left = limit.burst - (due - now) / spacingMs(limit)
  const remaining = Math.max(0, Math.floor(left + roundingMs / spacingMs(limit)))
  const nextMs = remaining >= limit.burst ? 0 : Math.max(0, (remaining + 1 - left) * spacingMs(limit))
  return { remaining, nextMs, waitMs: waits }
}

/** How long until a call that is due then gets in. */
function waitMs(limit: Throttle, due: number, now: number): number {
  const aheadMs = due + spacingMs(limit) - now - limit.burst * spacingMs(limit)
  return aheadMs > roundingMs ? aheadMs : 0
}

function spacingMs({ rate }: Throttle): number {
  return 1000 / rate
}
