import { createHash } from 'node:crypto'
import type { JournalEntry } from '../model/journal.ts'
import { toStorable } from '../model/json.ts'
import {
  keyHoldsMsDefault,
  outputBytesMax,
  stepAttemptsDefault,
  stepBackoffMs,
  stepBackoffMsMax,
  stepNameMax,
  stepsPerActionMax,
} from '../model/limits.ts'
import { sameJson } from '../model/stale.ts'
import { StepDiverged, StepRejected } from '../model/verberrors.ts'
import type { VerbContext } from './context.ts'
import { factsOf, reasonOf } from './spans.ts'

/** What a step's function gets. */
export interface StepCall {
  /** The derived key: 32 hex characters, to hand on as the downstream's own idempotency key (V2). */
  readonly key: string
  readonly input: unknown
  /** Aborts when the Verb times out or its run is over. */
  readonly signal: AbortSignal
  /** Says a definitive no: the downstream did not do it. */
  readonly reject: (code: string, message: string) => never
}
export type StepFunction = (call: StepCall) => unknown

export interface StepOptions {
  readonly try?: (call: { input: unknown }) => unknown
  readonly effect?: boolean
  readonly atMostOnce?: boolean
  readonly keyHolds?: number
  readonly attempts?: number
}

/** What `reject` throws through the author's `fn`; told apart from whatever else it throws. */
class Rejection extends Error {
  override readonly name = 'Rejection'
  readonly code: string
  constructor(code: string, message: string) {
    super(message)
    this.code = code
  }
}

/**
 * One step (V2): replayed from the chain's journal when it is done there, begun, tried again or refused otherwise. Nothing
 * outside the store is touched before the step's start is on disk.
 */
export async function runStep(
  context: VerbContext,
  name: string,
  input: unknown,
  fn: StepFunction,
  options: StepOptions,
): Promise<unknown> {
  const inputText = storedInput(name, input)
  checkStep(context, name, fn)
  const step = context.nextStep(name)
  if (context.dry !== null) return standIn(context, context.dry, step, inputText, options)
  const known = knownEntry(context, step)
  if (known === undefined) return begin(context, freshEntry(context, step, 0, inputText, options), fn, options)
  switch (known.status) {
    case 'done':
      mustMatch(known, inputText)
      return parsed(known.outcome)
    case 'rejected':
      if (known.action === context.run.id && sameText(known.input, inputText)) throw rejected(known)
      // A retry, or another input, is another question to the downstream: it needs another key (V2).
      return begin(context, freshEntry(context, step, known.generation + 1, inputText, options), fn, options)
    case 'started':
    case 'unknown':
      mustMatch(known, inputText)
      return resume(context, known, fn, options)
    default:
      return known.status satisfies never
  }
}

/** The chain's entry for this step; one without an effect counts only once an effect has fixed it (V2). */
function knownEntry(context: VerbContext, step: string): JournalEntry | undefined {
  const entry = context.run.journal.get(step)
  return entry !== undefined && (entry.effect || context.run.hasEffect) ? entry : undefined
}

function freshEntry(
  context: VerbContext,
  step: string,
  generation: number,
  input: string | null,
  options: StepOptions,
): JournalEntry {
  return {
    step,
    generation,
    status: 'started',
    input,
    outcome: null,
    attempts: 0,
    startedAt: context.run.core.machine.now(),
    effect: options.effect ?? true,
    atMostOnce: (options.effect ?? true) && (options.atMostOnce ?? false),
    keyHoldsMs: options.keyHolds ?? keyHoldsMsDefault,
    action: context.run.id,
  }
}

/** An outcome that nobody knows: asked again under the same key while its downstream still knows that, else a person decides (V2, V3). */
async function resume(
  context: VerbContext,
  entry: JournalEntry,
  fn: StepFunction,
  options: StepOptions,
): Promise<unknown> {
  const { run } = context
  const own = entry.action === run.id
  if (entry.atMostOnce && own) return interrupt(context, entry, 'It may have run, and may run at most once.')
  if (entry.effect && run.core.machine.now() - entry.startedAt >= entry.keyHoldsMs) {
    return interrupt(context, entry, `Its outcome is unknown, and its key is trusted for ${entry.keyHoldsMs} ms only.`)
  }
  const attempts = own ? entry.attempts : 0
  if (attempts >= attemptsOf(options)) return unresolved(context, { ...entry, status: 'unknown' })
  return begin(context, { ...entry, status: 'started', action: run.id, attempts }, fn, options)
}

