/** Who takes part, and how each is started. All run on this Node, with the same environment, and serve the same request. */
import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { namespace } from './order.ts'

export type Name = 'bare' | 'framework' | 'handwritten' | 'grouped' | 'ours'

export interface Contestant {
  readonly name: Name
  readonly title: string
  /** Keeps what it is sent, so that there is something to replay. */
  readonly stores: boolean
  /** Arguments of Node. `data` is where its file is to be. */
  args(port: number, data: string): string[]
  /** Makes a data file ready; gives the token to call with. */
  prepare(data: string): Promise<string>
}

const local = (path: string): string => fileURLToPath(new URL(path, import.meta.url))
const cli = local('../dist/cli/main.js')

function peer(name: Name, title: string, file: string, stores: boolean, ...more: string[]): Contestant {
  return {
    name,
    title,
    stores,
    args: (port, data) => [local(file), '--port', String(port), '--data', data, ...more],
    prepare: async () => 'bench-token',
  }
}

const ours: Contestant = {
  name: 'ours',
  title: 'startup-builder',
  stores: true,
  // None of the others writes a line for each request.
  args: (port, data) => [
    ...[cli, 'serve', local('startup.ts'), '--data', data, '--port', String(port)],
    ...['--log-level', 'silent'],
  ],
  async prepare(data) {
    const args = [
      cli,
      'worker',
      'add',
      'bench',
      '--kind',
      'app',
      '--grant',
      '*',
      '--namespace',
      namespace,
      '--data',
      data,
    ]
    const { stdout } = await promisify(execFile)(process.execPath, args)
    return (JSON.parse(stdout) as { token: string }).token
  },
}

export const contestants: readonly Contestant[] = [
  peer('bare', 'bare node:http', 'peers/bare.ts', false),
  peer('framework', 'Fastify, no engine', 'peers/framework.ts', false),
  peer('handwritten', 'hand-written', 'peers/handwritten.ts', true),
  peer('grouped', 'hand-written, grouped', 'peers/handwritten.ts', true, '--group'),
  ours,
]

export const rawPeer = local('peers/raw.ts')
