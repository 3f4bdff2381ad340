import { collectDefaultMetrics, Counter, Gauge, Histogram, Registry } from 'prom-client'
import type { CallAnswer, Signals } from '../engine/signals.ts'
import { outcomes, problems } from '../model/problem.ts'
import type { Startup } from '../model/startup.ts'
import type { Census, CommitFacts, Store } from '../store/store.ts'
import type { Log } from './log.ts'

/** What an operator looks at (§3): counts of what the engine and the store tell, and a census of the store at each scrape. */
export interface Metrics {
  readonly signals: Signals
  readonly committed: (commit: CommitFacts) => void
  readonly contentType: string
  /** The Prometheus text. Those who ask while it is being made get the same one, so that a flood of them counts once. */
  text(of: Measured): Promise<string>
}

/** What is looked at when somebody asks. */
export interface Measured {
  readonly store: Pick<Store, 'census'>
  readonly engine: { readonly ready: boolean }
  /** Streams of Events that are open. */
  readonly streams: number
  readonly log: Log
  /** Milliseconds since 1970. */
  readonly now: () => number
}

/** Upper bounds in seconds: of what is quick on a good day, and of what people wait for. */
const callSeconds = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60]
const waitSeconds = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60]
const syncSeconds = [0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5]
const groupOperations = [1, 2, 4, 8, 16, 32, 64, 128, 256]

const settledStatuses = ['succeeded', 'failed', 'refused'] as const
/** Why an Action is pending; `nothing`: it runs, or is about to. */
const waits = ['nothing', 'record', 'predecessor', 'approval', 'definition'] as const

/** Codes that an author gives to `refuse` and `reject` are told as one: they may be any number of words. */
const authorsCode = 'author'

export function createMetrics(startups: ReadonlyMap<string, Startup>): Metrics {
  const registry = new Registry()
  // Event loop, memory and processor, under the names that every Node has them.
  collectDefaultMetrics({ register: registry })
  const counters = countersOf(registry)
  const histograms = histogramsOf(registry)
  const gauges = gaugesOf(registry)
  begin(startups, counters)
  let making: Promise<string> | null = null

  async function make({ store, engine, streams, log, now }: Measured): Promise<string> {
    gauges.ready.set(engine.ready ? 1 : 0)
    gauges.streams.set(streams)
    try {
      show(await store.census(), startups, gauges, now())
    } catch (error) {
      // What was counted of it before would be a lie by now; all else can still be told.
      for (const gauge of [gauges.pending, gauges.oldest, gauges.inbox]) gauge.reset()
      log.warn({ error }, 'the store could not be counted for metrics')
    }
    return registry.metrics()
  }

  return {
    signals: signalsTo(counters, histograms),
    committed: ({ operations, syncMs }) => {
      histograms.operations.observe(operations)
      histograms.sync.observe(syncMs / 1000)
    },
    contentType: registry.contentType,
    text: (of) =>
      (making ??= make(of).finally(() => {
        making = null
      })),
  }
}

function countersOf(registry: Registry) {
  const counter = <Label extends string>(name: string, help: string, labelNames: readonly Label[] = []) =>
    new Counter({ name: `startup_builder_${name}`, help, labelNames, registers: [registry] })
  return {
    settled: counter('actions_settled_total', 'Actions settled, by final status.', ['namespace', 'verb', 'status']),
    unsuccessful: counter(
      'actions_unsuccessful_total',
      "Failed and refused Actions, by code; an author's own is `author`.",
      ['status', 'code'],
    ),
    replays: counter('replays_total', 'Calls answered with a settled Action that an earlier one had made.'),
    mismatches: counter('mismatches_total', 'Calls under a key that is bound to another operation, target or input.'),
    rejections: counter('rejections_total', 'Requests answered with a problem, by code.', ['code']),
    unanswered: counter('unanswered_total', 'Connections closed because the outcome of a call was in doubt.'),
    conflicts: counter('conflicts_total', 'Runs that began anew because what they had read changed.', [
      'namespace',
      'verb',
    ]),
    resumed: counter('resumed_total', 'Pending Actions of an earlier process that were taken over.'),
    steps: counter('steps_total', 'Attempts of steps, by how they ended.', ['namespace', 'verb', 'status']),
  }
}

