import { Buckets, type Bucket, type Level, type Taken } from '../model/buckets.ts'
import { failedAddressesMax, failedTokensBurst, failedTokensRate } from '../model/limits.ts'
import { problem } from '../model/problem.ts'
import type { Startup, Throttle } from '../model/startup.ts'
import type { Worker } from '../model/worker.ts'
import type { Store } from '../store/store.ts'

/** A call of a Verb, as far as its path tells; a built-in call, or a Verb that there is not, has the Worker's limit alone. */
export interface CalledVerb {
  readonly nouns: string
  readonly verb: string
}

/** The limits that hold for a Worker (§10): null where there is none. */
export interface Limits {
  readonly calls: Throttle | null
  readonly reads: Throttle | null
  /** By operation, of Verbs that have a limit of their own. */
  readonly verbs: Readonly<Record<string, Throttle>>
}

/** Headers of each answer to what was counted: names and values in turn. Null: no limit holds, and nothing was counted. */
export type Counted = readonly string[] | null

/** A bucket, and what it counts, in the answer's words: `calls`, `reads`, `Order.place`. */
interface NamedBucket extends Bucket {
  readonly of: string
}

interface Limited {
  /** The Startup's, for each Worker that has none of its own. */
  readonly throttle: Throttle | null
  /** Of Verbs that have a limit of their own, by route: `orders/place`. */
  readonly verbs: ReadonlyMap<string, { readonly operation: string; readonly throttle: Throttle }>
}

/** The rate of each Worker (§10). The store counts, for all nodes; here is which limits hold, and how they are told. */
export class Throttles {
  readonly #limited: ReadonlyMap<string, Limited>
  readonly #store: Pick<Store, 'take'>

  constructor(startups: ReadonlyMap<string, Startup>, store: Pick<Store, 'take'>) {
    this.#limited = new Map(
      [...startups].flatMap(([namespace, startup]) => {
        const limited = limitedOf(startup)
        return limited.throttle === null && limited.verbs.size === 0 ? [] : [[namespace, limited]]
      }),
    )
    this.#store = store
  }

  /**
   * Counts one call in the bucket of its Worker and in that of the Verb, or in neither; throws 429 `throttled` with the
   * whole seconds after which it gets in. Nothing is asked where there is no limit.
   */
  take(worker: Worker, kind: 'call' | 'read', called: CalledVerb | null): Counted | Promise<Counted> {
    const limited = this.#limited.get(worker.namespace)
    if (worker.throttle === undefined && limited === undefined) return null
    const buckets = bucketsOf(worker, kind, called, limited)
    if (buckets.length === 0) return null
    const taken = this.#store.take(buckets)
    return taken instanceof Promise
      ? taken.then((levels) => told(worker, buckets, levels))
      : told(worker, buckets, taken)
  }

  /** What holds for a Worker, for it to see. */
  of(worker: Worker): Limits {
    const limited = this.#limited.get(worker.namespace)
    const own = worker.throttle ?? limited?.throttle ?? null
    const verbs = [...(limited?.verbs.values() ?? [])].map(({ operation, throttle }) => [operation, throttle] as const)
    return { calls: own, reads: own, verbs: Object.fromEntries(verbs) }
  }
}

function limitedOf({ throttle, verbs, nouns }: Startup): Limited {
  const own = [...verbs.values()].flatMap((verb) => {
    const route = `${nouns.get(verb.noun)?.plural}/${verb.verb}`
    return verb.throttle === null ? [] : [[route, { operation: verb.operation, throttle: verb.throttle }] as const]
  })
  return { throttle, verbs: new Map(own) }
}

function bucketsOf(
  worker: Worker,
  kind: 'call' | 'read',
  called: CalledVerb | null,
  limited: Limited | undefined,
): NamedBucket[] {
  const buckets: NamedBucket[] = []
  const own = worker.throttle
  // A changed limit is another bucket, and full: whom an operator gives more is let in at once (V4).
  if (own !== undefined)
    buckets.push({ name: `${kind} ${worker.id} ${own.rate} ${own.burst}`, limit: own, of: `${kind}s` })
  else if (limited !== undefined && limited.throttle !== null)
    buckets.push({ name: `${kind} ${worker.id}`, limit: limited.throttle, of: `${kind}s` })
  if (called === null || limited === undefined || limited.verbs.size === 0) return buckets
  const verb = limited.verbs.get(`${called.nouns}/${called.verb}`)
  if (verb !== undefined) {
    buckets.push({ name: `${verb.operation} ${worker.id}`, limit: verb.throttle, of: verb.operation })
  }
  return buckets
}

