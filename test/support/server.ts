import type { ChildProcess } from 'node:child_process'
import { existsSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { cli, newFolder, root, runCli, startServing } from './processes.ts'
import type { LogLine, Ran, Serving } from './processes.ts'

export { cli, endAll, newFolder, root, runCli } from './processes.ts'
export type { LogLine, Ran } from './processes.ts'

/** The definition that is served when a test brings none of its own. */
export const glyphs = join(root, 'examples/glyphs.store/startup.ts')

export interface ServerOptions {
  /** The file of the definition, or its whole text in TypeScript: `{ source: "import { … } from 'startup-builder' …" }`. */
  readonly startup?: string | { readonly source: string }
  /** The data file. A new one in a folder of its own unless given. */
  readonly data?: string
  readonly env?: Readonly<Record<string, string | undefined>>
  /** Further arguments of `serve`: `['--grace', '1']`. */
  readonly args?: readonly string[]
  /** Arguments of Node itself, before the command. */
  readonly nodeArgs?: readonly string[]
}

export interface TokenOptions {
  readonly kind?: 'agent' | 'human' | 'app'
  readonly namespace?: string
}

/** The built server as a process, over all its runs on one data file. */
export interface TestServer {
  /** Of the current run: each run listens at a new free port. */
  readonly url: string
  readonly data: string
  readonly startup: string
  readonly child: ChildProcess
  /** The log of the current run so far, a JSON object a line. */
  readonly logs: readonly LogLine[]
  stderr(): string
  /** Adds a Worker (`startup-builder worker add`) and gives its token. Holds `*` unless told otherwise. */
  token(name?: string, grants?: readonly string[], options?: TokenOptions): Promise<string>
  /** Runs `startup-builder …args --data DATA` while the server runs. */
  cli(...args: string[]): Promise<Ran>
  /** SIGTERM (or another signal) and waiting for the end. Gives the exit status. */
  stop(signal?: NodeJS.Signals): Promise<number | null>
  /** `kill -9`: as a crash of the process, not of the machine. */
  kill9(): Promise<void>
  /** Starts it again on the same data file, after a stop or a kill. */
  start(options?: Pick<ServerOptions, 'startup' | 'env' | 'args'>): Promise<void>
  [Symbol.asyncDispose](): Promise<void>
}

/** Starts the built server on a free port and waits until it listens. Throws with what it said when it does not. */
export async function startServer(options: ServerOptions = {}): Promise<TestServer> {
  const data = options.data ?? join(newFolder('startup-builder'), 'data', 'startup.db')
  let current = options
  let startup = startupFile(options.startup, data)
  const run = (): Promise<Serving> => {
    const nodeArgs = current.nodeArgs ?? []
    const args = [cli, 'serve', startup, '--data', data, '--port', '0', '--parent-stdin', ...(current.args ?? [])]
    return startServing([...nodeArgs, ...args], current.env)
  }
  let serving = await run()

  return {
    data,
    get startup() {
      return startup
    },
    get url() {
      return serving.url
    },
    get child() {
      return serving.child
    },
    get logs() {
      return serving.logs
    },
    stderr: () => serving.stderr(),
    token: (name = 'checkout', grants = ['*'], tokenOptions = {}) => addWorker(data, name, grants, tokenOptions),
    cli: (...args) => runCli([...args, '--data', data]),
    stop: (signal) => serving.end(signal),
    async kill9() {
      await serving.end('SIGKILL')
    },
    async start(changed = {}) {
      current = { ...current, ...changed }
      if (changed.startup !== undefined) startup = startupFile(changed.startup, data)
      serving = await run()
    },
    async [Symbol.asyncDispose]() {
      await serving.end('SIGKILL')
    },
  }
}

/** Adds a Worker to a data file, served or not, and gives its token. */
export async function addWorker(
  data: string,
  name: string,
  grants: readonly string[] = ['*'],
  { kind = 'agent', namespace }: TokenOptions = {},
): Promise<string> {
  const args = ['worker', 'add', name, '--kind', kind, '--data', data]
  for (const grant of grants) args.push('--grant', grant)
  if (namespace !== undefined) args.push('--namespace', namespace)
  const ran = await runCli(args)
  if (ran.status !== 0) throw new Error(`worker add ${name}: status ${ran.status}\n${ran.stderr}`)
  return (JSON.parse(ran.stdout) as { token: string }).token
}

/** The payment provider of glyphs.store as a process of its own. */
export interface TestPayments {
  readonly url: string
  readonly data: string
  /** Every successful charge and refund, oldest first. */
  charges(): Promise<readonly { id: string; amount: number; key: string; refunded: boolean }[]>
  refunds(): Promise<readonly { id: string; charge: string; amount: number; key: string }[]>
  /** How often each derived key arrived. */
  calls(): Promise<readonly { key: string; path: string; count: number }[]>
  stop(): Promise<number | null>
  kill9(): Promise<void>
  [Symbol.asyncDispose](): Promise<void>
}

/** Starts the payment provider on a free port: hand its `url` to a server as `{ env: { PAYMENTS_URL: payments.url } }`. */
export async function startPayments(options: { data?: string; port?: number } = {}): Promise<TestPayments> {
  const data = options.data ?? join(newFolder('payments'), 'payments.db')
  const main = join(root, 'examples/glyphs.store/payments/main.ts')
  const serving = await startServing([main, '--port', String(options.port ?? 0), '--data', data, '--parent-stdin'])
  const list = async (path: string): Promise<never> => {
    const response = await fetch(serving.url + path)
    return ((await response.json()) as { data: never }).data
  }
  return {
    url: serving.url,
    data,
    charges: () => list('/charges'),
    refunds: () => list('/refunds'),
    calls: () => list('/calls'),
    stop: () => serving.end(),
    async kill9() {
      await serving.end('SIGKILL')
    },
    async [Symbol.asyncDispose]() {
      await serving.end('SIGKILL')
    },
  }
}

/** The path of a definition; a text is written to a folder from where `startup-builder` and `zod` can be imported. */
export function startupFile(startup: ServerOptions['startup'], data: string): string {
  if (startup === undefined) return glyphs
  if (typeof startup === 'string') return startup
  const folder = join(dirname(data), 'definition')
  const modules = join(folder, 'node_modules')
  mkdirSync(modules, { recursive: true })
  for (const [name, target] of [
    ['startup-builder', root],
    ['zod', join(root, 'node_modules/zod')],
  ] as const) {
    if (!existsSync(join(modules, name))) symlinkSync(target, join(modules, name), 'dir')
  }
  const file = join(folder, 'startup.ts')
  writeFileSync(join(folder, 'package.json'), '{ "type": "module" }\n')
  writeFileSync(file, startup.source)
  return file
}
