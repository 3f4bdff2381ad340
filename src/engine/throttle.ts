import { problem } from '../model/problem.ts'
import type { Startup, Throttle } from '../model/startup.ts'
import type { Worker } from '../model/worker.ts'
import type { Machine } from './core.ts'

/**
 * GCRA per Worker (§10): each bucket is one number, the theoretical arrival time of the next call at the steady rate. A
 * call is let in while that lies no further ahead than the burst allows.
 */
export class Throttles {
  readonly #limits = new Map<string, Throttle>()
  readonly #arrivals = new Map<string, number>()
  readonly #machine: Machine

  constructor(startups: ReadonlyMap<string, Startup>, machine: Machine) {
    this.#machine = machine
    for (const startup of startups.values()) if (startup.throttle) this.#limits.set(startup.namespace, startup.throttle)
  }

  /** Counts one call; throws 429 `throttled` with the whole seconds after which it gets in. */
  take(worker: Worker, kind: 'call' | 'read'): void {
    const limit = this.#limits.get(worker.namespace)
    if (limit === undefined) return
    const now = this.#machine.now()
    const spacingMs = 1000 / limit.rate
    const bucket = `${kind} ${worker.id}`
    const arrival = Math.max(this.#arrivals.get(bucket) ?? 0, now)
    const aheadMs = arrival + spacingMs - now - limit.burst * spacingMs
    if (aheadMs <= 0) {
      this.#arrivals.set(bucket, arrival + spacingMs)
      return
    }
    const seconds = Math.ceil(aheadMs / 1000)
    const policy = `"${kind}s";q=${limit.burst};w=${Math.ceil((limit.burst * spacingMs) / 1000)}`
    throw problem(
      'throttled',
      `${worker.name} may make ${limit.rate} ${kind}s a second, ${limit.burst} at once. Try again in ${seconds} s.`,
      { retryAfter: seconds },
      { 'Retry-After': String(seconds), RateLimit: `"${kind}s";r=0;t=${seconds}`, 'RateLimit-Policy': policy },
    )
  }
}
