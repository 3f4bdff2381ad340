import { createHash, randomBytes } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect } from 'vitest'
import type { Outcome } from '../../../src/model/action.ts'
import { IdSource, type ActionId } from '../../../src/model/ids.ts'
import type { Fixed, JournalEntry } from '../../../src/model/journal.ts'
import { checkKey } from '../../../src/model/key.ts'
import type { Manifest, ManifestNoun } from '../../../src/model/manifest.ts'
import type { Fields, IndexChange, IndexValue, Reads, RecordWrite, StoredRecord } from '../../../src/model/record.ts'
import type { Worker } from '../../../src/model/worker.ts'
import type { Claim, Lease, Settlement, SettleAnswer, Store, StoreOptions } from '../../../src/store/store.ts'

/** A store to which the suite is put: over real files, closed and opened again at will. */
export interface StoreUnderTest {
  readonly name: string
  open(place: string, options: StoreOptions & { readonly keysInMemory?: number }): Promise<Store>
  /** As an administrator's command does, beside a server. */
  openAdmin(place: string, options: StoreOptions): Promise<Store>
}

export const namespace = 'kiln.test'

export const orderNoun: ManifestNoun = {
  noun: 'Order',
  plural: 'orders',
  fields: [
    { field: 'status', required: true, default: null },
    { field: 'total', required: true, default: null },
    { field: 'note', required: false, default: null },
  ],
  index: ['status', 'note'],
  unique: [],
}

export const customerNoun: ManifestNoun = {
  noun: 'Customer',
  plural: 'customers',
  fields: [
    { field: 'email', required: true, default: null },
    { field: 'city', required: false, default: null },
  ],
  index: ['city'],
  unique: ['email'],
}

export const manifest: Manifest = {
  namespace,
  nouns: [orderNoun, customerNoun],
  verbs: [
    { operation: 'Order.place', noun: 'Order', verb: 'place', target: 'collection' },
    { operation: 'Order.refund', noun: 'Order', verb: 'refund', target: 'record' },
  ],
}

export const noReads: Reads = { records: [], lookups: [] }
export const placed: Outcome = { status: 'succeeded', output: '{"ok":true}' }
export const failed: Outcome = {
  status: 'failed',
  error: { code: 'verb-threw', message: 'It threw.', retry: 'advised' },
}
export const refused: Outcome = { status: 'refused', fix: { code: 'no', message: 'Not now.' } }

type ClaimWish = Partial<Omit<Claim, 'key'>> & { readonly key?: string | null }
type SettleWish = Partial<Omit<Settlement, 'by'>>

