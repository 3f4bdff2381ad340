import { Worker } from 'node:worker_threads'
import type { Startup } from '../../model/startup.ts'
import { LocalError, messageOf } from '../../server/local-error.ts'
import { watchImports } from './imports.ts'
import type { Definition, Failure, ToChild, ToParent, VerbView } from './messages.ts'

/** The log goes here: standard output is the author's own. After the three standard ones and the parent's channel. */
export const logDescriptor = 4

/** What it may take, beyond its grace, to end after its parent has, in milliseconds. */
const orphanMs = 2_000

export interface ChildOptions {
  readonly data: string
  /** The address under which clients know the parent. */
  readonly url: string
  /** Origins of browser pages that may call (H2). */
  readonly origins: readonly string[]
  readonly graceMs: number
}

/**
 * A definition's own process: loads it, checks it against the data, and tells the parent. When the parent says so, it opens
 * the store and serves at a port of its own, until its standard input closes.
 */
export async function devChild(file: string, options: ChildOptions): Promise<void> {
  let isServing = false
  // Once it serves, the end of standard input stops it gracefully (V4).
  process.once('disconnect', () => {
    if (!isServing) process.exit(1)
  })
  endWhenOrphaned(options.graceMs + orphanMs)
  watchImports((path, signature) => void tell({ kind: 'files', files: { [path]: signature } }))
  const order = new Promise<ToChild>((resolve) => process.once('message', (message) => resolve(message as ToChild)))
  try {
    const [{ loadStartups }, { checkOnData, serve }] = await Promise.all([
      import('../../server/load.ts'),
      import('../../server/serve.ts'),
    ])
    const startups = await loadStartups(file)
    await checkOnData(options.data, startups)
    await tell({ kind: 'loaded', definition: definitionOf(startups) })
    await order
    isServing = true
    const { data, url, origins, graceMs } = options
    const at = { host: '127.0.0.1', port: 0, origins, origin: url }
    const how = { logLevel: 'info', logDescriptor, graceMs, stopWithStdin: true } as const
    await tell({ kind: 'serving', url: await serve({ startups, data, ...at, ...how }) })
  } catch (error) {
    await tell(failureOf(error, isServing))
    process.exit(1)
  }
}

/**
 * A parent that was killed closes standard input, but who loops without awaiting never sees that: a thread of its own ends
 * this process then.
 */
function endWhenOrphaned(afterMs: number): void {
  const watch = `setInterval(() => {
    if (process.ppid !== ${process.ppid}) setTimeout(() => process.kill(${process.pid}, 'SIGKILL'), ${afterMs})
  }, 500)`
  new Worker(watch, { eval: true, execArgv: [] }).unref()
}

/** Resolves when it is on its way: what is told last must not be lost by the end of the process. */
function tell(message: ToParent): Promise<void> {
  return new Promise((resolve) => {
    if (process.connected && process.send !== undefined) process.send(message, () => resolve())
    else resolve()
  })
}

function failureOf(error: unknown, wasServing: boolean): Failure {
  if (error instanceof LocalError) {
    return { kind: 'failed', cause: wasServing ? 'data' : 'definition', lines: error.lines }
  }
  // A seed that did not succeed is the author's to mend.
  const isSeed = error instanceof Error && error.name === 'SeedFailed'
  const stack = !isSeed && error instanceof Error && error.stack !== undefined ? error.stack.split('\n').slice(1) : []
  return { kind: 'failed', cause: isSeed ? 'definition' : 'data', lines: [messageOf(error), ...stack] }
}

function definitionOf(startups: ReadonlyMap<string, Startup>): Definition {
  const all = [...startups.values()]
  return {
    namespaces: [...startups.keys()],
    verbs: all.flatMap(verbsOf),
    nouns: all.flatMap(({ namespace, nouns }) =>
      [...nouns.values()].map(({ name, plural }) => ({ namespace, noun: name, plural })),
    ),
    warnings: all.flatMap(({ warnings }) => warnings),
  }
}

function verbsOf({ namespace, nouns, verbs, seed }: Startup): VerbView[] {
  return [...verbs.values()].map(({ operation, noun, verb, target, inputSchema }) => ({
    namespace,
    operation,
    verb,
    target,
    nouns: nouns.get(noun)?.plural ?? '',
    inputSchema,
    seed: seed.find((call) => call.operation === operation)?.input ?? null,
  }))
}
