import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createEngine, type Engine } from '../../src/engine/engine.ts'
import type { Action } from '../../src/model/action.ts'
import type { Answer, Call } from '../../src/model/call.ts'
import { isProblem } from '../../src/model/problem.ts'
import type { Startup } from '../../src/model/startup.ts'
import type { Worker } from '../../src/model/worker.ts'
import { openSqlite } from '../../src/store/sqlite/store.ts'
import { StoreUnavailable, type DeployAnswer, type Store } from '../../src/store/store.ts'
import { faulty, type Faults, Dead } from './faulty.ts'
import type { Outside, Port } from './outside.ts'
import type { Crash } from './plan.ts'
import type { Reply, World } from './world.ts'

/** A clock that the test moves, and that ticks by itself besides: waits and time-outs are real. Chance comes from a seed. */
export class TestMachine {
  #aheadMs: number
  #state: number

  constructor(startMs: number, seed: number) {
    this.#aheadMs = startMs - performance.now()
    this.#state = seed | 0
  }

  readonly now = (): number => Math.floor(this.#aheadMs + performance.now())

  jump(ms: number): void {
    this.#aheadMs += ms
  }

  readonly randomBytes = (count: number): Uint8Array => {
    // A single byte is asked for by the pause between two attempts of a step: zero makes it short.
    if (count === 1) return new Uint8Array(1)
    return Uint8Array.from({ length: count }, () => this.#next())
  }

  #next(): number {
    this.#state = (Math.imul(this.#state, 1664525) + 1013904223) | 0
    return (this.#state >>> 16) & 255
  }
}

export interface RigOptions {
  readonly define: (outside: Port) => readonly Startup[]
  readonly outside: Outside
  readonly workers: readonly Worker[]
  readonly seed: number
  /** What the engine logs as an error, which is a fault of the engine unless the test expects it. */
  readonly onError?: (facts: object, message: string) => void
}

interface Life {
  readonly engine: Engine
  readonly store: Store
  readonly real: Store
  readonly faults: Faults
  readonly port: { cut(): void }
}

/**
 * A store in a file of its own and an engine on it, in this process: it can die at any call of the store, and is started
 * anew on the same file, as often as the test likes.
 */
export class Rig implements World {
  readonly machine: TestMachine
  readonly #options: RigOptions
  readonly #folder = mkdtempSync(join(tmpdir(), 'kiln-'))
  #life: Life | null = null

  constructor(options: RigOptions) {
    this.#options = options
    this.machine = new TestMachine(Date.UTC(2026, 10, 30, 12), options.seed)
  }

  async open(): Promise<readonly Worker[]> {
    const { workers } = this.#options
    await this.start()
    for (const worker of workers) await this.store.addWorker(worker, null, null)
    return workers
  }

  async recorded({ namespace, name }: Worker, key: string): Promise<readonly Action[]> {
    return (await this.store.actions(namespace, { worker: name, key }, { after: 0, limit: 10 })).data
  }

  async told(): Promise<void> {
    await this.store.durable()
    await new Promise((resolve) => setImmediate(resolve))
  }

  arm({ methods, moment, n }: Crash): void {
    this.faults.dieAt(methods, moment, n)
  }
  disarm(): void {
    this.faults.disarm()
  }
  now(): number {
    return this.machine.now()
  }
  jump(ms: number): void {
    this.machine.jump(ms)
  }

  get engine(): Engine {
    return this.#alive().engine
  }
  get store(): Store {
    return this.#alive().store
  }
  get faults(): Faults {
    return this.#alive().faults
  }
  get isDead(): boolean {
    return this.#alive().faults.isDead
  }

  #alive(): Life {
    if (this.#life === null) throw new Error('the rig is not started')
    return this.#life
  }

  async start(): Promise<void> {
    const { machine } = this
    const onDoubt = (reason: Error): never => {
      throw reason
    }
    const real = await openSqlite(join(this.#folder, 'kiln.db'), { role: 'server', machine, onDoubt })
    const faults = faulty(real)
    const { store } = faults
    const port = this.#options.outside.port()
    const startups = new Map(this.#options.define(port).map((startup) => [startup.namespace, startup]))
    const deployed = new Map<string, DeployAnswer>()
    for (const [namespace, { manifest }] of startups) deployed.set(namespace, await store.deploy(manifest))
    const error = (facts: object, message: string): void => {
      if (!faults.isDead && message !== 'a Verb threw') this.#options.onError?.(facts, message)
    }
    const log = { info: () => undefined, warn: () => undefined, error }
    const engine = await createEngine({ store, startups, deployed, machine, log })
    this.#life = { engine, store, real, faults, port }
    await engine.start()
  }

  /** A call, and its answer as it would leave the server: after all that it saw is durable (R3). */
  async call(call: Call): Promise<Reply> {
    const { engine, faults } = this.#alive()
    const answered = this.#answer(engine, call)
    return Promise.race([answered, faults.dead.then((): Reply => ({ kind: 'lost' }))])
  }

  async #answer(engine: Engine, call: Call): Promise<Reply> {
    try {
      const answer = await engine.call(call)
      await engine.durable()
      return replyOf(answer)
    } catch (error) {
      if (error instanceof Dead) return { kind: 'lost' }
      // As http/ tells it: a store that can't take it now.
      if (error instanceof StoreUnavailable)
        return { kind: 'problem', status: 503, code: 'store-unavailable', extra: {} }
      if (!isProblem(error)) throw error
      await engine.durable()
      return { kind: 'problem', status: error.status, code: error.code, extra: error.extra }
    }
  }

  /** As `kill -9`: whatever ran does nothing more, and what it had not committed is gone. */
  async kill(): Promise<void> {
    const life = this.#alive()
    life.port.cut()
    life.faults.die()
    await life.engine.stop(0).catch((error: unknown) => {
      if (!(error instanceof Dead)) throw error
    })
    await life.real.close()
    this.#life = null
  }

  /** A graceful stop (V4). */
  async stop(): Promise<void> {
    const { engine, real, port } = this.#alive()
    await engine.stop(0)
    port.cut()
    await real.close()
    this.#life = null
  }

  async end(): Promise<void> {
    if (this.#life !== null) await this.kill()
    rmSync(this.#folder, { recursive: true, force: true })
  }
}

function replyOf(answer: Answer): Reply {
  if (answer.kind === 'try') return answer
  const { id, status, replayed } = answer
  return { kind: 'action', id, status, replayed, body: Buffer.from(answer.body).toString('utf8') }
}
