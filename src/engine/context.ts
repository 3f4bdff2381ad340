import { idInBlock } from '../model/ids.ts'
import type { Fixed, Seed } from '../model/journal.ts'
import { readsPerActionMax } from '../model/limits.ts'
import { seededRandom } from '../model/random.ts'
import type { IndexValue, LookupRead, Reads, RecordRead, RecordWrite, StoredRecord } from '../model/record.ts'
import { lookupResource, recordResource } from '../model/record.ts'
import type { Noun, Verb } from '../model/startup.ts'
import type { WaitingFor } from '../model/action.ts'
import { StoreUnavailable, type Blocked } from '../store/store.ts'
import { Buffered } from './buffered.ts'
import type { Running } from './running.ts'

/** Why an evaluation is over before the author's function is: nothing that it does from then on counts. */
export type Ending =
  | { readonly kind: 'conflict'; readonly read: readonly string[] }
  | { readonly kind: 'unavailable'; readonly error: Error }
  | { readonly kind: 'blocked'; readonly blocked: Blocked }
  | { readonly kind: 'lost' }
  | { readonly kind: 'given-back' }
  | { readonly kind: 'timed-out' }
  | { readonly kind: 'failed'; readonly code: string; readonly message: string }

/** Thrown into the author's function when its evaluation is over; an author who catches it gains nothing. */
export class EvaluationOver extends Error {
  override readonly name = 'EvaluationOver'
}

/**
 * What a Verb sees (V1), for one evaluation: reads that are remembered to be validated, writes that are buffered until the
 * settlement, and a clock, chance and ids of its own. What the author gets of it is in author.ts.
 */
export class VerbContext {
  readonly run: Running
  readonly verb: Verb
  input: unknown = undefined
  /** What the Action is metered with if it succeeds (E2). */
  units = 1
  readonly buffered: Buffered
  /** Null for a real run; a dry run's stand-ins and would-be journal otherwise (T1). */
  readonly dry: DryRun | null
  ending: Ending | null = null
  /** Resolves when the evaluation is over before the author's function. */
  readonly ended: Promise<{ ending: Ending }>
  readonly #readRecords = new Map<string, StoredRecord | Absent>()
  readonly #lookups: LookupRead[] = []
  /** The write that was begun last, while it is under way. */
  #writing: Promise<unknown> | null = null
  readonly #occurrences = new Map<string, number>()
  readonly #reached = new Set<string>()
  #resolveEnded: (ended: { ending: Ending }) => void = () => undefined
  #abort: AbortController | null = null
  #seed: Seed | null
  #random: (() => number) | null = null
  #created = 0
  #pendingWork = 0

  constructor(run: Running, verb: Verb, dry: DryRun | null = null) {
    this.run = run
    this.verb = verb
    this.dry = dry
    this.#seed = run.fixed?.seed ?? null
    this.buffered = new Buffered()
    this.ended = new Promise((resolve) => {
      this.#resolveEnded = resolve
    })
  }

  get signal(): AbortSignal {
    this.#abort ??= new AbortController()
    if (this.ending !== null) this.#abort.abort()
    return this.#abort.signal
  }

  /** The Verb's chance: numbers in [0, 1), the same sequence in every re-run after its first step with an effect (V1). */
  random(): number {
    this.#random ??= seededRandom(Buffer.from(this.seed().random, 'hex'))
    return this.#random()
  }

  /** Throws when the evaluation is over: whatever the author's function still does then must not count. */
  open(): void {
    if (this.ending !== null)
      throw new EvaluationOver(`this run of ${this.verb.operation} is over: ${this.ending.kind}`)
  }

  /** Ends the evaluation; the first ending stands. */
  end(ending: Ending): void {
    if (this.ending !== null) return
    this.ending = ending
    this.#abort?.abort()
    this.#resolveEnded({ ending })
  }

  /** Ends the evaluation from within the author's function. */
  stop(ending: Ending): never {
    this.end(ending)
    throw new EvaluationOver(`this run of ${this.verb.operation} is over: ${ending.kind}`)
  }

  /**
   * Runs a step, read or write that the author's function began. A store that is away ends the evaluation, as it is no
   * fault of the Verb; and a promise that the author forgot to await must not end the process when it rejects.
   */
  track<T>(work: () => Promise<T>): Promise<T> {
    const tracked = this.#tracked(work)
    tracked.catch(() => undefined)
    return tracked
  }