/** Puts the start on disk, calls `fn`, journals how it ended; an unknown outcome is tried again with backoff (V2). */
async function begin(
  context: VerbContext,
  begun: JournalEntry,
  fn: StepFunction,
  options: StepOptions,
): Promise<unknown> {
  const { core, plan } = context.run
  const { signals } = core
  let entry: JournalEntry = { ...begun, attempts: begun.attempts + 1 }
  await start(context, entry)
  for (;;) {
    const ended = await attemptInSpan(context, entry, fn)
    signals?.stepped(plan.claim.namespace, plan.claim.verb, ended.status)
    if (ended.status === 'done') {
      await journal(context, ended)
      return parsed(ended.outcome)
    }
    if (ended.status === 'rejected') {
      await journal(context, ended)
      throw rejected(ended)
    }
    if (entry.atMostOnce) {
      await journal(context, ended)
      return interrupt(context, ended, 'Its outcome is unknown, and it may run at most once.')
    }
    if (ended.fault !== undefined) {
      await journal(context, ended)
      return context.stop({
        kind: 'failed',
        code: 'output-not-storable',
        message: `What step ${entry.step} returned can't be kept: ${ended.fault}.`,
      })
    }
    if (entry.attempts >= attemptsOf(options)) return unresolved(context, ended)
    await pause(context, entry.attempts)
    const ageMs = context.run.core.machine.now() - entry.startedAt
    if (entry.effect && ageMs >= entry.keyHoldsMs) {
      await journal(context, ended)
      return interrupt(
        context,
        ended,
        `Its outcome is unknown, and its key is trusted for ${entry.keyHoldsMs} ms only.`,
      )
    }
    entry = { ...entry, attempts: entry.attempts + 1 }
    await journal(context, entry)
  }
}

/** The start of a step, on disk before `fn` is called; with an effect, all that this fixes (V1, V6). */
async function start(context: VerbContext, entry: JournalEntry): Promise<void> {
  const { run } = context
  if (!(await run.claimAhead()) || run.lease === null) return context.stop({ kind: 'lost' })
  context.open()
  const lease = run.lease
  const fixed = entry.effect ? context.fixedNow() : null
  const effect =
    fixed === null
      ? null
      : { reads: context.unfixedReads(), fixed, keep: run.hasEffect ? null : [...context.stepsReached] }
  const answer = await run.persist(() => run.core.store.startStep({ lease, entry, effect, ranMs: run.ranMs }))
  if (answer.kind === 'blocked') return context.stop({ kind: 'blocked', blocked: answer })
  if (answer.kind === 'conflict') return context.stop({ kind: 'conflict', read: context.resourcesRead() })
  if (answer.kind !== 'started') return context.stop(answer)
  run.journal.set(entry.step, entry)
  if (effect === null) return
  run.fixed = effect.fixed
  if (effect.keep === null) return context.open()
  for (const [step, known] of run.journal) if (!known.effect && !effect.keep.includes(step)) run.journal.delete(step)
  // The start is on disk and `fn` must not be called: the evaluation ended meanwhile (a time-out, a stop).
  context.open()
}

type Attempt = JournalEntry & { readonly fault?: string }

/** An attempt in a span of its own, where spans are recorded: what `fn` calls lies below it. */
function attemptInSpan(context: VerbContext, entry: JournalEntry, fn: StepFunction): Promise<Attempt> {
  const { core, plan, id } = context.run
  if (!core.spans) return attempt(context, entry, fn)
  const facts = { verb: plan.claim.verb, action: id, step: entry.step, attempt: entry.attempts }
  const options = { kind: 'step' as const, name: `step ${entry.step.split('#')[0]}`, facts: factsOf(facts) }
  return core.spans.within(options, async (span) => {
    try {
      const ended = await attempt(context, entry, fn)
      span.tell(factsOf({ status: ended.status }))
      if (ended.status === 'unknown') span.fail('unknown')
      return ended
    } catch (error) {
      // The evaluation is over: how the step ended, nobody knows.
      span.tell(factsOf({ status: 'unknown' }))
      span.fail(context.ending?.kind ?? reasonOf(error))
      throw error
    }
  })
}

async function attempt(context: VerbContext, entry: JournalEntry, fn: StepFunction): Promise<Attempt> {
  const reject = (code: string, message: string): never => {
    throw new Rejection(String(code), String(message))
  }
  try {
    const call = { key: derivedKey(context, entry), input: parsed(entry.input), signal: context.signal, reject }
    const result: unknown = await Promise.race([fn(call), context.ended])
    context.open()
    const stored = toStorable(result, outputBytesMax)
    // Its effect happened and can't be journaled as done: nobody may take it for not having happened.
    if (stored.fault !== null) return { ...entry, status: 'unknown', fault: stored.fault }
    return { ...entry, status: 'done', outcome: stored.text }
  } catch (error) {
    // The evaluation is over (a time-out, say): the settlement journals what was in flight as unknown (V5).
    context.open()
    if (error instanceof Rejection)
      return { ...entry, status: 'rejected', outcome: JSON.stringify({ code: error.code, message: error.message }) }
    // Whatever else it throws leaves the outcome unknown: `fetch` throws when the connection breaks after the charge.
    context.run.core.log.warn(
      { action: context.run.id, step: entry.step, attempt: entry.attempts, err: String(error) },
      'a step threw',
    )
    return { ...entry, status: 'unknown' }
  }
}

