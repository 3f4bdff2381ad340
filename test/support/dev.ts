import { spawn } from 'node:child_process'
import type { ChildProcess } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { expect } from 'vitest'
import { cleanEnv, cli, end, newFolder, track } from './processes.ts'
import { startupFile } from './server.ts'

export interface DevOptions {
  /** What else stands beside the definition, by file name. */
  readonly files?: Readonly<Record<string, string>>
  readonly args?: readonly string[]
  readonly env?: Readonly<Record<string, string>>
  /** The folder of an earlier one, to start again in. */
  readonly folder?: string
}

/** `startup-builder dev` as a process, in the folder of its definition. */
export interface TestDev {
  readonly child: ChildProcess
  readonly folder: string
  readonly data: string
  /** Where it serves; asked for once it has said so. */
  readonly url: string
  /** The token of the lines that it shows. */
  readonly token: string
  /** All that it has printed so far. */
  said(): string
  /** Writes a file of the definition, as a save does. */
  save(name: string, text: string): void
  /** Waits until it prints something that fits, past what was there when this was last waited for. */
  says(what: string | RegExp): Promise<string>
  call(path: string, key: string, input: object, headers?: Readonly<Record<string, string>>): Promise<Response>
  stop(signal?: NodeJS.Signals): Promise<number | null>
}

/** Starts `dev` on a definition; what it prints is waited for with `says`. */
export function startDev(source: string, options: DevOptions = {}): TestDev {
  const base = options.folder ?? newFolder('dev')
  const data = join(base, 'data', 'startup.db')
  const file = startupFile({ source }, join(base, 'any', 'startup.db'))
  const folder = dirname(file)
  const save = (name: string, text: string): void => writeFileSync(join(folder, name), text)
  for (const [name, text] of Object.entries(options.files ?? {})) save(name, text)
  const args = [cli, 'dev', 'startup.ts', '--data', data, '--port', '0', '--parent-stdin', ...(options.args ?? [])]
  const child = spawn(process.execPath, args, {
    cwd: folder,
    env: cleanEnv({ NO_COLOR: '1', ...options.env }),
    stdio: ['pipe', 'pipe', 'pipe'],
  })
  track(child)
  child.stdin.on('error', () => {}) // it may be gone already
  let said = ''
  let seen = 0
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (chunk: string) => (said += chunk))
  }

  return {
    child,
    folder: base,
    data,
    save,
    said: () => said,
    get url() {
      return /http:\/\/127\.0\.0\.1:\d+/.exec(said)?.[0] ?? ''
    },
    get token() {
      return /Bearer (sb_[\w-]+)/.exec(said)?.[1] ?? ''
    },
    async says(what) {
      const pattern = typeof what === 'string' ? new RegExp(what.replace(/[\\^$.*+?()[\]{}|]/g, '\\$&')) : what
      await expect
        .poll(() => pattern.test(said.slice(seen)) || child.exitCode !== null, {
          timeout: 20_000,
          interval: 20,
          message: `${String(what)} in:\n${said}`,
        })
        .toBe(true)
      const found = pattern.exec(said.slice(seen))
      if (found === null) throw new Error(`it ended without saying ${String(what)}:\n${said}`)
      seen += found.index + found[0].length
      return found[0]
    },
    call(path, key, input, headers = {}) {
      return fetch(`${this.url}${path}`, {
        method: 'POST',
        headers: {
          authorization: `Bearer ${this.token}`,
          'content-type': 'application/json',
          'idempotency-key': key,
          ...headers,
        },
        body: JSON.stringify(input),
      })
    },
    stop: (signal = 'SIGTERM') => end(child, signal),
  }
}
