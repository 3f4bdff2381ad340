import type { Fix } from '../model/action.ts'
import type { Worker } from '../model/worker.ts'
import { Refusal } from '../model/verberrors.ts'
import type { VerbContext } from './context.ts'
import { recordsOf, type Accessor, type RecordView } from './records.ts'
import { runStep, type StepFunction, type StepOptions } from './step.ts'

/** What the author's `run` is called with (V1). Typed for authors in model/context.ts; made of getters, since few are used. */
export class AuthorContext {
  readonly input: unknown
  /** The target record; null for a collection Verb. */
  readonly target: RecordView | null
  readonly records: Readonly<Record<string, Accessor>>
  readonly #context: VerbContext

  constructor(context: VerbContext, input: unknown, target: RecordView | null) {
    this.#context = context
    this.input = input
    this.target = target
    this.records = recordsOf(context)
  }

  get worker(): Pick<Worker, 'id' | 'name' | 'kind'> {
    const { id, name, kind } = this.#context.run.plan.worker
    return { id, name, kind }
  }

  get action(): { id: string; key: string | null; createdAt: number; attempts: number; on: string | null } {
    const { claim, attempts } = this.#context.run.plan
    return { id: claim.id, key: claim.key, createdAt: claim.createdAt, on: claim.on, attempts }
  }

  /** Aborts when the Verb times out, or its run is over for another reason. */
  get signal(): AbortSignal {
    return this.#context.signal
  }

  /** The Verb's clock: milliseconds since the epoch, the same in every re-run after its first step with an effect (V1). */
  get now(): number {
    return this.#context.seed().now
  }

  /** Numbers in [0, 1), the same sequence in every re-run after its first step with an effect (V1). */
  readonly random = (): number => this.#context.random()

  readonly refuse = (code: string, message: string, fix: Omit<Fix, 'code' | 'message'> = {}): never => {
    this.#context.open()
    throw new Refusal(code, message, fix)
  }

  readonly step = (name: string, ...rest: unknown[]): Promise<unknown> => {
    const [input, fn, options] = typeof rest[0] === 'function' ? [undefined, rest[0], rest[1]] : rest
    return this.#context.track(() =>
      runStep(this.#context, name, input, fn as StepFunction, (options ?? {}) as StepOptions),
    )
  }
}
