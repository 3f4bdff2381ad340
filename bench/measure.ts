/** One table: every scenario on every contestant, round by round, so that a slow moment of the machine meets them all. */
import { execFile, fork, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { rawPeer, type Contestant, type Name } from './contestants.ts'
import type { Job, Keys, Seen } from './load.ts'
import { filledPrefix, freshPrefix, hotPrefix, workingSet, type Scenario, type ScenarioName } from './scenarios.ts'
import { bytesOnDisk, LogMeter, Server } from './server.ts'

export interface Sizes {
  readonly seconds: number
  readonly warmSeconds: number
  readonly rounds: number
  /** Actions on the file that cold replays are asked of. */
  readonly filled: number
}

/** One scenario on one contestant, once. */
export interface Measured extends Seen {
  /** Processor time of the server's process, all threads, in microseconds a request. */
  readonly cpuUs: number
  /** Bytes that went to the log, a request. Null: nothing is logged. */
  readonly logBytes: number | null
}

export interface Cell {
  readonly scenario: ScenarioName
  readonly contestant: Name
  readonly rounds: Measured[]
}

export interface Table {
  readonly fsyncDelayMs: number
  readonly cells: readonly Cell[]
  /** Raw SQLite, in rows a second, by round. */
  readonly raw: readonly number[]
  /** After all first writes, in MB, and the first start, in milliseconds. */
  readonly memoryMb: Partial<Record<Name, number>>
  readonly startMs: Partial<Record<Name, number>>
  /** The starts on the filled file, in milliseconds, by round. */
  readonly startFilledMs: Partial<Record<Name, number[]>>
}

/** The load's process. */
export class LoadProcess {
  readonly #process: ChildProcess = fork(fileURLToPath(new URL('load.ts', import.meta.url)), {
    serialization: 'advanced', // JSON has no Infinity
  })

  async run(job: Job): Promise<Seen> {
    this.#process.send(job)
    const [seen] = (await once(this.#process, 'message')) as [Seen]
    if (seen.wrong !== null) throw new Error(`a wrong answer:\n${seen.wrong}`)
    return seen
  }

  end(): void {
    this.#process.disconnect()
  }
}

/** A contestant with its files: one that first writes go to, and one that was filled before. */
export interface Subject {
  readonly contestant: Contestant
  readonly data: string
  readonly token: string
  readonly filled: { readonly data: string; readonly token: string; readonly bytesPerAction: number } | null
  /** Number of the first key that was never sent. */
  fresh: number
}

/** Makes a contestant's files; fills one with `filled` Actions and the other with the working set of hot replays. */
export async function prepare(
  load: LoadProcess,
  contestant: Contestant,
  folder: string,
  filled: number,
): Promise<Subject> {
  const data = join(folder, `${contestant.name}.db`)
  const token = await contestant.prepare(data)
  if (!contestant.stores) return { contestant, data, token, filled: null, fresh: 0 }
  await write(load, contestant, data, token, { kind: 'fresh', prefix: hotPrefix, from: 0 }, workingSet)
  if (filled === 0) return { contestant, data, token, filled: null, fresh: 0 }
  const old = { data: join(folder, `${contestant.name}-filled.db`), token: '' }
  old.token = await contestant.prepare(old.data)
  await write(load, contestant, old.data, old.token, { kind: 'fresh', prefix: filledPrefix, from: 0 }, filled)
  return {
    contestant,
    data,
    token,
    filled: { ...old, bytesPerAction: bytesOnDisk(old.data) / filled },
    fresh: 0,
  }
}

const fillSecondsMax = 3600

/** Writes so many Actions, with a server that is started for it. */
export async function write(
  load: LoadProcess,
  contestant: Contestant,
  data: string,
  token: string,
  keys: Keys,
  count: number,
): Promise<void> {
  const server = await Server.start(contestant, data, token, {})
  const expect = { status: 200, replayed: false }
  const job = { connections: 64, warmSeconds: 0, seconds: fillSecondsMax, requestsMax: count, changed: false, expect }
  const { sent } = await load.run({ ...job, port: server.port, token, keys })
  if (sent !== count) throw new Error(`${contestant.title} took ${sent} of ${count} writes in an hour`)
  await server.stop()
}

export async function measureTable(
  load: LoadProcess,
  subjects: readonly Subject[],
  chosen: readonly Scenario[],
  sizes: Sizes,
  delay: { readonly ms: number; readonly env: NodeJS.ProcessEnv; readonly folder: string },
): Promise<Table> {
  const servers = new Map<Subject, Server>()
  for (const subject of subjects) {
    const server = await Server.start(subject.contestant, subject.data, subject.token, delay.env)
    servers.set(subject, server)
    await warmUp(load, subject, server, sizes)
  }
  const cells = new Map<string, Cell>()
  const raw: number[] = []
  const startFilledMs: Partial<Record<Name, number[]>> = {}
  for (let round = 0; round < sizes.rounds; round++) {
    process.stderr.write(`round ${round + 1} of ${sizes.rounds}, fsync +${delay.ms} ms\n`)
    raw.push(await rawRate(delay.folder, sizes.seconds, delay.env))
    for (const scenario of chosen) {
      for (const [subject, server] of servers) {
        const { name, stores } = subject.contestant
        if (scenario.again && !stores) continue
        const id = `${scenario.name} ${name}`
        const cell = cells.get(id) ?? { scenario: scenario.name, contestant: name, rounds: [] }
        cells.set(id, cell)
        if (!scenario.restarted) {
          cell.rounds.push(await measureCell(load, scenario, subject, server, sizes, round))
        } else if (subject.filled !== null) {
          const { data, token } = subject.filled
          const restarted = await Server.start(subject.contestant, data, token, delay.env)
          cell.rounds.push(await measureCell(load, scenario, subject, restarted, sizes, round))
          await restarted.stop()
          const starts = (startFilledMs[name] ??= [])
          starts.push(restarted.startMs)
        }
      }
    }
  }
  const memoryMb: Partial<Record<Name, number>> = {}
  const startMs: Partial<Record<Name, number>> = {}
  for (const [{ contestant }, server] of servers) {
    memoryMb[contestant.name] = server.memoryMb()
    startMs[contestant.name] = server.startMs
    await server.stop()
  }
  return { fsyncDelayMs: delay.ms, cells: [...cells.values()], raw, memoryMb, startMs, startFilledMs }
}

/** So that nobody's first cells are those of a program that is not compiled yet. */
async function warmUp(load: LoadProcess, subject: Subject, server: Server, { seconds }: Sizes): Promise<void> {
  const { sent } = await load.run({
    ...{ port: server.port, connections: 64, warmSeconds: 0, seconds: 2 * seconds, requestsMax: 30_000 },
    keys: { kind: 'fresh', prefix: freshPrefix, from: subject.fresh },
    ...{ token: server.token, changed: false, expect: { status: 200, replayed: false } },
  })
  subject.fresh += sent
}

export async function measureCell(
  load: LoadProcess,
  scenario: Scenario,
  subject: Pick<Subject, 'filled' | 'fresh'>,
  server: Server,
  { seconds, warmSeconds, filled }: Omit<Sizes, 'rounds'>,
  round: number,
): Promise<Measured> {
  const { connections, changed, expect } = scenario
  const keys = scenario.keys({ fresh: subject.fresh, filled, round })
  const { port, token } = server
  const log = LogMeter.start(server.data)
  const cpuBefore = server.cpuMs()
  const seen = await load.run({
    ...{ port, connections, warmSeconds, seconds, requestsMax: Infinity, keys, token, changed, expect },
  })
  const logBytes = log?.stop() ?? null
  if (keys.kind === 'fresh' && keys.prefix === freshPrefix) subject.fresh += seen.sent
  return {
    ...seen,
    cpuUs: ((server.cpuMs() - cpuBefore) * 1000) / seen.sent,
    logBytes: logBytes === null ? null : logBytes / seen.sent,
  }
}

async function rawRate(folder: string, seconds: number, env: NodeJS.ProcessEnv): Promise<number> {
  const data = join(folder, 'raw.db')
  const args = [rawPeer, '--data', data, '--seconds', String(seconds)]
  const { stdout } = await promisify(execFile)(process.execPath, args, { env: { ...process.env, ...env } })
  for (const suffix of ['', '-wal', '-shm']) rmSync(data + suffix, { force: true })
  return (JSON.parse(stdout) as { perSecond: number }).perSecond
}
