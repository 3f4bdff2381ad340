/**
 * What is thrown into a Verb's `run`, which may catch it. `instanceof` tells them apart. What is left uncaught settles the
 * Action: each class says how.
 */

/**
 * A step's downstream said a definitive no, through `reject(code, message)` (V2). It is replayed on a resume. Uncaught, the
 * Action settles `failed` with this code, and a retry is pointless.
 */
export class StepRejected extends Error {
  override readonly name = 'StepRejected'
  /** The author's code, as it was given to `reject`: `card-declined`. */
  readonly code: string
  /** `charge#1` */
  readonly step: string

  constructor(step: string, code: string, message: string) {
    super(message)
    this.step = step
    this.code = code
  }
}

/**
 * A re-run or retry reached a step, whose effect has happened or may have, with another input than before, or reached its
 * end without it (V2). Uncaught, the Action settles `failed`, `step-diverged`: a finished step is never silently reused.
 */
export class StepDiverged extends Error {
  override readonly name = 'StepDiverged'
  /** `charge#1` */
  readonly step: string

  constructor(step: string, message: string) {
    super(message)
    this.step = step
  }
}

/** A value of a unique field that another record of the Noun has already (V6). Uncaught, the Action settles `failed`, `not-unique`. */
export class NotUnique extends Error {
  override readonly name = 'NotUnique'
  readonly noun: string
  readonly field: string

  constructor(noun: string, field: string) {
    super(`Another ${noun} has this ${field} already`)
    this.noun = noun
    this.field = field
  }
}

/** The fields of a record to be created or updated don't fit its Noun. Uncaught, the Action settles `failed`, `verb-threw`. */
export class InvalidRecord extends Error {
  override readonly name = 'InvalidRecord'
  readonly noun: string
  /** Each with the path of the field, outermost member first. */
  readonly faults: readonly RecordFault[]

  constructor(noun: string, faults: readonly RecordFault[]) {
    super(
      `The fields don't fit ${noun}: ${faults.map(({ path, message }) => `${path.join('.')}: ${message}`).join('; ')}`,
    )
    this.noun = noun
    this.faults = faults
  }
}

export interface RecordFault {
  readonly path: readonly (string | number)[]
  readonly message: string
}

/**
 * How `refuse(code, message, fix)` and `records.Order.get` of an absent record leave `run` (V5). Let it pass: the Action
 * settles `refused`, or `failed` with `refused-after-step` when a step's effect has happened. Caught, nothing is refused.
 */
export class Refusal extends Error {
  override readonly name = 'Refusal'
  readonly code: string
  /** What mends it, besides code and message. */
  readonly fix: Readonly<Record<string, unknown>>

  constructor(code: string, message: string, fix: Readonly<Record<string, unknown>> = {}) {
    super(message)
    this.code = code
    this.fix = fix
  }
}
