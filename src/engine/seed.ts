import { fingerprint } from '../model/fingerprint.ts'
import { checkKey } from '../model/key.ts'
import type { Answer, Call } from '../model/call.ts'
import type { SeedCall, Startup } from '../model/startup.ts'
import type { Worker } from '../model/worker.ts'
import type { Core } from './core.ts'

/** The built-in Worker that seeds a new store; no person can add one of this name. */
export const builtinWorkerName = 'startup-builder'

/** The door that every call passes, a seed's too. */
type CallDoor = (request: Call) => Promise<Answer>

/** A seed that did not succeed: the definition is to be mended before anything is served. */
export class SeedFailed extends Error {
  override readonly name = 'SeedFailed'
}

/**
 * Plants a Startup's seed on a new store, once: Actions of a built-in Worker, each under a key of its own, so that a start
 * that was cut off is taken up where it ended.
 */
export async function plant(core: Core, startup: Startup, call: CallDoor): Promise<void> {
  if (core.deployed.get(startup.namespace)?.seeded !== false) return
  if (startup.seed.length > 0) {
    const worker = await builtinWorker(core, startup.namespace)
    for (const [index, seed] of startup.seed.entries()) await sow(startup, worker, seed, index, call)
  }
  await core.store.markSeeded(startup.namespace)
}

async function builtinWorker(core: Core, namespace: string): Promise<Worker> {
  const known = (await core.store.workers(namespace)).find(({ name }) => name === builtinWorkerName)
  if (known !== undefined) return known
  const worker: Worker = {
    id: `worker_${core.ids.next()}`,
    namespace,
    name: builtinWorkerName,
    kind: 'app',
    grants: ['*'],
  }
  await core.store.addWorker(worker, null, null)
  return worker
}

async function sow(startup: Startup, worker: Worker, seed: SeedCall, index: number, call: CallDoor): Promise<void> {
  const [nounName = '', verb = ''] = seed.operation.split('.')
  const plural = startup.nouns.get(nounName)?.plural ?? ''
  const print = fingerprint([seed.operation, seed.target, seed.input]).toString('hex').slice(0, 16)
  for (let attempt = 1; ; attempt++) {
    const key = checkKey(`seed-${index + 1}-${print}-${attempt}`)
    const answer = await call({
      worker,
      route: { namespace: startup.namespace, nouns: plural, id: seed.target, verb },
      key,
      mode: 'do',
      waitMs: 60_000,
      versions: { records: new Map() },
      decidedAfter: null,
      body: Buffer.from(JSON.stringify(seed.input)),
    })
    if (answer.kind === 'action' && answer.status === 'succeeded') return
    // One that failed at an earlier start keeps its key for ever; a mended definition sows under the next.
    if (answer.kind === 'action' && answer.replayed && answer.status !== 'pending') continue
    throw new SeedFailed(
      `seed ${index + 1} (${seed.operation}) of ${startup.namespace} did not succeed: ${describe(answer)}`,
    )
  }
}

function describe(answer: Answer): string {
  if (answer.kind === 'try') return 'it was only tried'
  const action = JSON.parse(Buffer.from(answer.body).toString('utf8')) as {
    status: string
    error: unknown
    fix: unknown
  }
  return `${action.status} ${JSON.stringify(action.error ?? action.fix)}`
}
