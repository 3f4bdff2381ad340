/** Medians, ratios and the table that people read. */
import { contestants, type Name } from './contestants.ts'
import type { Growth } from './growth.ts'
import { median } from './median.ts'
import type { Cell, Measured, Subject, Table } from './measure.ts'
import { scenarios, type ScenarioName } from './scenarios.ts'

export interface Target {
  readonly what: string
  readonly measured: number
  readonly bound: number
  /** `least`: the bound or more is reached. `most`: the bound or less. */
  readonly kind: 'least' | 'most'
}

export function isReached({ measured, bound, kind }: Target): boolean {
  return kind === 'least' ? measured >= bound : measured <= bound
}

/** The median over the rounds; NaN for a cell that was not measured. */
function of(table: Table, scenario: ScenarioName, contestant: Name, value: (cell: Measured) => number | null): number {
  const cell = table.cells.find((one) => one.scenario === scenario && one.contestant === contestant)
  return cell === undefined ? NaN : median(cell.rounds.map((one) => value(one) ?? NaN))
}

const rate = (cell: Measured): number => cell.perSecond

/** The median of the ratios within each round: what slows a whole round falls out of them. */
function ratio(table: Table, a: [ScenarioName, Name], b: [ScenarioName, Name]): number {
  const [above, below] = [a, b].map(([scenario, contestant]) =>
    table.cells.find((cell) => cell.scenario === scenario && cell.contestant === contestant),
  )
  if (above === undefined || below === undefined) return NaN
  return median(above.rounds.map((one, i) => one.perSecond / (below.rounds[i]?.perSecond ?? NaN)))
}

/** What the numbers are to reach. Those that were not measured are left out. */
export function targetsOf(table: Table, subjects: readonly Subject[], growth: Growth | null): Target[] {
  const hand = 'hand-written'
  const least = (what: string, measured: number, bound: number): Target => ({ what, measured, bound, kind: 'least' })
  const most = (what: string, measured: number, bound: number): Target => ({ what, measured, bound, kind: 'most' })
  const tail = of(table, 'first-64', 'ours', (cell) => cell.p99 / cell.p50)
  const bytes = subjects.find(({ contestant }) => contestant.name === 'ours')?.filled?.bytesPerAction ?? NaN
  return [
    least('first writes ÷ bare HTTP, 64', ratio(table, ['first-64', 'ours'], ['first-64', 'bare']), 0.4),
    least(`first writes ÷ ${hand}, 1`, ratio(table, ['first-1', 'ours'], ['first-1', 'handwritten']), 0.6),
    least(`first writes ÷ ${hand}, 16`, ratio(table, ['first-16', 'ours'], ['first-16', 'handwritten']), 1),
    least(`first writes ÷ ${hand}, 64`, ratio(table, ['first-64', 'ours'], ['first-64', 'handwritten']), 1),
    least(
      'hot replays ÷ Fastify with no engine, 64',
      ratio(table, ['hot-64', 'ours'], ['first-64', 'framework']),
      0.85,
    ),
    least(
      'cold replays ÷ Fastify with no engine, 64',
      ratio(table, ['cold-64', 'ours'], ['first-64', 'framework']),
      0.4,
    ),
    most('p99 ÷ p50 of first writes, 64', tail, 4),
    most('bytes on disk an Action', bytes, 900),
    most('cost of a first write, most ÷ fewest Actions', growth?.cost ?? NaN, 1.15),
  ].filter(({ measured }) => !Number.isNaN(measured))
}

