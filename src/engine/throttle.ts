import { problem } from '../model/problem.ts'
import type { Startup, Throttle } from '../model/startup.ts'
import type { Worker } from '../model/worker.ts'
import type { Machine } from './core.ts'

/** A call of a Verb, as far as its path tells; a built-in call, or a Verb that there is not, has the Startup's limit alone. */
export interface CalledVerb {
  readonly nouns: string
  readonly verb: string
}

/** One limit, and whose it is. */
interface Bucket {
  readonly limit: Throttle
  /** What the limit counts, in the answer's words: `calls`, `reads`, `Order.place`. */
  readonly of: string
  readonly name: string
}

/**
 * GCRA per Worker (§10): each bucket is one number, the theoretical arrival time of the next call at the steady rate. A
 * call is let in while that lies no further ahead than the burst allows, in the Startup's bucket and in the Verb's.
 */
export class Throttles {
  readonly #startups: ReadonlyMap<string, Startup>
  readonly #arrivals = new Map<string, number>()
  readonly #machine: Machine
  readonly #hasNone: boolean

  constructor(startups: ReadonlyMap<string, Startup>, machine: Machine) {
    this.#startups = startups
    this.#machine = machine
    this.#hasNone = [...startups.values()].every(
      ({ throttle, verbs }) => throttle === null && [...verbs.values()].every((verb) => verb.throttle === null),
    )
  }

  /** Counts one call; throws 429 `throttled` with the whole seconds after which it gets in, and counts nothing then. */
  take(worker: Worker, kind: 'call' | 'read', called: CalledVerb | null): void {
    if (this.#hasNone) return
    const now = this.#machine.now()
    const buckets = this.#buckets(worker, kind, called)
    for (const bucket of buckets) {
      const aheadMs = this.#next(bucket, now) - now - bucket.limit.burst * spacingMs(bucket.limit)
      if (aheadMs > 0) throw throttled(worker, bucket, Math.ceil(aheadMs / 1000))
    }
    for (const bucket of buckets) this.#arrivals.set(bucket.name, this.#next(bucket, now))
  }

  #buckets(worker: Worker, kind: 'call' | 'read', called: CalledVerb | null): Bucket[] {
    const startup = this.#startups.get(worker.namespace)
    const buckets: Bucket[] = []
    if (startup?.throttle) buckets.push({ limit: startup.throttle, of: `${kind}s`, name: `${kind} ${worker.id}` })
    if (startup === undefined || called === null) return buckets
    const noun = startup.nounsByPlural.get(called.nouns)
    const verb = noun && startup.verbs.get(`${noun.name}.${called.verb}`)
    if (verb?.throttle)
      buckets.push({ limit: verb.throttle, of: verb.operation, name: `${verb.operation} ${worker.id}` })
    return buckets
  }

  /** When the call after this one would be due. A clock that steps back makes nobody wait longer than a full bucket does. */
  #next({ limit, name }: Bucket, now: number): number {
    const due = Math.min(this.#arrivals.get(name) ?? 0, now + limit.burst * spacingMs(limit))
    return Math.max(due, now) + spacingMs(limit)
  }
}

function spacingMs({ rate }: Throttle): number {
  return 1000 / rate
}

function throttled(worker: Worker, { limit, of }: Bucket, seconds: number): Error {
  const policy = `"${of}";q=${limit.burst};w=${Math.ceil((limit.burst * spacingMs(limit)) / 1000)}`
  return problem(
    'throttled',
    `${worker.name} may make ${limit.rate} a second of ${of}, ${limit.burst} at once. Try again in ${seconds} s.`,
    { retryAfter: seconds },
    { 'Retry-After': String(seconds), RateLimit: `"${of}";r=0;t=${seconds}`, 'RateLimit-Policy': policy },
  )
}
