import { Command, Option } from 'commander'
import { connectionsMax, drainMs } from '../../model/limits.ts'
import type { LogLevel } from '../../server/log.ts'
import { tell } from '../output.ts'
import {
  count,
  dataOption,
  notEmpty,
  once,
  oneOf,
  originOption,
  port,
  seconds,
  trustedProxyOption,
} from '../options.ts'

interface ServeOptions {
  data: string
  port: number
  host: string
  origin: string[]
  trustedProxy: string[]
  logLevel: LogLevel
  grace: number
  metrics: boolean
  maxConnections: number
  parentStdin: boolean
}

/** `startup-builder serve [FILE]`: serves a definition until it is told to stop. */
export function serveCommand(): Command {
  return new Command('serve')
    .summary('serve a definition')
    .description('Serves the definition that FILE exports, with its data in one SQLite file, until SIGTERM or Ctrl-C.')
    .argument('[file]', 'the .ts or .js file that exports the definition', 'startup.ts')
    .addOption(dataOption())
    .addOption(once('--port <number>', 'the port; 0 takes a free one', port).default(4000))
    .addOption(once('--host <host>', 'the address to listen on', notEmpty).default('127.0.0.1'))
    .addOption(originOption())
    .addOption(trustedProxyOption())
    .addOption(
      oneOf('--log-level <level>', 'the least important lines of the log', ['info', 'warn', 'error', 'silent']).default(
        'info',
      ),
    )
    .addOption(
      once(
        '--grace <seconds>',
        'how long a stop waits for what runs; what is left is resumed at the next start',
        seconds,
      ).default(drainMs, String(drainMs / 1000)),
    )
    .addOption(
      once(
        '--max-connections <number>',
        'how many connections may be open at once; one more is closed unanswered',
        count,
      ).default(connectionsMax),
    )
    .addOption(new Option('--no-metrics', 'have no /metrics, and count nothing for it'))
    .addOption(
      new Option(
        '--parent-stdin',
        'stop too when standard input closes: for a parent that starts this as its child',
      ).default(false),
    )
    .action(async (file: string, options: ServeOptions) => {
      // Loaded only here: a mistyped option should not wait for the whole server to load.
      const [{ loadStartups }, { serve }] = await Promise.all([
        import('../../server/load.ts'),
        import('../../server/serve.ts'),
      ])
      const startups = await loadStartups(file)
      for (const startup of startups.values()) for (const warning of startup.warnings) tell(`warning: ${warning}`)
      const url = await serve({
        startups,
        data: options.data,
        port: options.port,
        host: options.host,
        origins: options.origin,
        trustedProxies: options.trustedProxy,
        logLevel: options.logLevel,
        graceMs: options.grace,
        stopWithStdin: options.parentStdin,
        metrics: options.metrics,
        connectionsMax: options.maxConnections,
      })
      if (process.stderr.isTTY) tell(`serving ${[...startups.keys()].join(', ')} at ${url}`)
    })
}