function told(worker: Worker, buckets: readonly NamedBucket[], { taken, levels }: Taken): Counted {
  if (!taken) throw throttled(worker, buckets, levels)
  const limit = list(buckets, ({ of }, i) => level(of, levels[i], true))
  return ['RateLimit', limit, 'RateLimit-Policy', list(buckets, policy)]
}

/** 429, after which a client that waits as long as it is told gets in: in all of its buckets. */
function throttled(worker: Worker, buckets: readonly NamedBucket[], levels: readonly Level[]): Error {
  const waits = levels.map(({ waitMs }) => waitMs)
  const longest = Math.max(...waits)
  const seconds = wholeSeconds(longest)
  const { limit, of } = buckets[waits.indexOf(longest)] as NamedBucket
  return problem(
    'throttled',
    `${worker.name} may make ${limit.rate} a second of ${of}, ${limit.burst} at once. Try again in ${seconds} s.`,
    { retryAfter: seconds },
    {
      'Retry-After': String(seconds),
      // Of what is not used up it isn't told when there will be more: `Retry-After` must not be the earlier one of the two.
      RateLimit: list(buckets, ({ of }, i) => level(of, levels[i], levels[i]?.waitMs !== 0)),
      'RateLimit-Policy': list(buckets, policy),
    },
  )
}

/** `"calls";r=2;t=1`: two get in right now, and one more in a second. A full bucket has no `t`. */
function level(of: string, { remaining, nextMs }: Level = { remaining: 0, nextMs: 0, waitMs: 0 }, isTimed: boolean) {
  return isTimed && nextMs > 0 ? `"${of}";r=${remaining};t=${wholeSeconds(nextMs)}` : `"${of}";r=${remaining}`
}

/**
 * `"calls";q=100;w=10`: the pace that can be kept, as calls in the whole seconds in which an empty bucket fills. The
 * draft knows no fractions of a second, so that a quota may be more than the burst: what gets in at once `r` says.
 */
function policy({ limit, of }: NamedBucket): string {
  let known = policies.get(limit)
  if (known === undefined) policies.set(limit, (known = new Map<string, string>()))
  let text = known.get(of)
  if (text === undefined) {
    const { rate, burst } = limit
    const window = Math.max(1, Math.min(Math.ceil(burst / rate - rounding), integerMax))
    const quota = Math.max(burst, Math.floor(window * rate + rounding))
    text = `"${of}";q=${quota};w=${window}`
    known.set(of, text)
  }
  return text
}

/** It is the same for each call: written once for a limit and what it counts. */
const policies = new WeakMap<Throttle, Map<string, string>>()

/** Products of fractions are off by less than this. */
const rounding = 1e-9

/** The greatest integer of a structured field (RFC 9651, section 3.3.1). */
const integerMax = 999_999_999_999_999

function list(buckets: readonly NamedBucket[], member: (bucket: NamedBucket, i: number) => string): string {
  const [only] = buckets
  return only !== undefined && buckets.length === 1 ? member(only, 0) : buckets.map(member).join(', ')
}

/** Rounded up, and never none: who is told to wait must get in afterwards. */
function wholeSeconds(ms: number): number {
  return Math.min(Math.max(1, Math.ceil((ms - 0.001) / 1000)), integerMax)
}

/** Failed tokens of each address (§10). A good token is never asked about here: who shares an address is not locked out. */
export class FailedTokens {
  readonly #buckets = new Buckets(failedAddressesMax)
  readonly #machine: { now(): number }

  constructor(machine: { now(): number }) {
    this.#machine = machine
  }

  /** Counts one; gives what its client is told: 401 `unauthorized`, or beyond the limit 429 `throttled`. */
  refusal(address: string): Error {
    const limit = { rate: failedTokensRate, burst: failedTokensBurst }
    const { taken, levels } = this.#buckets.take([{ name: address, limit }], this.#machine.now())
    if (taken) return problem('unauthorized', 'This token is unknown, expired or revoked.')
    const seconds = wholeSeconds(Math.max(...levels.map(({ waitMs }) => waitMs)))
    return problem(
      'throttled',
      `Too many tokens from this address are unknown, expired or revoked. Try again in ${seconds} s; a good token is let in at any time.`,
      { retryAfter: seconds },
      { 'Retry-After': String(seconds) },
    )
  }
}
