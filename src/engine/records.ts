import { findLimitMax } from '../model/limits.ts'
import { isRecordId, recordKey } from '../model/names.ts'
import type { Fields, IndexValue, StoredRecord } from '../model/record.ts'
import { recordResource } from '../model/record.ts'
import type { Noun } from '../model/startup.ts'
import { InvalidRecord, NotUnique, Refusal } from '../model/verberrors.ts'
import { indexValue } from './buffered.ts'
import type { VerbContext } from './context.ts'

/** A record as the author sees it: `$id`, `$noun`, `$version` and the fields that the Verb declares (W2). Frozen. */
export type RecordView = Readonly<Record<string, unknown>>

/** `records.Order` in a Verb; its typed form for authors is in model/define.ts. */
export interface Accessor {
  get(id: string): Promise<RecordView>
  maybe(id: string): Promise<RecordView | null>
  find(filter: Readonly<Record<string, unknown>>, options?: { limit?: number }): Promise<RecordView[]>
  first(filter: Readonly<Record<string, unknown>>): Promise<RecordView | null>
  create(fields: Readonly<Record<string, unknown>>, options?: { id?: string | undefined }): Promise<RecordView>
  update(record: string | RecordView, patch: Readonly<Record<string, unknown>>): Promise<RecordView>
  delete(record: string | RecordView): Promise<void>
}

/** The accessors of every Noun, made when first asked for. */
export function recordsOf(context: VerbContext): Readonly<Record<string, Accessor>> {
  const records: Record<string, Accessor> = {}
  for (const noun of context.run.plan.startup.nouns.values()) {
    let accessor: Accessor | undefined
    Object.defineProperty(records, noun.name, { enumerable: true, get: () => (accessor ??= accessorOf(context, noun)) })
  }
  return records
}

function accessorOf(context: VerbContext, noun: Noun): Accessor {
  return {
    get: (id) => context.track(() => get(context, noun, id)),
    maybe: (id) => context.track(() => maybe(context, noun, id)),
    find: (filter, options) => context.track(() => find(context, noun, filter, options?.limit ?? findLimitMax)),
    first: (filter) => context.track(async () => (await find(context, noun, filter, 1))[0] ?? null),
    create: (fields, options) => context.write(() => create(context, noun, fields, options?.id)),
    update: (record, patch) => context.write(() => update(context, noun, idOf(record), patch)),
    delete: (record) => context.write(() => remove(context, noun, idOf(record))),
  }
}

/** What the Verb declares of a Noun is what it sees, so that the declaration can't lie (W2). */
export function viewOf({ verb }: VerbContext, noun: Noun, record: StoredRecord): RecordView {
  const view: Record<string, unknown> = { $id: record.id, $noun: noun.name, $version: record.version }
  const reads = verb.reads.get(noun.name)
  const writes = verb.writes.get(noun.name)
  for (const [field, value] of Object.entries(record.fields)) {
    if ((reads === undefined && writes === undefined) || reads?.has(field) || writes?.has(field))
      view[field] = frozen(value)
  }
  return Object.freeze(view)
}

function wholeView(noun: Noun, record: StoredRecord): RecordView {
  return Object.freeze({
    $id: record.id,
    $noun: noun.name,
    $version: record.version,
    ...(frozen(record.fields) as object),
  })
}

async function get(context: VerbContext, noun: Noun, id: string): Promise<RecordView> {
  const view = await maybe(context, noun, id)
  if (view === null)
    throw new Refusal('record-not-found', `There is no ${noun.name} ${id}.`, { record: recordKey(noun.plural, id) })
  return view
}

async function maybe(context: VerbContext, noun: Noun, id: string): Promise<RecordView | null> {
  const record = await current(context, noun, id)
  return record === null ? null : shown(context, noun, record)
}

/** What this Action creates itself it sees whole. */
function shown(context: VerbContext, noun: Noun, record: StoredRecord): RecordView {
  return context.buffered.isCreated(noun.name, record.id) ? wholeView(noun, record) : viewOf(context, noun, record)
}

async function current(context: VerbContext, noun: Noun, id: string): Promise<StoredRecord | null> {
  if (typeof id !== 'string' || !isRecordId(id)) return null
  const own = context.buffered.get(noun.name, id)
  return own === undefined ? context.read(noun.name, id) : own
}

async function find(
  context: VerbContext,
  noun: Noun,
  filter: Readonly<Record<string, unknown>>,
  limit: number,
): Promise<RecordView[]> {
  const [[field, wanted] = [undefined, undefined], ...others] = Object.entries(filter)
  if (field === undefined || others.length > 0)
    throw new TypeError(`find takes one field of ${noun.name}: ${[...noun.index, ...noun.unique].join(', ')}`)
  if (!noun.index.has(field) && !noun.unique.has(field))
    throw new TypeError(`${noun.name}.${field} is no declared index`)
  const { reads, writes } = { reads: context.verb.reads.get(noun.name), writes: context.verb.writes.get(noun.name) }
  if ((reads || writes) && !reads?.has(field) && !writes?.has(field)) {
    throw new TypeError(`${context.verb.operation} does not declare that it reads ${noun.name}.${field}`)
  }
  if (!Number.isInteger(limit) || limit < 1 || limit > findLimitMax)
    throw new RangeError(`find takes a limit from 1 to ${findLimitMax}`)
  const value = indexValue(wanted)
  if (value === undefined) return []
  // Those that its own writes moved away from the value must not keep others out (V6).
  const found = await lookUp(context, noun, field, value, limit + context.buffered.changedOf(noun.name))
  return found.slice(0, limit).map((record) => shown(context, noun, record))
}

