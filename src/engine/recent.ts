import { recentEventsBytesMax, streamWriteBytesMax } from '../model/limits.ts'

/** An Event as it is told to a follower: its JSON is made once for all of them. */
export interface FollowedEvent {
  readonly seq: number
  readonly json: string
}

/**
 * Events that follow one another, at least one. Whoever asks from the same position is given the same array, so that what
 * is made of it can be made once.
 */
export type Batch = readonly FollowedEvent[]

/** Neighbours in one piece, so that followers who were at different places meet again at its end. */
interface Block {
  readonly events: FollowedEvent[]
  bytes: number
  /** What was given from within, by the seq after which it begins. */
  readonly given: Map<number, Batch>
}

/** Batches of one block that are remembered; whoever is late meets others at the block's end. */
const givenMax = 4

/** The newest Events of a namespace, without gaps, bounded in bytes; the oldest go first. */
export class RecentEvents {
  readonly #blocks: Block[] = []
  #bytes = 0

  /** Adds Events that follow the last one. */
  add(events: readonly FollowedEvent[]): void {
    for (const event of events) this.#addOne(event)
    while (this.#bytes > recentEventsBytesMax && this.#blocks.length > 1) {
      this.#bytes -= this.#blocks.shift()?.bytes ?? 0
    }
  }

  /** What follows a seq, one batch of it; null when it is not here: older than all, or nothing follows yet. */
  after(seq: number): Batch | null {
    for (let i = this.#blocks.length - 1; i >= 0; i--) {
      const block = this.#blocks[i]
      const first = block?.events[0]?.seq
      if (block === undefined || first === undefined || first > seq + 1) continue
      const at = seq + 1 - first
      return at < block.events.length ? batchOf(block, at, seq) : null
    }
    return null
  }

  #addOne(event: FollowedEvent): void {
    let block = this.#blocks.at(-1)
    const bytes = event.json.length
    if (block === undefined || block.bytes + bytes > streamWriteBytesMax) {
      block = { events: [], bytes: 0, given: new Map() }
      this.#blocks.push(block)
    }
    block.events.push(event)
    block.bytes += bytes
    block.given.clear()
    this.#bytes += bytes
  }
}

function batchOf({ events, given }: Block, at: number, seq: number): Batch {
  const known = given.get(seq)
  if (known !== undefined) return known
  const batch = events.slice(at)
  if (given.size >= givenMax) given.clear()
  given.set(seq, batch)
  return batch
}
