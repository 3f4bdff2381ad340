import { isActionId } from '../model/ids.ts'
import { listLimitDefault, listLimitMax } from '../model/limits.ts'
import { problem, type Problem } from '../model/problem.ts'
import type { IndexValue } from '../model/record.ts'
import type { Noun } from '../model/startup.ts'
import { may, type Worker } from '../model/worker.ts'
import type { ActionFilter } from '../store/store.ts'

/** The members of a query, each once, decoded. */
export type Query = ReadonlyMap<string, string>

/** `limit`: 1 to 1000, 100 without one. Throws `invalid-limit`. */
export function readLimit(query: Query): number {
  const text = query.get('limit')
  if (text === undefined) return listLimitDefault
  const limit = /^\d{1,6}$/.test(text) ? Number(text) : 0
  if (limit >= 1 && limit <= listLimitMax) return limit
  throw problem('invalid-limit', `limit must be a whole number from 1 to ${listLimitMax}.`)
}

/** Filters on the declared indexes and unique fields of a Noun. Throws `invalid-filter` for every other member. */
export function recordFilters(noun: Noun, query: Query): { field: string; value: IndexValue }[] {
  const filters: { field: string; value: IndexValue }[] = []
  for (const [field, text] of query) {
    if (field === 'limit' || field === 'after') continue
    if (!noun.index.has(field) && !noun.unique.has(field)) {
      const known = [...noun.index, ...noun.unique].join(', ') || 'none'
      throw invalid(`${quoted(field)} is not an index of ${noun.name}; filters are possible on: ${known}.`)
    }
    filters.push({ field, value: indexValue(noun, field, text) })
  }
  return filters
}

/** A filter's text as a value of the field: what a string field holds is a text, whatever it looks like. */
function indexValue(noun: Noun, field: string, text: string): IndexValue {
  const types = typesOf(noun, field)
  if (types.size === 0 || types.has('string')) return text
  if ((types.has('number') || types.has('integer')) && /^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$/.test(text)) {
    const value = Number(text)
    if (Number.isFinite(value)) return value === 0 ? 0 : value
  }
  if (types.has('boolean') && (text === 'true' || text === 'false')) return text === 'true'
  throw invalid(`${quoted(text)} is not a value of ${noun.name}.${field}, which is of type ${[...types].join(' or ')}.`)
}

/** The JSON types that a field's schema names, with those of its alternatives; none when it tells nothing. */
function typesOf(noun: Noun, field: string): Set<string> {
  const properties = noun.jsonSchema['properties']
  const types = new Set<string>()
  if (isObject(properties)) collectTypes(properties[field], types, 0)
  return types
}

function collectTypes(schema: unknown, types: Set<string>, depth: number): void {
  // No schema of a field that an index can hold nests alternatives deeper.
  if (!isObject(schema) || depth > 8) return
  const { type, const: only, enum: values, anyOf, oneOf, allOf } = schema
  for (const name of asArray(type)) if (typeof name === 'string' && name !== 'null') types.add(name)
  for (const value of [...(only === undefined ? [] : [only]), ...asArray(values)]) {
    if (value !== null) types.add(typeof value)
  }
  for (const part of [...asArray(anyOf), ...asArray(oneOf), ...asArray(allOf)]) collectTypes(part, types, depth + 1)
}

function asArray(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? (value as unknown[]) : value === undefined ? [] : [value]
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null
}

const statuses = ['pending', 'succeeded', 'failed', 'refused'] as const

/**
 * The filters of a list of Actions. A Worker without `actions:all` sees its own only: asking for another's is 403, not an
 * empty list (H1). Throws `invalid-filter`.
 */
export function actionFilter(worker: Worker, query: Query): ActionFilter {
  const status = query.get('status')
  const known = statuses.find((one) => one === status)
  if (status !== undefined && known === undefined) throw invalid(`status must be one of ${statuses.join(', ')}.`)
  const verb = query.get('verb')
  if (verb !== undefined && !/^[A-Z][A-Za-z0-9]*\.[a-z][A-Za-z0-9]*$/.test(verb)) {
    throw invalid('verb must be an operation, such as Order.place.')
  }
  const on = query.get('on')
  if (on !== undefined && !isActionId(on)) throw invalid('on must be the id of an Action.')
  const key = query.get('key')
  if (key === '') throw invalid('key must not be empty.')
  const named = query.get('worker')
  const all = may(worker, 'actions:all')
  if (!all && named !== undefined && named !== worker.name) {
    throw problem('forbidden', 'Seeing the Actions of other Workers needs the grant actions:all.')
  }
  const by = all ? named : worker.name
  return {
    ...(known === undefined ? {} : { status: known }),
    ...(verb === undefined ? {} : { verb }),
    ...(by === undefined ? {} : { worker: by }),
    ...(key === undefined ? {} : { key }),
    ...(on === undefined ? {} : { on }),
  }
}

/** `from` (inclusive) and `to` (exclusive), UTC days; all time where they are left out. Throws `invalid-filter`. */
export function dayRange(query: Query): { from: string; to: string } {
  const from = query.get('from') ?? '0000-01-01'
  const to = query.get('to') ?? '9999-12-31'
  for (const [name, day] of [
    ['from', from],
    ['to', to],
  ] as const) {
    if (!isDay(day)) throw invalid(`${name} must be a day, such as 2026-11-30.`)
  }
  return { from, to }
}

function isDay(text: string): boolean {
  if (!/^\d{4}-\d{2}-\d{2}$/.test(text)) return false
  const time = new Date(`${text}T00:00:00.000Z`)
  return !Number.isNaN(time.getTime()) && time.toISOString().startsWith(text)
}

/** The position after which Events are read: a seq, 0 without one. Throws `invalid-cursor`. */
export function seqAfter(text: string | undefined): number {
  if (text === undefined) return 0
  const seq = /^\d{1,16}$/.test(text) ? Number(text) : -1
  if (seq >= 0 && Number.isSafeInteger(seq)) return seq
  throw problem('invalid-cursor', 'The cursor of Events is a seq: a whole number, 0 or more.')
}

export function invalid(detail: string): Problem {
  return problem('invalid-filter', detail)
}

/** A text of the client's own, shortened for the answer's. */
function quoted(text: string): string {
  return JSON.stringify(text.slice(0, 100))
}