/** What a test does with a store: calls with few words, on a clock of its own. */
export class Bench {
  readonly under: StoreUnderTest
  readonly place: string
  nowMs = Date.UTC(2026, 10, 30, 12)
  readonly doubts: Error[] = []
  store!: Store
  #ids = new IdSource(
    () => this.nowMs,
    (bytes) => randomBytes(bytes),
  )
  #keys = 0

  constructor(under: StoreUnderTest, place: string) {
    this.under = under
    this.place = place
  }

  get options(): StoreOptions {
    return {
      machine: { now: () => this.nowMs, randomBytes: (bytes) => randomBytes(bytes) },
      onDoubt: (reason) => this.doubts.push(reason),
    }
  }

  async open(keysInMemory?: number): Promise<Store> {
    this.store = await this.under.open(
      this.place,
      keysInMemory === undefined ? this.options : { ...this.options, keysInMemory },
    )
    return this.store
  }

  async reopen(keysInMemory?: number): Promise<Store> {
    await this.store.close()
    return this.open(keysInMemory)
  }

  id(): string {
    return this.#ids.next()
  }

  async worker(name: string, of = namespace): Promise<Worker> {
    const worker: Worker = { id: `worker_${this.id()}`, namespace: of, name, kind: 'app', grants: ['*'] }
    expect(await this.store.addWorker(worker, null, null)).toBe('added')
    return worker
  }

  claim(worker: Worker, wish: ClaimWish = {}): Claim {
    const verb = wish.verb ?? 'Order.place'
    const input = wish.input ?? '{"offer":"offer_1"}'
    const target = wish.target ?? null
    const { key, ...rest } = wish
    return {
      id: `act_${this.id()}`,
      namespace: worker.namespace,
      workerId: worker.id,
      worker: worker.name,
      key: key === null ? null : checkKey(key ?? `key-${++this.#keys}`),
      bound: { operation: verb, target, fingerprint: fingerprintOf(input) },
      verb,
      target,
      input,
      mode: 'do',
      on: null,
      decidedAgainst: {},
      decidedAfter: [],
      createdAt: this.nowMs,
      waitingFor: null,
      running: true,
      ...rest,
    }
  }

  settlement(by: Settlement['by'], wish: SettleWish = {}): Settlement {
    const outcome = wish.outcome ?? placed
    return {
      by,
      outcome,
      eventType: outcome.status === 'succeeded' ? 'Order.placed' : `Order.place.${outcome.status}`,
      steps: [],
      reads: noReads,
      writes: [],
      units: outcome.status === 'succeeded' ? 1 : 0,
      item: null,
      holds: 'release',
      ...wish,
    }
  }

  /** One commit for claim and settlement. */
  async settle(worker: Worker, wish: SettleWish = {}, claim: ClaimWish = {}): Promise<SettleAnswer> {
    return this.store.settle(this.settlement({ claim: this.claim(worker, claim) }, wish))
  }

  async settled(worker: Worker, wish: SettleWish = {}, claim: ClaimWish = {}) {
    return mustSettle(await this.settle(worker, wish, claim))
  }

  async end(lease: Lease, wish: SettleWish = {}) {
    return this.store.settle(this.settlement({ lease }, wish))
  }

  async claimed(worker: Worker, wish: ClaimWish = {}) {
    const answer = await this.store.claim(this.claim(worker, wish))
    if (answer.kind !== 'claimed') throw new Error(`claimed expected, got ${answer.kind}`)
    return answer
  }

  retry(worker: Worker, on: ActionId, steps: NonNullable<Claim['retry']>['steps'] = null, wish: ClaimWish = {}) {
    return this.store.claim(
      this.claim(worker, {
        on,
        retry: { steps },
        bound: { operation: 'Action.retry', target: on, fingerprint: fingerprintOf('{}') },
        ...wish,
      }),
    )
  }

  entry(action: ActionId, wish: Partial<JournalEntry> = {}): JournalEntry {
    return {
      step: 'charge#1',
      generation: 0,
      status: 'started',
      input: '{"amount":4900}',
      outcome: null,
      attempts: 1,
      startedAt: this.nowMs,
      effect: true,
      atMostOnce: false,
      keyHoldsMs: 86_400_000,
      action,
      ...wish,
    }
  }

  startStep(
    lease: Lease,
    wish: Partial<JournalEntry> = {},
    holds: readonly string[] = [],
    reads = noReads,
    keep: readonly string[] | null = null,
  ) {
    const fixed: Fixed = { seed: { now: this.nowMs, base: `${'0'.repeat(26)}`, random: '00'.repeat(16) }, reads, holds }
    return this.store.startStep({
      lease,
      entry: this.entry(lease.action, wish),
      effect: wish.effect === false ? null : { reads, fixed, keep },
      ranMs: 5,
    })
  }

  /** An Action that fails after its step may have charged: it keeps what it holds. */
  async failAfterEffect(worker: Worker, holds: readonly string[] = [], wish: Partial<JournalEntry> = {}) {
    const { lease } = await this.claimed(worker)
    expect(await this.startStep(lease, wish, holds)).toEqual({ kind: 'started' })
    const entry = this.entry(lease.action, { status: 'unknown', ...wish })
    expect(await this.store.endStep(lease, entry, 10)).toBe('ok')
    const item = { id: `item_${this.id()}` as const, kind: 'failed' as const, records: {}, would: null }
    return mustSettle(await this.end(lease, { outcome: failed, holds: 'keep', item }))
  }

  async record(noun: string, id: string): Promise<StoredRecord> {
    const record = await this.store.record(namespace, noun, id)
    if (record === null) throw new Error(`no ${noun} ${id}`)
    return record
  }

  /** No invariant is broken. */
  async verifyClean(): Promise<void> {
    const faults: string[] = []
    await this.store.verify((fault) => faults.push(fault))
    expect(faults).toEqual([])
  }
}

