/** What a call costs as Actions pile up (K6): files of different sizes, measured in turn, so that the machine is the same. */
import { copyFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Contestant } from './contestants.ts'
import { median } from './median.ts'
import { measureCell, write, type LoadProcess, type Measured, type Sizes } from './measure.ts'
import { filledPrefix, scenarios } from './scenarios.ts'
import { bytesOnDisk, Server } from './server.ts'

export interface GrowthPoint {
  readonly actions: number
  readonly perSecond: number
  readonly p99: number
  /** Of the server for a first write, in microseconds. */
  readonly cpuUs: number
  readonly coldPerSecond: number
  readonly bytesPerAction: number
  readonly logBytes: number
  readonly startMs: number
  readonly memoryMb: number
  readonly rounds: readonly Measured[]
}

export interface Growth {
  readonly points: readonly GrowthPoint[]
  /** Time of a first write at the most Actions, divided by that at the fewest. */
  readonly cost: number
}

interface Filled {
  readonly actions: number
  readonly data: string
  readonly token: string
  readonly bytesPerAction: number
  readonly firsts: Measured[]
  readonly colds: Measured[]
  readonly starts: number[]
  readonly memory: number[]
}

export async function measureGrowth(
  load: LoadProcess,
  contestant: Contestant,
  folder: string,
  counts: readonly number[],
  sizes: Sizes,
): Promise<Growth> {
  const files: Filled[] = []
  for (const actions of [...counts].sort((a, b) => a - b)) {
    process.stderr.write(`filling a file with ${actions} Actions\n`)
    files.push(await fill(load, contestant, folder, actions, files.at(-1)))
  }
  for (let round = 0; round < sizes.rounds; round++) {
    process.stderr.write(`round ${round + 1} of ${sizes.rounds}, growth\n`)
    for (const file of files) await measureRound(load, contestant, file, sizes, round)
  }
  const points = files.map(pointOf)
  const [fewest, most] = [points[0], points.at(-1)]
  // Within each round, so that a slow moment of the machine falls out.
  const costs = (fewest?.rounds ?? []).map((round, i) => round.perSecond / (most?.rounds[i]?.perSecond ?? NaN))
  return { points, cost: median(costs) }
}

/** Each file goes on from a copy of the one before. */
async function fill(
  load: LoadProcess,
  contestant: Contestant,
  folder: string,
  actions: number,
  smaller: Filled | undefined,
): Promise<Filled> {
  const data = join(folder, `growth-${actions}.db`)
  if (smaller !== undefined) copyFileSync(smaller.data, data)
  const token = smaller?.token ?? (await contestant.prepare(data))
  const from = smaller?.actions ?? 0
  await write(load, contestant, data, token, { kind: 'fresh', prefix: filledPrefix, from }, actions - from)
  return {
    actions,
    data,
    token,
    bytesPerAction: bytesOnDisk(data) / actions,
    firsts: [],
    colds: [],
    starts: [],
    memory: [],
  }
}

/** Cold replays, then first writes, on a server that is started for it. Writes go to a copy: the file keeps its size. */
async function measureRound(
  load: LoadProcess,
  contestant: Contestant,
  file: Filled,
  sizes: Sizes,
  round: number,
): Promise<void> {
  const copy = `${file.data}.copy`
  copyFileSync(file.data, copy)
  const server = await Server.start(contestant, copy, file.token, {})
  const subject = { filled: null, fresh: 0 }
  const at = { ...sizes, filled: file.actions }
  for (const scenario of scenarios) {
    if (scenario.name === 'cold-64') file.colds.push(await measureCell(load, scenario, subject, server, at, round))
  }
  for (const scenario of scenarios) {
    if (scenario.name === 'first-64') file.firsts.push(await measureCell(load, scenario, subject, server, at, round))
  }
  file.starts.push(server.startMs)
  file.memory.push(server.memoryMb())
  await server.stop()
}

function pointOf({ actions, bytesPerAction, firsts, colds, starts, memory }: Filled): GrowthPoint {
  return {
    actions,
    perSecond: median(firsts.map((one) => one.perSecond)),
    p99: median(firsts.map((one) => one.p99)),
    cpuUs: median(firsts.map((one) => one.cpuUs)),
    coldPerSecond: median(colds.map((one) => one.perSecond)),
    bytesPerAction,
    logBytes: median(firsts.map((one) => one.logBytes ?? NaN)),
    startMs: median(starts),
    memoryMb: median(memory),
    rounds: firsts,
  }
}
