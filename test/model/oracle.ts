import type { Worker } from '../../src/model/worker.ts'
import type { Call } from '../../src/model/call.ts'

export type Fields = Readonly<Record<string, unknown>>
export type Status = 'pending' | 'succeeded' | 'failed' | 'refused'

/** A record with all that it ever was. Written from the contract alone: nothing of the engine is in here. */
export interface Rec {
  readonly noun: string
  readonly id: string
  /** Its Versions, from 1: the fields, null once deleted; and the Action that made each. */
  readonly history: { readonly fields: Fields | null; readonly action: string }[]
  readonly version: number
  /** Null: it was deleted. */
  readonly fields: Fields | null
}

class Kept implements Rec {
  readonly noun: string
  readonly id: string
  readonly history: { readonly fields: Fields | null; readonly action: string }[] = []
  constructor(noun: string, id: string) {
    this.noun = noun
    this.id = id
  }
  get version(): number {
    return this.history.length
  }
  get fields(): Fields | null {
    return this.history.at(-1)?.fields ?? null
  }
}

/** What a namespace holds. */
export class Space {
  readonly namespace: string
  readonly workers: readonly Worker[]
  readonly records = new Map<string, Kept>()
  /** Resources held by chains that failed after an effect (V6), by resource. */
  readonly stuck = new Map<string, string>()
  /** Resources that came free or were held for a while since the last look: who met them may have been told either. */
  readonly stuckLately = new Set<string>()
  readonly usage = new Map<string, number>()
  readonly items: { readonly kind: string; readonly action: string; decision: string | null }[] = []
  seq = 0

  constructor(namespace: string, workers: readonly Worker[]) {
    this.namespace = namespace
    this.workers = workers
  }

  idsOf(noun: string): string[] {
    return [...this.records.values()].filter((rec) => rec.noun === noun).map(({ id }) => id)
  }

  find(noun: string, id: string): Rec | undefined {
    return this.records.get(`${noun}/${id}`)
  }

  /** Live records with a field of this value, oldest first. */
  by(noun: string, field: string, value: unknown): Rec[] {
    return [...this.records.values()].filter(
      (rec) => rec.noun === noun && rec.fields?.[field] === value && value !== undefined,
    )
  }

  write(noun: string, id: string, fields: Fields | null, action: string): number {
    const known = this.records.get(`${noun}/${id}`) ?? new Kept(noun, id)
    this.records.set(`${noun}/${id}`, known)
    return known.history.push({ fields, action })
  }
}

/** One Action as the oracle knows it. */
export interface Known {
  readonly id: string
  readonly space: Space
  readonly worker: Worker
  readonly key: string
  /** What its key is bound to (K3). */
  readonly bound: { readonly operation: string; readonly target: string | null; readonly print: string }
  readonly verb: string
  readonly target: string | null
  readonly input: Fields
  readonly versions: Readonly<Record<string, number>>
  readonly after: string | null
  readonly on: string | null
  readonly root: string
  status: Status
  /** Its JSON once it is settled: the answer to every replay, for ever. */
  body: string | null
  /** A process died while it was pending: how often its steps were called is not known exactly. */
  shaken: boolean
}

export interface Chain {
  readonly members: Known[]
  readonly steps: Map<string, StepMade>
}
export interface StepMade {
  status: 'done' | 'rejected' | 'unknown'
  calls: number
  /** Whether the till took it under the present derived key. */
  isTaken: boolean
  /** Since when nobody knows how it ended, by the server's clock. */
  since?: number | undefined
}

/** A call to be sent, with what its answer is judged by. */
export interface Request {
  readonly call: Call
  readonly worker: Worker
  readonly space: Space
  readonly key: string
  readonly operation: string
  readonly target: string | null
  readonly input: Readonly<Record<string, unknown>>
  /** The input in one form for all that mean the same (K3). */
  readonly print: string
  /** Codes that it may be turned away with at the door; none: it must get in. */
  readonly door: readonly string[]
}

export class Oracle {
  readonly spaces: readonly Space[]
  readonly actions = new Map<string, Known>()
  readonly chains = new Map<string, Chain>()
  readonly requests: Request[] = []
  readonly closedGates = new Set<string>()
  readonly #keys = new Map<string, string>()
  readonly #counters = new Map<string, number>()

  constructor(spaces: readonly Space[]) {
    this.spaces = spaces
  }

  get hasClosedGates(): boolean {
    return this.closedGates.size > 0
  }

  /** Several Workers use the same keys, each for its own calls (K2). */
  newKey(worker: Worker): string {
    const n = (this.#counters.get(worker.id) ?? 0) + 1
    this.#counters.set(worker.id, n)
    return `key ${n}`
  }

  bound(workerId: string, key: string): Known | undefined {
    const id = this.#keys.get(`${workerId} ${key}`)
    return id === undefined ? undefined : this.actions.get(id)
  }

  add(known: Known): void {
    this.actions.set(known.id, known)
    this.#keys.set(`${known.worker.id} ${known.key}`, known.id)
    const chain: Chain = this.chains.get(known.root) ?? { members: [], steps: new Map() }
    chain.members.push(known)
    this.chains.set(known.root, chain)
  }

  chainOf(known: Known): Chain {
    const chain = this.chains.get(known.root)
    if (chain === undefined) throw new Error(`${known.id} has no chain`)
    return chain
  }

  /** Of a chain the Action that counts: the latest that was not refused (A2, W3). */
  latestOf(known: Known): Known {
    return this.chainOf(known).members.findLast((one) => one.status !== 'refused') ?? known
  }
}

/** How long the till is trusted to know a key (V2): it is asked again no later. */
const keyHoldsMs = 24 * 3_600_000

/** For how long at most a step of the chain is unknown; what started just before that is not known to the second. */
function unknownMs(chain: Chain, now: number): number {
  return Math.max(
    0,
    ...[...chain.steps.values()].map(({ status, since }) => (status === 'unknown' ? now - (since ?? now) : 0)),
  )
}

/** Whether a retry needs to be told how an unknown step ended (V3): `perhaps` within a minute of the moment. */
export function needsOutcome(chain: Chain, now: number): 'yes' | 'no' | 'perhaps' {
  const overMs = unknownMs(chain, now) - keyHoldsMs
  return Math.abs(overMs) < 60_000 ? 'perhaps' : overMs > 0 ? 'yes' : 'no'
}

/** Whether a step with an effect is done or unknown: then nothing settles `refused`, and what is held stays so (V5, V6). */
export function hasHappened(chain: Chain): boolean {
  return [...chain.steps.values()].some(({ status }) => status !== 'rejected')
}
