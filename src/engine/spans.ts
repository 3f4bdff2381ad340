import type { Answer, Call, TraceHeaders } from '../model/call.ts'
import { Problem } from '../model/problem.ts'
import { answered, unmade } from './signals.ts'

/** What a span says besides its name: ids, names of Verbs and codes; never an input, an output, a key or a token. */
export type SpanFacts = Readonly<Record<string, string | number | boolean>>

/** A span that is open. */
export interface Span {
  tell(facts: SpanFacts): void
  /** It ended badly, for this reason: a code, or the name of an error. */
  fail(reason: string): void
}

export interface SpanOptions {
  /** `call` is entered from outside; the others lie below it. */
  readonly kind: 'call' | 'run' | 'step' | 'commit'
  readonly name: string
  readonly facts?: SpanFacts
  /** What it lies below: a span, or the caller's own by its headers. The span in which it begins unless given. */
  readonly parent?: Span | TraceHeaders | undefined
}

/**
 * Where spans go. Handed in like the log (house rule 3): null where nobody records spans, so that a call pays one comparison
 * for them.
 */
export interface Spans {
  /** Does work in a span of its own, which what the work begins lies below, an author's `fetch` too. Begins it at once. */
  within<T>(options: SpanOptions, work: (span: Span) => Promise<T>): Promise<T>
}

/** Calls in spans of their own, below those of their callers. */
export function traced(
  spans: Spans,
  operationOf: (request: Call) => string | null,
  call: (request: Call) => Promise<Answer>,
): typeof call {
  return (request) => {
    const operation = operationOf(request)
    const facts = { ...factsOf({ namespace: request.route.namespace }), 'startup_builder.mode': request.mode }
    const options = {
      kind: 'call' as const,
      // A path's words may be anything; a span's name is one of few.
      name: operation === null ? 'call' : `call ${operation}`,
      facts: operation === null ? facts : { ...facts, ...factsOf({ verb: operation }) },
      parent: request.trace ?? {},
    }
    return spans.within(options, async (span) => {
      try {
        const answer = await call(request)
        if (answer.kind === 'action') span.tell(factsOf({ action: answer.id, status: answer.status }))
        span.tell(factsOf({ answer: answered(answer) }))
        return answer
      } catch (error) {
        span.tell(factsOf({ answer: unmade(error) }))
        span.fail(reasonOf(error))
        throw error
      }
    })
  }
}

/** Facts by our own names: `startup_builder.action`. */
export function factsOf(facts: SpanFacts): SpanFacts {
  return Object.fromEntries(Object.entries(facts).map(([name, value]) => [`startup_builder.${name}`, value]))
}

/** An error by its code or its name alone: its message may hold anything. */
export function reasonOf(error: unknown): string {
  if (error instanceof Problem) return error.code
  return error instanceof Error ? error.name : typeof error
}
