/** `npm run bench`: measures, prints ratios, saves them under bench/results/. README.md beside it says how to read them. */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { contestants } from './contestants.ts'
import { measureGrowth, type Growth } from './growth.ts'
import { machineFacts, slowDisk } from './machine.ts'
import { LoadProcess, measureTable, prepare, type Sizes, type Subject, type Table } from './measure.ts'
import { growthText, tableText, targetsOf, targetsText } from './report.ts'
import { scenarios } from './scenarios.ts'
import { farFromKept, keep, smokeContestants, smokeScenarios, smokeSizes } from './smoke.ts'

const help = `npm run bench -- [options]
  --seconds N       measured seconds of each cell (1.5), after a warm-up of half as many
  --rounds N        how often each cell is measured; medians count (3)
  --only A,B        only these: scenarios (${scenarios.map(({ name }) => name).join(', ')}; a beginning will do)
                    and contestants (${contestants.map(({ name }) => name).join(', ')})
  --delay-ms N      the table again with this added to each fsync (2; 0: not again)
  --growth A,B      also what a first write costs at so many Actions, such as 1e4,1e6 (minutes)
  --smoke           some seconds: fails when a ratio is far off the one in results/smoke.json; saves nothing
  --keep            with --smoke: what was measured becomes results/smoke.json
`

const { values: options } = parseArgs({
  options: {
    seconds: { type: 'string', default: '1.5' },
    rounds: { type: 'string', default: '3' },
    only: { type: 'string', default: '' },
    'delay-ms': { type: 'string', default: '2' },
    growth: { type: 'string' },
    smoke: { type: 'boolean', default: false },
    keep: { type: 'boolean', default: false },
    help: { type: 'boolean', default: false },
  },
})

if (options.help) process.stdout.write(help)
else await run()

async function run(): Promise<void> {
  const sizes = sizesOf()
  const { chosen, taking } = choose(options.smoke ? [...smokeScenarios, ...smokeContestants].join(',') : options.only)
  const delayMs = options.smoke ? 0 : numberOf('delay-ms', options['delay-ms'])
  const facts = machineFacts(process.argv.slice(2))
  // Not the system's folder for temporary files: that may be memory, where an fsync costs nothing.
  const folder = dataFolder()
  const load = new LoadProcess()
  try {
    const subjects: Subject[] = []
    const filled = chosen.some(({ restarted }) => restarted) ? sizes.filled : 0
    for (const contestant of taking) {
      process.stderr.write(`preparing ${contestant.title}\n`)
      subjects.push(await prepare(load, contestant, folder, filled))
    }
    const tables: Table[] = []
    for (const ms of delayMs === 0 ? [0] : [0, delayMs]) {
      const delay = { ms, env: slowDisk(folder, ms), folder }
      tables.push(await measureTable(load, subjects, chosen, sizes, delay))
    }
    report(facts, sizes, tables, subjects, await grow(load, folder, sizes))
  } finally {
    load.end()
    rmSync(folder, { recursive: true })
  }
}

async function grow(load: LoadProcess, folder: string, sizes: Sizes): Promise<Growth | null> {
  const ours = contestants.find(({ name }) => name === 'ours')
  if (options.growth === undefined || ours === undefined) return null
  const counts = options.growth.split(',').map((text) => numberOf('growth', text))
  return measureGrowth(load, ours, folder, counts, sizes)
}

function report(
  facts: ReturnType<typeof machineFacts>,
  sizes: Sizes,
  tables: readonly Table[],
  subjects: readonly Subject[],
  growth: Growth | null,
): void {
  const bytes = subjects.flatMap(({ contestant: { name, title }, filled }) =>
    filled === null ? [] : [{ name, title, bytesPerAction: filled.bytesPerAction }],
  )
  const targets = tables.map((table) => ({
    fsyncDelayMs: table.fsyncDelayMs,
    targets: targetsOf(table, subjects, growth),
  }))
  const { cpu, cores, memoryGb, node, sqlite, commit, date } = facts
  console.log(
    `${facts.command}\n${cpu}, ${cores} cores, ${memoryGb} GB, Node ${node}, SQLite ${sqlite}, commit ${commit}, ${date}`,
  )
  tables.forEach((table, i) => {
    console.log(`\n${tableText(table)}\n\n${targetsText(targets[i]?.targets ?? [])}`)
  })
  const each = bytes.map(({ title, bytesPerAction }) => `${title} ${bytesPerAction.toFixed(0)}`)
  if (each.length > 0) console.log(`\nbytes on disk, each of ${sizes.filled}: ${each.join(', ')}`)
  if (growth !== null) console.log(`\n${growthText(growth)}`)
  const [table] = tables
  if (options.smoke && table !== undefined) return smoke(table, subjects)
  const results = fileURLToPath(new URL('results', import.meta.url))
  mkdirSync(results, { recursive: true })
  const path = join(results, `${date.slice(0, 19).replaceAll(':', '-')}.json`)
  writeFileSync(path, `${JSON.stringify({ ...facts, sizes, targets, bytes, tables, growth }, rounded, 1)}\n`)
  console.log(`\nsaved as ${path}`)
}

function smoke(table: Table, subjects: readonly Subject[]): void {
  if (options.keep) return keep(table, subjects)
  const faults = farFromKept(table, subjects)
  for (const fault of faults) console.log(`\nFAR OFF: ${fault}`)
  if (faults.length > 0) process.exitCode = 1
}

/** What `--only` names: scenarios, contestants or both. A kind of which none is named takes part whole. */
function choose(only: string): { chosen: typeof scenarios; taking: typeof contestants } {
  const words = only.split(',').filter((word) => word !== '')
  const chosen = scenarios.filter(({ name }) => words.some((word) => name.startsWith(word)))
  const taking = contestants.filter(({ name }) => words.includes(name))
  const known = (word: string): boolean =>
    scenarios.some(({ name }) => name.startsWith(word)) || contestants.some(({ name }) => name === word)
  const unknown = words.filter((word) => !known(word))
  if (unknown.length > 0) throw new Error(`--only does not know ${unknown.join(', ')}\n${help}`)
  return { chosen: chosen.length > 0 ? chosen : scenarios, taking: taking.length > 0 ? taking : contestants }
}

function sizesOf(): Sizes {
  if (options.smoke) return smokeSizes
  const seconds = numberOf('seconds', options.seconds)
  return { seconds, warmSeconds: seconds / 2, rounds: numberOf('rounds', options.rounds), filled: 60_000 }
}

function numberOf(name: string, text: string): number {
  const value = Number(text)
  if (text.trim() === '' || !Number.isFinite(value) || value < 0)
    throw new Error(`--${name} takes a number, not ${text}\n${help}`)
  return value
}

function dataFolder(): string {
  const parent = fileURLToPath(new URL('../.data', import.meta.url))
  mkdirSync(parent, { recursive: true })
  return mkdtempSync(join(parent, 'bench-'))
}

/** Digits beyond the fifth are noise. */
function rounded(_name: string, value: unknown): unknown {
  return typeof value === 'number' && !Number.isInteger(value) ? Number(value.toPrecision(5)) : value
}