/** A bench with an open store, a Worker and the definition, for each test; the store is audited at the end of each. */
export function benchForEach(under: StoreUnderTest): { readonly bench: Bench; readonly worker: Worker } {
  let bench: Bench
  let worker: Worker
  let folder: string
  beforeEach(async () => {
    folder = mkdtempSync(join(tmpdir(), 'store-'))
    bench = new Bench(under, join(folder, 'kiln.db'))
    await bench.open()
    expect((await bench.store.deploy(manifest)).faults).toEqual([])
    worker = await bench.worker('checkout')
  })
  afterEach(async () => {
    await bench.verifyClean()
    expect(bench.doubts).toEqual([])
    await bench.store.close()
    rmSync(folder, { recursive: true })
  })
  return {
    get bench() {
      return bench
    },
    get worker() {
      return worker
    },
  }
}

export function mustSettle(answer: SettleAnswer) {
  if (answer.kind !== 'settled') throw new Error(`settled expected, got ${JSON.stringify(answer)}`)
  return answer.action
}

export function fingerprintOf(text: string): Uint8Array {
  return new Uint8Array([1, ...createHash('sha256').update(text).digest()])
}

export function createOf(noun: ManifestNoun, id: string, fields: Fields): RecordWrite {
  return writeOf(noun, id, 'create', 1, {}, fields)
}

export function updateOf(noun: ManifestNoun, record: StoredRecord, patch: Fields): RecordWrite {
  const fields = Object.fromEntries(
    Object.entries({ ...record.fields, ...patch }).filter(([, value]) => value !== undefined),
  )
  return writeOf(noun, record.id, 'update', record.version + 1, record.fields, fields)
}

export function deleteOf(noun: ManifestNoun, record: StoredRecord): RecordWrite {
  return writeOf(noun, record.id, 'delete', record.version + 1, record.fields, {})
}

/** As the engine makes a write: what changed, and which index entries come and go. */
function writeOf(
  noun: ManifestNoun,
  id: string,
  kind: RecordWrite['kind'],
  version: number,
  before: Fields,
  after: Fields,
): RecordWrite {
  const names = [...new Set([...Object.keys(before), ...Object.keys(after)])]
  const changes = names
    .filter((field) => JSON.stringify(before[field]) !== JSON.stringify(after[field]))
    .map((field) => ({
      field,
      ...(Object.hasOwn(before, field) ? { from: before[field] } : {}),
      ...(Object.hasOwn(after, field) ? { to: after[field] } : {}),
    }))
  const indexes = [...noun.index, ...noun.unique].flatMap((field): IndexChange[] => {
    const [from, to] = [before[field] as IndexValue | undefined, after[field] as IndexValue | undefined]
    if (from === to) return []
    const unique = noun.unique.includes(field)
    return [{ field, unique, ...(from === undefined ? {} : { from }), ...(to === undefined ? {} : { to }) }]
  })
  return { kind, noun: noun.noun, id, version, fields: after, changes, indexes }
}

export const order = (id: string, fields: Fields = {}) =>
  createOf(orderNoun, id, { status: 'placed', total: 10, ...fields })
export const customer = (id: string, email: string, fields: Fields = {}) =>
  createOf(customerNoun, id, { email, ...fields })
