import type { RecordReader, RecordWriter, VerbContext } from './context.ts'
import type {
  AnyNoun,
  FieldName,
  FieldsIn,
  FieldsOut,
  Flat,
  NounName,
  NounOf,
  Nouns,
  RecordType,
  TargetKind,
} from './define-types.ts'

/** What `reads` and `writes` can be: lists of fields by Noun, or one list for the target's Noun. */
export type DeclaredFields<N extends Nouns, Op extends string> =
  { readonly [Name in NounName<N>]?: readonly FieldName<N[Name]>[] } | readonly FieldName<N[NounOf<Op>]>[]

/** Refuses Nouns that there aren't, and a list alone on a collection Verb, which has no target. */
export type NoOthers<N extends Nouns, T extends TargetKind, D> = D extends readonly unknown[]
  ? T extends 'record'
    ? unknown
    : never
  : { readonly [Name in Exclude<keyof D, keyof N>]: never }

/** The fields that a declaration names for a Noun; never when it names none of that Noun. */
type FieldsFor<D, Op extends string, Name extends string> = D extends readonly (infer Field)[]
  ? Name extends NounOf<Op>
    ? Field
    : never
  : Name extends keyof D
    ? D[Name] extends readonly (infer Field)[]
      ? Field
      : never
    : never

type Declares<D, Op extends string, Name extends string> = D extends readonly unknown[]
  ? Name extends NounOf<Op>
    ? true
    : false
  : Name extends keyof D
    ? true
    : false

/** The fields of a Noun that the Verb sees: those that it reads or writes, or all where it declares neither (W2). */
type Seen<D extends AnyNoun, Op extends string, Name extends string, R, W> = true extends
  Declares<R, Op, Name> | Declares<W, Op, Name>
  ? FieldName<D> & (FieldsFor<R, Op, Name> | FieldsFor<W, Op, Name>)
  : FieldName<D>

type SeenRecord<D extends AnyNoun, Name extends string, Field extends string> = RecordType<
  Name,
  { [K in keyof FieldsOut<D> as K extends Field ? K : never]: FieldsOut<D>[K] }
>

/** Exactly one field with the value that it is looked up by. */
type By<D extends AnyNoun, Field extends string> = {
  [K in Field]: { readonly [F in K]: NonNullable<FieldsOut<D>[F & keyof FieldsOut<D>]> } & {
    readonly [F in Exclude<Field, K>]?: never
  }
}[Field]

type FindField<D extends AnyNoun> = NonNullable<D['types']>['find']

type Reader<D extends AnyNoun, Name extends string, Field extends string> = RecordReader<
  SeenRecord<D, Name, Field>,
  By<D, Field & FindField<D>>,
  FieldsIn<D>,
  RecordType<Name, FieldsOut<D>>
>

type Writer<D extends AnyNoun, Name extends string, Field extends string, Writable extends string> = RecordWriter<
  Name,
  SeenRecord<D, Name, Field>,
  Flat<{ readonly [K in keyof FieldsIn<D> as K extends Writable ? K : never]?: FieldsIn<D>[K] }>
>

/** What may be done with records of one Noun: a Noun that is declared in `reads` alone can't be changed (W2). */
type RecordsOf<D extends AnyNoun, Op extends string, Name extends string, R, W> =
  Declares<W, Op, Name> extends true
    ? Reader<D, Name, Seen<D, Op, Name, R, W>> &
        Writer<D, Name, Seen<D, Op, Name, R, W>, FieldsFor<W, Op, Name> & string>
    : Declares<R, Op, Name> extends true
      ? Reader<D, Name, Seen<D, Op, Name, R, W>>
      : Reader<D, Name, FieldName<D>> & Writer<D, Name, FieldName<D>, FieldName<D>>

/** The context of a Verb's `run`, narrowed to what the Verb declares. */
export type VerbContextOf<N extends Nouns, Op extends string, Input, T extends TargetKind, R, W> = VerbContext<
  Input,
  T extends 'record' ? TargetRecord<N, Op, R, W> : null,
  { readonly [Name in NounName<N>]: RecordsOf<N[Name], Op, Name, R, W> }
>

type TargetRecord<N extends Nouns, Op extends string, R, W> = SeenRecord<
  N[NounOf<Op>],
  NounOf<Op>,
  Seen<N[NounOf<Op>], Op, NounOf<Op>, R, W>
>