async function journal(context: VerbContext, entry: Attempt): Promise<void> {
  const { run } = context
  const { fault: _, ...journaled } = entry
  const lease = run.lease
  if (lease === null) return context.stop({ kind: 'lost' })
  if ((await run.persist(() => run.core.store.endStep(lease, journaled, run.ranMs))) === 'lost')
    return context.stop({ kind: 'lost' })
  run.journal.set(entry.step, journaled)
  context.open()
}

async function unresolved(context: VerbContext, entry: Attempt): Promise<never> {
  await journal(context, entry)
  const message = `Step ${entry.step} was tried ${entry.attempts} times and its outcome is still unknown.`
  return context.stop({ kind: 'failed', code: 'step-unresolved', message })
}

async function interrupt(context: VerbContext, entry: JournalEntry, reason: string): Promise<never> {
  if (entry.status !== 'unknown') await journal(context, { ...entry, status: 'unknown' })
  return context.stop({
    kind: 'failed',
    code: 'step-interrupted',
    message: `Step ${entry.step} was interrupted. ${reason}`,
  })
}

/** Exponential backoff with full jitter (V2); ends early when the evaluation does. */
async function pause(context: VerbContext, attempts: number): Promise<void> {
  const { machine, waiters } = context.run.core
  const [chance = 0] = machine.randomBytes(1)
  const ceilingMs = Math.min(stepBackoffMs * 2 ** (attempts - 1), stepBackoffMsMax)
  await Promise.race([waiters.sleep(ceilingMs * ((chance + 1) / 256)), context.ended])
  context.open()
}

/**
 * The key to hand on to the downstream (V2): from what stays the same across resumes, retries by whomever, and a restore.
 * A rejected step that is begun anew is another question, so its generation is part of it.
 */
export function derivedKey(context: VerbContext, entry: Pick<JournalEntry, 'step' | 'generation'>): string {
  const { worker, key, id } = context.run.plan.origin
  const [name, occurrence] = entry.step.split('#')
  const parts = [context.run.plan.claim.namespace, worker, key ?? [id], name, Number(occurrence), entry.generation]
  return createHash('sha256').update(JSON.stringify(parts)).digest('hex').slice(0, 32)
}

async function standIn(
  context: VerbContext,
  dry: NonNullable<VerbContext['dry']>,
  step: string,
  input: string | null,
  options: StepOptions,
): Promise<unknown> {
  if (options.try === undefined) {
    dry.incomplete = step
    return context.stop({ kind: 'failed', code: 'dry-run-incomplete', message: `Step ${step} has no try stand-in.` })
  }
  const stored = toStorable(await options.try({ input: parsed(input) }), outputBytesMax)
  if (stored.fault !== null)
    throw new TypeError(`what the try stand-in of ${step} returned can't be kept: ${stored.fault}`)
  dry.steps.push({ step, status: 'done', attempts: 0 })
  return parsed(stored.text)
}

function checkStep(context: VerbContext, name: string, fn: unknown): void {
  if (typeof name !== 'string' || name.length === 0 || name.length > stepNameMax || !/^[\w-]+$/.test(name)) {
    throw new TypeError(`a step's name is 1 to ${stepNameMax} letters, digits, _ or -`)
  }
  if (typeof fn !== 'function') throw new TypeError(`step ${name} needs a function`)
  if (context.stepsReached.size >= stepsPerActionMax)
    throw new RangeError(`an Action may have ${stepsPerActionMax} steps at most`)
}

function storedInput(name: string, input: unknown): string | null {
  if (input === undefined) return null
  const stored = toStorable(input, outputBytesMax)
  if (stored.fault !== null) throw new TypeError(`the input of step ${name} can't be kept: ${stored.fault}`)
  return stored.text
}

function mustMatch(entry: JournalEntry, input: string | null): void {
  if (!sameText(entry.input, input))
    throw new StepDiverged(entry.step, `Step ${entry.step} was reached with another input than the one it ran with.`)
}

function sameText(left: string | null, right: string | null): boolean {
  return left === right || (left !== null && right !== null && sameJson(JSON.parse(left), JSON.parse(right)))
}

function rejected(entry: JournalEntry): StepRejected {
  const { code, message } = parsed(entry.outcome) as { code: string; message: string }
  return new StepRejected(entry.step, code, message)
}

function attemptsOf(options: StepOptions): number {
  return options.attempts ?? stepAttemptsDefault
}

function parsed(text: string | null): unknown {
  return text === null ? undefined : JSON.parse(text)
}
