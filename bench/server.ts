/** A contestant's process: started, looked at from outside, stopped. */
import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, existsSync, openSync, readFileSync, readSync, statSync } from 'node:fs'
import { createServer, type AddressInfo } from 'node:net'
import { DatabaseSync } from 'node:sqlite'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Contestant } from './contestants.ts'

const startMsMax = 60_000
const clockTicksPerSecond = 100

export class Server {
  readonly contestant: Contestant
  readonly port: number
  readonly token: string
  readonly data: string
  /** From the start of the process to its first answer, in milliseconds. */
  readonly startMs: number
  readonly #process: ChildProcess

  private constructor(of: Pick<Server, 'contestant' | 'port' | 'token' | 'data' | 'startMs'>, process: ChildProcess) {
    this.contestant = of.contestant
    this.port = of.port
    this.token = of.token
    this.data = of.data
    this.startMs = of.startMs
    this.#process = process
  }

  static async start(contestant: Contestant, data: string, token: string, env: NodeJS.ProcessEnv): Promise<Server> {
    const port = await freePort()
    const startedAt = performance.now()
    const child = spawn(process.execPath, contestant.args(port, data), {
      env: { ...process.env, NODE_NO_WARNINGS: '1', ...env },
      stdio: ['ignore', 'ignore', 'inherit'],
    })
    const kill = (): boolean => child.kill('SIGKILL')
    process.once('exit', kill)
    child.once('exit', () => process.off('exit', kill))
    while (!(await isReady(port))) {
      if (child.exitCode !== null) throw new Error(`${contestant.title} ended with ${child.exitCode} at its start`)
      if (performance.now() - startedAt > startMsMax) throw new Error(`${contestant.title} is not ready after a minute`)
      await sleep(5)
    }
    return new Server({ contestant, port, token, data, startMs: performance.now() - startedAt }, child)
  }

  async stop(): Promise<void> {
    if (this.#process.exitCode !== null) throw new Error(`${this.contestant.title} ended by itself`)
    this.#process.kill('SIGTERM')
    await once(this.#process, 'exit')
  }

  /** Processor time of all its threads so far, in milliseconds. */
  cpuMs(): number {
    const stat = readFileSync(`/proc/${this.#process.pid}/stat`, 'utf8')
    // The second field is a name in parentheses, which may hold spaces; utime and stime are the 14th and 15th.
    const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
    return ((Number(fields[11]) + Number(fields[12])) * 1000) / clockTicksPerSecond
  }

  memoryMb(): number {
    const status = readFileSync(`/proc/${this.#process.pid}/status`, 'utf8')
    return Number(/^VmRSS:\s+(\d+) kB/m.exec(status)?.[1] ?? 0) / 1024
  }
}

async function isReady(port: number): Promise<boolean> {
  try {
    const response = await fetch(`http://127.0.0.1:${port}/readyz`, { headers: { Connection: 'close' } })
    await response.arrayBuffer()
    return response.ok
  } catch (error) {
    if (error instanceof TypeError) return false // nobody listens yet
    throw error
  }
}

async function freePort(): Promise<number> {
  const probe = createServer().listen(0, '127.0.0.1')
  await once(probe, 'listening')
  const { port } = probe.address() as AddressInfo
  probe.close()
  await once(probe, 'close')
  return port
}

/** Bytes of a stopped server's file, with all that was in the log. */
export function bytesOnDisk(data: string): number {
  const db = new DatabaseSync(data)
  db.exec('PRAGMA wal_checkpoint(TRUNCATE)')
  db.close()
  return statSync(data).size
}

/**
 * Counts the bytes that go to a SQLite log while it is written, from the number of its last frame in the log's shared
 * index (16 bytes into the -shm file). A log that begins anew counts from there; what it got since the last look is lost,
 * which is a few milliseconds of seconds.
 */
export class LogMeter {
  readonly #fd: number
  readonly #timer: NodeJS.Timeout
  readonly #buffer = Buffer.alloc(20)
  #frames = 0
  #last: number

  private constructor(fd: number) {
    this.#fd = fd
    this.#last = this.#lastFrame()
    this.#timer = setInterval(() => this.#look(), 5)
  }

  static start(data: string): LogMeter | null {
    return existsSync(`${data}-shm`) ? new LogMeter(openSync(`${data}-shm`, 'r')) : null
  }

  /** Bytes since the start. */
  stop(): number {
    this.#look()
    clearInterval(this.#timer)
    closeSync(this.#fd)
    return this.#frames * (pageBytes + frameHeaderBytes)
  }

  #look(): void {
    const now = this.#lastFrame()
    this.#frames += now >= this.#last ? now - this.#last : now
    this.#last = now
  }

  #lastFrame(): number {
    readSync(this.#fd, this.#buffer, 0, 20, 0)
    return this.#buffer.readUInt32LE(16)
  }
}

const pageBytes = 4096
const frameHeaderBytes = 24