  /**
   * A write of the author's function, after those that it began before: each looks at the record, the id and the unique
   * values as the one before left them, also when several were begun at once (V6).
   */
  write<T>(work: () => Promise<T>): Promise<T> {
    return this.track(() => {
      const before = this.#writing
      const turn = before === null ? work() : before.then(work, work)
      const over = (): void => {
        if (this.#writing === turn) this.#writing = null
      }
      this.#writing = turn
      turn.then(over, over)
      return turn
    })
  }

  async #tracked<T>(work: () => Promise<T>): Promise<T> {
    this.open()
    this.#pendingWork++
    try {
      return await work()
    } catch (error) {
      if (error instanceof StoreUnavailable) this.stop({ kind: 'unavailable', error })
      throw error
    } finally {
      this.#pendingWork--
    }
  }

  /** Once the author's function has returned: a step or write that it did not await would be lost without a word. */
  mustBeIdle(): void {
    if (this.#pendingWork === 0) return
    throw new Error(
      `${this.verb.operation} returned before ${this.#pendingWork} of its steps, reads or writes had ended: await them`,
    )
  }

  seed(): Seed {
    return (this.#seed ??= {
      now: this.run.core.machine.now(),
      base: this.run.core.ids.next(),
      random: Buffer.from(this.run.core.machine.randomBytes(16)).toString('hex'),
    })
  }

