import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import type { Readable } from 'node:stream'
import { fileURLToPath } from 'node:url'
import { logDescriptor } from './child.ts'
import type { Definition, Failure, ToChild, ToParent } from './messages.ts'

/** The entry of the command line, beside which this file was built. */
const main = fileURLToPath(new URL(import.meta.url.endsWith('.ts') ? '../main.ts' : '../main.js', import.meta.url))

/** What a stop may take beyond its grace before it is cut off, in milliseconds. */
const stopMs = 5_000

/** A line of the server's log. */
export type LogLine = Readonly<Record<string, unknown>>

export interface RunOptions {
  readonly file: string
  readonly data: string
  /** The address that clients know. */
  readonly origin: string
  /** Origins of browser pages that may call (H2). */
  readonly origins: readonly string[]
  readonly graceMs: number
  readonly onFiles: (files: Readonly<Record<string, string>>) => void
  readonly onLog: (line: LogLine) => void
}

/** One definition, as it was when its process loaded it. */
export class Run {
  /** What came of the loading; a process that ended without a word has failed too. */
  readonly loaded: Promise<{ readonly kind: 'loaded'; readonly definition: Definition } | Failure>
  /** Resolves when the process is gone: how it ended, in words. */
  readonly ended: Promise<string>
  /** Aborted when it is told to stop, or is gone: what asks it something gives up. */
  readonly over = new AbortController()
  /** Where it serves; null before. */
  url: string | null = null
  readonly #child: ChildProcess
  readonly #options: RunOptions
  readonly #serving: Promise<{ readonly kind: 'serving'; readonly url: string } | Failure>

  constructor(options: RunOptions) {
    const { file, data, origin, origins, graceMs } = options
    const args = [main, 'dev-child', file, '--data', data, '--url', origin, '--grace', String(graceMs / 1000)]
    for (const allowed of origins) args.push('--origin', allowed)
    // A group of its own: Ctrl-C comes to it from here alone, once. Its standard input tells it when this process is gone.
    const stdio = ['pipe', 'inherit', 'inherit', 'ipc', 'pipe'] as const
    const child = spawn(process.execPath, [...process.execArgv, ...args], { stdio: [...stdio], detached: true })
    this.#child = child
    this.#options = options
    child.stdin?.on('error', () => {}) // it may be gone already
    child.on('error', () => {}) // told by its end
    this.ended = new Promise((resolve) => {
      child.once('exit', (status, signal) => resolve(signal === null ? `status ${status}` : signal))
      child.once('error', (error) => resolve(error.message))
    })
    void this.ended.then(() => this.over.abort())
    this.loaded = this.#told('loaded')
    this.#serving = this.#told('serving')
    child.on('message', (message: ToParent) => {
      if (message.kind === 'files') options.onFiles(message.files)
    })
    readLog(child.stdio[logDescriptor] as Readable, options.onLog)
  }

  /** Has it open the store and serve. */
  async serve(): Promise<Failure | null> {
    const order: ToChild = { kind: 'serve' }
    this.#child.send(order, () => {}) // one that is gone has failed
    const answer = await this.#serving
    if (answer.kind === 'failed') return answer
    this.url = answer.url
    return null
  }

  /** Stops it gracefully: what runs may end within the grace, the rest is resumed by the next (V4). */
  async stop(): Promise<void> {
    this.over.abort()
    this.#child.stdin?.end()
    const late = setTimeout(() => this.#child.kill('SIGKILL'), this.#options.graceMs + stopMs)
    await this.ended
    clearTimeout(late)
  }

  /** Ends it at once. */
  async kill(): Promise<void> {
    this.killNow()
    await this.ended
  }

  killNow(): void {
    this.over.abort()
    this.#child.kill('SIGKILL')
  }

  #told<Kind extends ToParent['kind']>(kind: Kind): Promise<Extract<ToParent, { kind: Kind }> | Failure> {
    return new Promise((resolve) => {
      this.#child.on('message', (message: ToParent) => {
        if (message.kind === kind) resolve(message as Extract<ToParent, { kind: Kind }>)
        if (message.kind === 'failed') resolve(message)
      })
      // Its last words may still be on their way when it is gone.
      const gone = Promise.race([once(this.#child, 'disconnect'), this.ended]).then(() => this.ended)
      void gone.then(async (how) => {
        await new Promise((soon) => setTimeout(soon, 50))
        resolve({ kind: 'failed', cause: 'definition', lines: [`${this.#options.file}: its process ended (${how})`] })
      })
    })
  }
}

function readLog(from: Readable, onLog: (line: LogLine) => void): void {
  from.on('error', () => {}) // its writer is gone
  createInterface(from).on('line', (line) => {
    try {
      onLog(JSON.parse(line) as LogLine)
    } catch {
      // A line that its writer's end has cut.
    }
  })
}
