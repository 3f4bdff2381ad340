import { ask } from './ask.ts'
import type { ActionView } from './shown.ts'

/** How long one look waits for an Action to settle, in seconds; and how many are followed at once. */
const waitSeconds = 30
const followedMax = 100

/** How many settled Actions are remembered as told. */
const toldMax = 10_000

/** A definition that serves, to be asked. */
export interface Served {
  readonly url: string
  readonly signal: AbortSignal
  readonly tokens: Readonly<Record<string, string>>
}

/** Follows pending Actions until they settle, over as many definitions as that takes, and tells of each once. */
export class Follower {
  readonly #pending = new Map<string, string>()
  readonly #told = new Set<string>()
  readonly #tell: (action: ActionView) => void
  #served: Served | null = null

  constructor(tell: (action: ActionView) => void) {
    this.#tell = tell
  }

  /** From here on this definition serves: what is pending is followed there, what it found pending too. */
  async begin(served: Served): Promise<void> {
    this.#served = served
    for (const id of this.#pending.keys()) void this.#follow(id, served)
    for (const [namespace, token] of Object.entries(served.tokens)) {
      const path = `/${namespace}/actions?status=pending&limit=${followedMax}`
      const list = await ask(served.url, path, token, served.signal)
      const { data = [] } = (list?.body ?? {}) as { data?: readonly ActionView[] }
      for (const { id } of data) this.add(namespace, id)
    }
  }

  /** An Action that was shown as pending. */
  add(namespace: string, id: string): void {
    if (this.#pending.has(id) || this.#pending.size >= followedMax || this.#told.has(id)) return
    this.#pending.set(id, namespace)
    if (this.#served !== null) void this.#follow(id, this.#served)
  }

  /** Notes a settled Action as told; false: it was before. */
  isNew(id: string): boolean {
    this.#pending.delete(id)
    if (this.#told.has(id)) return false
    this.#told.add(id)
    const [oldest] = this.#told
    if (this.#told.size > toldMax && oldest !== undefined) this.#told.delete(oldest)
    return true
  }

  async #follow(id: string, served: Served): Promise<void> {
    const { url, signal, tokens } = served
    const namespace = this.#pending.get(id)
    while (namespace !== undefined && this.#pending.has(id) && !signal.aborted) {
      const path = `/${namespace}/actions/${id}?wait=${waitSeconds}`
      const answer = await ask(url, path, tokens[namespace] ?? '', signal)
      if (answer === null) return
      const action = answer.body as ActionView
      if (answer.status !== 200 && answer.status !== 202) return void this.#pending.delete(id)
      if (action.status !== 'pending' && this.isNew(id)) this.#tell(action)
    }
  }
}
