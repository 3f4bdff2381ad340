import { inspect } from 'node:util'
import type { ActionError, Fix, Outcome, WaitingFor } from '../model/action.ts'
import { NotUnique, Refusal, StepDiverged, StepRejected } from '../model/verberrors.ts'
import { outputBytesMax, unitsPerActionMax } from '../model/limits.ts'
import { recordKey } from '../model/names.ts'
import { toStorable } from '../model/json.ts'
import type { ActionId } from '../model/ids.ts'
import type { Verb } from '../model/startup.ts'
import { StoreUnavailable, type Blocked } from '../store/store.ts'
import { VerbContext, type DryRun, type Ending } from './context.ts'
import { checkDecision, type Decision } from './decision.ts'
import type { Running } from './running.ts'
import { AuthorContext } from './author.ts'
import { viewOf, type RecordView } from './records.ts'
import { retryAdvice, type ItemFacts } from './settle.ts'

/** What one evaluation of a Verb came to. Only an outcome is ever settled; the rest runs again or is somebody else's. */
export type Evaluation =
  | {
      readonly kind: 'outcome'
      readonly outcome: Outcome
      readonly context: VerbContext | null
      readonly item: ItemFacts | null
    }
  /** `read`: the resources that it had read, to take its turn on. */
  | { readonly kind: 'conflict'; readonly read: readonly string[] }
  /** The store could not be read or written: nothing came of it. */
  | { readonly kind: 'unavailable'; readonly error: Error }
  | { readonly kind: 'blocked'; readonly blocked: Blocked }
  | {
      readonly kind: 'waiting'
      readonly waitingFor: WaitingFor
      /** Null: until the next deploy. */ readonly until: ActionId | null
    }
  | { readonly kind: 'lost' }
  | { readonly kind: 'given-back' }

/**
 * Runs the Verb once: the checks that belong to its run (W2, W3), then the author's function, then what it came to. The
 * context may end it at any moment (a time-out, a cancel, a stop): what the author's function does from then on is nobody's.
 */
export async function evaluate(
  run: Running,
  onContext: (context: VerbContext) => void,
  dry: DryRun | null = null,
): Promise<Evaluation> {
  const { verb } = run.plan
  if (verb === null) return { kind: 'waiting', waitingFor: 'definition', until: null }
  const context = new VerbContext(run, verb, dry)
  onContext(context)
  const evaluation = await Promise.race([runVerb(run, verb, context), context.ended])
  return 'ending' in evaluation ? ofEnding(run, evaluation.ending) : evaluation
}

async function runVerb(run: Running, verb: Verb, context: VerbContext): Promise<Evaluation> {
  try {
    const input = run.plan.input === undefined ? await recordedInput(run, verb) : { value: run.plan.input }
    // Its recorded input no longer fits: it waits for a definition that it fits, rather than run on what nobody checked (N2).
    if (input === null) return { kind: 'waiting', waitingFor: 'definition', until: null }
    context.input = input.value
    const decided = await decisionToCheck(run)
    const decision = decided === null ? stands : await checkDecision(run, verb, context, decided)
    if (decision.kind !== 'stands') return ofDecision(run, decision, context)
    const target = await readTarget(run, verb, context)
    if (target.deleted !== null) return refused(run, context, target.deleted)
    const output = await (verb.run as (context: AuthorContext) => unknown)(
      new AuthorContext(context, input.value, target.view),
    )
    context.open()
    context.mustBeIdle()
    return ofOutput(run, context, output)
  } catch (error) {
    if (context.ending !== null) return ofEnding(run, context.ending)
    if (error instanceof StoreUnavailable) return { kind: 'unavailable', error }
    return ofThrown(run, context, error)
  }
}

const stands: Decision = { kind: 'stands' }

interface Target {
  /** The record as the author sees it; null for a collection Verb. */
  readonly view: RecordView | null
  /** The fix of a refusal when it was deleted (R2). */
  readonly deleted: Fix | null
}

async function readTarget(run: Running, verb: Verb, context: VerbContext): Promise<Target> {
  const { target } = run.plan.claim
  if (target === null) return { view: null, deleted: null }
  const noun = context.noun(verb.noun)
  const record = await context.read(noun.name, target)
  if (record !== null) return { view: viewOf(context, noun, record), deleted: null }
  const message = `${noun.name} ${target} was deleted; its id is never used again.`
  return { view: null, deleted: { code: 'record-deleted', message, record: recordKey(noun.plural, target) } }
}

/**
 * What the caller's decision is still to be compared with (W2, W3): all of it until the first step with an effect has started
 * in the chain; after that only Versions that this very retry brought, until it starts a step of its own (A1).
 */
