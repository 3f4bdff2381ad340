import { Command, Option } from 'commander'
import type { BackedUp } from '../../server/backup.ts'
import { outputFormat, printJson, printText, tell } from '../output.ts'
import type { OutputFormat } from '../output.ts'
import { dataOption, outputOption } from '../options.ts'

/** `startup-builder backup FILE`: a consistent copy of a data file, served or not. */
export function backupCommand(): Command {
  return new Command('backup')
    .summary('copy a data file, also while it is served')
    .description(
      'Copies the data file to FILE, consistent and audited, while a server may be writing to it. One that was cut off ' +
        'goes on when it is started again: until it is whole it is called FILE.partial.',
    )
    .argument('<file>', 'where the copy goes')
    .addOption(
      new Option('--replace', 'replace an earlier backup of that name, once the new one is whole').default(false),
    )
    .addOption(outputOption())
    .addOption(dataOption())
    .action(async (file: string, options: { data: string; replace: boolean; output?: OutputFormat }) => {
      const { backupStore } = await import('../../server/backup.ts')
      const backedUp = await backupStore(options.data, file, { replace: options.replace, progress: progress() })
      print(backedUp, options.output, `Backed up ${options.data} to ${file}`)
    })
}

/** `startup-builder restore FILE`: puts a backup where no data file is. */
export function restoreCommand(): Command {
  return new Command('restore')
    .summary('put a backup where the data file was')
    .description(
      'Copies a backup to where the data file will be served from, and audits it. It refuses while a data file, or the ' +
        'log of one, is still there. What it does to keys, tokens and readers of Events: docs/operations.md.',
    )
    .argument('<file>', 'the backup')
    .addOption(outputOption())
    .addOption(dataOption())
    .action(async (file: string, options: { data: string; output?: OutputFormat }) => {
      const { restoreStore } = await import('../../server/backup.ts')
      const restored = await restoreStore(file, options.data, progress())
      print(restored, options.output, `Restored ${file} to ${options.data}`)
      tell(
        'warning: keys bound since the backup are free again, and tokens revoked since are good again: see docs/operations.md.',
      )
    })
}

function print(made: BackedUp, asked: OutputFormat | undefined, did: string): void {
  if (outputFormat(asked) === 'json') return printJson(made)
  const { bytes, writtenBytes, counts, seqs, ms } = made
  const ends = Object.entries(seqs).map(([namespace, seq]) => `${namespace} ends at seq ${seq}`)
  printText(
    `${did}: ${bytes} bytes (${writtenBytes} written), ${counts.actions} Actions (${counts.pending} pending), ${ms} ms; ` +
      `${ends.length === 0 ? 'no namespace yet' : ends.join(', ')}. All is well with it.`,
  )
}

/** Tells a person how far it is, on one line of the terminal. */
function progress(): (doneBytes: number, totalBytes: number) => void {
  if (!process.stderr.isTTY) return () => undefined
  let told = -1
  return (doneBytes, totalBytes) => {
    const percent = totalBytes === 0 ? 100 : Math.floor((100 * doneBytes) / totalBytes)
    if (percent === told) return
    told = percent
    process.stderr.write(`\r${percent} % compared${percent === 100 ? '\n' : ''}`)
  }
}
