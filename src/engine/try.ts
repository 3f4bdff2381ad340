import { isoTime, type ActionError, type Fix, type Outcome, type SettledStatus } from '../model/action.ts'
import type { Answer, Call } from '../model/call.ts'
import type { ActionId } from '../model/ids.ts'
import type { ParsedInput } from '../model/json.ts'
import type { Key } from '../model/key.ts'
import { dryRunsMax } from '../model/limits.ts'
import { recordKey } from '../model/names.ts'
import { problem } from '../model/problem.ts'
import { resourcesOf, type RecordWrite } from '../model/record.ts'
import type { Startup } from '../model/startup.ts'
import { may, type Worker } from '../model/worker.ts'
import { isBuiltin } from './builtin.ts'
import type { DryRun, VerbContext } from './context.ts'
import { admit, type Admitted } from './door.ts'
import type { Core } from './core.ts'
import { evaluate, type Evaluation } from './evaluate.ts'
import { Run } from './run.ts'

/**
 * `try` (T1): the Verb runs on what is on record at one moment, with stand-ins for its steps, and nothing is stored. The
 * moment is made by validation: what was read must still stand when the run is over, else it runs again.
 */
export async function dryRun(core: Core, request: Call, input: ParsedInput, operation: string): Promise<Answer> {
  if (isBuiltin(request.route)) throw problem('invalid-mode', `${operation} is a built-in call and has no try.`)
  const admitted = await admit(core, request, operation, input)
  for (let runs = 0; runs < dryRunsMax; runs++) {
    const dry: DryRun = { steps: [], incomplete: null, waitingFor: null }
    const run = new Run(core, planOf(core, request, operation, input, admitted))
    const evaluation = await bounded(
      run,
      admitted,
      evaluate(run, (context) => (run.context = context), dry),
    )
    const context = contextOf(evaluation)
    if (context !== null && !(await core.store.validate(run.plan.claim.namespace, context.unfixedReads()))) continue
    return { kind: 'try', body: await resultOf(core, request.worker, admitted.startup, dry, evaluation) }
  }
  throw problem('busy', 'What this call reads changes faster than it can be tried. Try again in a moment.')
}

/** A dry run is no Action, so that the engine's clock does not watch it; its time-out is its own (V5). */
async function bounded(run: Run, { verb }: Admitted, evaluation: Promise<Evaluation>): Promise<Evaluation> {
  const timer = setTimeout(() => run.context?.end({ kind: 'timed-out' }), verb.timeoutMs)
  try {
    return await evaluation
  } finally {
    clearTimeout(timer)
  }
}

function contextOf(evaluation: Evaluation): VerbContext | null {
  return evaluation.kind === 'outcome' ? evaluation.context : null
}

/** `worker` is who is told: a Noun that it may not read is shown to it by the names of what changes, without values (H1). */
async function resultOf(
  core: Core,
  worker: Worker,
  startup: Startup,
  dry: DryRun,
  evaluation: Evaluation,
): Promise<string> {
  if (evaluation.kind === 'unavailable') throw evaluation.error
  if (evaluation.kind !== 'outcome')
    throw new Error(`a dry run waits for nothing and holds nothing, and came to ${evaluation.kind}`)
  const { outcome, context } = evaluation
  const writes = outcome.status === 'succeeded' ? (context?.writes() ?? []) : []
  const result = {
    mode: 'try',
    status: outcome.status,
    incomplete: dry.incomplete,
    output: outcome.status === 'succeeded' ? (JSON.parse(outcome.output) as unknown) : null,
    error: errorOf(outcome),
    fix: fixOf(outcome),
    waitingFor: dry.waitingFor ?? (await wouldWait(core, startup, context, writes)),
    events: context === null ? [] : [wouldBeEvent(core, startup, context, outcome, writes)],
    changes: writes.map(({ noun, id, version, changes }) => ({
      record: keyOf(startup, noun, id),
      version,
      changes: changes.map(may(worker, `${noun}:read`) ? shownChange : ({ field }) => ({ field })),
    })),
    reads: readsOf(startup, context),
    steps: dry.steps,
  }
  return JSON.stringify(result)
}

function errorOf(outcome: Outcome): ActionError | null {
  return outcome.status === 'failed' ? outcome.error : null
}

function fixOf(outcome: Outcome): Fix | null {
  return outcome.status === 'refused' ? outcome.fix : null
}

/** Whether the real call would meet a hold of another chain (V6); a try waits for nothing. */
async function wouldWait(
  core: Core,
  startup: Startup,
  context: VerbContext | null,
  writes: readonly RecordWrite[],
): Promise<'record' | null> {
  const holds = context !== null && context.dry !== null && context.dry.steps.length > 0 ? context.fixedNow().holds : []
  const resources = [...holds, ...writes.flatMap(resourcesOf)]
  return resources.length > 0 && (await core.store.blocker(startup.namespace, resources, null)) !== null
    ? 'record'
    : null
}

function wouldBeEvent(
  core: Core,
  startup: Startup,
  context: VerbContext,
  outcome: Outcome,
  writes: readonly RecordWrite[],
) {
  const status: SettledStatus = outcome.status
  return {
    type: context.verb.eventTypes[status],
    worker: context.run.plan.worker.name,
    records: writes.map(({ noun, id, version }) => ({ record: keyOf(startup, noun, id), version })),
    data:
      outcome.status === 'succeeded' ? (JSON.parse(outcome.output) as unknown) : (errorOf(outcome) ?? fixOf(outcome)),
    at: isoTime(core.machine.now()),
  }
}

function shownChange({ field, from, to }: { field: string; from?: unknown; to?: unknown }) {
  return { field, from: from ?? null, to: to ?? null }
}

function readsOf(startup: Startup, context: VerbContext | null): Record<string, number> {
  const reads: Record<string, number> = {}
  for (const { noun, id, version } of context?.unfixedReads().records ?? [])
    if (version > 0) reads[keyOf(startup, noun, id)] = version
  return reads
}

function keyOf(startup: Startup, noun: string, id: string): string {
  return recordKey(startup.nouns.get(noun)?.plural ?? noun, id)
}

function planOf(
  core: Core,
  { worker, route, decidedAfter }: Call,
  operation: string,
  input: ParsedInput,
  admitted: Admitted,
) {
  const id: ActionId = `act_${core.ids.next()}`
  const claim = {
    id,
    namespace: route.namespace,
    workerId: worker.id,
    worker: worker.name,
    key: null as Key | null,
    bound: { operation, target: route.id, fingerprint: new Uint8Array() },
    verb: operation,
    target: route.id,
    input: input.text,
    mode: 'do' as const,
    on: null,
    decidedAgainst: admitted.decidedAgainst,
    decidedAfter: decidedAfter === null ? [] : [decidedAfter],
    createdAt: core.machine.now(),
    waitingFor: null,
    running: true,
  }
  const origin = { id, worker: worker.name, workerId: worker.id, key: null }
  return {
    startup: admitted.startup,
    verb: admitted.verb,
    worker,
    claim,
    input: admitted.input,
    lease: null,
    state: null,
    origin,
    attempts: 1,
  }
}
