import {
  context,
  propagation,
  ProxyTracerProvider,
  ROOT_CONTEXT,
  SpanKind,
  SpanStatusCode,
  trace,
  type Context,
  type Span as RecordedSpan,
} from '@opentelemetry/api'
import type { Span, SpanFacts, SpanOptions, Spans } from '../engine/spans.ts'

const tracerName = 'startup-builder'

/** Longest that a stop waits for an SDK to hand on the spans that it still has, in milliseconds. */
const flushMs = 2_000

/** Spans to the OpenTelemetry SDK that somebody registered in this process, before it serves; null when nobody has. */
export function registeredSpans(): Spans | null {
  const provider = trace.getTracerProvider()
  const isNobodys = provider instanceof ProxyTracerProvider && provider.getDelegateTracer(tracerName) === undefined
  return isNobodys ? null : spansTo(trace.getTracer(tracerName))
}

/** Has the SDK hand on what it still has, as far as it can: the process is about to end. */
export async function flushSpans(): Promise<void> {
  const provider = trace.getTracerProvider()
  const sdk: unknown = provider instanceof ProxyTracerProvider ? provider.getDelegate() : provider
  if (!canFlush(sdk)) return
  const late = new Promise<void>((resolve) => setTimeout(resolve, flushMs).unref())
  await Promise.race([sdk.forceFlush().catch(() => undefined), late])
}

/** Every SDK of Node has it; the interface does not. */
function canFlush(sdk: unknown): sdk is { forceFlush(): Promise<void> } {
  return typeof sdk === 'object' && sdk !== null && 'forceFlush' in sdk && typeof sdk.forceFlush === 'function'
}

/** One that the engine holds. */
class OpenSpan implements Span {
  readonly recorded: RecordedSpan

  constructor(recorded: RecordedSpan) {
    this.recorded = recorded
  }

  tell(facts: SpanFacts): void {
    this.recorded.setAttributes(facts)
  }

  fail(reason: string): void {
    this.recorded.setAttribute('error.type', reason)
    this.recorded.setStatus({ code: SpanStatusCode.ERROR })
  }
}

function spansTo(tracer: ReturnType<typeof trace.getTracer>): Spans {
  return {
    async within(options, work) {
      const around = parentOf(options)
      const kind = options.kind === 'call' ? SpanKind.SERVER : SpanKind.INTERNAL
      const recorded = tracer.startSpan(options.name, { kind, attributes: options.facts ?? {} }, around)
      try {
        // What `work` begins has this span as its own, for as long as it goes on: an author's `fetch` in a step, too.
        return await context.with(trace.setSpan(around, recorded), work, undefined, new OpenSpan(recorded))
      } finally {
        recorded.end()
      }
    },
  }
}

function parentOf({ parent }: SpanOptions): Context {
  if (parent === undefined) return context.active()
  if (parent instanceof OpenSpan) return trace.setSpan(context.active(), parent.recorded)
  // From outside these two alone are taken: a caller's baggage would be handed on to an author's downstreams.
  return propagation.extract(ROOT_CONTEXT, parent)
}
