import { mkdirSync } from 'node:fs'
import { once } from 'node:events'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, describe, expect, test } from 'vitest'
import { endAll, newFolder, startPayments, startServer } from '../support/server.ts'
import type { TestServer } from '../support/server.ts'
import { chance, Disk } from '../support/shim/disk.ts'
import { sentMessages } from '../support/shim/sends.ts'
import { fault, readDiskLog, shimEnv } from '../support/shim/shim.ts'
import { audit, newAudit } from './audit.ts'
import { addWatchedWorker } from './life.ts'
import { disclosures } from './disclosures.ts'
import { faultsOf } from './remains.ts'
import { Shop } from './shop.ts'
import type { DurableCall } from './shop.ts'

afterAll(endAll)

const long = process.env['STARTUP_BUILDER_LONG'] === '1'

/** A new folder for data, and where its disk's log and faults are. */
function newDisk(): { folder: string; data: string; log: string; flag: string } {
  const outer = newFolder('disk')
  const folder = join(outer, 'data')
  mkdirSync(folder)
  return { folder, data: join(folder, 'startup.db'), log: join(outer, 'log'), flag: join(outer, 'fault') }
}

describe('a sync that fails', () => {
  const rounds = [
    { what: 'of the log', on: 'startup.db-wal', titleChars: 2_000 },
    { what: 'of the database, while the log is copied into it', on: 'startup.db', titleChars: 600_000 },
  ]
  for (const { what, on, titleChars } of rounds.flatMap((round) => Array.from({ length: long ? 8 : 1 }, () => round))) {
    test(`R3: ${what} ends the server with connections unanswered; nothing that was told is lost`, async () => {
      const seed = Number(process.env['DISK_SEED'] ?? Math.floor(Math.random() * 2 ** 31))
      process.stdout.write(`failing sync: DISK_SEED=${seed}\n`)
      const random = chance(seed)
      const { folder, data, log, flag } = newDisk()
      const syncFails = fault(flag)
      const env = shimEnv({ folder, log, syncUs: 500, syncFails: flag, syncFailsOn: on })
      await using payments = await startPayments()
      await using server = await startServer({ data, env: { ...env, PAYMENTS_URL: payments.url } })
      const token = await addWatchedWorker(data, 'checkout', env)
      const shop = new Shop({ token, random, titleChars })
      shop.url = server.url
      const working = shop.work(8)
      await sleep(300 + random() * 500)
      syncFails.on()
      const [status] = (await once(server.child, 'exit')) as [number | null]
      shop.stop()
      await working
      syncFails.off()

      expect(status).not.toBe(0)
      expect(status).not.toBeNull()
      expect(server.logs.some(({ level, msg }) => level === 'error' && /outcome/.test(String(msg)))).toBe(true)
      // Neither a 5xx nor any other answer to what was in doubt.
      expect(shop.faults).toEqual([])
      expect(shop.open().length).toBeGreaterThan(0)

      // What the failed sync was for is not on disk, though the process could read it.
      const records = readDiskLog(log)
      expect(records.some(({ failed }) => failed)).toBe(true)
      const disk = new Disk(folder, newFolder('empty'))
      for (const record of records) disk.apply(record)
      const told = sentMessages(records).flatMap(disclosures)
      const left = newDisk()
      disk.lose(left.folder, 'all', random)
      expect(await faultsOf(left.folder, told, new Map())).toEqual([])
    }, 60_000)
  }

  test('R3: what was in doubt is settled after the next start, with the same keys, once', async () => {
    const { folder, data, flag } = newDisk()
    const syncFails = fault(flag)
    await using payments = await startPayments()
    const paymentsEnv = { PAYMENTS_URL: payments.url }
    const env = { ...shimEnv({ folder, syncFails: flag, syncUs: 2_000 }), ...paymentsEnv }
    await using server = await startServer({ data, env })
    const token = await server.token()
    const shop = new Shop({ token, random: chance(7) })
    const books = newAudit()
    for (let round = 0; round < (long ? 20 : 2); round++) {
      shop.url = server.url
      const working = shop.work(8)
      await sleep(200 + 50 * round)
      syncFails.on()
      const [status] = (await once(server.child, 'exit')) as [number | null]
      shop.stop()
      await working
      syncFails.off()
      expect(status).toBeGreaterThan(0)
      await server.start()
      shop.url = server.url
      await shop.settleAll(30_000)
      expect(await audit(shop, token, payments, books)).toEqual([])
    }
    expect((await server.cli('verify')).status).toBe(0)
  }, 120_000)
})

