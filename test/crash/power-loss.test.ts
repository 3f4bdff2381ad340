import { cpSync, mkdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { endAll, newFolder, startPayments } from '../support/server.ts'
import { chance, Disk, losses } from '../support/shim/disk.ts'
import { live, momentsOf, spotsOf } from './life.ts'
import type { LifeOptions } from './life.ts'
import { faultsOf, serveAgain } from './remains.ts'

afterAll(endAll)

const long = process.env['STARTUP_BUILDER_LONG'] === '1'
/** Lives, each on the disk that a power loss in the one before has left; and power losses in each. */
const lives = long ? 5 : 2
const cuts = Number(process.env['POWER_CUTS'] ?? (long ? 70 : 8))
/** Of these one in so many is served again and asked over HTTP. */
const servedEach = 8
const timeoutMs = long ? 3_600_000 : 120_000

interface Losses {
  cuts: number
  served: number
  records: number
  told: number
  /** Losses while something of the log, or of the database, was unsynced. */
  logUnsynced: number
  databaseUnsynced: number
  /** Answers that left while something of the log was unsynced: of those that tell nothing of it there may be some. */
  earlyAnswers: number
  /** How often the log began anew after it was copied whole. */
  beginnings: number
  /** Faults, with what repeats them. */
  readonly faults: string[]
}

/** Lives, and loses power at many moments of each; stops at the first loss that leaves a fault. */
async function losePower(lives: number, cuts: number, optionsOf: (life: number) => LifeOptions): Promise<Losses> {
  const seed = Number(process.env['POWER_SEED'] ?? Math.floor(Math.random() * 2 ** 31))
  process.stdout.write(`power loss: POWER_SEED=${seed}\n`)
  const random = chance(seed)
  await using payments = await startPayments()
  const sums: Losses = {
    cuts: 0,
    served: 0,
    records: 0,
    told: 0,
    logUnsynced: 0,
    databaseUnsynced: 0,
    earlyAnswers: 0,
    beginnings: 0,
    faults: [],
  }
  let folder = join(newFolder('powered'), 'data')
  mkdirSync(folder)

  for (let run = 1; run <= lives; run++) {
    const life = await live(folder, run, payments, random, optionsOf(run))
    const disk = new Disk(life.folder, life.before)
    let index = 0
    for (const { index: moment, isEarly } of momentsOf(life.records, cuts, random)) {
      for (; index <= moment; index++) disk.apply(present(life.records[index]))
      const { end } = present(life.records[moment])
      const told = life.told.filter(({ position }) => position <= end)
      const loss = isEarly ? 'all' : present(losses[sums.cuts % losses.length])
      // The next life begins on what the last of these cuts has left.
      if (folder !== life.folder) rmSync(folder, { recursive: true })
      folder = join(newFolder('left'), 'data')
      disk.lose(folder, loss, random)
      const faults = await onCopy(folder, (copy) => faultsOf(copy, told, life.actionOfKey))
      if (sums.cuts % servedEach === 0 && faults.length === 0) {
        faults.push(...(await onCopy(folder, (copy) => serveAgain(copy, told, life, payments))))
        sums.served++
      }
      sums.cuts++
      if (disk.unsynced('startup.db-wal') > 0) sums.logUnsynced++
      if (disk.unsynced('startup.db') > 0) sums.databaseUnsynced++
      if (faults.length === 0) continue
      const where = `POWER_SEED=${seed}, life ${run}, record ${moment} of ${life.records.length}, ${loss} of the unsynced lost`
      sums.faults.push(...faults.slice(0, 5).map((fault) => `${where}: ${fault}`))
      return sums
    }
    const { beginnings, earlyAnswers } = spotsOf(life.records)
    sums.beginnings += beginnings.length
    sums.earlyAnswers += earlyAnswers.length
    sums.records += life.records.length
    sums.told += life.told.length
  }
  return sums
}

async function onCopy<T>(folder: string, look: (copy: string) => Promise<T>): Promise<T> {
  const copy = join(newFolder('copy'), 'data')
  cpSync(folder, copy, { recursive: true })
  try {
    return await look(copy)
  } finally {
    rmSync(copy, { recursive: true })
  }
}

function present<T>(value: T | undefined): T {
  if (value === undefined) throw new Error('nothing there')
  return value
}

test(
  `R3: ${lives * cuts} power losses, amid writes, syncs and checkpoints, lose nothing that anybody was told`,
  async () => {
    const { faults, ...sums } = await losePower(lives, cuts, (life) =>
      long ? { ms: 8_000, titleChars: 300_000 } : { ms: 2_000, titleChars: life === 1 ? 500_000 : 2_000 },
    )
    process.stdout.write(`power loss: ${JSON.stringify(sums)}\n`)
    expect(faults).toEqual([])
    // With nothing unsynced there is nothing to lose: many of the moments must be others.
    expect(sums.logUnsynced).toBeGreaterThan(sums.cuts / 4)
    if (!long) return
    expect(sums.databaseUnsynced).toBeGreaterThan(sums.cuts / 10)
    expect(sums.beginnings).toBeGreaterThan(lives)
  },
  timeoutMs,
)

test(
  'R3: the same power losses on a disk whose syncs do nothing are found out',
  async () => {
    const { faults } = await losePower(1, 8, () => ({ ms: 1_000, titleChars: 2_000, syncLies: true }))
    expect(faults.length).toBeGreaterThan(0)
  },
  timeoutMs,
)
