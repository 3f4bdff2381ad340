/** A record as the store keeps it. `version` is negative after deletion: minus the Version that the deletion made. */
export interface StoredRecord {
  readonly noun: string
  readonly id: string
  readonly version: number
  /** Fields without `$id`, `$noun`, `$version`; empty for a deleted record. Never mutated: copies are made. */
  readonly fields: Fields
}

export type Fields = Readonly<Record<string, unknown>>

/** One field's change from one Version to the next. A missing `from` or `to` means that the field was absent. */
export interface Change {
  readonly field: string
  readonly from?: unknown
  readonly to?: unknown
}

/** One Version of a record: what an Action changed. Creation (Version 1) lists every field that was set. */
export interface RecordVersion {
  readonly version: number
  readonly changes: readonly Change[]
  readonly action: string
  /** Settlement time of that Action, milliseconds. */
  readonly at: number
  readonly deleted: boolean
}

/** A value that an index can hold: what `find` and unique fields look up. Text form is its JSON. */
export type IndexValue = string | number | boolean

/** An index entry that a write takes away (`from`) or adds (`to`); undefined where there is none. */
export interface IndexChange {
  readonly field: string
  readonly unique: boolean
  readonly from?: IndexValue
  readonly to?: IndexValue
}

/** A record write, buffered by the Verb's context and applied by the settling commit (V1). */
export interface RecordWrite {
  readonly kind: 'create' | 'update' | 'delete'
  readonly noun: string
  readonly id: string
  /** The Version that this write makes: 1 for a creation, the last one + 1 otherwise. */
  readonly version: number
  /** The whole record after the write (without `$` members); empty for a deletion. */
  readonly fields: Fields
  readonly changes: readonly Change[]
  readonly indexes: readonly IndexChange[]
}

/** What a Verb read, to be validated by the commit (V6): `version` 0 when the record never existed, negative when deleted. */
export interface RecordRead {
  readonly noun: string
  readonly id: string
  readonly version: number
}

/** An index look-up that a Verb made, with all that it found in order of creation: phantoms conflict (V6). */
export interface LookupRead {
  readonly noun: string
  readonly field: string
  readonly value: IndexValue
  /** At most this many records were asked for. */
  readonly limit: number
  readonly found: readonly { readonly id: string; readonly version: number }[]
}

export interface Reads {
  readonly records: readonly RecordRead[]
  readonly lookups: readonly LookupRead[]
}

/** The name under which a record is held (V6). */
export function recordResource(noun: string, id: string): string {
  return `${noun}/${id}`
}

/** The name under which an index value (a unique one too) is held (V6). */
export function lookupResource(noun: string, field: string, value: IndexValue): string {
  return `${noun}.${field}=${JSON.stringify(value)}`
}

/** Every resource that a write changes: the record, and each index value that it leaves or enters. */
export function resourcesOf(write: RecordWrite): string[] {
  const resources = [recordResource(write.noun, write.id)]
  for (const { field, from, to } of write.indexes) {
    if (from === to) continue
    if (from !== undefined) resources.push(lookupResource(write.noun, field, from))
    if (to !== undefined) resources.push(lookupResource(write.noun, field, to))
  }
  return resources
}
