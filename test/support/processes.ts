import { spawn } from 'node:child_process'
import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'

/** The checkout. */
export const root = fileURLToPath(new URL('../..', import.meta.url))
/** The built command line: what people run is what is tested. */
export const cli = join(root, 'dist/cli/main.js')

/** How long a process may take from its start to its ready line. Generous: a CI machine runs other tests beside it. */
const readyMs = 30_000

const children = new Set<ChildProcess>()
const folders = new Set<string>()

/** An empty folder of the test's own; gone after the test file. */
export function newFolder(name: string): string {
  const folder = mkdtempSync(join(tmpdir(), `${name}-`))
  folders.add(folder)
  return folder
}

/** One line of a process's standard output, read as JSON. Its members are the process's; `url` is the ready line's. */
export type LogLine = Readonly<Record<string, unknown>>

/** A process that serves, from its ready line on. */
export interface Serving {
  readonly child: ChildProcess
  readonly url: string
  /** What it has logged so far; the list goes on growing. */
  readonly logs: LogLine[]
  /** What it has written on standard error so far. */
  stderr(): string
  /** Sends a signal, SIGTERM unless told otherwise, and gives the exit status once it has ended (null: ended by a signal). */
  end(signal?: NodeJS.Signals): Promise<number | null>
}

/**
 * Starts `node …args` and waits for a line on standard output that is a JSON object with a `url`.
 * Throws with all that it wrote on standard error when it ends before that, or takes too long.
 */
export async function startServing(
  args: readonly string[],
  env: Readonly<Record<string, string | undefined>> = {},
): Promise<Serving> {
  // The pipe as its standard input is how it learns that the tests are gone, also when they are killed.
  const child = spawn(process.execPath, args, {
    cwd: root,
    env: cleanEnv(env),
    stdio: ['pipe', 'pipe', 'pipe'],
  })
  track(child)
  let stderr = ''
  child.stderr.setEncoding('utf8').on('data', (chunk: string) => (stderr += chunk))
  child.stdin.on('error', () => {}) // it may be gone already

  const logs: LogLine[] = []
  const url = await new Promise<string>((resolve, reject) => {
    const fail = (why: string) =>
      reject(new Error(`${args.join(' ')}: ${why}\n${stderr}${logs.map(asText).join('\n')}`))
    const timer = setTimeout(() => {
      child.kill('SIGKILL')
      fail(`did not listen within ${readyMs} ms`)
    }, readyMs)
    createInterface(child.stdout).on('line', (line) => {
      const parsed = parseLine(line)
      logs.push(parsed)
      if (typeof parsed['url'] === 'string') {
        clearTimeout(timer)
        resolve(parsed['url'])
      }
    })
    child.once('close', (code, signal) => {
      clearTimeout(timer)
      fail(`ended before it listened (${code ?? signal})`)
    })
  })
  return { child, url, logs, stderr: () => stderr, end: (signal = 'SIGTERM') => end(child, signal) }
}

/** What a command did: its exit status and all that it wrote. */
export interface Ran {
  readonly status: number | null
  readonly stdout: string
  readonly stderr: string
}

/** Runs `startup-builder …args` to its end. Never throws for a status: that is what the test looks at. */
export async function runCli(
  args: readonly string[],
  options: { env?: Readonly<Record<string, string | undefined>>; cwd?: string } = {},
): Promise<Ran> {
  const child = spawn(process.execPath, [cli, ...args], {
    cwd: options.cwd ?? root,
    env: cleanEnv(options.env ?? {}),
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  track(child)
  const [stdout, stderr, [status]] = await Promise.all([
    text(child.stdout),
    text(child.stderr),
    once(child, 'close') as Promise<[number | null]>,
  ])
  return { status, stdout, stderr }
}

/** Ends a process and waits until it is gone. Gives its exit status, null when a signal ended it. */
export async function end(child: ChildProcess, signal: NodeJS.Signals): Promise<number | null> {
  if (child.exitCode === null && child.signalCode === null) {
    const exit = once(child, 'exit')
    child.kill(signal)
    await exit
  }
  return child.exitCode
}

/** Ends whatever this test file started and is still there, and removes its folders. */
export async function endAll(): Promise<void> {
  await Promise.all([...children].map((child) => end(child, 'SIGKILL')))
  for (const folder of folders) rmSync(folder, { recursive: true, force: true })
  folders.clear()
}

/** Has it ended with the test file, whatever its tests forgot. */
export function track(child: ChildProcess): void {
  children.add(child)
  child.once('exit', () => children.delete(child))
}

/** The environment of this process without what the tests' own runner put there. */
export function cleanEnv(extra: Readonly<Record<string, string | undefined>>): NodeJS.ProcessEnv {
  const env: NodeJS.ProcessEnv = { ...process.env, ...extra }
  for (const name of ['NODE_OPTIONS', 'NODE_ENV', 'VITEST', 'FORCE_COLOR']) if (!(name in extra)) delete env[name]
  return env
}

function parseLine(line: string): LogLine {
  try {
    const parsed: unknown = JSON.parse(line)
    return typeof parsed === 'object' && parsed !== null ? (parsed as LogLine) : { line }
  } catch {
    return { line }
  }
}

function asText(line: LogLine): string {
  return JSON.stringify(line)
}

process.once('exit', () => {
  for (const child of children) child.kill('SIGKILL')
})

// Under vitest every test file cleans up after itself, whatever its tests forgot. The benchmark calls `endAll` itself.
if (process.env['VITEST'] !== undefined) {
  const { afterAll } = await import('vitest')
  afterAll(endAll)
}
