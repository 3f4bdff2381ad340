import { Command, Option } from 'commander'
import type { Throttle } from '../../model/startup.ts'
import type { WorkerKind } from '../../model/worker.ts'
import type { WorkerListing } from '../../server/workers.ts'
import { outputFormat, printJson, printText, table, tell } from '../output.ts'
import type { OutputFormat } from '../output.ts'
import { burst, dataOption, expiresOption, namespaceOption, once, oneOf, outputOption, rate } from '../options.ts'

interface WorkerOptions {
  data: string
  namespace?: string
}

interface LimitOptions {
  rate?: number
  burst?: number
}

type AddOptions = WorkerOptions & LimitOptions & { kind: WorkerKind; grant: string[]; expires?: number }

/** `startup-builder worker …`: who may call. Each works while the server runs, which obeys from its next call on (V4). */
export function workerCommand(): Command {
  return new Command('worker')
    .summary('add, list, limit and revoke Workers')
    .description('Who may call: each Worker has a name, grants and tokens. All of these work while the server runs.')
    .addCommand(add())
    .addCommand(list())
    .addCommand(token())
    .addCommand(limit())
    .addCommand(revoke())
}

function add(): Command {
  return new Command('add')
    .summary('add a Worker and print its token')
    .description('Adds a Worker and prints { "id", "name", "token" }. The token is shown this once.')
    .argument('<name>', 'its name, which every Action shows: letters, digits, dots, hyphens and underscores')
    .addOption(oneOf('--kind <kind>', 'what it is', ['agent', 'human', 'app']).makeOptionMandatory())
    .addOption(namespaceOption())
    .addOption(
      new Option(
        '--grant <grant...>',
        "what it may do: Order.place, Order:read, actions:all, events, usage, inbox, approve:Order.refund, or '*' for all",
      ).default([], 'none'),
    )
    .addOption(expiresOption())
    .addOption(rateOption())
    .addOption(burstOption())
    .addOption(dataOption())
    .action(async (name: string, options: AddOptions, command: Command) => {
      const { addWorker } = await import('../../server/workers.ts')
      const { kind, grant: grants, namespace = null, expires: expiresMs = null } = options
      const throttle = throttleOf(options, command)
      const added = await addWorker(options.data, { name, kind, grants, namespace, expiresMs, throttle }, (line) =>
        tell(`warning: ${line}`),
      )
      if (grants.length === 0) tell(`warning: ${name} has no grant: it can see its own Actions and call nothing.`)
      printJson(added)
    })
}

function list(): Command {
  return new Command('list')
    .summary('list the Workers')
    .description('Lists the Workers, without their tokens: those are stored hashed.')
    .addOption(namespaceOption())
    .addOption(outputOption())
    .addOption(dataOption())
    .action(async (options: WorkerOptions & { output?: OutputFormat }) => {
      const { listWorkers, liveTokens } = await import('../../server/workers.ts')
      const workers = await listWorkers(options.data, options.namespace ?? null)
      if (outputFormat(options.output) === 'json') return printJson({ data: workers.map(listed) })
      const rows = workers.map((worker) => [
        worker.name,
        worker.namespace,
        worker.kind,
        worker.removed ? 'removed' : String(liveTokens(worker)),
        worker.grants.join(' '),
      ])
      printText(table(['NAME', 'NAMESPACE', 'KIND', 'TOKENS', 'GRANTS'], rows))
    })
}

function token(): Command {
  return new Command('token')
    .summary('make one more token for a Worker')
    .description('Makes one more token and prints { "id", "name", "token" }. The tokens that it has stay good.')
    .argument('<name>', 'the Worker')
    .addOption(namespaceOption())
    .addOption(expiresOption())
    .addOption(dataOption())
    .action(async (name: string, options: WorkerOptions & { expires?: number }) => {
      const { addToken } = await import('../../server/workers.ts')
      printJson(await addToken(options.data, name, options.namespace ?? null, options.expires ?? null))
    })
}

function limit(): Command {
  return new Command('limit')
    .summary('give a Worker a rate of its own')
    .description(
      "Gives a Worker a rate of its own in place of the definition's, from the next call on: for calls, and as much for reads.",
    )
    .argument('<name>', 'the Worker')
    .addOption(rateOption())
    .addOption(burstOption())
    .addOption(new Option('--none', "no rate of its own: the definition's holds again").default(false))
    .addOption(namespaceOption())
    .addOption(dataOption())
    .action(async (name: string, options: WorkerOptions & LimitOptions & { none: boolean }, command: Command) => {
      const throttle = throttleOf(options, command)
      if ((throttle === null) !== options.none) command.error('error: say --rate with --burst, or --none')
      const { limitWorker } = await import('../../server/workers.ts')
      printJson(await limitWorker(options.data, name, options.namespace ?? null, throttle))
    })
}

function rateOption(): Option {
  return once('--rate <calls>', 'how many calls a second it may make on average, such as 5 or 0.1', rate)
}

function burstOption(): Option {
  return once('--burst <calls>', 'how many of them at once', burst)
}

/** The limit that both options give; null: neither is there. */
function throttleOf({ rate, burst }: LimitOptions, command: Command): Throttle | null {
  if (rate === undefined && burst === undefined) return null
  if (rate === undefined || burst === undefined) return command.error('error: --rate and --burst go together')
  return { rate, burst }
}

function revoke(): Command {
  return new Command('revoke')
    .summary('end the tokens of a Worker')
    .description('Ends all tokens of a Worker, from the next call on. Its Actions and its name stay what they are.')
    .argument('<name>', 'the Worker')
    .addOption(new Option('--remove', 'remove the Worker too; its name stays taken for ever').default(false))
    .addOption(namespaceOption())
    .addOption(dataOption())
    .action(async (name: string, options: WorkerOptions & { remove: boolean }) => {
      const { revokeWorker } = await import('../../server/workers.ts')
      printJson(await revokeWorker(options.data, name, options.namespace ?? null, options.remove))
    })
}

/** A Worker as it is shown, times as everywhere (§3). */
function listed(worker: WorkerListing): object {
  const { id, namespace, name, kind, grants, throttle = null, createdAt, removed, tokens } = worker
  return {
    ...{ id, namespace, name, kind, grants, throttle, removed, createdAt: iso(createdAt) },
    tokens: tokens.map((one) => ({
      createdAt: iso(one.createdAt),
      expiresAt: one.expiresAt === null ? null : iso(one.expiresAt),
      revoked: one.revoked,
    })),
  }
}

function iso(ms: number): string {
  return new Date(ms).toISOString()
}