  newId(noun: Noun): string {
    return noun.idPrefix + idInBlock(this.seed().base, this.#created++)
  }

  /** The step's occurrence under this name in this evaluation: `charge#1`. */
  nextStep(name: string): string {
    const occurrence = (this.#occurrences.get(name) ?? 0) + 1
    this.#occurrences.set(name, occurrence)
    const step = `${name}#${occurrence}`
    this.#reached.add(step)
    return step
  }

  get stepsReached(): ReadonlySet<string> {
    return this.#reached
  }

  /** A step that has run (or may have) and that this evaluation did not reach: the Verb has diverged from its journal (V2). */
  unreachedStep(): string | null {
    for (const entry of this.run.journal.values()) {
      const happened = entry.effect && entry.status !== 'rejected'
      if (happened && !this.#reached.has(entry.step)) return entry.step
    }
    return null
  }

  noun(name: string): Noun {
    const noun = this.run.plan.startup.nouns.get(name)
    if (noun === undefined) throw new Error(`${this.run.plan.startup.namespace} has no Noun ${name}`)
    return noun
  }

  /** A live record as this evaluation sees it, its own writes apart; null when there is none. Repeatable. */
  async read(noun: string, id: string): Promise<StoredRecord | null> {
    const resource = recordResource(noun, id)
    const known = this.#readRecords.get(resource)
    if (known !== undefined) return liveOrNull(known)
    const { store, plan } = { store: this.run.core.store, plan: this.run.plan }
    const fixed = this.fixedVersion(noun, id)
    const record =
      fixed === undefined
        ? await store.record(plan.claim.namespace, noun, id)
        : fixed > 0
          ? await store.recordAt(plan.claim.namespace, noun, id, fixed)
          : null
    this.open()
    // Two reads of one record at once: the first answer stands, so that the evaluation sees one Version of it.
    const first = this.#readRecords.get(resource)
    if (first !== undefined) return liveOrNull(first)
    const seen = record === null ? { noun, id, version: fixed ?? 0, absent: true as const } : this.completed(record)
    this.#remember(resource, seen)
    return liveOrNull(seen)
  }

  #remember(resource: string, seen: StoredRecord | Absent): void {
    if (this.#readRecords.size >= readsPerActionMax)
      throw new RangeError(`an Action may read ${readsPerActionMax} records at most`)
    this.#readRecords.set(resource, seen)
  }

  /** Live records by an index, as this evaluation sees them, its own writes apart; remembered against phantoms (V6). */
  async lookUp(noun: string, field: string, value: IndexValue, limit: number): Promise<readonly StoredRecord[]> {
    const fixed = this.run.fixed?.reads.lookups.find(
      (lookup) => lookup.noun === noun && lookup.field === field && lookup.value === value && lookup.limit === limit,
    )
    const earlier = this.#lookups.find(
      (lookup) => lookup.noun === noun && lookup.field === field && lookup.value === value && lookup.limit === limit,
    )
    const known = fixed ?? earlier
    if (known !== undefined) return this.#again(known)
    const found = await this.run.core.store.find(this.run.plan.claim.namespace, noun, field, value, limit)
    this.open()
    this.#lookups.push({ noun, field, value, limit, found: found.map(({ id, version }) => ({ id, version })) })
    const records: StoredRecord[] = []
    for (const record of found) {
      const resource = recordResource(noun, record.id)
      const seen = this.#readRecords.get(resource)
      if (seen === undefined) this.#remember(resource, this.completed(record))
      const live = liveOrNull(seen ?? this.completed(record))
      if (live !== null) records.push(live)
    }
    return records
  }

  async #again(lookup: LookupRead): Promise<readonly StoredRecord[]> {
    const records: StoredRecord[] = []
    for (const { id } of lookup.found) {
      const record = await this.read(lookup.noun, id)
      if (record !== null) records.push(record)
    }
    return records
  }

  /** The Version that the chain's first effect fixed for a record: 0 or less when it was absent, undefined when unread. */
  fixedVersion(noun: string, id: string): number | undefined {
    return this.run.fixed?.reads.records.find((read) => read.noun === noun && read.id === id)?.version
  }

  /** Whether a record that was read and found absent had been there once. */
  wasDeleted(noun: string, id: string): boolean {
    return (this.#readRecords.get(recordResource(noun, id))?.version ?? 0) < 0
  }

  completed(record: StoredRecord): StoredRecord {
    if (record.version < 0) return record
    const fields = this.noun(record.noun).complete(record.fields)
    return fields === record.fields ? record : { ...record, fields }
  }

  /** What was read since the last effect's start: what the next commit must validate (V6). */
  unfixedReads(): Reads {
    const fixed = this.run.fixed?.reads
    const records: RecordRead[] = []
    for (const { noun, id, version } of this.#readRecords.values()) {
      if (fixed === undefined || this.fixedVersion(noun, id) === undefined) records.push({ noun, id, version })
    }
    const lookups =
      fixed === undefined ? this.#lookups : this.#lookups.filter((lookup) => !fixed.lookups.includes(lookup))
    return { records, lookups }
  }

  resourcesRead(): string[] {
    const records = [...this.#readRecords.values()].map(({ noun, id }) => recordResource(noun, id))
    return [...records, ...this.#lookups.map(({ noun, field, value }) => lookupResource(noun, field, value))]
  }

  /**
   * What the start of a step with an effect fixes (V6): everything read so far; and on the first one, the holds: the target,
   * and what was read and looked up of each Noun that the Verb writes or declares nothing for.
   */
  fixedNow(): Fixed {
    const before = this.run.fixed
    const unfixed = this.unfixedReads()
    const reads = {
      records: [...(before?.reads.records ?? []), ...unfixed.records],
      lookups: [...(before?.reads.lookups ?? []), ...unfixed.lookups],
    }
    return { seed: this.seed(), reads, holds: before?.holds ?? this.#holds(reads) }
  }

  #holds(reads: Reads): string[] {
    const holds = new Set<string>()
    if (this.run.plan.claim.target !== null) holds.add(recordResource(this.verb.noun, this.run.plan.claim.target))
    for (const { noun, id } of reads.records) if (this.#holdsNoun(noun)) holds.add(recordResource(noun, id))
    for (const { noun, field, value } of reads.lookups)
      if (this.#holdsNoun(noun)) holds.add(lookupResource(noun, field, value))
    return [...holds]
  }

  #holdsNoun(noun: string): boolean {
    return this.verb.writes.has(noun) || !this.verb.reads.has(noun)
  }

  writes(): readonly RecordWrite[] {
    return this.buffered.writes()
  }
}

/** A dry run's own: which steps would have run, and where it ends for want of a stand-in (T1). */
export interface DryRun {
  readonly steps: { readonly step: string; readonly status: 'done'; readonly attempts: 0 }[]
  incomplete: string | null
  waitingFor: WaitingFor | null
}

interface Absent extends RecordRead {
  readonly absent: true
}

function liveOrNull(seen: StoredRecord | Absent): StoredRecord | null {
  return 'absent' in seen || seen.version <= 0 ? null : seen
}
