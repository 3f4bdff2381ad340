import type { Outcome, RetryAdvice, StepView } from '../model/action.ts'
import { recordKey } from '../model/names.ts'
import type { Reads, RecordWrite } from '../model/record.ts'
import type { NewItem } from '../model/item.ts'
import type { Blocked, Settlement } from '../store/store.ts'
import type { VerbContext } from './context.ts'
import type { Running } from './running.ts'

/** What an inbox item shows besides its Action: the Versions that the decision was compared with (W4). */
export interface ItemFacts {
  readonly records: Readonly<Record<string, number>>
}

const noReads: Reads = { records: [], lookups: [] }

/** All that one commit settles: the Action, its records, its Event, its units, its inbox item and its holds, or nothing (V1). */
export function settlementOf(
  run: Running,
  outcome: Outcome,
  context: VerbContext | null,
  facts: ItemFacts | null,
): Settlement {
  const succeeded = outcome.status === 'succeeded'
  return {
    by: run.lease === null ? { claim: run.plan.claim } : { lease: run.lease },
    outcome,
    eventType: eventTypeOf(run, outcome),
    steps: stepViews(run),
    reads: context?.unfixedReads() ?? noReads,
    writes: succeeded ? (context?.writes() ?? noWrites) : noWrites,
    units: succeeded ? (context?.units ?? 1) : 0,
    item: itemOf(run, outcome, facts),
    holds: outcome.status === 'failed' && run.hasHappened ? 'keep' : 'release',
  }
}

const noWrites: readonly RecordWrite[] = []

/** The steps as the settled Action shows them: what was in flight then is unknown for good (V5). */
function stepViews({ journal }: Running): StepView[] {
  return [...journal.values()].map(({ step, status, attempts }) => ({
    step,
    status: status === 'started' ? 'unknown' : status,
    attempts,
  }))
}

function eventTypeOf(run: Running, { status }: Outcome): string {
  return run.plan.verb?.eventTypes[status] ?? `${run.plan.claim.verb}.${status}`
}

/** What lands in an inbox (W4): refused as stale or for its predecessor; failed after an effect, interrupted or at a limit. */
function itemOf(run: Running, outcome: Outcome, facts: ItemFacts | null): NewItem | null {
  if (outcome.status === 'succeeded') return null
  const kind = outcome.status
  if (kind === 'refused' && !inboxFixes.has(outcome.fix.code)) return null
  if (kind === 'failed' && !run.hasHappened && !inboxErrors.has(outcome.error.code)) return null
  return { id: `item_${run.core.ids.next()}`, kind, records: facts?.records ?? versionsOf(run), would: null }
}

const inboxFixes = new Set(['stale-decision', 'predecessor-not-applied'])
const inboxErrors = new Set(['step-interrupted', 'step-diverged', 'resume-limit', 'verb-timed-out'])

/** The Versions that the chain's reads are fixed to, as an item shows them. */
function versionsOf(run: Running): Record<string, number> {
  const records: Record<string, number> = {}
  for (const { noun, id, version } of run.fixed?.reads.records ?? []) {
    const plural = run.plan.startup.nouns.get(noun)?.plural
    if (plural !== undefined && version > 0) records[recordKey(plural, id)] = version
  }
  return records
}

/** Whether a retry makes sense (V5): an unknown effect is safe to repeat only under a key that its downstream still knows. */
export function retryAdvice(run: Running): RetryAdvice {
  const now = run.core.machine.now()
  for (const entry of run.journal.values()) {
    const unknown = entry.effect && (entry.status === 'unknown' || entry.status === 'started')
    if (unknown && (entry.atMostOnce || now - entry.startedAt >= entry.keyHoldsMs)) return 'unsafe'
  }
  return 'advised'
}

/** Held by another chain for too long, or by one that failed and whose outcome a person must tell first (V6). */
export function busyOutcome(blocked: Blocked): Outcome {
  const message = blocked.stuck
    ? `${blocked.resource} is held by ${blocked.by}, which failed after a step: retry that Action or dismiss its inbox item first.`
    : `${blocked.resource} was held by ${blocked.by} for longer than this Action may wait.`
  return { status: 'failed', error: { code: 'record-busy', message, retry: 'advised' } }
}
