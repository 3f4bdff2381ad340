import type { Change, Fields, IndexChange, IndexValue, RecordWrite, StoredRecord } from '../model/record.ts'
import { recordResource } from '../model/record.ts'
import { recordsPerActionMax } from '../model/limits.ts'
import type { Noun } from '../model/startup.ts'
import { sameJson } from '../model/stale.ts'

interface BufferedRecord {
  readonly noun: Noun
  readonly id: string
  /** As it was read; null when this Action creates it. */
  readonly base: StoredRecord | null
  /** As it is now; null once deleted. */
  fields: Fields | null
}

/** The record writes of one evaluation, buffered until the settlement applies them all or none (V1). */
export class Buffered {
  readonly #records = new Map<string, BufferedRecord>()

  /** The record as this evaluation left it: undefined when it did not touch it, null when it deleted it. */
  get(noun: string, id: string): StoredRecord | null | undefined {
    const buffered = this.#records.get(recordResource(noun, id))
    if (buffered === undefined) return undefined
    return buffered.fields === null ? null : { noun, id, version: versionOf(buffered), fields: buffered.fields }
  }

  isCreated(noun: string, id: string): boolean {
    return this.#records.get(recordResource(noun, id))?.base === null
  }

  /** At most so many records of a Noun, that were there before, are changed: rounded up, so that few sizes are asked for. */
  changedOf(noun: string): number {
    let count = 0
    for (const buffered of this.#records.values()) if (buffered.noun.name === noun && buffered.base !== null) count++
    return count === 0 ? 0 : 2 ** Math.ceil(Math.log2(count))
  }

  put(noun: Noun, id: string, base: StoredRecord | null, fields: Fields | null): StoredRecord {
    const resource = recordResource(noun.name, id)
    const known = this.#records.get(resource)
    if (known !== undefined) known.fields = fields
    else if (this.#records.size >= recordsPerActionMax)
      throw new RangeError(`an Action may change ${recordsPerActionMax} records at most`)
    else this.#records.set(resource, { noun, id, base, fields })
    const record = this.#records.get(resource)
    return { noun: noun.name, id, version: record === undefined ? 1 : versionOf(record), fields: fields ?? {} }
  }

  /** Lays this evaluation's own writes over what an index look-up found. */
  over(noun: string, field: string, value: IndexValue, found: readonly StoredRecord[]): StoredRecord[] {
    if (this.#records.size === 0) return [...found]
    const seen = new Set<string>()
    const records: StoredRecord[] = []
    for (const record of found) {
      seen.add(record.id)
      const own = this.get(noun, record.id)
      const current = own === undefined ? record : own
      if (current !== null && current.fields[field] === value) records.push(current)
    }
    for (const { noun: bufferedNoun, id, fields } of this.#records.values()) {
      if (bufferedNoun.name !== noun || fields === null || seen.has(id) || fields[field] !== value) continue
      const own = this.get(noun, id)
      if (own) records.push(own)
    }
    return records
  }

  writes(): RecordWrite[] {
    const writes: RecordWrite[] = []
    for (const buffered of this.#records.values()) {
      const write = writeOf(buffered)
      if (write !== null) writes.push(write)
    }
    return writes
  }
}

function versionOf({ base, fields }: BufferedRecord): number {
  if (base === null) return 1
  return fields !== null && changesOf(base.fields, fields).length === 0 ? base.version : base.version + 1
}

/** One write a record, however often the Verb changed it; none when nothing changed in the end (its Version stays, §1). */
function writeOf(buffered: BufferedRecord): RecordWrite | null {
  const { noun, id, base, fields } = buffered
  if (base === null && fields === null) return null
  const before = base?.fields ?? {}
  const after = fields ?? {}
  const changes = changesOf(before, after)
  if (base !== null && fields !== null && changes.length === 0) return null
  return {
    kind: base === null ? 'create' : fields === null ? 'delete' : 'update',
    noun: noun.name,
    id,
    version: base === null ? 1 : base.version + 1,
    fields: after,
    changes,
    indexes: indexChangesOf(noun, before, after),
  }
}

function changesOf(before: Fields, after: Fields): Change[] {
  const changes: Change[] = []
  for (const field of Object.keys(before)) {
    if (!Object.hasOwn(after, field)) changes.push({ field, from: before[field] })
  }
  for (const field of Object.keys(after)) {
    if (!Object.hasOwn(before, field)) changes.push({ field, to: after[field] })
    else if (!sameJson(before[field], after[field])) changes.push({ field, from: before[field], to: after[field] })
  }
  return changes
}

function indexChangesOf(noun: Noun, before: Fields, after: Fields): IndexChange[] {
  const indexes: IndexChange[] = []
  for (const field of noun.index) pushIndexChange(indexes, field, false, before[field], after[field])
  for (const field of noun.unique) pushIndexChange(indexes, field, true, before[field], after[field])
  return indexes
}

function pushIndexChange(
  indexes: IndexChange[],
  field: string,
  unique: boolean,
  before: unknown,
  after: unknown,
): void {
  const from = indexValue(before)
  const to = indexValue(after)
  if (from === to) return
  indexes.push({ field, unique, ...(from === undefined ? {} : { from }), ...(to === undefined ? {} : { to }) })
}

/** What an index holds of a field: scalars; null, absent and anything nested stand in no index. */
export function indexValue(value: unknown): IndexValue | undefined {
  return typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean' ? value : undefined
}
