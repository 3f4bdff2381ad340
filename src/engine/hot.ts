import type { Answer, Call } from '../model/call.ts'
import { hotReplaysBytesMax } from '../model/limits.ts'

type ActionAnswer = Answer & { kind: 'action' }

interface HotReplay {
  readonly nouns: string
  readonly id: string | null
  readonly verb: string
  readonly body: Uint8Array
  readonly answer: ActionAnswer
  readonly bytes: number
}

/**
 * A bounded memory of settled answers: the same Worker, key, route and raw body again is the replay of this very Action,
 * known before anything is parsed (K4). A settled Action never changes, so nothing here ever goes stale; whatever
 * differs in a byte takes the long way, which decides.
 */
export class HotReplays {
  readonly #replays = new Map<string, HotReplay>()
  #bytes = 0

  find(call: Call): ActionAnswer | undefined {
    if (call.key === null) return undefined
    const name = flightName(call.worker.id, call.key)
    const hot = this.#replays.get(name)
    if (hot === undefined || !isSameRequest(hot, call)) return undefined
    // Most recently used last: eviction takes from the front.
    this.#replays.delete(name)
    this.#replays.set(name, hot)
    return hot.answer
  }

  remember(call: Call, answer: ActionAnswer): void {
    if (call.key === null || answer.status === 'pending') return
    const name = flightName(call.worker.id, call.key)
    if (this.#replays.has(name)) return
    const bytes = name.length * 2 + call.body.length + answer.body.length + entryOverheadBytes
    if (bytes > hotReplaysBytesMax / 64) return
    const { nouns, id, verb } = call.route
    this.#replays.set(name, { nouns, id, verb, body: call.body, answer: { ...answer, replayed: true }, bytes })
    this.#bytes += bytes
    this.#evict()
  }

  #evict(): void {
    for (const [name, hot] of this.#replays) {
      if (this.#bytes <= hotReplaysBytesMax) return
      this.#replays.delete(name)
      this.#bytes -= hot.bytes
    }
  }
}

/** What a Map entry and its objects cost besides the bytes they point at; measured, rounded up. */
const entryOverheadBytes = 400

/** A key's name within this process: a key belongs to a Worker (K2), whose id has no space. */
export function flightName(workerId: string, key: string): string {
  return `${workerId} ${key}`
}

function isSameRequest(hot: HotReplay, call: Call): boolean {
  const { route, body } = call
  if (hot.verb !== route.verb || hot.id !== route.id || hot.nouns !== route.nouns) return false
  return Buffer.compare(hot.body, body) === 0
}
