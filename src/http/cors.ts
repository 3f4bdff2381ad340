import { preflightSecondsMax } from '../model/limits.ts'
import type { Edge, Exchange } from './exchange.ts'

/** Browsers: what a preflight allows and what a page may read (H2). */
const allowedHeaders =
  'Authorization, Content-Type, Idempotency-Key, Idempotency-Key-Encoded, Record-Version, Decided-After, Prefer, ' +
  'If-Match, If-None-Match, Last-Event-ID, traceparent, tracestate'
const exposedHeaders =
  'Idempotent-Replayed, Action-Status, Location, Retry-After, RateLimit, RateLimit-Policy, ETag, Preference-Applied'

/** The headers that let a page of an allowed origin read the answer; none for others, and none when none is allowed. */
export function corsHeaders({ allowedOrigins }: Edge, origin: string | undefined): string[] {
  if (allowedOrigins.size === 0) return []
  const vary = ['Vary', 'Origin']
  if (origin === undefined || !isAllowed(allowedOrigins, origin)) return vary
  return ['Access-Control-Allow-Origin', origin, 'Access-Control-Expose-Headers', exposedHeaders, ...vary]
}

/** Answers a preflight of an allowed origin; false for every other request, which is then none of CORS's. */
export function answerPreflight(x: Exchange, methods: string): boolean {
  const { origin, 'access-control-request-method': wanted } = x.req.headers
  if (x.req.method !== 'OPTIONS' || origin === undefined || wanted === undefined) return false
  if (!isAllowed(x.edge.allowedOrigins, origin)) return false
  const headers = [
    ...['Access-Control-Allow-Methods', methods],
    ...['Access-Control-Allow-Headers', allowedHeaders],
    ...['Access-Control-Max-Age', String(preflightSecondsMax)],
  ]
  x.send(204, headers, '')
  return true
}

function isAllowed(allowed: ReadonlySet<string>, origin: string): boolean {
  return allowed.has(origin) || allowed.has('*')
}
