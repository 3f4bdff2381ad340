import { readersPerTurn, streamPageMax, streamWriteBytesMax, waitPollMs } from '../model/limits.ts'
import { eventJson } from './event.ts'
import { RecentEvents, type Batch, type FollowedEvent } from './recent.ts'
import type { Log } from './core.ts'
import { StoreUnavailable, type Store } from '../store/store.ts'

export type { Batch } from './recent.ts'

/** One follower's hold on the Events of a namespace. */
export interface Following {
  /**
   * The next Events after a seq, all of them on disk (R3); null when there are none yet, and the follower is told when there
   * are. Throws `StoreUnavailable`.
   */
  after(seq: number): Batch | null | Promise<Batch | null>
  stop(): void
}

/** What has begun when a namespace's Events are read, one after another, one page a turn of the event loop. */
type Reading = (namespace: string, after: number, limit: number) => Promise<FollowedEvent[]>

/**
 * The Events of each namespace as they come, for any number of followers (E1). An Event is read once and kept in memory for
 * a while; a follower keeps nothing here but its own position, so that who is slow costs nothing and holds up nobody.
 */
export class Streams {
  readonly #store: Store
  readonly #log: Log
  readonly #feeds = new Map<string, Feed>()
  readonly #stopListening: () => void
  #reading: Promise<unknown> = Promise.resolve()

  constructor(store: Store, log: Log) {
    this.#store = store
    this.#log = log
    this.#stopListening = store.listen((notice) => {
      if (this.#feeds.size > 0 && notice.kind === 'settled') this.#feeds.get(notice.action.namespace)?.look()
    })
  }

  /** Follows a namespace: `onNews` is called when Events may have come that `after` did not give yet. */
  follow(namespace: string, onNews: () => void): Following {
    const feed = this.#feeds.get(namespace) ?? new Feed(this.#store, this.#log, namespace, this.#inTurn)
    this.#feeds.set(namespace, feed)
    const follower = (): void => onNews()
    feed.add(follower)
    return {
      after: (seq) => feed.after(seq),
      stop: () => {
        if (feed.remove(follower) || this.#feeds.get(namespace) !== feed) return
        this.#feeds.delete(namespace)
        feed.close()
      },
    }
  }

  close(): void {
    this.#stopListening()
    for (const feed of this.#feeds.values()) feed.close()
    this.#feeds.clear()
  }

  /** However many read from far behind, calls have their turns between any two pages. */
  readonly #inTurn: Reading = (namespace, after, limit) => {
    const reading = this.#reading.then(async () => {
      await nextTurn()
      return readEvents(this.#store, namespace, after, limit)
    })
    this.#reading = reading.catch(() => undefined)
    return reading
  }
}

/** One namespace that is followed. */
class Feed {
  readonly #store: Store
  readonly #log: Log
  readonly #namespace: string
  readonly #inTurn: Reading
  readonly #followers = new Set<() => void>()
  readonly #recent = new RecentEvents()
  /** Pages that are being read for who is behind, by the seq after which they begin: those who wait there share one. */
  readonly #pages = new Map<number, Promise<Batch | null>>()
  readonly #opened: Promise<void>
  readonly #timer: NodeJS.Timeout
  /** Up to here Events are known; null until the store has told it. What came before is not in memory. */
  #head: number | null = null
  /** How many Events make about one write, by the size of those read last. */
  #pageSize = streamPageMax
  #isNews = false
  #isLooking = false
  #isClosed = false

  constructor(store: Store, log: Log, namespace: string, inTurn: Reading) {
    this.#store = store
    this.#log = log
    this.#namespace = namespace
    this.#inTurn = inTurn
    this.#opened = this.#open()
    // Whoever asks for the first Events is told what went wrong.
    this.#opened.catch(() => undefined)
    // A lost notice costs time and nothing else.
    this.#timer = setInterval(() => this.look(), waitPollMs).unref()
  }

  add(follower: () => void): void {
    this.#followers.add(follower)
  }

  /** Whether anybody follows still. */
  remove(follower: () => void): boolean {
    this.#followers.delete(follower)
    return this.#followers.size > 0
  }

  close(): void {
    this.#isClosed = true
    clearInterval(this.#timer)
  }

  after(seq: number): Batch | null | Promise<Batch | null> {
    if (this.#head === null) return this.#opened.then(() => this.after(seq))
    if (seq >= this.#head) return null
    return this.#recent.after(seq) ?? this.#pageAfter(seq)
  }

  /** There may be news. What comes while the followers are told of what came before is told in the next round. */
  look(): void {
    this.#isNews = true
    if (!this.#isLooking && this.#head !== null) void this.#rounds(this.#head)
  }

  async #open(): Promise<void> {
    this.#head = await this.#store.lastSeq(this.#namespace)
    // What was told meanwhile is looked for now.
    if (this.#isNews) this.look()
  }

  async #rounds(head: number): Promise<void> {
    this.#isLooking = true
    while (this.#isNews && !this.#isClosed) {
      this.#isNews = false
      const now = await this.#read(head)
      if (now === head) continue
      head = this.#head = now
      await this.#tell()
    }
    this.#isLooking = false
  }

  /** Reads what is new and gives the new head. */
  async #read(head: number): Promise<number> {
    try {
      const events = await readEvents(this.#store, this.#namespace, head, this.#pageSize)
      if (events.length === this.#pageSize) this.#isNews = true
      this.#fit(events)
      this.#recent.add(events)
      return events.at(-1)?.seq ?? head
    } catch (error) {
      // The next look, in a moment, reads what this one could not.
      if (!(error instanceof StoreUnavailable)) this.#log.error({ error, namespace: this.#namespace }, 'a stream fault')
      return head
    }
  }

  /** Tells the followers, some of them in each turn; meanwhile the head stays where it is, so that they meet there. */
  async #tell(): Promise<void> {
    let told = 0
    for (const follower of [...this.#followers]) {
      follower()
      if (++told % readersPerTurn === 0) await nextTurn()
    }
    await nextTurn()
  }

  #pageAfter(seq: number): Promise<Batch | null> {
    const known = this.#pages.get(seq)
    if (known !== undefined) return known
    const page = this.#inTurn(this.#namespace, seq, this.#pageSize)
      .then((events) => {
        this.#fit(events)
        return events.length === 0 ? null : oneWrite(events)
      })
      .finally(() => this.#pages.delete(seq))
    this.#pages.set(seq, page)
    return page
  }

  #fit(events: readonly FollowedEvent[]): void {
    if (events.length === 0) return
    const bytesEach = bytesOf(events) / events.length
    this.#pageSize = Math.min(Math.max(1, Math.floor(streamWriteBytesMax / bytesEach)), streamPageMax)
  }
}

/** Events after a seq. What is given is on disk: a read may see what is committed and not synced yet (R3). */
async function readEvents(store: Store, namespace: string, after: number, limit: number): Promise<FollowedEvent[]> {
  const events = await store.events(namespace, after, limit)
  await store.durable()
  return events.map((event) => ({ seq: event.seq, json: eventJson(event) }))
}

/** As many Events from the beginning of a page as one write takes. */
function oneWrite(events: readonly FollowedEvent[]): Batch {
  let bytes = 0
  const end = events.findIndex(({ json }) => (bytes += json.length) > streamWriteBytesMax)
  return end === -1 ? events : events.slice(0, Math.max(1, end))
}

function bytesOf(events: readonly FollowedEvent[]): number {
  return events.reduce((bytes, { json }) => bytes + json.length, 0)
}

function nextTurn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve))
}
