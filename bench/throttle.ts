import { Throttles } from '../src/engine/throttle.ts'
import { Buckets } from '../src/model/buckets.ts'
import type { Startup, Throttle } from '../src/model/startup.ts'
import type { Worker } from '../src/model/worker.ts'
import definition from './startup.ts'
import { median } from './median.ts'

// What the throttle (§10) costs a call, in nanoseconds: `node bench/throttle.ts`. With its headers, without HTTP.

const rounds = 9
const callsPerRound = 200_000
const workers = 1000

const ample: Throttle = { rate: 1_000_000, burst: 1_000_000 }
const place = { nouns: 'orders', verb: 'place' }

function throttlesOf(startup: Throttle | null, verb: Throttle | null): Throttles {
  const verbs = new Map([...definition.verbs].map(([name, one]) => [name, { ...one, throttle: verb }]))
  const limited: Startup = { ...definition, throttle: startup, verbs }
  const buckets = new Buckets()
  return new Throttles(new Map([[limited.namespace, limited]]), { take: (of) => buckets.take(of, Date.now()) })
}

function nsPerCall(throttles: Throttles): number {
  const callers = Array.from({ length: workers }, (_, i): Worker => {
    return { id: `worker_${i}`, namespace: definition.namespace, name: `w${i}`, kind: 'app', grants: ['*'] }
  })
  const times = Array.from({ length: rounds + 1 }, () => {
    const start = performance.now()
    for (let i = 0; i < callsPerRound; i++) {
      const caller = callers[i % workers]
      if (caller !== undefined) void throttles.take(caller, 'call', place)
    }
    return ((performance.now() - start) * 1e6) / callsPerRound
  })
  // The first round is the compiler's.
  return median(times.slice(1))
}

const scenarios: readonly (readonly [name: string, throttles: Throttles])[] = [
  ['no limit', throttlesOf(null, null)],
  ['one bucket', throttlesOf(ample, null)],
  ['two buckets', throttlesOf(ample, ample)],
]
for (const [name, throttles] of scenarios) {
  process.stdout.write(`${name.padEnd(12)} ${nsPerCall(throttles).toFixed(0).padStart(6)} ns a call\n`)
}