async function lookUp(
  context: VerbContext,
  noun: Noun,
  field: string,
  value: IndexValue,
  limit: number,
): Promise<StoredRecord[]> {
  return context.buffered.over(noun.name, field, value, await context.lookUp(noun.name, field, value, limit))
}

async function create(
  context: VerbContext,
  noun: Noun,
  given: Readonly<Record<string, unknown>>,
  id: string | undefined,
): Promise<RecordView> {
  if (id !== undefined && !isRecordId(id)) throw new TypeError(`a record's id is 1 to 64 of A-Z a-z 0-9 _ -`)
  if (id !== undefined) await mustBeUnused(context, noun, id)
  const newId = id ?? context.newId(noun)
  const fields = await checked(noun, given)
  await mustBeUnique(context, noun, newId, {}, fields)
  context.open()
  return wholeView(noun, context.buffered.put(noun, newId, null, fields))
}

async function update(
  context: VerbContext,
  noun: Noun,
  id: string,
  patch: Readonly<Record<string, unknown>>,
): Promise<RecordView> {
  const before = await changeable(context, noun, id)
  const writes = context.verb.writes.get(noun.name)
  const undeclared =
    writes && !context.buffered.isCreated(noun.name, id)
      ? Object.keys(patch).find((field) => !writes.has(field))
      : undefined
  if (undeclared !== undefined)
    throw new TypeError(`${context.verb.operation} does not declare that it writes ${noun.name}.${undeclared}`)
  const fields = await checked(noun, withoutAbsent({ ...before.fields, ...patch }))
  await mustBeUnique(context, noun, id, before.fields, fields)
  context.open()
  return shown(context, noun, context.buffered.put(noun, id, before, fields))
}

async function remove(context: VerbContext, noun: Noun, id: string): Promise<void> {
  const before = await changeable(context, noun, id)
  context.open()
  context.buffered.put(noun, id, before, null)
}

/** The record to change, if the Verb may: declared (W2), and held since the first step with an effect started (V6). */
async function changeable(context: VerbContext, noun: Noun, id: string): Promise<StoredRecord> {
  const { verb, run } = context
  const record = await current(context, noun, id)
  if (record === null)
    throw new Refusal('record-not-found', `There is no ${noun.name} ${id}.`, { record: recordKey(noun.plural, id) })
  if (context.buffered.isCreated(noun.name, id)) return record
  if (verb.reads.has(noun.name) && !verb.writes.has(noun.name)) {
    throw new TypeError(`${verb.operation} declares ${noun.name} in reads alone, so it can't change one`)
  }
  const resource = recordResource(noun.name, id)
  if (run.fixed !== null && !run.fixed.holds.includes(resource)) {
    context.stop({
      kind: 'failed',
      code: 'not-held',
      message: `${verb.operation} changes ${noun.plural}/${id} after a step, and read it only then: read it before the first step.`,
    })
  }
  return record
}

/** An id is never used again, not after a deletion either (SPEC §1). */
async function mustBeUnused(context: VerbContext, noun: Noun, id: string): Promise<void> {
  const own = context.buffered.get(noun.name, id)
  const taken =
    own === undefined ? (await context.read(noun.name, id)) !== null || context.wasDeleted(noun.name, id) : true
  if (taken) throw new NotUnique(noun.name, '$id')
}

async function mustBeUnique(
  context: VerbContext,
  noun: Noun,
  id: string,
  before: Fields,
  after: Fields,
): Promise<void> {
  for (const field of noun.unique) {
    const value = indexValue(after[field])
    if (value === undefined || value === before[field]) continue
    const holders = await lookUp(context, noun, field, value, 1)
    if (holders.some((holder) => holder.id !== id)) throw new NotUnique(noun.name, field)
  }
}

async function checked(noun: Noun, fields: Readonly<Record<string, unknown>>): Promise<Fields> {
  const result = await noun.check(fields)
  if ('faults' in result) throw new InvalidRecord(noun.name, result.faults)
  return result.value as Fields
}

function withoutAbsent(fields: Record<string, unknown>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined))
}

function idOf(record: string | RecordView): string {
  return typeof record === 'string' ? record : String(record['$id'])
}

/** Nested values are shared with what was read: frozen, so that a Verb changes a record by `update` only. */
function frozen(value: unknown): unknown {
  if (typeof value !== 'object' || value === null || Object.isFrozen(value)) return value
  for (const member of Object.values(value)) frozen(member)
  return Object.freeze(value)
}
