import { fdatasync, fdatasyncSync } from 'node:fs'

/** A sync of the log that takes longer than this, in milliseconds, must not hold up the event loop. */
const quickMsMax = 0.5

/** Quick syncs in a row after which the next may be done on the serving thread; a slow one there begins the count anew. */
const quickBefore = 16

/**
 * Makes the log durable. On a thread of its own it never holds the event loop up, but to wake that thread and to be woken
 * by it costs more than the sync itself does on a quick disk; so where syncs are quick, and only one Action waits for this
 * one, it is done at once.
 */
export class LogSync {
  readonly #fd: number
  readonly #nowMs: () => number
  #quick = 0

  /** `nowMs` is a steady clock, such as `performance.now`. */
  constructor(fd: number, nowMs: () => number) {
    this.#fd = fd
    this.#nowMs = nowMs
  }

  get isQuick(): boolean {
    return this.#quick >= quickBefore
  }

  /** Syncs before it returns, and gives the milliseconds that it took; throws what the system says. */
  atOnce(): number {
    const began = this.#nowMs()
    fdatasyncSync(this.#fd)
    return this.#took(this.#nowMs() - began)
  }

  /** Syncs while the event loop goes on. */
  meanwhile(done: (error: Error | null, ms: number) => void): void {
    const began = this.#nowMs()
    fdatasync(this.#fd, (error) => {
      done(error, this.#took(this.#nowMs() - began))
    })
  }

  #took(ms: number): number {
    this.#quick = ms <= quickMsMax ? this.#quick + 1 : 0
    return ms
  }
}
