import { actionJson, type Action, type Bound } from '../model/action.ts'
import type { Answer, Call } from '../model/call.ts'
import { boundFingerprint } from '../model/fingerprint.ts'
import type { ActionId } from '../model/ids.ts'
import { parseInput, type ParsedInput } from '../model/json.ts'
import type { Key } from '../model/key.ts'
import { runsMax } from '../model/limits.ts'
import { problem, Problem } from '../model/problem.ts'
import type { Claim } from '../store/store.ts'
import { StoreUnavailable } from '../store/store.ts'
import { isBuiltin, runBuiltin } from './builtin.ts'
import { admit, operationOf, type Admitted } from './door.ts'
import type { Core, Flight } from './core.ts'
import { flightName } from './hot.ts'
import { differences, mismatch } from './replay.ts'
import { GivenBack, Run } from './run.ts'
import { dryRun } from './try.ts'

/**
 * One call, from its body on (§2, §4): found under its key and replayed, or let through the door and run. Whoever throws a
 * Problem put nothing on record; an answer carries an Action that is on record (R1).
 */
export async function call(core: Core, request: Call): Promise<Answer> {
  if (core.stopping) throw problem('shutting-down', 'The server is stopping. Send the same request again in a moment.')
  const hot = request.mode === 'try' ? undefined : core.hot.find(request)
  if (hot !== undefined) return hot
  const input = parseInput(request.body)
  const operation = operationOf(core, request.route)
  if (request.mode === 'try') return beforeRecord(dryRun(core, request, input, operation))
  const key = keyOf(request)
  const bound = { operation, target: request.route.id, fingerprint: boundFingerprint(input.value) }
  // The look-up comes before the operation, the grant and the schema: a replay must answer though any of them changed (R2).
  const found =
    core.flights.get(flightName(request.worker.id, key)) ?? (await core.store.lookUp(request.worker.id, key))
  if (found !== null) return replay(core, request, bound, found)
  if (isBuiltin(request.route)) return builtin(core, request, bound, input)
  const admitted = await beforeRecord(admit(core, request, operation, input))
  // Another request with this key may have passed the door while this one was looked at.
  const flight = core.flights.get(flightName(request.worker.id, key))
  if (flight !== undefined) return replay(core, request, bound, flight)
  if (core.runs.size >= runsMax)
    throw problem('busy', 'As many Actions run here as may at once. Try again in a moment.')
  return first(core, request, Run.start(core, planOf(core, request, key, bound, input, admitted)))
}

/** The first request's answer. It is told that the store is unavailable only once its Action can't come on record any more (R1). */
async function first(core: Core, request: Call, run: Run): Promise<Answer> {
  for (;;) {
    try {
      return await follow(core, request, run)
    } catch (error) {
      if (!(error instanceof StoreUnavailable) || (await run.giveUp(error))) throw error
    }
  }
}

/**
 * A fault of an author's schema, or of ours, in what puts nothing on record is told as just that: 500, and not nothing
 * at all (R1). Its cause is for the log.
 */
async function beforeRecord<T>(work: Promise<T>): Promise<T> {
  try {
    return await work
  } catch (error) {
    if (error instanceof Problem || error instanceof StoreUnavailable) throw error
    const fault = problem('internal', 'The server made a mistake. Nothing was put on record.')
    fault.cause = error
    throw fault
  }
}

function keyOf({ key }: Call): Key {
  if (key === null) throw problem('idempotency-key-required', 'A durable call needs an Idempotency-Key.')
  return key
}

/** The answer to a second request (K4): what the first one became, or a mismatch that names it. */
async function replay(core: Core, request: Call, bound: Bound, found: Flight | Action): Promise<Answer> {
  const differs = differences(found.bound, bound)
  if (!('status' in found)) {
    // The first one's Action must be on record before anybody is told its name (K4).
    if (differs.length > 0) throw mismatch((await found.name()).id, differs)
    return follow(core, request, found)
  }
  if (differs.length > 0) throw mismatch(found.id, differs)
  if (found.status !== 'pending') return answer(core, request, found, true)
  return answer(core, request, await core.waiters.settled(found, request.waitMs), false)
}

/** Waits on a call under way as its Mode says, and answers with its Action as it then is. */
async function follow(core: Core, request: Call, flight: Flight): Promise<Answer> {
  try {
    const ended = request.waitMs > 0 ? await within(flight.done, request.waitMs) : null
    if (ended === null) return answer(core, request, await flight.name(), false)
    if (ended.kind === 'found') return await replay(core, request, flight.bound, ended.action)
    return answer(core, request, ended.action, false)
  } catch (error) {
    // It waits for a definition, or the server stops: it is on record, and goes on later.
    if (!(error instanceof GivenBack)) throw error
    return answer(core, request, await onRecord(core, request.route.namespace, flight.id), false)
  }
}

async function onRecord(core: Core, namespace: string, id: ActionId): Promise<Action> {
  const action = await core.store.action(namespace, id)
  if (action === null)
    throw problem('shutting-down', 'The server is stopping. Send the same request again in a moment.')
  return action
}

function answer(core: Core, request: Call, action: Action, replayed: boolean): Answer {
  const given = {
    kind: 'action' as const,
    id: action.id,
    status: action.status,
    body: Buffer.from(actionJson(action)),
    replayed,
  }
  if (action.status !== 'pending') core.hot.remember(request, given)
  return given
}

async function builtin(core: Core, request: Call, bound: Bound, input: ParsedInput): Promise<Answer> {
  const made = await runBuiltin(core, request, bound, input)
  if (made.kind === 'run') return follow(core, request, made.run)
  if (made.kind === 'found') return replay(core, request, bound, made.action)
  return answer(core, request, made.action, false)
}

/** The result, or null when it takes longer than `ms`. */
async function within<T>(promise: Promise<T>, ms: number): Promise<T | null> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<null>((resolve) => {
    timer = setTimeout(resolve, ms, null)
  })
  try {
    return await Promise.race([promise, late])
  } finally {
    clearTimeout(timer)
  }
}

function planOf(core: Core, request: Call, key: Key, bound: Bound, input: ParsedInput, admitted: Admitted) {
  const { worker, route, mode, decidedAfter } = request
  const id: ActionId = `act_${core.ids.next()}`
  const claim: Claim = {
    id,
    namespace: route.namespace,
    workerId: worker.id,
    worker: worker.name,
    key,
    bound,
    verb: bound.operation,
    target: route.id,
    input: input.text,
    mode: mode === 'send' ? 'send' : 'do',
    on: null,
    decidedAgainst: admitted.decidedAgainst,
    decidedAfter: decidedAfter === null ? [] : [decidedAfter],
    createdAt: core.machine.now(),
    waitingFor: null,
    running: true,
  }
  const origin = { id, worker: worker.name, workerId: worker.id, key }
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
