import { Command } from 'commander'
import { outputFormat, printJson, printText, tell } from '../output.ts'
import type { OutputFormat } from '../output.ts'
import { dataOption, outputOption } from '../options.ts'

/** Faults that are told one by one. A store that is torn has one for each of its rows, and they say the same. */
const faultsToldMax = 1000

/** `startup-builder verify`: audits a data file, live or copied. */
export function verifyCommand(): Command {
  return new Command('verify')
    .summary('audit a data file')
    .description(
      'Audits every invariant of a data file, served or copied: one Action a key, one Event a settled Action, gap-free seq, ' +
        'usage, Version chains, one live Action a chain, no orphan. Prints what is wrong and exits with 1.',
    )
    .addOption(outputOption())
    .addOption(dataOption())
    .action(async (options: { data: string; output?: OutputFormat }) => {
      const { verifyStore } = await import('../../server/verify.ts')
      const faults: string[] = []
      let count = 0
      const counts = await verifyStore(options.data, (fault) => {
        count += 1
        if (faults.length < faultsToldMax) faults.push(fault)
      })
      if (count > 0) process.exitCode = 1
      const text = outputFormat(options.output) === 'text'
      if (!text) printJson({ ok: count === 0, counts, faultCount: count, faults })
      else for (const fault of faults) printText(fault)
      if (count > 0) return tell(`${count} ${count === 1 ? 'thing is' : 'things are'} wrong with ${options.data}`)
      const { actions, pending, records, events, keys } = counts
      if (text)
        printText(
          `All is well: ${actions} Actions (${pending} pending), ${keys} keys, ${events} Events, ${records} records.`,
        )
    })
}
