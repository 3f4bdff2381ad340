import { spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  chmodSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { Shop } from '../crash/shop.ts'
import { cleanEnv, track } from '../support/processes.ts'
import { cli, endAll, newFolder, runCli, startPayments, startServer } from '../support/server.ts'
import type { Ran, TestPayments, TestServer } from '../support/server.ts'
import { chance } from '../support/shim/disk.ts'
import { fault, shimEnv } from '../support/shim/shim.ts'

afterAll(endAll)

let payments: TestPayments
/** With some megabytes in it, and nobody writing. */
let still: TestServer
let token: string

interface Told {
  readonly file: string
  readonly bytes: number
  readonly writtenBytes: number
  readonly counts: { readonly actions: number; readonly pending: number }
  readonly seqs: Readonly<Record<string, number>>
}

async function call(server: TestServer, bearer: string, key: string, path: string, input: unknown): Promise<Response> {
  return fetch(`${server.url}/glyphs.store/${path}`, {
    method: 'POST',
    headers: { authorization: `Bearer ${bearer}`, 'content-type': 'application/json', 'idempotency-key': key },
    body: JSON.stringify(input),
  })
}

async function place(server: TestServer, bearer: string, key: string): Promise<{ id: string; status: string }> {
  const response = await call(server, bearer, key, 'orders/place', { offer: 'offer_serif_family' })
  return (await response.json()) as { id: string; status: string }
}

beforeAll(async () => {
  payments = await startPayments()
  still = await startServer({ env: { PAYMENTS_URL: payments.url } })
  token = await still.token()
  for (let i = 0; i < 40; i++) {
    const title = `${i}`.padEnd(200_000, 'x')
    await call(still, token, `offer ${i}`, 'offers/publish', { title, price: 100, currency: 'EUR' })
  }
})

function told(ran: Ran): Told {
  if (ran.status !== 0) throw new Error(`status ${ran.status}: ${ran.stderr}`)
  return JSON.parse(ran.stdout) as Told
}

/** A path in a folder of its own. */
function newFile(name = 'copy.db'): string {
  return join(newFolder('backup'), name)
}

/** One clear line, status 1, nothing on standard output. */
function expectRefused(ran: Ran, says: RegExp): void {
  expect(ran.stderr).toMatch(says)
  expect(ran.stderr).toMatch(/^startup-builder: [^\n]+\n$/)
  expect({ status: ran.status, stdout: ran.stdout }).toEqual({ status: 1, stdout: '' })
}

/** Ids of the settled Actions of a file that nobody serves. */
function settledIn(file: string): Set<string> {
  const copy = newFile('looked-at.db')
  for (const suffix of ['', '-wal']) if (existsSync(file + suffix)) copyFileSync(file + suffix, copy + suffix)
  const db = new DatabaseSync(copy)
  const rows = db.prepare('SELECT hex(id) AS id FROM actions WHERE status <> 0').all() as { id: string }[]
  db.close()
  return new Set(rows.map(({ id }) => id))
}

/** A file with a name is one that needs no log. */
function isWhole(file: string): boolean {
  const copy = newFile('whole.db')
  copyFileSync(file, copy)
  const db = new DatabaseSync(copy)
  const check = db.prepare('PRAGMA integrity_check').get()
  db.close()
  return check?.['integrity_check'] === 'ok'
}

/** `act_…` as the file's bytes in hex: Crockford's base 32. */
function hexOf(action: string): string {
  let value = 0n
  for (const digit of action.slice(4).toUpperCase()) {
    value = value * 32n + BigInt('0123456789ABCDEFGHJKMNPQRSTVWXYZ'.indexOf(digit))
  }
  return value.toString(16).toUpperCase().padStart(32, '0')
}

describe('backup', () => {
  test('R3: under load each copy is whole, has all that was answered before it, and its server replays it', async () => {
    await using server = await startServer({ env: { PAYMENTS_URL: payments.url } })
    const bearer = await server.token()
    const shop = new Shop({ token: bearer, random: chance(8812), name: 'load', titleChars: 20_000 })
    shop.url = server.url
    const working = shop.work(64)
    await sleep(500)
    let last = { file: '', answered: shop.calls.filter(() => false) }
    for (let round = 0; round < 3; round++) {
      const answered = shop.calls.filter(({ settled }) => settled !== null)
      const file = newFile()
      const { counts, seqs } = told(await server.cli('backup', file))
      expect(readdirSync(dirname(file))).toEqual(['copy.db'])
      const settled = settledIn(file)
      expect(answered.filter(({ action }) => !settled.has(hexOf(action ?? '')))).toEqual([])
      expect(counts.actions).toBe(settled.size + counts.pending)
      expect(seqs['glyphs.store']).toBe(settled.size)
      expect(await runCli(['verify', '--data', file])).toMatchObject({ status: 0, stderr: '' })
      last = { file, answered }
    }
    shop.stop()
    await working
    expect(shop.faults).toEqual([])
    expect(await server.cli('verify')).toMatchObject({ status: 0 })
    await server.stop()

    expect(last.answered.length).toBeGreaterThan(20)
    await using restored = await startServer({ data: last.file, env: { PAYMENTS_URL: payments.url } })
    for (const { key, path, body, settled } of last.answered) {
      const headers = { authorization: `Bearer ${bearer}`, 'content-type': 'application/json', 'idempotency-key': key }
      const again = await fetch(restored.url + path, { method: 'POST', headers, body })
      expect(again.headers.get('idempotent-replayed')).toBe('true')
      expect(await again.text()).toBe(settled)
    }
  }, 60_000)

  test('one that was killed at any moment goes on, and leaves a whole copy and nothing beside it', async () => {
    const random = chance(Number(process.env['BACKUP_SEED'] ?? 7))
    const file = newFile()
    let cut = 0
    for (let round = 0; round < 10; round++) {
      const child = spawn(process.execPath, [cli, 'backup', file, '--replace', '--data', still.data], {
        env: cleanEnv({}),
      })
      track(child)
      // A start takes a while; then, in the middle of it or near its end.
      while (!existsSync(`${file}.partial-lock`) && child.exitCode === null) await sleep(1)
      await sleep(random() * 60)
      child.kill('SIGKILL')
      if (child.exitCode === null && child.signalCode === null) await once(child, 'exit')
      if (child.signalCode !== null) cut++
      if (existsSync(file)) expect(isWhole(file)).toBe(true)
    }
    expect(cut).toBeGreaterThan(0)
    told(await still.cli('backup', file, '--replace'))
    expect(readdirSync(dirname(file))).toEqual(['copy.db'])
    expect(await runCli(['verify', '--data', file])).toMatchObject({ status: 0 })
  })

  test('a partial copy is a base and nothing more: whatever it holds, what differs is written', async () => {
    await still.stop()
    await still.start()
    const whole = newFile()
    told(await still.cli('backup', whole))
    const file = newFile()
    const bytes = readFileSync(whole)
    // Most of it is good, one run is rubbish, and an attempt before had a log of its own and was longer.
    bytes.fill(7, 1_000_000, 1_000_100)
    writeFileSync(`${file}.partial`, Buffer.concat([bytes, Buffer.alloc(500_000, 9)]))
    writeFileSync(`${file}.partial-wal`, Buffer.alloc(100_000, 1))
    const again = told(await still.cli('backup', file))
    expect(again.writtenBytes).toBeLessThan(again.bytes / 2)
    expect(again.writtenBytes).toBeGreaterThan(0)
    expect(readFileSync(file).equals(readFileSync(whole))).toBe(true)
  })

  test('V4: of a store whose server was killed, and of one that is being killed', async () => {
    const outer = newFolder('killed')
    await using server = await startServer({ data: join(outer, 'startup.db'), env: { PAYMENTS_URL: payments.url } })
    const bearer = await server.token()
    const shop = new Shop({ token: bearer, random: chance(3), name: 'killed', titleChars: 50_000 })
    shop.url = server.url
    const working = shop.work(16)
    await sleep(400)
    const answered = shop.calls.filter(({ settled }) => settled !== null)
    const file = join(outer, 'during.db')
    const [ran] = await Promise.all([server.cli('backup', file), sleep(300).then(() => server.kill9())])
    shop.stop()
    await working
    told(ran)
    const settled = settledIn(file)
    expect(answered.filter(({ action }) => !settled.has(hexOf(action ?? '')))).toEqual([])
    const after = join(outer, 'after.db')
    told(await server.cli('backup', after))
    const all = settledIn(after)
    const books = shop.calls.filter((one) => one.settled !== null)
    expect(books.filter(({ action }) => !all.has(hexOf(action ?? '')))).toEqual([])
  })

  test('a full disk is one clear line, the data file stays as it is, and it goes on once there is room', async () => {
    const file = newFile()
    const flag = fault(join(newFolder('fault'), 'full'))
    // As an attempt that was cut off at once leaves it.
    for (const name of ['partial', 'partial-lock']) writeFileSync(`${file}.${name}`, '')
    flag.on()
    const env = shimEnv({ folder: dirname(file), full: flag.path })
    expectRefused(
      await runCli(['backup', file, '--data', still.data], { env }),
      /copy\.db can't be written: the disk is full/,
    )
    expect(existsSync(file)).toBe(false)
    expect(await place(still, token, 'while it is full')).toMatchObject({ status: 'succeeded' })
    flag.off()
    told(await runCli(['backup', file, '--data', still.data], { env }))
    expect(readdirSync(dirname(file))).toEqual(['copy.db'])
  })

  test('an earlier backup is replaced only with --replace, and only by a whole one', async () => {
    const file = newFile()
    const first = told(await still.cli('backup', file))
    expectRefused(await still.cli('backup', file), /exists already: give another name, or say --replace/)
    await place(still, token, 'one more')
    const second = told(await still.cli('backup', file, '--replace'))
    expect(second.counts.actions).toBe(first.counts.actions + 1)
    const letter = newFile('letter.txt')
    writeFileSync(letter, 'Dear reader')
    expectRefused(await still.cli('backup', letter, '--replace'), /is no startup-builder store/)
    expect(readFileSync(letter, 'utf8')).toBe('Dear reader')
  })

  test('it never goes over a data file that is in use, its own least of all', async () => {
    expectRefused(await still.cli('backup', still.data, '--replace'), /is the data file itself/)
    const link = newFile('link.db')
    symlinkSync(still.data, link)
    expectRefused(await still.cli('backup', link, '--replace'), /is the data file itself/)
    await using other = await startServer({ env: { PAYMENTS_URL: payments.url } })
    expectRefused(await still.cli('backup', other.data, '--replace'), /-wal lies there/)
    expect(await other.cli('verify')).toMatchObject({ status: 0 })
  })

  test('a data file behind a link, and a backup to a linked folder', async () => {
    const folder = newFolder('links')
    mkdirSync(join(folder, 'real'))
    symlinkSync(still.data, join(folder, 'link.db'))
    symlinkSync(join(folder, 'real'), join(folder, 'backups'))
    told(await runCli(['backup', join(folder, 'backups/copy.db'), '--data', join(folder, 'link.db')]))
    expect(readdirSync(join(folder, 'real'))).toEqual(['copy.db'])
  })

  test('where it can be read by others no more than the data file', async () => {
    const file = newFile()
    const source = newFile('source.db')
    told(await still.cli('backup', source))
    chmodSync(source, 0o600)
    told(await runCli(['backup', file, '--data', source]))
    expect(statSync(file).mode & 0o777).toBe(0o600)
  })

  test('a source that is missing, empty, damaged, of something else or newer, and a destination that is not there', async () => {
    const folder = newFolder('sources')
    const to = join(folder, 'copy.db')
    const from = (name: string): Promise<Ran> => runCli(['backup', to, '--data', join(folder, name)])
    expectRefused(await from('absent.db'), /there is no store at .*absent\.db/)
    writeFileSync(join(folder, 'empty.db'), '')
    expectRefused(await from('empty.db'), /empty\.db is empty/)
    expect(statSync(join(folder, 'empty.db')).size).toBe(0)
    writeFileSync(join(folder, 'letter.db'), 'Dear reader, this is a letter. '.repeat(100))
    expectRefused(await from('letter.db'), /letter\.db is no startup-builder store/)
    const other = new DatabaseSync(join(folder, 'other.db'))
    other.exec('CREATE TABLE t (x)')
    other.close()
    expectRefused(await from('other.db'), /a SQLite database of something else/)
    told(await still.cli('backup', join(folder, 'newer.db')))
    const newer = new DatabaseSync(join(folder, 'newer.db'))
    newer.exec('PRAGMA user_version = 99')
    newer.close()
    expectRefused(await from('newer.db'), /newer version/)
    told(await still.cli('backup', join(folder, 'torn.db')))
    const torn = new DatabaseSync(join(folder, 'torn.db'))
    torn.exec('UPDATE usage SET units = units + 1')
    torn.close()
    const ran = await from('torn.db')
    expect(ran.stderr).toMatch(/^startup-builder: The copy has 3 faults, the first: Usage of .*\n.* was not made/)
    expect(ran.status).toBe(1)
    expect(existsSync(to)).toBe(false)
    expectRefused(await still.cli('backup', join(folder, 'no/such/copy.db')), /there is no folder/)
    expectRefused(await still.cli('backup', folder), /is a folder/)
  })

  test('two at once to the same file: one is made', async () => {
    const file = newFile()
    const both = await Promise.all([still.cli('backup', file), still.cli('backup', file)])
    expect(both.map(({ status }) => status).sort()).toEqual([0, 1])
    expect(await runCli(['verify', '--data', file])).toMatchObject({ status: 0 })
  })

  test('for people it is a sentence', async () => {
    const ran = await still.cli('backup', newFile(), '--output', 'text')
    expect(ran.stderr).toBe('')
    expect(ran.stdout).toMatch(
      /^Backed up .* to .*: \d+ bytes \(\d+ written\), \d+ Actions \(0 pending\), \d+ ms; glyphs\.store ends at seq \d+\. All is well with it\.\n$/,
    )
  })
})

describe('restore', () => {
  test('V2: a key bound after the backup runs again, and the provider charges once', async () => {
    const folder = newFolder('restore')
    const data = join(folder, 'startup.db')
    await using server = await startServer({ data, env: { PAYMENTS_URL: payments.url } })
    const bearer = await server.token()
    const before = await place(server, bearer, 'before')
    const backup = join(folder, 'backup.db')
    const { seqs } = told(await server.cli('backup', backup))
    const chargesBefore = (await payments.charges()).length
    const lost = await place(server, bearer, 'after')
    expect(lost.status).toBe('succeeded')
    expect(await payments.charges()).toHaveLength(chargesBefore + 1)

    // The machine is lost; all there is is the backup.
    await server.kill9()
    expectRefused(await server.cli('restore', backup), /exists already: move it away first/)
    for (const name of ['startup.db', 'startup.db-wal', 'startup.db-shm']) {
      if (!existsSync(join(folder, name))) continue
      mkdirSync(join(folder, 'old'), { recursive: true })
      copyFileSync(join(folder, name), join(folder, 'old', name))
    }
    rmSync(data)
    expectRefused(await server.cli('restore', backup), /startup\.db-wal lies there/)
    rmSync(`${data}-wal`)
    rmSync(`${data}-shm`, { force: true })
    const ran = await server.cli('restore', backup)
    expect(ran.stderr).toMatch(/^startup-builder: warning: keys bound since the backup are free again/)
    expect(told(ran).seqs).toEqual(seqs)

    await server.start()
    expect(await place(server, bearer, 'before')).toEqual(before)
    const again = await place(server, bearer, 'after')
    expect(again.status).toBe('succeeded')
    expect(again.id).not.toBe(lost.id)
    expect(await payments.charges()).toHaveLength(chargesBefore + 1)
    expect(await server.cli('verify')).toMatchObject({ status: 0 })
  })

  test('V4: what was pending at the moment of the backup is resumed, and charged once', async () => {
    const folder = newFolder('pending')
    await using server = await startServer({ data: join(folder, 'a.db'), env: { PAYMENTS_URL: payments.url } })
    const bearer = await server.token()
    const chargesBefore = (await payments.charges()).length
    const placing = call(server, bearer, 'slow', 'orders/place', { offer: 'offer_serif_family', card: 'tok_slow' })
    placing.catch(() => undefined)
    let pending = 0
    while (pending === 0) pending = (JSON.parse((await server.cli('verify')).stdout) as Told).counts.pending
    const { counts } = told(await server.cli('backup', join(folder, 'b.db')))
    expect(counts.pending).toBe(1)
    await server.kill9()
    await using restored = await startServer({ data: join(folder, 'b.db'), env: { PAYMENTS_URL: payments.url } })
    const action = (await (
      await call(restored, bearer, 'slow', 'orders/place', { offer: 'offer_serif_family', card: 'tok_slow' })
    ).json()) as { status: string }
    expect(action.status).toBe('succeeded')
    expect(await payments.charges()).toHaveLength(chargesBefore + 1)
  })

  test('it refuses what is no backup, and while a server has the place', async () => {
    const data = join(newFolder('place'), 'startup.db')
    expectRefused(await runCli(['restore', newFile('absent.db'), '--data', data]), /there is no store at/)
    expectRefused(await runCli(['restore', still.data, '--data', still.data]), /is the data file itself/)
  })
})
