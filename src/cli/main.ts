#!/usr/bin/env node
import { Command, CommanderError } from 'commander'
import { readFileSync } from 'node:fs'
import { backupCommand, restoreCommand } from './commands/backup.ts'
import { devChildCommand, devCommand } from './commands/dev.ts'
import { serveCommand } from './commands/serve.ts'
import { verifyCommand } from './commands/verify.ts'
import { workerCommand } from './commands/worker.ts'
import { tellFailure } from './output.ts'

const usageStatus = 1

/** The whole command line. Each command loads what it needs when it is called. */
function program(): Command {
  const all = new Command('startup-builder')
    .description('A write happens once: an Idempotency-Key binds each durable call to exactly one Action, for ever.')
    .version(version())
  for (const command of [
    devCommand(),
    serveCommand(),
    workerCommand(),
    verifyCommand(),
    backupCommand(),
    restoreCommand(),
  ])
    all.addCommand(command)
  all.addCommand(devChildCommand(), { hidden: true })
  return strict(all)
}

/** Commands added whole don't inherit: told to each, that it throws instead of exiting and points at its help. */
function strict(command: Command): Command {
  command.exitOverride().showHelpAfterError('(add --help for what there is)').helpCommand(false)
  command.configureOutput({ outputError: (text, write) => write(text.replace(/^error: /, 'startup-builder: ')) })
  for (const sub of command.commands) strict(sub)
  return command
}

function version(): string {
  const text = readFileSync(new URL('../../package.json', import.meta.url), 'utf8')
  return (JSON.parse(text) as { version: string }).version
}

/** node:sqlite is an experiment on Node 22, and says so on every start; every other warning is told as ever. */
function silenceSqliteWarning(): void {
  const emit = process.emitWarning.bind(process) as (warning: string | Error, ...more: unknown[]) => void
  process.emitWarning = (warning: string | Error, ...more: unknown[]): void => {
    const type = typeof more[0] === 'string' ? more[0] : (more[0] as { type?: string } | undefined)?.type
    if (type === 'ExperimentalWarning' && String(warning).startsWith('SQLite ')) return
    emit(warning, ...more)
  }
}

async function main(): Promise<void> {
  silenceSqliteWarning()
  try {
    await program().parseAsync()
  } catch (error) {
    // Commander has told what was wrong already; asking for help or the version is no error.
    if (error instanceof CommanderError) process.exitCode = error.exitCode === 0 ? 0 : usageStatus
    else {
      tellFailure(error)
      // What was begun may keep timers: there is nothing to wait for any more.
      process.exit(1)
    }
  }
}

// A reader that has seen enough (`… | head -1`) is no error of ours.
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code !== 'EPIPE') throw error
  process.exit()
})

await main()
