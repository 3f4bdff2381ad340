/**
 * The benchmark's smoke form: some seconds, to see in every test run that it works and that no ratio is far off the one
 * kept in results/smoke.json. Processor time is compared, not rates: it holds still when the machine does something else
 * meanwhile. Cells are short, so only twice and a half the usual is a fault of the code.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { median } from './median.ts'
import type { Sizes, Subject, Table } from './measure.ts'
import type { ScenarioName } from './scenarios.ts'

export const smokeSizes: Sizes = { seconds: 0.8, warmSeconds: 0.8, rounds: 1, filled: 20_000 }
export const smokeScenarios: readonly ScenarioName[] = ['first-64', 'hot-64', 'cold-64']
export const smokeContestants: readonly string[] = ['framework', 'ours']

const farOff = 2.5
const path = fileURLToPath(new URL('results/smoke.json', import.meta.url))

type Ratios = Readonly<Record<string, number>>

/** Processor time of a request, divided by that of one which the same framework answers without an engine; and bytes. */
function ratiosOf(table: Table, subjects: readonly Subject[]): Ratios {
  const cpu = (scenario: ScenarioName, contestant: string): number => {
    const cell = table.cells.find((one) => one.scenario === scenario && one.contestant === contestant)
    return median((cell?.rounds ?? []).map(({ cpuUs }) => cpuUs ?? NaN))
  }
  const ours = subjects.find(({ contestant }) => contestant.name === 'ours')
  return {
    ...Object.fromEntries(
      smokeScenarios.map((scenario) => [
        `${scenario}, CPU ÷ Fastify with no engine`,
        cpu(scenario, 'ours') / cpu('first-64', 'framework'),
      ]),
    ),
    'bytes on disk an Action': ours?.filled?.bytesPerAction ?? NaN,
  }
}

/** What is far above the kept ratios, in sentences; one that was not measured is told too. */
export function farFromKept(table: Table, subjects: readonly Subject[]): string[] {
  const kept = JSON.parse(readFileSync(path, 'utf8')) as Ratios
  const measured = ratiosOf(table, subjects)
  return Object.entries(kept).flatMap(([what, usual]) => {
    const times = (measured[what] ?? NaN) / usual
    return times <= farOff ? [] : [`${what}: ${measured[what]?.toPrecision(3)}, where ${usual} is usual`]
  })
}

/** Keeps what was measured as what is usual. */
export function keep(table: Table, subjects: readonly Subject[]): void {
  const ratios = Object.entries(ratiosOf(table, subjects)).map(([what, value]) => [what, Number(value.toPrecision(3))])
  writeFileSync(path, `${JSON.stringify(Object.fromEntries(ratios), null, 2)}\n`)
}
