import { cpSync, rmSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, expect, test } from 'vitest'
import { machine } from '../../src/server/machine.ts'
import { openSqlite } from '../../src/store/sqlite/store.ts'
import { endAll, newFolder, startPayments, startServer } from '../support/server.ts'
import { chance } from '../support/shim/disk.ts'
import { audit, newAudit } from './audit.ts'
import { Shop } from './shop.ts'
import type { DurableCall } from './shop.ts'

afterAll(endAll)

const long = process.env['STARTUP_BUILDER_LONG'] === '1'
const rounds = Number(process.env['CRASH_ROUNDS'] ?? (long ? 200 : 6))
const workers = 12

/** What there was at a kill, from the books of the Workers and from a copy of what is on disk. */
interface Kill {
  readonly inFlight: readonly DurableCall[]
  readonly pending: number
  readonly inStep: number
  readonly retries: number
}

/** Looks at a copy: to open the data file itself would do the recovery that the next start is to do. */
async function lookAtDisk(data: string): Promise<Pick<Kill, 'pending' | 'inStep' | 'retries'>> {
  const copy = join(newFolder('after-kill'), 'data')
  cpSync(dirname(data), copy, { recursive: true, filter: (path) => !path.endsWith('-shm') })
  const store = await openSqlite(join(copy, basename(data)), {
    role: 'server',
    machine,
    onDoubt(reason) {
      throw reason
    },
  })
  try {
    const listed = await store.pending(0, 1000)
    let inStep = 0
    let retries = 0
    for (const { action: id, namespace } of listed) {
      const action = await store.action(namespace, id)
      if (action === null) continue
      if (action.on !== null) retries++
      if ((await store.journal(action.root)).some(({ status }) => status === 'started')) inStep++
    }
    return { pending: listed.length, inStep, retries }
  } finally {
    await store.close()
    rmSync(copy, { recursive: true })
  }
}

test(
  `R3, V2, V4: ${rounds} kills under load lose nothing that was answered and charge nothing twice`,
  async () => {
    const seed = Number(process.env['CRASH_SEED'] ?? Math.floor(Math.random() * 2 ** 31))
    process.stdout.write(`kill: CRASH_SEED=${seed}\n`)
    const random = chance(seed)
    await using payments = await startPayments()
    await using server = await startServer({ env: { PAYMENTS_URL: payments.url } })
    const token = await server.token()
    const shop = new Shop({ token, random })
    const state = newAudit()
    const kills: Kill[] = []
    const settleMs: number[] = []

    for (let round = 1; round <= rounds; round++) {
      shop.url = server.url
      const working = shop.work(workers)
      await sleep(150 + random() * (long ? 900 : 1200))
      const inFlight = [...shop.inFlight]
      await server.kill9()
      shop.stop()
      await working
      kills.push({ inFlight, ...(await lookAtDisk(server.data)) })

      await server.start()
      shop.url = server.url
      if (random() < 0.3) {
        // Once more, amid the recovery.
        const sending = shop.settleAll(30_000).then(() => null, String)
        await sleep(random() * 200)
        await server.kill9()
        await server.start()
        shop.url = server.url
        expect(await sending).toBeNull()
      }
      const from = performance.now()
      await shop.settleAll(30_000)
      settleMs.push(performance.now() - from)
      const faults = await audit(shop, token, payments, state)
      expect(faults.slice(0, 5), `round ${round} of CRASH_SEED=${seed}`).toEqual([])
      if (long && round % 20 !== 0 && round !== rounds) continue
      const verified = await server.cli('verify')
      expect(verified.status, verified.stdout).toBe(0)
    }

    const share = (is: (kill: Kill) => boolean): number => kills.filter(is).length / rounds
    const withCalls = share(({ inFlight }) => inFlight.length > 0)
    const inStep = share(({ inStep }) => inStep > 0)
    const inRetry = share(({ inFlight, retries }) => retries > 0 || inFlight.some(({ what }) => what === 'retry'))
    const unanswered = kills.reduce((sum, { inFlight }) => sum + inFlight.length, 0)
    const pending = kills.reduce((sum, kill) => sum + kill.pending, 0)
    process.stdout.write(
      `kill: ${rounds} rounds, ${shop.calls.length} calls, ${state.lastSeq} Events; ${unanswered} calls in flight at a kill, ` +
        `${pending} Actions pending on disk; kills with calls in flight ${percent(withCalls)}, in a step ${percent(inStep)}, ` +
        `in a retry ${percent(inRetry)}; longest settling ${Math.round(Math.max(...settleMs))} ms\n`,
    )
    expect(withCalls).toBeGreaterThanOrEqual(0.8)
    expect(inStep).toBeGreaterThan(long ? 0.3 : 0)
    if (long) expect(inRetry).toBeGreaterThan(0.1)
  },
  long ? 3_600_000 : 120_000,
)

function percent(share: number): string {
  return `${Math.round(share * 100)} %`
}
