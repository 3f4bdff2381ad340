import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { IdSource } from '../../src/model/ids.ts'
import { checkKey } from '../../src/model/key.ts'
import { machine } from '../../src/server/machine.ts'
import { openSqlite } from '../../src/store/sqlite/store.ts'
import { root, startServer } from './server.ts'
import type { TestServer } from './server.ts'

/** A definition whose Actions are made pending by `plant`. */
const definition = join(root, 'test/fixtures/backlog.ts')
const namespace = 'backlog.test'

/** Actions that are planted at once: as many as a group commit takes. */
const plantedAtOnce = 256

/** A start that found Actions pending, in figures. */
export interface Recovery {
  readonly pending: number
  /** From the start of the process until it listens and is ready. */
  readonly readyMs: number
  /** From then until the last that can settle has. */
  readonly settledMs: number
  /** Of the whole process, at its greatest. */
  readonly peakBytes: number
  /** What fresh calls took meanwhile, in ascending order. */
  readonly freshMs: readonly number[]
}

/**
 * Makes Actions as a process that was killed leaves them, through the store: on record, running, their step not begun. The
 * first `hanging` never settle.
 */
async function plant(data: string, workerId: string, pending: number, hanging: number): Promise<void> {
  const onDoubt = (reason: Error): void => {
    throw reason
  }
  const store = await openSqlite(data, { role: 'server', machine, onDoubt })
  const ids = new IdSource(machine.now, machine.randomBytes, (await store.lastId()) ?? undefined)
  for (let first = 0; first < pending; first += plantedAtOnce) {
    const numbers = Array.from({ length: Math.min(plantedAtOnce, pending - first) }, (_, index) => first + index)
    await Promise.all(
      numbers.map((number) =>
        store.claim({
          id: `act_${ids.next()}`,
          namespace,
          workerId,
          worker: 'planter',
          key: checkKey(`job ${number}`),
          bound: {
            operation: number < hanging ? 'Job.hang' : 'Job.work',
            target: null,
            fingerprint: new Uint8Array([1, ...createHash('sha256').update(String(number)).digest()]),
          },
          verb: number < hanging ? 'Job.hang' : 'Job.work',
          target: null,
          input: JSON.stringify({ number }),
          mode: 'send',
          on: null,
          decidedAgainst: {},
          decidedAfter: [],
          createdAt: machine.now(),
          waitingFor: null,
          running: true,
        }),
      ),
    )
  }
  await store.close()
}

/** A server that is stopped, with so many Actions pending, and the token of their Worker. */
export async function withBacklog(
  data: string,
  { pending, hanging }: { pending: number; hanging: number },
  args: readonly string[] = [],
): Promise<{ readonly server: TestServer; readonly token: string }> {
  const server = await startServer({ startup: definition, data, args })
  const token = await server.token('planter')
  const listed = JSON.parse((await server.cli('worker', 'list')).stdout) as { data: { id: string; name: string }[] }
  const worker = listed.data.find(({ name }) => name === 'planter')
  if (worker === undefined) throw new Error('the Worker is not listed')
  await server.stop()
  await plant(data, worker.id, pending, hanging)
  return { server, token }
}

/** Leaves so many Actions pending, starts a server on them and measures. It has settled all but the hanging ones then. */
export async function recovered(
  data: string,
  { pending, hanging, deadlineMs }: { pending: number; hanging: number; deadlineMs: number },
): Promise<{ readonly server: TestServer; readonly recovery: Recovery }> {
  const { server, token } = await withBacklog(data, { pending, hanging })
  const began = performance.now()
  await server.start()
  await ready(server)
  const readyMs = performance.now() - began
  const freshMs: number[] = []
  const from = performance.now()
  // Jobs are unique by number, so each that settles twice would be seen; the seq of the last Event counts them all.
  for (let fresh = 0; (await eventsAfter(server, token, pending - hanging + fresh - 1)) === 0; fresh++) {
    if (performance.now() - from > deadlineMs) throw new Error(`${pending} were not settled within ${deadlineMs} ms`)
    const sent = performance.now()
    const answer = await work(server, token, pending + fresh)
    freshMs.push(performance.now() - sent)
    if (answer !== 'succeeded') throw new Error(`a fresh call was answered ${answer}`)
    await sleep(5)
  }
  const settledMs = performance.now() - from
  const peakBytes = peakOf(server.child.pid ?? 0)
  return { server, recovery: { pending, readyMs, settledMs, peakBytes, freshMs: freshMs.sort((a, b) => a - b) } }
}

async function ready(server: TestServer): Promise<void> {
  while ((await fetch(`${server.url}/readyz`)).status !== 200) await sleep(5)
}

async function work(server: TestServer, token: string, number: number): Promise<string> {
  const response = await fetch(`${server.url}/${namespace}/jobs/work`, {
    method: 'POST',
    headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json', 'idempotency-key': `f ${number}` },
    body: JSON.stringify({ number }),
  })
  return ((await response.json()) as { status: string }).status
}

async function eventsAfter(server: TestServer, token: string, seq: number): Promise<number> {
  const url = `${server.url}/${namespace}/events?after=${seq}&limit=1`
  const response = await fetch(url, { headers: { authorization: `Bearer ${token}` } })
  return ((await response.json()) as { data: unknown[] }).data.length
}

/** The greatest resident set of a process so far, in bytes, as Linux tells it. */
function peakOf(pid: number): number {
  const [, kib = '0'] = /^VmHWM:\s+(\d+) kB/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8')) ?? []
  return Number(kib) * 1024
}