/** The table of a run, for a terminal. */
export function tableText(table: Table): string {
  const present = contestants.filter(({ name }) => table.cells.some((cell) => cell.contestant === name))
  const delay = table.fsyncDelayMs === 0 ? '' : `, ${table.fsyncDelayMs} ms added to each fsync`
  const rows = scenarios
    .filter(({ name }) => table.cells.some((cell) => cell.scenario === name))
    .map(({ name, title }) => [title, ...present.map((one) => cellText(table, name, one.name))])
  const more = [
    ['longest stall, ms', (cells: Cell[]) => longest(cells)],
    ['log bytes a first write, 64', (_, name: Name) => whole(of(table, 'first-64', name, (cell) => cell.logBytes))],
    ['CPU µs a first write, 64', (_, name: Name) => whole(of(table, 'first-64', name, (cell) => cell.cpuUs))],
    ['CPU µs a hot replay, 64', (_, name: Name) => whole(of(table, 'hot-64', name, (cell) => cell.cpuUs))],
    ['start, ms', (_, name: Name) => whole(table.startMs[name] ?? NaN)],
    ['start on the filled file, ms', (_, name: Name) => whole(median(table.startFilledMs[name] ?? []))],
    ['memory, MB', (_, name: Name) => whole(table.memoryMb[name] ?? NaN)],
  ] satisfies [string, (cells: Cell[], name: Name) => string][]
  const facts = more.map(([title, value]) => [
    title,
    ...present.map(({ name }) =>
      value(
        table.cells.filter((cell) => cell.contestant === name),
        name,
      ),
    ),
  ])
  const lines = aligned([['', ...present.map(({ title }) => title)], ...rows, ...facts])
  const raw = `raw SQLite, 64 rows a commit: ${thousands(median(table.raw))} rows/s`
  return [`Requests/s (p50, p99 in ms), medians${delay}`, ...lines, raw].join('\n')
}

function cellText(table: Table, scenario: ScenarioName, contestant: Name): string {
  const perSecond = of(table, scenario, contestant, rate)
  if (Number.isNaN(perSecond)) return '–'
  const [p50, p99] = [of(table, scenario, contestant, (c) => c.p50), of(table, scenario, contestant, (c) => c.p99)]
  return `${thousands(perSecond)} (${short(p50)}, ${short(p99)})`
}

function longest(cells: readonly Cell[]): string {
  return short(Math.max(...cells.flatMap(({ rounds }) => rounds.map((round) => round.longestStall))))
}

export function targetsText(targets: readonly Target[]): string {
  const rows = targets.map((target) => [
    target.what,
    short(target.measured),
    `${target.kind === 'least' ? '≥' : '≤'} ${target.bound}`,
    isReached(target) ? 'reached' : 'NOT REACHED',
  ])
  return aligned([['', 'measured', 'target', ''], ...rows]).join('\n')
}

export function growthText({ points, cost }: Growth): string {
  const rows = points.map((point) => [
    thousands(point.actions),
    ...[thousands(point.perSecond), whole(point.cpuUs), short(point.p99), thousands(point.coldPerSecond)],
    ...[whole(point.bytesPerAction), whole(point.logBytes), whole(point.startMs), whole(point.memoryMb)],
  ])
  const head = ['Actions', 'first/s', 'CPU µs', 'p99 ms', 'cold/s', 'bytes each', 'log bytes', 'start ms', 'MB']
  return [
    'As Actions pile up, 64 connections',
    ...aligned([head, ...rows]),
    `cost, most ÷ fewest: ${short(cost)}`,
  ].join('\n')
}

function aligned(rows: readonly (readonly string[])[]): string[] {
  const widths = (rows[0] ?? []).map((_, i) => Math.max(...rows.map((row) => row[i]?.length ?? 0)))
  return rows.map((row) =>
    row.map((text, i) => (i === 0 ? text.padEnd(widths[0] ?? 0) : text.padStart(widths[i] ?? 0))).join('  '),
  )
}

function thousands(value: number): string {
  return value >= 1000 ? `${(value / 1000).toFixed(1)}k` : value.toFixed(0)
}

function short(value: number): string {
  return value >= 100 ? value.toFixed(0) : value >= 10 ? value.toFixed(1) : value.toFixed(2)
}

function whole(value: number): string {
  return Number.isNaN(value) ? '–' : value.toFixed(0)
}