function histogramsOf(registry: Registry) {
  const histogram = <Label extends string>(
    name: string,
    help: string,
    buckets: number[],
    labelNames: readonly Label[] = [],
  ) => new Histogram({ name: `startup_builder_${name}`, help, buckets, labelNames, registers: [registry] })
  return {
    calls: histogram('call_seconds', 'Time from a whole request to its answer, waiting included.', callSeconds, [
      'mode',
      'answer',
    ]),
    waits: histogram(
      'waits_seconds',
      'Time that Actions waited for a record, their turn or a predecessor.',
      waitSeconds,
      ['kind'],
    ),
    operations: histogram('commit_operations', 'Writes that shared one commit.', groupOperations),
    sync: histogram('commit_sync_seconds', 'Time that a commit took to be made durable (fdatasync).', syncSeconds),
  }
}

function gaugesOf(registry: Registry) {
  const gauge = <Label extends string>(name: string, help: string, labelNames: readonly Label[] = []) =>
    new Gauge({ name: `startup_builder_${name}`, help, labelNames, registers: [registry] })
  const labels = ['namespace', 'waiting_for'] as const
  return {
    pending: gauge('actions_pending', 'Pending Actions, by what they wait for.', labels),
    oldest: gauge('actions_pending_oldest_seconds', 'Age of the oldest pending Action; 0 when there is none.', labels),
    streams: gauge('streams_open', 'Streams of Events that are open.'),
    inbox: gauge('inbox_open', 'Open inbox items.', ['namespace']),
    ready: gauge('ready', 'Whether /readyz says so: leases are taken over, no stop has begun.'),
  }
}

/** What may be counted begins with 0, so that the first one is seen as an increase. */
function begin(
  startups: ReadonlyMap<string, Startup>,
  { settled, rejections, unsuccessful }: ReturnType<typeof countersOf>,
): void {
  for (const [namespace, { verbs }] of startups)
    for (const verb of verbs.keys()) for (const status of settledStatuses) settled.inc({ namespace, verb, status }, 0)
  for (const code of Object.keys(problems)) rejections.inc({ code }, 0)
  for (const [code, { settles }] of Object.entries(outcomes)) unsuccessful.inc({ status: settles, code }, 0)
  for (const status of ['failed', 'refused']) unsuccessful.inc({ status, code: authorsCode }, 0)
}

function signalsTo(counters: ReturnType<typeof countersOf>, histograms: ReturnType<typeof histogramsOf>): Signals {
  return {
    now: () => performance.now(),
    called(mode, answer: CallAnswer, code, ms) {
      histograms.calls.observe({ mode, answer }, ms / 1000)
      if (answer === 'replayed') counters.replays.inc()
      if (code === 'idempotency-mismatch') counters.mismatches.inc()
    },
    rejected: (code) => counters.rejections.inc({ code }),
    unanswered: () => counters.unanswered.inc(),
    settled({ namespace, verb, status, outcome }) {
      counters.settled.inc({ namespace, verb, status })
      if (outcome.status === 'succeeded') return
      const { code } = outcome.status === 'failed' ? outcome.error : outcome.fix
      counters.unsuccessful.inc({ status, code: Object.hasOwn(outcomes, code) ? code : authorsCode })
    },
    conflicted: (namespace, verb) => counters.conflicts.inc({ namespace, verb }),
    waited: (kind, ms) => histograms.waits.observe({ kind }, ms / 1000),
    resumed: () => counters.resumed.inc(),
    stepped: (namespace, verb, status) => counters.steps.inc({ namespace, verb, status }),
  }
}

/** Sets the gauges to what a census found; each of a served namespace is there, be it 0. */
function show(
  { pending, inbox }: Census,
  startups: ReadonlyMap<string, Startup>,
  gauges: ReturnType<typeof gaugesOf>,
  nowMs: number,
): void {
  for (const gauge of [gauges.pending, gauges.oldest, gauges.inbox]) gauge.reset()
  for (const namespace of startups.keys()) {
    gauges.inbox.set({ namespace }, 0)
    for (const waiting_for of waits) {
      gauges.pending.set({ namespace, waiting_for }, 0)
      gauges.oldest.set({ namespace, waiting_for }, 0)
    }
  }
  const oldest = new Map<string, number>()
  for (const { namespace, waitingFor, count, oldestAt } of pending) {
    // A namespace that is not served has no definition for any of its Actions (N2).
    const waiting_for = startups.has(namespace) ? (waitingFor ?? 'nothing') : 'definition'
    const seconds = Math.max(0, nowMs - oldestAt) / 1000
    const name = `${namespace} ${waiting_for}`
    oldest.set(name, Math.max(seconds, oldest.get(name) ?? 0))
    gauges.pending.inc({ namespace, waiting_for }, count)
    gauges.oldest.set({ namespace, waiting_for }, oldest.get(name) ?? 0)
  }
  for (const { namespace, open } of inbox) gauges.inbox.set({ namespace }, open)
}
