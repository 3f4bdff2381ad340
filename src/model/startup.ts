import type { StandardJSONSchemaV1, StandardSchemaV1 } from '@standard-schema/spec'
import type { Manifest } from './manifest.ts'
import type { Fields } from './record.ts'

/** A definition, checked (N1) and compiled: what `serve` gives and the engine works with. Types are erased here; `define.ts` has them. */
export interface Startup {
  readonly namespace: string
  /** By name: `Order`. */
  readonly nouns: ReadonlyMap<string, Noun>
  /** By route: `orders`. */
  readonly nounsByPlural: ReadonlyMap<string, Noun>
  /** By operation: `Order.place`. */
  readonly verbs: ReadonlyMap<string, Verb>
  readonly manifest: Manifest
  readonly seed: readonly SeedCall[]
  readonly throttle: Throttle | null
  /** Sentences for people at load, such as a Verb that declares nothing (W2). */
  readonly warnings: readonly string[]
}

export interface Noun {
  readonly name: string
  readonly plural: string
  /** `order_`, `font_license_`: what new ids begin with. */
  readonly idPrefix: string
  readonly fieldNames: readonly string[]
  readonly index: ReadonlySet<string>
  readonly unique: ReadonlySet<string>
  /** Checks a whole record's fields; unknown members are faults. The value has defaults applied. */
  readonly check: Check
  /** Adds the defaults of fields that an old record lacks (N2). Returns the same object when nothing lacks. */
  readonly complete: (fields: Fields) => Fields
  readonly jsonSchema: Readonly<Record<string, unknown>>
}

export interface Verb {
  readonly operation: string
  readonly noun: string
  readonly verb: string
  readonly target: 'record' | 'collection'
  /** Checks an input as it was sent; unknown members at any depth are faults. The value has defaults and coercions applied. */
  readonly check: Check
  readonly inputSchema: Readonly<Record<string, unknown>>
  /** Null when the Verb declares no output schema. */
  readonly outputSchema: Readonly<Record<string, unknown>> | null
  /** Declared `reads` and `writes` by Noun; a Noun in neither is undeclared: every field counts (W2). */
  readonly reads: ReadonlyMap<string, ReadonlySet<string>>
  readonly writes: ReadonlyMap<string, ReadonlySet<string>>
  readonly eventTypes: { readonly succeeded: string; readonly failed: string; readonly refused: string }
  readonly timeoutMs: number
  /** Units of one succeeded Action (E2): a whole number, 0 or more. Null: one unit each. */
  readonly meter: ((input: unknown, output: unknown) => number) | null
  readonly throttle: Throttle | null
  /** The author's function. Its context is the engine's `VerbContext`; typed for authors in define.ts. */
  readonly run: (context: never) => unknown
}

/** GCRA (§10): `rate` calls a second on average, `burst` at once. */
export interface Throttle {
  readonly rate: number
  readonly burst: number
}

/** One Action of the built-in Worker on a new store. */
export interface SeedCall {
  readonly operation: string
  readonly target: string | null
  readonly input: Readonly<Record<string, unknown>>
}

export interface Fault {
  /** Where: member names and indexes, outermost first; empty for the whole. */
  readonly path: readonly (string | number)[]
  readonly message: string
}
export type Checked = { readonly value: unknown } | { readonly faults: readonly Fault[] }
export type Check = (value: unknown) => Checked | Promise<Checked>

/** A Standard Schema that also tells its JSON Schema: what fields and inputs are defined with. */
export type Schema<Input = unknown, Output = Input> = StandardSchemaV1<Input, Output> &
  StandardJSONSchemaV1<Input, Output>
