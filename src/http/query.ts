import { problem } from '../model/problem.ts'

/** The members of a query, each once, decoded. */
export type Query = ReadonlyMap<string, string>

const none: Query = new Map()

/**
 * Reads the query of a request's target, as forms are encoded (`+` is a space). Throws `invalid-query` for a member that
 * comes twice and for what is not percent-encoded UTF-8: nothing is guessed.
 */
export function parseQuery(target: string): Query {
  const mark = target.indexOf('?')
  if (mark < 0 || mark === target.length - 1) return none
  const query = new Map<string, string>()
  for (const part of target.slice(mark + 1).split('&')) {
    if (part === '') continue
    const equals = part.indexOf('=')
    const name = decode(equals < 0 ? part : part.slice(0, equals))
    if (query.has(name)) throw problem('invalid-query', `The query names ${quoted(name)} twice.`)
    query.set(name, equals < 0 ? '' : decode(part.slice(equals + 1)))
  }
  return query
}

/** Throws `invalid-query` for a member that is none of `names`. */
export function allowOnly(query: Query, names: readonly string[]): void {
  for (const name of query.keys()) {
    if (names.includes(name)) continue
    const known = names.length === 0 ? 'none is known here' : `known here: ${names.join(', ')}`
    throw problem('invalid-query', `The query has an unknown member ${quoted(name)}; ${known}.`)
  }
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text.replaceAll('+', ' '))
  } catch {
    // A URIError: a % without two hexadecimal digits, or bytes that aren't UTF-8.
    throw problem('invalid-query', 'A member of the query is not percent-encoded UTF-8.')
  }
}

/** A name of the client's own, shortened for the answer's text. */
function quoted(name: string): string {
  return JSON.stringify(name.slice(0, 100))
}
