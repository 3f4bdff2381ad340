import { createHash } from 'node:crypto'
import type { Call, Route } from '../model/call.ts'
import type { ParsedInput } from '../model/json.ts'
import { faultsMax, tokensRememberedMax } from '../model/limits.ts'
import { parseRecordKey, recordKey } from '../model/names.ts'
import { problem, shortened } from '../model/problem.ts'
import type { Fault, Startup, Verb } from '../model/startup.ts'
import { may, type Worker } from '../model/worker.ts'
import type { Core } from './core.ts'
import { actionOfKey } from './decision.ts'

/** The hash of a token, remembered so that a busy Worker's is not computed for each of its calls. Only in memory. */
const hashes = new Map<string, Buffer>()

/** Remembers the hash of a Worker's token. One that nobody has may be as long as headers are, and anybody can send many. */
function remember(token: string, hash: Buffer): void {
  if (hashes.size >= tokensRememberedMax) hashes.clear()
  hashes.set(token, hash)
}

/** Where a request comes from; worked out only when it is asked for. */
export interface From {
  readonly address: string
}

/** Token → Worker (401), and its namespace is the path's (403): an unknown namespace is answered as another's is (R2). */
export function enter(
  core: Core,
  token: string | null,
  namespace: string | null,
  from: From,
): Worker | Promise<Worker> {
  if (token === null) throw problem('unauthorized', 'Send a token: Authorization: Bearer <token>.')
  const known = hashes.get(token)
  const hash = known ?? createHash('sha256').update(token).digest()
  const worker = core.store.workerOfToken(hash)
  if (known !== undefined) {
    return worker instanceof Promise
      ? worker.then((found) => admitWorker(core, found, namespace, from))
      : admitWorker(core, worker, namespace, from)
  }
  const admitNew = (found: Worker | null): Worker => {
    if (found !== null) remember(token, hash)
    return admitWorker(core, found, namespace, from)
  }
  return worker instanceof Promise ? worker.then(admitNew) : admitNew(worker)
}

function admitWorker(core: Core, worker: Worker | null, namespace: string | null, from: From): Worker {
  if (worker === null) throw core.failedTokens.refusal(from.address)
  if (namespace === null) return worker
  if (worker.namespace !== namespace || !core.startups.has(namespace)) {
    throw problem('wrong-namespace', `This token is for another namespace than ${namespace}.`)
  }
  return worker
}

/** The operation that a route names, one whose Verb was removed too (R2); a name that no Action has when it never existed. */
export function operationOf(core: Core, { namespace, nouns, verb }: Route): string {
  // Built-in calls (§6, W4): no Noun has these plurals, nor these names (N1).
  if (nouns === 'actions') return `Action.${verb}`
  if (nouns === 'inbox') return `Inbox.${verb}`
  return core.operations.get(namespace)?.get(`${nouns}/${verb}`) ?? `${nouns}/${verb}`
}

/** What passed the door: all that a run needs. */
export interface Admitted {
  readonly startup: Startup
  readonly verb: Verb
  readonly input: unknown
  readonly decidedAgainst: Readonly<Record<string, number>>
}

/** The door from the operation on (R2): it exists (404), may be called (403), its target exists (404), its input fits (400). */
export async function admit(core: Core, call: Call, operation: string, input: ParsedInput): Promise<Admitted> {
  const startup = startupOf(core, call.route.namespace)
  const verb = startup.verbs.get(operation)
  if (verb === undefined || (verb.target === 'record') !== (call.route.id !== null))
    throw operationNotFound(startup, call.route)
  if (!may(call.worker, operation))
    throw problem('forbidden', `${call.worker.name} has no grant ${operation}.`, { grant: operation })
  const { id } = call.route
  // A deleted target passes: the Action goes on record, refused, since its caller must learn it under this very key (R2).
  if (id !== null && (await core.store.record(startup.namespace, verb.noun, id)) === null) {
    throw problem('record-not-found', `There is no ${verb.noun} ${id}.`)
  }
  const decidedAgainst = decisionOf(startup, call)
  const checked = await verb.check(input.value)
  if ('faults' in checked) throw invalidInput(operation, checked.faults)
  await mustKnowPredecessor(core, call)
  return { startup, verb, input: checked.value, decidedAgainst }
}

export function startupOf(core: Core, namespace: string): Startup {
  const startup = core.startups.get(namespace)
  if (startup === undefined) throw problem('wrong-namespace', `This token is for another namespace than ${namespace}.`)
  return startup
}

function operationNotFound(startup: Startup, { nouns, id, verb }: Route) {
  const noun = startup.nounsByPlural.get(nouns)
  const operation = noun && startup.verbs.get(`${noun.name}.${verb}`)
  const hint =
    operation === undefined
      ? `${startup.namespace} has no such operation; GET /${startup.namespace} lists them.`
      : id === null
        ? `${operation.operation} is called on a record: POST /${startup.namespace}/${nouns}/{id}/${verb}.`
        : `${operation.operation} is called on the collection: POST /${startup.namespace}/${nouns}/${verb}.`
  return problem('operation-not-found', hint)
}

/** 400: what does not fit, member by member. */
export function invalidInput(operation: string, faults: readonly Fault[]) {
  const errors = faults
    .slice(0, faultsMax)
    .map(({ path, message }) => ({ path: shortened(path.join('.')), message: shortened(message) }))
  const first = errors[0]
  const detail = first === undefined ? '' : ` ${first.path === '' ? '' : `${first.path}: `}${first.message}`
  return problem('invalid-input', `The input does not fit ${operation}.${detail}`, { errors })
}

/** The Versions that a call was decided against, by record (W1). */
export function decisionOf(startup: Startup, { route, versions }: Call): Readonly<Record<string, number>> {
  if (versions.target === undefined && versions.records.size === 0) return nothingDecided
  const decided: Record<string, number> = {}
  for (const [record, version] of versions.records) {
    const { plural } = parseRecordKey(record) ?? { plural: '' }
    if (!startup.nounsByPlural.has(plural))
      throw problem('invalid-record-version', `Record-Version names ${record}, and there are no ${plural}.`)
    decided[record] = version
  }
  if (versions.target === undefined) return decided
  if (route.id === null)
    throw problem('invalid-record-version', 'Record-Version gives a Version alone, and this call has no target record.')
  const target = recordKey(route.nouns, route.id)
  if (target in decided) throw problem('invalid-record-version', `Record-Version names ${target} twice.`)
  return { ...decided, [target]: versions.target }
}

const nothingDecided: Readonly<Record<string, number>> = {}

/** The call that this one is queued behind must be known (W3): until then it may come again, with nothing on record. */
async function mustKnowPredecessor(core: Core, { worker, decidedAfter }: Call): Promise<void> {
  if (decidedAfter === null || (await actionOfKey(core, worker.id, decidedAfter)) !== null) return
  throw problem(
    'predecessor-unknown',
    'Decided-After names a key under which nothing is on record yet: send that call first.',
  )
}
