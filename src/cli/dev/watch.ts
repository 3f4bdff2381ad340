import { watch, type FSWatcher } from 'node:fs'
import { dirname } from 'node:path'
import { signatureOf } from './signature.ts'

/** Saves that follow one another as fast as this are one, in milliseconds. */
const burstMs = 60

/** How often files are looked at where the system doesn't tell of a change, as on network drives, in milliseconds. */
const pollMs = 1_000

/**
 * Tells when a file is no longer what it was when it was read. Folders are watched, not files, since editors save by putting
 * a new file in the old one's place; what a watch tells is only a reason to look, so that none too many and none too few
 * matters.
 */
export class Watcher {
  readonly #read = new Map<string, string>()
  readonly #folders = new Map<string, FSWatcher | null>()
  readonly #poll = setInterval(() => this.#look(), pollMs)
  #stale = Promise.withResolvers<void>()
  #burst: NodeJS.Timeout | null = null
  #seen = ''

  /** Begins anew with files as they are now. The promise resolves when one of these, or of those added, has changed. */
  begin(paths: Iterable<string>): Promise<void> {
    this.#read.clear()
    this.#stale = Promise.withResolvers<void>()
    for (const path of paths) this.add(path, signatureOf(path))
    return this.#stale.promise
  }

  /** A file as it was when it was read. */
  add(path: string, signature: string): void {
    this.#read.set(path, signature)
    this.#watchFolder(dirname(path))
    if (signatureOf(path) !== signature) this.#look()
  }

  get paths(): readonly string[] {
    return [...this.#read.keys()]
  }

  /** As if a file had changed. */
  poke(): void {
    this.#stale.resolve()
  }

  close(): void {
    clearInterval(this.#poll)
    if (this.#burst !== null) clearTimeout(this.#burst)
    for (const folder of this.#folders.values()) folder?.close()
  }

  #watchFolder(folder: string): void {
    if (this.#folders.has(folder)) return
    try {
      const watcher = watch(folder, () => this.#look())
      // A folder that goes, or a system that has no more watches to give: looking now and then remains.
      watcher.on('error', () => {
        watcher.close()
        this.#folders.set(folder, null)
      })
      this.#folders.set(folder, watcher)
    } catch {
      this.#folders.set(folder, null)
    }
  }

  /** Waits until files that have changed stay as they are. */
  #look(): void {
    const now = this.paths.map(signatureOf).join()
    const isStale = now !== [...this.#read.values()].join()
    if (!isStale && this.#burst === null) return
    if (this.#burst !== null && now === this.#seen) return
    this.#seen = now
    if (this.#burst !== null) clearTimeout(this.#burst)
    const stale = this.#stale
    this.#burst = setTimeout(() => {
      this.#burst = null
      if (this.paths.map(signatureOf).join() !== now) this.#look()
      else if (isStale) stale.resolve()
    }, burstMs)
  }
}
