import type { WorkerKind } from './worker.ts'

/** What a Verb's `run` is given (V1): everything that it may see and do. */
export interface VerbContext<Input, Target, Records> {
  /** The input, checked, with defaults and coercions applied. */
  readonly input: Input
  /** The record that a record Verb was called on; null for a collection Verb. */
  readonly target: Target
  /** Who calls. */
  readonly worker: { readonly id: string; readonly name: string; readonly kind: WorkerKind }
  readonly action: {
    readonly id: string
    /** The idempotency key that names this Action; null for a script's keyless call and for a dry run. */
    readonly key: string | null
    /** Milliseconds since 1970. */
    readonly createdAt: number
    /** The Action that this one retries, or the script that it belongs to; null for any other. */
    readonly on: string | null
    /** How often a run of it began: 1, and one more for each resume. */
    readonly attempts: number
  }
  /** Records by Noun: `records.Offer.get(input.offer)`. What is written is buffered, and committed with the Action (V1). */
  readonly records: Records
  readonly step: Step
  readonly refuse: Refuse
  /** Aborts when the Verb runs past its `timeout`, or its claim is lost. */
  readonly signal: AbortSignal
  /** The Verb's clock, in milliseconds since 1970: equal in every re-run after the first step with an effect (V1). */
  readonly now: number
  /** A number in [0, 1): the same numbers in every re-run after the first step with an effect (V1). Not for secrets. */
  readonly random: () => number
}

/**
 * Ends the Verb: the Action settles `refused`, with `fix: { code, message, …fix }` (V5). `code` is yours: `offer-retired`.
 * TypeScript sees that nothing follows when you write `return refuse(…)`.
 */
export type Refuse = (code: string, message: string, fix?: Readonly<Record<string, unknown>>) => never

/**
 * Does something outside the store, once (V2): `step('charge', { amount }, ({ key, input }) => pay(input, key))`. The
 * outcome is journaled, and a resumed or retried Action does not repeat a finished step. Gives what `fn` returned, or its
 * stand-in, as its JSON round trip. Throws `StepRejected` where `fn` rejected, `StepDiverged` where the input is another.
 */
export interface Step {
  <Input, Result, StandIn = never>(
    name: string,
    input: Input,
    fn: (call: StepCall<Input>) => Result | Promise<Result>,
    options?: StepOptions<Input, StandIn>,
  ): Promise<Json<Result | StandIn>>
  <Result, StandIn = never>(
    name: string,
    fn: (call: StepCall<undefined>) => Result | Promise<Result>,
    options?: StepOptions<undefined, StandIn>,
  ): Promise<Json<Result | StandIn>>
}

/** What a step's function is given. */
export interface StepCall<Input> {
  /** 32 hex characters, the same whenever this step is tried again: hand it on as the downstream's idempotency key. */
  readonly key: string
  readonly input: Input
  readonly signal: AbortSignal
  /** Says that the downstream gave a definitive no: nothing happened, and trying again under this key is pointless. */
  readonly reject: (code: string, message: string) => never
}

export interface StepOptions<Input, StandIn> {
  /** Stands in for the step in a dry run, which stores nothing (T1). Without it a `try` ends here, incomplete. */
  readonly try?: (call: { readonly input: Input }) => StandIn | Promise<StandIn>
  /** False for a step that only looks something up: it never counts as something that happened. True unless given. */
  readonly effect?: boolean
  /** For a downstream without keys: an unknown outcome is never repeated blindly (V3). False unless given. */
  readonly atMostOnce?: boolean
  /** How long the downstream remembers the key, milliseconds since the step's start. 24 h unless given. */
  readonly keyHolds?: number
  /** How often an unknown outcome is tried under one key. 5 unless given. */
  readonly attempts?: number
}

/** What reading and creating records of one Noun takes: all that a Verb may do with one that it declares in `reads` alone. */
export interface RecordReader<Seen, By, New, Whole> {
  /** The record. Refuses with `record-not-found` where there is none. */
  get(id: string): Promise<Seen>
  /** The record, or null where there is none. */
  maybe(id: string): Promise<Seen | null>
  /** The records whose indexed or unique field has the value, oldest first; at most `limit` (1000 unless given). */
  find(by: By, options?: { readonly limit?: number }): Promise<Seen[]>
  /** The oldest record whose indexed or unique field has the value, or null. */
  first(by: By): Promise<Seen | null>
  /** Creates a record, with a new id unless one is given. Throws `InvalidRecord` and `NotUnique`. */
  create(fields: New, options?: { readonly id?: string }): Promise<Whole>
}

/** What changing records of one Noun takes. */
export interface RecordWriter<Name extends string, Seen, Patch> {
  /** Sets the fields of the patch; one that is undefined is removed. Throws `InvalidRecord` and `NotUnique`. */
  update(record: string | RecordRef<Name>, patch: Patch): Promise<Seen>
  /** Deletes the record; its id is never used again. */
  delete(record: string | RecordRef<Name>): Promise<void>
}

/** A record, as far as it names itself. */
export interface RecordRef<Name extends string> {
  readonly $id: string
  readonly $noun: Name
}

/** What JSON makes of a value: a Date becomes a string, undefined becomes null or goes. The type itself where nothing changes. */
export type Json<T> = IsAny<T> extends true ? T : [T] extends [JsonForm<T>] ? T : JsonForm<T>

type IsAny<T> = 0 extends 1 & T ? true : false

type JsonForm<T> = T extends string | number | boolean | null
  ? T
  : T extends undefined | void
    ? null
    : T extends { toJSON(...args: never): infer R }
      ? JsonForm<R>
      : T extends (...args: never) => unknown
        ? never
        : T extends readonly unknown[]
          ? { [K in keyof T]: JsonForm<T[K]> }
          : T extends object
            ? { [K in keyof T as K extends symbol ? never : K]: JsonMember<T[K]> }
            : unknown extends T
              ? T
              : never

/** A member's type: undefined stays, since it means that the member is left out. */
type JsonMember<T> = IsAny<T> extends true ? T : T extends undefined ? T : JsonForm<T>
