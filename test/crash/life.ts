import { cpSync, statSync } from 'node:fs'
import { basename, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect } from 'vitest'
import { newFolder, runCli, startServer } from '../support/server.ts'
import type { TestPayments } from '../support/server.ts'
import type { Chance } from '../support/shim/disk.ts'
import { sentMessages } from '../support/shim/sends.ts'
import { readDiskLog, shimEnv } from '../support/shim/shim.ts'
import { openStream } from '../support/stream.ts'
import type { DiskRecord } from '../support/shim/shim.ts'
import { disclosures } from './disclosures.ts'
import type { Disclosure } from './disclosures.ts'
import { pick, Shop } from './shop.ts'
import type { ShownAction } from './shop.ts'

/** The Action of a derived key. */
export type KeyOwners = ReadonlyMap<string, string>

/** One life of a server on a watched disk, from power on to power off. */
export interface Life {
  readonly folder: string
  /** A copy of the folder as it was when the life began. */
  readonly before: string
  readonly records: readonly DiskRecord[]
  readonly told: readonly Disclosure[]
  readonly token: string
  readonly shop: Shop
  /** Which Action asked the provider under which derived key, as far as it came to a charge. */
  readonly actionOfKey: KeyOwners
}

export interface LifeOptions {
  /** How long it works before the power goes. */
  readonly ms: number
  /** How long some Offers' titles are: what makes the log grow. */
  readonly titleChars: number
  readonly syncLies?: boolean
}

/** Serves a folder under load until the power goes, having kept a copy of it as it was before. */
export async function live(
  folder: string,
  run: number,
  payments: TestPayments,
  random: Chance,
  { ms, titleChars, syncLies = false }: LifeOptions,
): Promise<Life> {
  const before = join(newFolder('before'), 'data')
  cpSync(folder, before, { recursive: true })
  const log = join(newFolder('disk-log'), 'log')
  const env = shimEnv({ folder, log, syncUs: 500 + Math.floor(random() * 3000), syncLies })
  const data = join(folder, 'startup.db')
  await using server = await startServer({ data, env: { ...env, PAYMENTS_URL: payments.url } })

  // Another process on the same disk, beside the server.
  const name = `checkout-${run}`
  const token = await addWatchedWorker(data, name, env)
  const added = { position: statSync(log).size, kind: 'worker' as const, name }

  const shop = new Shop({ token, random, name, titleChars })
  shop.url = server.url
  const working = shop.work(12)
  // What a stream tells must be on disk, too.
  const stream = await openStream(server, 'glyphs.store', token)
  await sleep(ms)
  expect(stream.events.length).toBeGreaterThan(0)
  if (random() < 0.3) {
    // The power goes while the server stops.
    server.child.kill('SIGTERM')
    await sleep(random() * 100)
  }
  await server.kill9()
  shop.stop()
  await working
  const records = readDiskLog(log)
  const sent = sentMessages(records)
  const told = [added, ...sent.flatMap(disclosures)]
  const streamed = sent.filter(({ headers }) => headers['content-type']?.startsWith('text/event-stream'))
  expect(streamed.flatMap(disclosures).filter(({ kind }) => kind === 'event').length).toBeGreaterThan(0)

  // On without a loss, until every call is settled: that tells which Action made which charge.
  await server.start({ env: { PAYMENTS_URL: payments.url } })
  shop.url = server.url
  await shop.settleAll(30_000)
  expect(shop.faults).toEqual([])
  const actionOfKey = new Map<string, string>()
  const keys = new Map((await payments.charges()).map(({ id, key }) => [id, key]))
  for (const { settled } of shop.calls) {
    const { verb, id, output } = JSON.parse(settled ?? '{}') as Partial<ShownAction>
    const key = keys.get(String(output?.['chargeId']))
    if (verb === 'Order.place' && id !== undefined && key !== undefined) actionOfKey.set(key, id)
  }
  return { folder, before, records, told, token, shop, actionOfKey }
}

/** Adds a Worker by a command whose writes the shim records too: a log without them would be a log with a hole. */
export async function addWatchedWorker(
  data: string,
  name: string,
  env: Readonly<Record<string, string>>,
): Promise<string> {
  const add = ['worker', 'add', name, '--kind', 'agent', '--grant', '*', '--namespace', 'glyphs.store', '--data', data]
  const { status, stdout, stderr } = await runCli(add, { env })
  expect(status, stderr).toBe(0)
  return (JSON.parse(stdout) as { token: string }).token
}

/** Where in a life, by index of its records, something happens that a power loss could spoil. */
export interface Spots {
  /** The server answers. */
  readonly answers: readonly number[]
  /** The server answers while something of the log is not on disk yet: it must not tell of that. */
  readonly earlyAnswers: readonly number[]
  /** The log is being copied into the database: writes to it, and their syncs. */
  readonly copies: readonly number[]
  /** The log begins anew. */
  readonly beginnings: readonly number[]
}

export function spotsOf(records: readonly DiskRecord[]): Spots {
  const open = new Map<string, string>()
  const spots = {
    answers: [] as number[],
    earlyAnswers: [] as number[],
    copies: [] as number[],
    beginnings: [] as number[],
  }
  let writes = 0
  let synced = 0
  const begun = new Map<string, number>()
  records.forEach(({ kind, pid, fd, path, at, data }, index) => {
    const handle = `${pid} ${fd}`
    const name = open.get(handle)
    if (kind === 'open') open.set(handle, basename(path))
    else if (kind === 'close') open.delete(handle)
    else if (kind === 'send' && data.toString('latin1', 0, 12) === 'HTTP/1.1 200') {
      spots.answers.push(index)
      if (synced < writes) spots.earlyAnswers.push(index)
    } else if (name === 'startup.db') spots.copies.push(index)
    else if (name === 'startup.db-wal') {
      if (kind === 'write' && at === 0) spots.beginnings.push(index)
      if (kind === 'write') writes++
      else if (kind === 'sync-begin') begun.set(`${pid} ${at}`, writes)
      else if (kind === 'sync-end') synced = Math.max(synced, begun.get(`${pid} ${at}`) ?? 0)
    }
  })
  return spots
}

/** A moment to cut at, as the index of a record; when the least is left, what was told too early shows for sure. */
export interface Moment {
  readonly index: number
  readonly isEarly: boolean
}

/** So many early answers are looked at, each of them for itself. A server that keeps R3 has hardly any. */
const earlyAnswersMax = 40

/** Moments to cut at, ascending: any, the spots, and the early answers. */
export function momentsOf(records: readonly DiskRecord[], count: number, random: Chance): Moment[] {
  const { answers, earlyAnswers, copies, beginnings } = spotsOf(records)
  const moments = new Set<number>()
  for (let i = 0; moments.size < Math.min(count, records.length); i++) {
    const any = Math.floor(random() * records.length)
    const later = (pick(beginnings, random) ?? any) + Math.floor(random() * 40)
    const spots = [any, pick(answers, random), pick(copies, random), later]
    moments.add(Math.min(spots[i % spots.length] ?? any, records.length - 1))
  }
  const every = Math.ceil(earlyAnswers.length / earlyAnswersMax)
  const early = new Set(earlyAnswers.filter((_, i) => i % every === 0))
  const all = [...moments.union(early)].sort((left, right) => left - right)
  return all.map((index) => ({ index, isEarly: early.has(index) }))
}
