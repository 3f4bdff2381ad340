import type { Action } from '../model/action.ts'
import { waitPollMs } from '../model/limits.ts'
import type { Store } from '../store/store.ts'

/**
 * Who waits for an Action to settle, or for a held resource to come free. Woken by what the store tells; looked at
 * again now and then, so that a lost notice costs time and nothing else.
 */
export class Waiters {
  readonly #store: Store
  readonly #machine: { now(): number }
  readonly #bySubject = new Map<string, Set<() => void>>()
  readonly #sleepers = new Set<() => void>()
  readonly #stopListening: () => void

  constructor(store: Store, machine: { now(): number }) {
    this.#store = store
    this.#machine = machine
    this.#stopListening = store.listen((notice) => {
      if (this.#bySubject.size === 0) return
      if (notice.kind === 'settled') this.#wake(notice.action.id)
      else for (const resource of notice.resources) this.#wake(resource)
    })
  }

  /** Waits until an Action is settled, for at most `ms`; gives it as it then is. */
  async settled(action: Action, ms: number): Promise<Action> {
    let current = action
    let leftMs = ms
    while (current.status === 'pending' && leftMs > 0) {
      const woken = this.subject(current.id, Math.min(leftMs, waitPollMs))
      // Looked at after the waiting began, so that a settlement in between is seen.
      current = (await this.#store.action(current.namespace, current.id)) ?? current
      if (current.status !== 'pending') break
      leftMs -= await woken
      current = (await this.#store.action(current.namespace, current.id)) ?? current
    }
    return current
  }

  /** Waits for news of an Action or a resource, for at most `ms`. Gives the milliseconds that were reckoned for the wait. */
  subject(subject: string, ms: number): Promise<number> {
    return new Promise((resolve) => {
      const started = this.#machine.now()
      const waiting = this.#bySubject.get(subject) ?? new Set()
      this.#bySubject.set(subject, waiting)
      const end = (): void => {
        clearTimeout(timer)
        waiting.delete(end)
        this.#sleepers.delete(end)
        if (waiting.size === 0 && this.#bySubject.get(subject) === waiting) this.#bySubject.delete(subject)
        resolve(this.#machine.now() - started)
      }
      const timer = setTimeout(end, ms)
      waiting.add(end)
      this.#sleepers.add(end)
    })
  }

  /** Sleeps for `ms`, or until the engine stops. */
  sleep(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const end = (): void => {
        clearTimeout(timer)
        this.#sleepers.delete(end)
        resolve()
      }
      const timer = setTimeout(end, ms)
      this.#sleepers.add(end)
    })
  }

  close(): void {
    this.#stopListening()
    for (const end of [...this.#sleepers]) end()
  }

  #wake(subject: string): void {
    for (const end of [...(this.#bySubject.get(subject) ?? [])]) end()
  }
}
