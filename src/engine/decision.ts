import type { Action, Fix } from '../model/action.ts'
import type { ActionId } from '../model/ids.ts'
import type { Key } from '../model/key.ts'
import { versionsPageMax } from '../model/limits.ts'
import { parseRecordKey } from '../model/names.ts'
import type { RecordVersion } from '../model/record.ts'
import { staleChanges, staleFix, type StaleRecord } from '../model/stale.ts'
import type { Noun, Verb } from '../model/startup.ts'
import { may } from '../model/worker.ts'
import type { VerbContext } from './context.ts'
import type { Core } from './core.ts'
import { flightName } from './hot.ts'
import type { Running } from './running.ts'

/** Whether what a call was decided on still stands (W2, W3). */
export type Decision =
  | { readonly kind: 'stands' }
  | { readonly kind: 'waiting'; readonly until: ActionId }
  | { readonly kind: 'refused'; readonly fix: Fix; readonly records: Readonly<Record<string, number>> }

/**
 * Compares each record that the caller decided on with what it is now, its own queued writes laid over (W2, W3). What is
 * read here is validated by the commit that follows, so the answer holds in that very transaction.
 */
export async function checkDecision(
  run: Running,
  verb: Verb,
  context: VerbContext,
  decided: Readonly<Record<string, number>>,
): Promise<Decision> {
  const predecessor = run.hasEffect ? null : await checkPredecessor(run, context)
  if (predecessor !== null) return predecessor
  const stale: StaleRecord[] = []
  const current: Record<string, number> = {}
  for (const [record, decidedAgainst] of Object.entries(decided)) {
    const compared = await compare(run, verb, context, record, decidedAgainst)
    if (compared.current !== null) current[record] = compared.current
    if (compared.stale !== null) stale.push(compared.stale)
  }
  if (stale.length === 0) return { kind: 'stands' }
  return { kind: 'refused', fix: staleFix(stale, retryWith(run, current)), records: current }
}

function retryWith(run: Running, decidedAgainst: Readonly<Record<string, number>>) {
  const { verb, target, input } = run.plan.claim
  return { verb, target, input: JSON.parse(input) as unknown, decidedAgainst }
}

/** The call just before this one in its Worker's queue: waited for, and applied, or this one is refused (W3). */
async function checkPredecessor(run: Running, context: VerbContext): Promise<Decision | null> {
  const [key] = run.plan.claim.decidedAfter
  if (key === undefined) return null
  const named = await actionOfKey(run.core, run.plan.origin.workerId, key as Key)
  const latest = named === null ? null : await latestOf(run.core, named)
  if (latest?.status === 'pending') {
    if (context.dry === null) return { kind: 'waiting', until: latest.id }
    // A try doesn't wait (V6): it says that the real call would, and goes on as if this had been applied.
    context.dry.waitingFor = 'predecessor'
    return null
  }
  if (latest?.status === 'succeeded') return null
  const fix = {
    code: 'predecessor-not-applied',
    message: `The write queued before this one, ${key}, did not succeed.`,
    predecessor: latest === null ? null : { action: latest.id, idempotencyKey: key, status: latest.status },
    retryWith: retryWith(run, run.plan.claim.decidedAgainst),
  }
  return { kind: 'refused', fix, records: run.plan.claim.decidedAgainst }
}

/** The Action that a Worker's key is bound to, one under way in this process too. */
export async function actionOfKey(core: Core, workerId: string, key: Key): Promise<Action | null> {
  const flight = core.flights.get(flightName(workerId, key))
  return flight === undefined ? core.store.lookUp(workerId, key) : flight.name()
}

/** Of a chain the Action that counts: the latest that was not refused, and what an inbox applied in its stead (W3). */
async function latestOf(core: Core, action: Action): Promise<Action> {
  const chain = await core.store.chain(action.root)
  const latest = chain.findLast(({ status }) => status !== 'refused') ?? action
  if (latest.status !== 'refused') return latest
  const applied = await core.store.actions(latest.namespace, { on: latest.id }, { after: 0, limit: 1 })
  const [next] = applied.data
  return next === undefined ? latest : latestOf(core, next)
}

interface Compared {
  readonly current: number | null
  readonly stale: StaleRecord | null
}

async function compare(
  run: Running,
  verb: Verb,
  context: VerbContext,
  record: string,
  decidedAgainst: number,
): Promise<Compared> {
  const { store } = run.core
  const { namespace } = run.plan.claim
  const { plural, id } = parseRecordKey(record) ?? { plural: '', id: '' }
  const noun = run.plan.startup.nounsByPlural.get(plural)
  const current = noun === undefined ? null : await context.read(noun.name, id)
  if (noun === undefined || current === null)
    return { current: null, stale: { record, decidedAgainst, current: null, changes: [] } }
  if (current.version === decidedAgainst) return { current: current.version, stale: null }
  const decidedOn = await store.recordAt(namespace, noun.name, id, decidedAgainst)
  if (decidedOn === null)
    return { current: current.version, stale: { record, decidedAgainst, current: current.version, changes: [] } }
  const since = await versionsSince(run, noun, id, decidedAgainst, current.version)
  const own = await ownAmong(run, new Set(since.map(({ action }) => action)))
  const changes = staleChanges({
    decidedOn: noun.complete(decidedOn.fields),
    current: current.fields,
    since,
    isOwn: (action) => own.has(action),
    dependsOn: (field) => dependsOn(run, verb, noun, field),
    showsValues: may(run.plan.worker, `${noun.name}:read`),
  })
  return {
    current: current.version,
    stale: changes.length === 0 ? null : { record, decidedAgainst, current: current.version, changes },
  }
}

async function versionsSince(
  run: Running,
  noun: Noun,
  id: string,
  after: number,
  upTo: number,
): Promise<RecordVersion[]> {
  const since: RecordVersion[] = []
  while ((since.at(-1)?.version ?? after) < upTo) {
    const page = await run.core.store.versions(
      run.plan.claim.namespace,
      noun.name,
      id,
      since.at(-1)?.version ?? after,
      versionsPageMax,
    )
    if (page.length === 0) break
    since.push(...page.filter(({ version }) => version <= upTo))
  }
  return since
}

/**
 * Which of these Actions are predecessors of this one in its Worker's own queue; looks back only as far as it must. A
 * predecessor may be a retry of another Worker's Action, and what that was queued behind is a key of that other's: looked
 * up there, each is older than the one that names it, and the way back ends.
 */
async function ownAmong(run: Running, candidates: Set<string>): Promise<Set<string>> {
  const own = new Set<string>()
  let { workerId } = run.plan.origin
  let [key] = run.plan.claim.decidedAfter
  while (key !== undefined && own.size < candidates.size) {
    const named = await actionOfKey(run.core, workerId, key as Key)
    if (named === null) break
    const latest = await latestOf(run.core, named)
    if (candidates.has(latest.id)) own.add(latest.id)
    const root = named.root === named.id ? named : await run.core.store.action(named.namespace, named.root)
    workerId = root?.workerId ?? named.workerId
    ;[key] = named.decidedAfter
  }
  return own
}

/** What a Verb depends on (W2): its declared reads and writes, and input members of a field's name; undeclared: every field. */
function dependsOn(run: Running, verb: Verb, noun: Noun, field: string): boolean {
  const reads = verb.reads.get(noun.name)
  const writes = verb.writes.get(noun.name)
  if (reads === undefined && writes === undefined) return true
  return reads?.has(field) === true || writes?.has(field) === true || run.inputMembers.has(field)
}
