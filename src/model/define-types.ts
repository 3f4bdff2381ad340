import type { StandardSchemaV1 } from '@standard-schema/spec'
import type { IndexValue } from './record.ts'
import type { Schema, Startup } from './startup.ts'

/** What is sent, and what is there after defaults and coercions, of a schema. */
export type InputType<S extends Schema> = StandardSchemaV1.InferInput<S>
export type OutputType<S extends Schema> = StandardSchemaV1.InferOutput<S>

/** Shows a type's members instead of how they were put together. */
export type Flat<T> = { [K in keyof T]: T[K] } & {}

export type TargetKind = 'record' | 'collection'

/** A Noun as `noun` gives it: what its fields are when they are set and when they are read, and which it is found by. */
export interface NounDefinition<In, Out, Find extends string> {
  readonly kind: 'noun'
  readonly options: {
    readonly fields: Schema
    readonly index?: readonly string[]
    readonly unique?: readonly string[]
    readonly plural?: string
  }
  /** Where it is defined: `startup.ts:12`. */
  readonly line: string | null
  /** Types only, never there. */
  readonly types?: { readonly in: In; readonly out: Out; readonly find: Find }
}
export type AnyNoun = NounDefinition<unknown, unknown, string>
export type Nouns = Readonly<Record<string, AnyNoun>>

export type NounName<N extends Nouns> = keyof N & string

type TypesOf<D extends { readonly types?: unknown }> = NonNullable<D['types']>

/** A Noun's fields when they are set, and as they are read. */
export type FieldsIn<D extends AnyNoun> = TypesOf<D>['in']
export type FieldsOut<D extends AnyNoun> = TypesOf<D>['out']
export type FieldName<D extends AnyNoun> = keyof FieldsOut<D> & string

/** The fields that an index can hold: text, numbers, booleans; null and absent ones are in no index. */
export type IndexableField<Out> = {
  [K in keyof Out & string]: NonNullable<Out[K]> extends IndexValue ? K : never
}[keyof Out & string]

/** `Order.place`, of a Noun that there is. */
export type Operation<N extends Nouns> = `${NounName<N>}.${string}`
/** `Order` of `Order.place`. */
export type NounOf<Op extends string> = Op extends `${infer Name}.${string}` ? Name : never

/** A record as it is read: its id, its Noun, its Version and its fields. */
export type RecordType<Name extends string, Out> = Flat<
  { readonly $id: string; readonly $noun: Name; readonly $version: number } & Readonly<Out>
>

/** A Verb as `verb` gives it. */
export interface VerbDefinition<Op extends string, T extends TargetKind, In, Out> {
  readonly kind: 'verb'
  readonly operation: Op
  readonly options: {
    readonly target?: TargetKind
    readonly input: Schema
    readonly output?: Schema
    readonly reads?: Declaration
    readonly writes?: Declaration
    readonly event?: string
    readonly timeout?: number
    readonly throttle?: { readonly rate: number; readonly burst: number }
    readonly meter?: (input: never, output: never) => number
    readonly run: (context: never) => unknown
  }
  readonly line: string | null
  /** Types only, never there. */
  readonly types?: { readonly target: T; readonly input: In; readonly output: Out }
}
export type AnyVerb = VerbDefinition<string, TargetKind, unknown, unknown>

/** `reads` or `writes`: fields of the target's Noun, or fields by Noun. */
export type Declaration = readonly string[] | Readonly<Record<string, readonly string[] | undefined>>

/** One call of the seed: the operation, the record's id for a record Verb, the input (which may be left out if it may be empty). */
export type Seed<V extends AnyVerb> = V extends AnyVerb
  ? TypesOf<V>['target'] extends 'record'
    ? readonly [V['operation'], string, ...SeedInput<TypesOf<V>['input']>]
    : readonly [V['operation'], ...SeedInput<TypesOf<V>['input']>]
  : never
type SeedInput<In> = Record<never, never> extends In ? readonly [input?: In] : readonly [input: In]

/** A served Startup, with its types: what `connect<typeof glyphs>` takes names, inputs and outputs from (S4). */
export interface TypedStartup<N extends Nouns, V extends AnyVerb> extends Startup {
  /** Types only, never there. */
  readonly types?: { readonly nouns: N; readonly verbs: { readonly [D in V as D['operation']]: D } }
}
export type AnyStartup = TypedStartup<Nouns, AnyVerb>

/** `'Offer' | 'Order' | …` of `typeof glyphs`. */
export type NounsOf<S extends AnyStartup> = keyof TypesOf<S>['nouns'] & string
/** `'Order.place' | 'Order.refund' | …` */
export type VerbsOf<S extends AnyStartup> = keyof TypesOf<S>['verbs'] & string

/** A record of a Noun, as it is read: `RecordOf<typeof glyphs, 'Order'>`. */
export type RecordOf<S extends AnyStartup, Name extends NounsOf<S>> = TypesOf<S>['nouns'][Name] extends infer D extends
  AnyNoun
  ? RecordType<Name, FieldsOut<D>>
  : never

type VerbTypes<S extends AnyStartup, Op extends VerbsOf<S>> = TypesOf<S>['verbs'][Op] extends infer D extends AnyVerb
  ? TypesOf<D>
  : never

/** What a call of the operation sends; members with a default may be left out. */
export type InputOf<S extends AnyStartup, Op extends VerbsOf<S>> = VerbTypes<S, Op>['input']
/** What a succeeded Action of the operation gives. */
export type OutputOf<S extends AnyStartup, Op extends VerbsOf<S>> = VerbTypes<S, Op>['output']
/** Whether the operation is called on a record or on the collection. */
export type TargetOf<S extends AnyStartup, Op extends VerbsOf<S>> = VerbTypes<S, Op>['target']