async function decisionToCheck({
  plan,
  core,
  journal,
  id,
  hasEffect,
}: Running): Promise<Readonly<Record<string, number>> | null> {
  const { decidedAgainst, decidedAfter, on, namespace } = plan.claim
  const decided = Object.entries(decidedAgainst)
  if (!hasEffect) return decided.length > 0 || decidedAfter.length > 0 ? decidedAgainst : null
  if (on === null || decided.length === 0) return null
  if ([...journal.values()].some(({ effect, action }) => effect && action === id)) return null
  const before = (await core.store.action(namespace, on))?.decidedAgainst ?? {}
  const brought = decided.filter(([record, version]) => before[record] !== version)
  return brought.length > 0 ? Object.fromEntries(brought) : null
}

async function recordedInput(run: Running, verb: Verb): Promise<{ value: unknown } | null> {
  const checked = await verb.check(JSON.parse(run.plan.claim.input))
  return 'faults' in checked ? null : checked
}

function ofDecision(run: Running, decision: Exclude<Decision, { kind: 'stands' }>, context: VerbContext): Evaluation {
  if (decision.kind === 'waiting') return { kind: 'waiting', waitingFor: 'predecessor', until: decision.until }
  const { fix, records } = decision
  // `refused` would say that nothing happened (V5).
  if (run.hasHappened)
    return failed(run, context, 'stale-after-step', `${fix.message ?? fix.code} A step of this chain had run already.`)
  return { kind: 'outcome', outcome: { status: 'refused', fix }, context, item: { records } }
}

function ofOutput(run: Running, context: VerbContext, output: unknown): Evaluation {
  const unreached = context.unreachedStep()
  if (unreached !== null)
    return failed(run, context, 'step-diverged', `The Verb no longer reaches its step ${unreached}, which has run.`)
  const stored = toStorable(output, outputBytesMax)
  if (stored.fault !== null)
    return failed(run, context, 'output-not-storable', `The output can't be kept: ${stored.fault}.`, 'pointless')
  context.units = run.plan.verb?.meter ? run.plan.verb.meter(context.input, output) : 1
  if (!Number.isSafeInteger(context.units) || context.units < 0 || context.units > unitsPerActionMax)
    throw new RangeError(`meter gave ${context.units}, not a whole number of units`)
  return { kind: 'outcome', outcome: { status: 'succeeded', output: stored.text }, context, item: null }
}

function ofThrown(run: Running, context: VerbContext, error: unknown): Evaluation {
  if (error instanceof Refusal) return refused(run, context, { ...error.fix, code: error.code, message: error.message })
  if (error instanceof StepRejected) return failed(run, context, error.code, error.message, 'pointless')
  if (error instanceof StepDiverged) return failed(run, context, 'step-diverged', error.message)
  if (error instanceof NotUnique) return failed(run, context, 'not-unique', error.message, 'pointless')
  // The author's message may hold anything, so it goes to the log and not into the answer (V5).
  run.core.log.error({ action: run.id, verb: run.plan.claim.verb, err: describe(error) }, 'a Verb threw')
  return failed(run, context, 'verb-threw', `${run.plan.claim.verb} threw an error; the server's log has its message.`)
}

function ofEnding(run: Running, ending: Ending): Evaluation {
  switch (ending.kind) {
    case 'conflict':
    case 'lost':
    case 'given-back':
    case 'unavailable':
      return ending
    case 'blocked':
      return { kind: 'blocked', blocked: ending.blocked }
    case 'timed-out':
      return failed(run, null, 'verb-timed-out', `The Verb ran longer than ${run.plan.verb?.timeoutMs} ms.`)
    case 'failed':
      return failed(run, null, ending.code, ending.message)
    default:
      return ending satisfies never
  }
}

function failed(
  run: Running,
  context: VerbContext | null,
  code: string,
  message: string,
  retry?: ActionError['retry'],
): Evaluation {
  const advice = retryAdvice(run)
  // An unknown outcome outweighs what the code alone would advise.
  const error = { code, message, retry: advice === 'unsafe' ? advice : (retry ?? advice) }
  return { kind: 'outcome', outcome: { status: 'failed', error }, context, item: null }
}

/** `refused` always means that nothing happened: after a step with an effect it is a failure instead (V5). */
function refused(run: Running, context: VerbContext, fix: Fix): Evaluation {
  if (!run.hasHappened) return { kind: 'outcome', outcome: { status: 'refused', fix }, context, item: null }
  return failed(
    run,
    context,
    'refused-after-step',
    `Refused (${fix.code}${fix.message === undefined ? '' : `: ${fix.message}`}) after a step had run.`,
  )
}

/** For the log: the stack, and those of its causes, since `fetch failed` says nothing by itself. */
function describe(error: unknown, depth = 0): string {
  if (!(error instanceof Error)) return inspect(error)
  const told = error.stack ?? error.message
  return error.cause === undefined || depth === causesMax
    ? told
    : `${told}\n[cause]: ${describe(error.cause, depth + 1)}`
}

const causesMax = 5
