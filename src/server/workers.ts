import { createHash, randomBytes } from 'node:crypto'
import { IdSource } from '../model/ids.ts'
import { isNamespace } from '../model/names.ts'
import type { Throttle } from '../model/startup.ts'
import type { Worker, WorkerKind } from '../model/worker.ts'
import type { Store, WorkerListing } from '../store/store.ts'
import { grantFault } from './grants.ts'
import { LocalError } from './local-error.ts'
import { machine } from './machine.ts'
import { withStore } from './open.ts'

export type { WorkerListing } from '../store/store.ts'

/** The name of the Worker that plants seeds: nobody else's (§1). */
const builtInName = 'startup-builder'

/** What is shown of a Worker when a token is made: the only time that the token is told (H1). */
export interface IssuedToken {
  readonly id: string
  readonly name: string
  readonly token: string
  /** ISO 8601; absent for a token that never expires. */
  readonly expiresAt?: string
}

export interface NewWorker {
  readonly name: string
  readonly kind: WorkerKind
  readonly grants: readonly string[]
  /** Null: the only one of the store. */
  readonly namespace: string | null
  /** How long the token is good for, in milliseconds; null: for ever. */
  readonly expiresMs: number | null
  /** Its own limit (§10), which takes the place of the Startup's; none unless given. */
  readonly throttle?: Throttle | null
}

/**
 * Adds a Worker with a first token to a data file, which is made when it isn't there. Works while a server runs on it.
 * `warn` is told what is probably a mistake. Throws a LocalError for a name that is taken or a grant that doesn't read.
 */
export async function addWorker(data: string, wanted: NewWorker, warn: (line: string) => void): Promise<IssuedToken> {
  const faults = [nameFault(wanted.name), ...wanted.grants.map(grantFault)].filter((fault) => fault !== null)
  if (faults.length > 0) throw new LocalError(...faults)
  return withStore(data, { create: true }, async (store) => {
    const namespace = await namespaceOf(store, wanted.namespace, warn)
    const ids = new IdSource(machine.now, machine.randomBytes, (await store.lastId()) ?? undefined)
    const { name, kind, throttle = null } = wanted
    const worker: Worker = {
      ...{ id: `worker_${ids.next()}`, namespace, name, kind, grants: [...new Set(wanted.grants)] },
      ...(throttle === null ? {} : { throttle }),
    }
    const { token, hash } = newToken()
    const expiresAt = wanted.expiresMs === null ? null : machine.now() + wanted.expiresMs
    if ((await store.addWorker(worker, hash, expiresAt)) === 'name-taken') {
      throw new LocalError(
        `The name ${name} is taken in ${namespace}: a name is never given twice, not even after a removal. ` +
          `Choose another, or make a new token for it: startup-builder worker token ${name}`,
      )
    }
    return issued(worker, token, expiresAt)
  })
}

/** Makes one more token for a Worker; the tokens that it has stay good. Throws a LocalError when there is no such Worker. */
export async function addToken(
  data: string,
  name: string,
  namespace: string | null,
  expiresMs: number | null,
): Promise<IssuedToken> {
  return withStore(data, { create: false }, async (store) => {
    const worker = await find(store, name, namespace)
    if (worker.removed) throw new LocalError(`The Worker ${name} was removed: it can have no token any more.`)
    const { token, hash } = newToken()
    const expiresAt = expiresMs === null ? null : machine.now() + expiresMs
    await store.addToken(worker.id, hash, expiresAt)
    return issued(worker, token, expiresAt)
  })
}

/** Ends every token of a Worker, from the server's next call on; with `remove` the Worker too. Gives how many were live. */
export async function revokeWorker(
  data: string,
  name: string,
  namespace: string | null,
  remove: boolean,
): Promise<{ id: string; name: string; revoked: number; removed: boolean }> {
  return withStore(data, { create: false }, async (store) => {
    const worker = await find(store, name, namespace)
    await store.revokeWorker(worker.id, remove)
    return { id: worker.id, name, revoked: liveTokens(worker), removed: remove || worker.removed }
  })
}

/**
 * Gives a Worker a limit of its own (§10), from the server's next call on, or takes it away (null): the Startup's holds
 * again. Throws a LocalError when there is no such Worker.
 */
export async function limitWorker(
  data: string,
  name: string,
  namespace: string | null,
  throttle: Throttle | null,
): Promise<{ id: string; name: string; throttle: Throttle | null }> {
  return withStore(data, { create: false }, async (store) => {
    const worker = await find(store, name, namespace)
    if (worker.removed) throw new LocalError(`The Worker ${name} was removed: it makes no calls any more.`)
    await store.limitWorker(worker.id, throttle)
    return { id: worker.id, name, throttle }
  })
}

/** The Workers of a namespace, or of all. */
export async function listWorkers(data: string, namespace: string | null): Promise<readonly WorkerListing[]> {
  return withStore(data, { create: false }, (store) => store.workers(namespace))
}

/** How many tokens of a Worker are good right now. */
export function liveTokens(worker: WorkerListing): number {
  const now = machine.now()
  return worker.tokens.filter(({ expiresAt, revoked }) => !revoked && (expiresAt === null || expiresAt > now)).length
}

/** 32 random bytes, readable as ours at a glance; only the hash is stored (H1). */
function newToken(): { token: string; hash: Uint8Array } {
  const token = `sb_${randomBytes(32).toString('base64url')}`
  return { token, hash: createHash('sha256').update(token).digest() }
}

function issued({ id, name }: Worker, token: string, expiresAt: number | null): IssuedToken {
  return { id, name, token, ...(expiresAt === null ? {} : { expiresAt: new Date(expiresAt).toISOString() }) }
}

function nameFault(name: string): string | null {
  if (name === builtInName) return `The name ${name} is the built-in Worker's. Choose another.`
  if (/^[A-Za-z0-9._-]{1,64}$/.test(name)) return null
  return `${JSON.stringify(name)} is no name for a Worker: 1 to 64 letters, digits, dots, hyphens and underscores.`
}

/** The namespace that is meant: the one given, else the only one of the store. */
async function namespaceOf(store: Store, given: string | null, warn: (line: string) => void): Promise<string> {
  const known = await store.namespaces()
  if (given !== null) {
    if (!isNamespace(given))
      throw new LocalError(`${JSON.stringify(given)} is no namespace: it looks like glyphs.store.`)
    if (known.length > 0 && !known.includes(given)) {
      warn(`No definition of ${given} has been served on this data file yet; it has ${known.join(', ')}.`)
    }
    return given
  }
  const [only, ...others] = known
  if (only === undefined) {
    throw new LocalError('No definition has been served on this data file yet: say --namespace, such as glyphs.store.')
  }
  if (others.length > 0) throw new LocalError(`Say --namespace: this data file has ${known.join(', ')}.`)
  return only
}

async function find(store: Store, name: string, namespace: string | null): Promise<WorkerListing> {
  const found = (await store.workers(namespace)).filter((worker) => worker.name === name)
  const [only, ...others] = found
  if (only === undefined) {
    const where = namespace === null ? 'on this data file' : `in ${namespace}`
    throw new LocalError(`There is no Worker ${name} ${where}. See: startup-builder worker list`)
  }
  if (others.length > 0) {
    throw new LocalError(
      `Say --namespace: ${found.map((worker) => worker.namespace).join(', ')} each have a Worker ${name}.`,
    )
  }
  return only
}
