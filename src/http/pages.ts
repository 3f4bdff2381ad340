import { errorIndex, errorIndexHtml, errorPage, errorPageHtml } from '../model/errorpage.ts'
import { problem } from '../model/problem.ts'
import { sendHtml } from './answers.ts'
import type { Exchange } from './exchange.ts'
import { allowOnly, parseQuery } from './query.ts'

/** The list of all codes: HTML for browsers, JSON otherwise. */
export function showErrors(x: Exchange): void {
  allowOnly(parseQuery(x.req.url ?? ''), [])
  if (prefersHtml(x.req.headers.accept)) return sendHtml(x, errorIndexHtml())
  x.send(200, dataHeaders('application/json'), JSON.stringify({ data: errorIndex(x.edge.origin), next: null }))
}

/** The page of one code: HTML for browsers, as a problem otherwise (§11). */
export function showError(x: Exchange): void {
  allowOnly(parseQuery(x.req.url ?? ''), [])
  const code = x.params.code ?? ''
  const page = errorPage(code, x.edge.origin)
  const html = errorPageHtml(code)
  if (page === null || html === null) throw problem('not-found', 'There is no error code of this name.')
  if (prefersHtml(x.req.headers.accept)) return sendHtml(x, html)
  x.send(200, dataHeaders('application/problem+json'), JSON.stringify({ ...page, detail: page.meaning }))
}

function dataHeaders(type: string): string[] {
  return ['Content-Type', `${type}; charset=utf-8`, 'Vary', 'Accept']
}

/** Whether `Accept` names HTML with a higher weight than JSON; anything else, `*` too, gets JSON (RFC 9110, 12.5.1). */
export function prefersHtml(accept: string | undefined): boolean {
  let html = 0
  let json = 0
  for (const range of (accept ?? '').split(',')) {
    const [type = '', ...parameters] = range.split(';').map((part) => part.trim().toLowerCase())
    const weight = weightOf(parameters)
    if (type === 'text/html' || type === 'application/xhtml+xml') html = Math.max(html, weight)
    if (type === 'application/json' || type === 'application/problem+json') json = Math.max(json, weight)
  }
  return html > json
}

function weightOf(parameters: readonly string[]): number {
  const q = parameters.find((parameter) => parameter.startsWith('q='))
  const weight = q === undefined ? 1 : Number(q.slice(2))
  return weight >= 0 && weight <= 1 ? weight : 0
}
