import { Command, Option } from 'commander'
import { tell } from '../output.ts'
import { dataOption, notEmpty, once, originOption, port, seconds } from '../options.ts'

/** How long a reload waits for what runs, in milliseconds: its author is waiting too, and the next definition resumes it. */
const graceMs = 3_000

interface DevOptions {
  data: string
  port?: number
  host: string
  origin: string[]
  grace: number
  lines: boolean
  parentStdin: boolean
}

interface ChildOptions {
  data: string
  url: string
  origin: string[]
  grace: number
}

/** `startup-builder dev [FILE]`: serves a definition while it is written. */
export function devCommand(): Command {
  return new Command('dev')
    .summary('serve a definition while you write it')
    .description(
      'Serves the definition that FILE exports, and again on each save of it or of what it imports. While it has errors, the\n' +
        'last good one is served on. Shows Actions as they happen, and lines to paste that call as the Worker dev.',
    )
    .argument('[file]', 'the .ts or .js file that exports the definition', 'startup.ts')
    .addOption(dataOption())
    .addOption(once('--port <number>', 'the port; 0 takes a free one (default: 4000, or the next that is free)', port))
    .addOption(once('--host <host>', 'the address to listen on', notEmpty).default('127.0.0.1'))
    .addOption(originOption())
    .addOption(graceOption())
    .addOption(new Option('--lines', 'show how to call every Verb, not a few').default(false))
    .addOption(
      new Option(
        '--parent-stdin',
        'stop when standard input closes: for a parent that starts this as its child',
      ).default(false),
    )
    .addHelpText(
      'after',
      `
At a terminal: l shows how to call every Verb, r reloads, q or Ctrl-C stops.

Examples:
  $ startup-builder dev
  $ startup-builder dev shop/startup.ts --data /tmp/shop.db --port 4100
  $ startup-builder dev --lines`,
    )
    .action(async (file: string, options: DevOptions) => {
      const { data, host, port: wanted = null, origin: origins, grace, lines, parentStdin } = options
      const { Dev } = await import('../dev/dev.ts')
      const dev = new Dev({ file, data, host, port: wanted, origins, graceMs: grace, allLines: lines })
      stopWithSignals(dev)
      if (parentStdin) process.stdin.resume().once('close', () => void stop(dev))
      else if (process.stdin.isTTY) obeyKeys(dev)
      try {
        await dev.run()
      } catch (error) {
        await dev.stop()
        throw error
      }
    })
}

/** What `dev` starts for each definition; nobody else calls it. */
export function devChildCommand(): Command {
  return new Command('dev-child')
    .argument('<file>')
    .addOption(dataOption())
    .addOption(once('--url <url>', 'the address that clients know', notEmpty).makeOptionMandatory())
    .addOption(originOption())
    .addOption(graceOption())
    .action(async (file: string, { data, url, origin, grace }: ChildOptions) => {
      const { devChild } = await import('../dev/child.ts')
      await devChild(file, { data, url, origins: origin, graceMs: grace })
    })
}

function graceOption(): Option {
  return once(
    '--grace <seconds>',
    'how long a reload waits for what runs; the next definition resumes what is left',
    seconds,
  ).default(graceMs, String(graceMs / 1000))
}

interface Stoppable {
  stop(): Promise<void>
  killNow(): void
}

let stopping = false

/** Stops gracefully and ends the process; asked again, at once. */
async function stop(dev: Stoppable): Promise<void> {
  if (stopping) {
    dev.killNow()
    process.exit(1)
  }
  stopping = true
  await dev.stop()
  process.exit(0)
}

function stopWithSignals(dev: Stoppable): void {
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => void stop(dev))
  // However it ends, nothing that it started may be left.
  process.once('exit', () => dev.killNow())
}

function obeyKeys(dev: Stoppable & { reload(): void; showLines(all: boolean): Promise<void> }): void {
  process.stdin.setRawMode(true).setEncoding('utf8').resume()
  process.once('exit', () => process.stdin.setRawMode(false))
  process.stdin.on('data', (keys: string | Buffer) => {
    for (const key of String(keys)) {
      if (key === 'l') void dev.showLines(true)
      else if (key === 'r') dev.reload()
      else if (key === '\r') process.stdout.write('\n')
      else if (key === 'h' || key === '?') tell('l: how to call every Verb · r: reload · q: stop')
      else if (key === 'q' || key === '\u0003' || key === '\u0004') void stop(dev)
    }
  })
}
