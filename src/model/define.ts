import { compile } from './compile.ts'
import type { Schema, Startup, Throttle } from './startup.ts'
import type {
  AnyVerb,
  IndexableField,
  InputType,
  NounDefinition,
  Nouns,
  Operation,
  OutputType,
  Seed,
  TargetKind,
  TypedStartup,
  VerbDefinition,
} from './define-types.ts'
import type { DeclaredFields, NoOthers, VerbContextOf } from './declared.ts'
import { lineOf } from './line.ts'
import type { Json } from './context.ts'

/** What `noun` is given. */
export interface NounOptions<
  S extends Schema,
  I extends readonly IndexableField<OutputType<S>>[],
  U extends readonly IndexableField<OutputType<S>>[],
> {
  /** The fields, as an object schema: `z.object({ email: z.email() })`. What is stored must be JSON, and fit it again. */
  readonly fields: S
  /** Fields to `find` records by, and to filter lists by. Text, number or boolean. */
  readonly index?: I
  /** Fields whose value no two records share. They can be found by, too. */
  readonly unique?: U
  /** The route, when English has another plural: `people`. */
  readonly plural?: string
}

/**
 * Defines a Noun: a kind of record.
 *
 *     const Order = noun({ fields: z.object({ offer: z.string(), customer: z.string() }), index: ['customer'] })
 */
export function noun<
  S extends Schema<object>,
  const I extends readonly IndexableField<OutputType<S>>[] = readonly [],
  const U extends readonly IndexableField<OutputType<S>>[] = readonly [],
>(options: NounOptions<S, I, U>): NounDefinition<InputType<S>, OutputType<S>, I[number] | U[number]> {
  return { kind: 'noun', options, line: lineOf(noun) }
}

/** What `verb` is given. */
export interface VerbOptions<
  N extends Nouns,
  Op extends Operation<N>,
  S extends Schema,
  T extends TargetKind,
  R extends DeclaredFields<N, Op>,
  W extends DeclaredFields<N, Op>,
  Result,
> {
  /** `record`: called on one record, `POST /orders/order_1/refund`. `collection`, unless given: `POST /orders/place`. */
  readonly target?: T
  /** The input, as an object schema. Members that it doesn't know are refused at any depth (R2). */
  readonly input: S
  /** For documentation only: what the Verb gives is inferred from `run`. */
  readonly output?: Schema
  /**
   * The fields that the Verb depends on, by Noun; on a record Verb a list alone means the target's Noun. A call that was
   * decided against another Version is refused when one of these has changed (W2). The Verb sees no others.
   */
  readonly reads?: R & NoOthers<N, T, R>
  /** The fields that it changes (and sees), by Noun. It can change no others of a Noun that it declares. */
  readonly writes?: W & NoOthers<N, T, W>
  /** The Event of a success, where the past participle is irregular: `Order.sold`. */
  readonly event?: string
  /** How long it may run, in milliseconds; 60,000 unless given (V5). */
  readonly timeout?: number
  /** How often one Worker may call it. */
  readonly throttle?: Throttle
  /** What it does. Runs again on fresh reads after a conflict, so that what is outside the store belongs in a `step`. */
  run(this: void, context: VerbContextOf<N, Op, OutputType<S>, T, R, W>): Result
  /** Units of one succeeded Action: a whole number from 0 to 10^9; 1 unless given (E2). Stands after `run`, whose result it is given. */
  readonly meter?: (input: OutputType<S>, output: Json<Awaited<NoInfer<Result>>>) => number
}

/** A Startup whose Nouns are known, and whose Verbs are being defined. */
export interface StartupBuilder<N extends Nouns> {
  /** Defines a Verb: `verb('Order.place', { input, reads, writes, run })`. It is served once `serve` lists it. */
  readonly verb: <
    const Op extends Operation<N>,
    S extends Schema<object>,
    Result,
    const T extends TargetKind = 'collection',
    const R extends DeclaredFields<N, Op> = Record<never, never>,
    const W extends DeclaredFields<N, Op> = Record<never, never>,
  >(
    operation: Op,
    options: VerbOptions<N, Op, S, T, R, W, Result>,
  ) => VerbDefinition<Op, T, InputType<S>, Json<Awaited<Result>>>

  /** Checks the whole definition (N1) and compiles it. Throws a `DefinitionError` that lists every fault with its line. */
  readonly serve: <const V extends readonly AnyVerb[]>(options: {
    readonly verbs: V
    /** Calls that a built-in Worker makes on a new store, in order: `['Offer.publish', { … }]`, `['Order.cancel', id, { … }]`. */
    readonly seed?: readonly NoInfer<Seed<V[number]>>[]
    /** How often one Worker may call at all (§10); no bound unless given. */
    readonly throttle?: Throttle
  }) => TypedStartup<N, V[number]>
}

/**
 * Begins the definition of a Startup: its namespace and its Nouns.
 *
 *     const glyphs = startup('glyphs.store', { nouns: { Offer, Order, Customer, License } })
 */
export function startup<const N extends Nouns>(namespace: string, options: { readonly nouns: N }): StartupBuilder<N> {
  const line = lineOf(startup)
  const defined: AnyVerb[] = []
  const verb: (operation: string, options: AnyVerb['options']) => AnyVerb = (operation, options) => {
    const definition: AnyVerb = { kind: 'verb', operation, options, line: lineOf(verb) }
    defined.push(definition)
    return definition
  }
  const serve = (served: { verbs: readonly AnyVerb[]; seed?: readonly unknown[]; throttle?: Throttle }): Startup =>
    compile({ namespace, line, nouns: options.nouns, defined, ...served, serveLine: lineOf(serve) })
  // Types are for authors and clients only: what runs is the same for every Startup.
  return { verb, serve } as unknown as StartupBuilder<N>
}