/** Sends a call once and gives the answer, whatever it is. */
async function ask(server: TestServer, token: string, call: Pick<DurableCall, 'path' | 'key' | 'body'>) {
  const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json', 'idempotency-key': call.key }
  const response = await fetch(server.url + call.path, { method: 'POST', headers, body: call.body })
  return {
    status: response.status,
    replayed: response.headers.get('idempotent-replayed'),
    body: (await response.json()) as Readonly<Record<string, unknown>>,
  }
}

describe('a disk that takes no writes', () => {
  for (const kind of ['full', 'readOnly'] as const) {
    test(`R1: ${kind === 'full' ? 'full' : 'read-only'}: 503 store-unavailable and nothing on record; the same key works once there is room`, async () => {
      const { folder, data, flag } = newDisk()
      const refuses = fault(flag)
      await using payments = await startPayments()
      const env = { ...shimEnv({ folder, [kind]: flag }), PAYMENTS_URL: payments.url }
      await using server = await startServer({ data, env })
      const token = await server.token()
      const register = (name: string) => ({
        path: '/glyphs.store/customers/register',
        key: name,
        body: JSON.stringify({ name, email: `${name}@glyphs.store` }),
      })
      const place = { path: '/glyphs.store/orders/place', key: 'order', body: '{"offer":"offer_serif_family"}' }
      const send = { ...place, path: `${place.path}?mode=send`, key: 'sent' }
      const before = await ask(server, token, register('before'))
      expect(before.status).toBe(200)

      refuses.on()
      for (const call of [register('during'), place, send, register('during')]) {
        const { status, body } = await ask(server, token, call)
        expect([status, body['code'], body['retryable']]).toEqual([503, 'store-unavailable', true])
      }
      // What is on record is still told, hot or cold.
      expect(await ask(server, token, register('before'))).toMatchObject({
        status: 200,
        replayed: 'true',
        body: before.body,
      })
      const headers = { authorization: `Bearer ${token}` }
      const offer = await fetch(`${server.url}/glyphs.store/offers/offer_serif_family`, { headers })
      expect(offer.status).toBe(200)
      expect(await payments.calls()).toEqual([])
      refuses.off()

      const actions = await fetch(`${server.url}/glyphs.store/actions?worker=checkout`, { headers })
      expect(((await actions.json()) as { data: unknown[] }).data).toHaveLength(1)
      for (const call of [register('during'), place]) {
        expect(await ask(server, token, call)).toMatchObject({
          status: 200,
          replayed: null,
          body: { status: 'succeeded' },
        })
        expect(await ask(server, token, call)).toMatchObject({ status: 200, replayed: 'true' })
      }
      expect(await payments.charges()).toHaveLength(1)
      expect((await server.cli('verify')).status).toBe(0)
    }, 60_000)
  }

  test('V2: full while a step is under way: it settles once there is room, and is charged once', async () => {
    const { folder, data, flag } = newDisk()
    const full = fault(flag)
    await using payments = await startPayments()
    await using server = await startServer({
      data,
      env: { ...shimEnv({ folder, full: flag }), PAYMENTS_URL: payments.url },
    })
    const token = await server.token()
    const body = JSON.stringify({ offer: 'offer_serif_family', card: 'tok_slow' })
    const placed = ask(server, token, { path: '/glyphs.store/orders/place', key: 'slow', body })
    while ((await payments.calls()).length === 0) await sleep(20)
    full.on()
    // The provider takes 2 s: it answers while there is no room for what it says.
    await sleep(3_000)
    full.off()
    expect(await placed).toMatchObject({ status: 200, body: { status: 'succeeded' } })
    expect(await payments.charges()).toHaveLength(1)
    expect((await server.cli('verify')).status).toBe(0)
  }, 60_000)

  test('R1: full again and again under load: nothing is lost, and nothing is charged twice', async () => {
    const { folder, data, flag } = newDisk()
    const full = fault(flag)
    await using payments = await startPayments()
    await using server = await startServer({
      data,
      env: { ...shimEnv({ folder, full: flag }), PAYMENTS_URL: payments.url },
    })
    const token = await server.token()
    const shop = new Shop({ token, random: chance(11), titleChars: 100_000 })
    shop.url = server.url
    const working = shop.work(8)
    for (let times = 0; times < (long ? 100 : 8); times++) {
      await sleep(100)
      full.on()
      await sleep(60)
      full.off()
    }
    shop.stop()
    await working
    await shop.settleAll(30_000)
    expect(await audit(shop, token, payments, newAudit())).toEqual([])
    expect((await server.cli('verify')).status).toBe(0)
  }, 120_000)
})
