/** `node bench/recovery.ts [PENDING] [HANGING]`: what a start takes that finds so many Actions pending (100,000 and none). */
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { recovered } from '../test/support/backlog.ts'
import { endAll, root } from '../test/support/processes.ts'
import { machineFacts } from './machine.ts'

const [pending = 100_000, hanging = 0] = process.argv.slice(2).map(Number)

// Not the system's folder for temporary files: that may be memory, where an fsync costs nothing.
mkdirSync(join(root, '.data'), { recursive: true })
const folder = mkdtempSync(join(root, '.data', 'recovery-'))
try {
  const options = { pending, hanging, deadlineMs: 3_600_000 }
  const { server, recovery } = await recovered(join(folder, 'startup.db'), options)
  const { readyMs, settledMs, peakBytes, freshMs } = recovery
  const quantile = (share: number): string =>
    `${(freshMs[Math.floor(share * (freshMs.length - 1))] ?? 0).toFixed(1)} ms`
  process.stdout.write(
    `${JSON.stringify(machineFacts(process.argv.slice(2)))}\n` +
      `${pending} pending, ${hanging} of them hang: ready after ${Math.round(readyMs)} ms, ` +
      `the last settled ${(settledMs / 1000).toFixed(1)} s later (${Math.round((pending - hanging) / (settledMs / 1000))}/s); ` +
      `peak ${Math.round(peakBytes / 2 ** 20)} MiB; ` +
      `${freshMs.length} fresh calls meanwhile: p50 ${quantile(0.5)}, p99 ${quantile(0.99)}, max ${quantile(1)}\n`,
  )
  await server.kill9()
} finally {
  await endAll()
  rmSync(folder, { recursive: true, force: true })
}
