import { copyFileSync, existsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { beforeAll, describe, expect, test } from 'vitest'
import { newFolder, runCli, startPayments, startServer } from '../support/server.ts'
import type { TestServer } from '../support/server.ts'

let server: TestServer

beforeAll(async () => {
  const payments = await startPayments()
  server = await startServer({ env: { PAYMENTS_URL: payments.url } })
  const token = await server.token()
  for (const key of ['o1', 'o2', 'o3']) {
    const response = await fetch(`${server.url}/glyphs.store/orders/place`, {
      method: 'POST',
      headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json', 'idempotency-key': key },
      body: JSON.stringify({ offer: 'offer_serif_family' }),
    })
    expect(await response.json()).toMatchObject({ status: 'succeeded' })
  }
})

/** A copy of the data file as it is now, with its log, as a person would make one while nothing is written. */
function copied(): string {
  const copy = join(newFolder('verify'), 'copy.db')
  for (const suffix of ['', '-wal'])
    if (existsSync(server.data + suffix)) copyFileSync(server.data + suffix, copy + suffix)
  return copy
}

describe('verify', () => {
  test('all is well on a store that is being served, and its counts are told', async () => {
    const ran = await server.cli('verify')
    expect(ran.stderr).toBe('')
    const told = JSON.parse(ran.stdout) as { counts: { actions: number } }
    expect(told).toMatchObject({ ok: true, faultCount: 0, faults: [], counts: { pending: 0 } })
    // Three Orders and what the seed planted.
    expect(told.counts.actions).toBeGreaterThanOrEqual(4)
    expect(ran.status).toBe(0)
  })

  test('for people it is a sentence', async () => {
    const ran = await server.cli('verify', '--output', 'text')
    expect(ran).toMatchObject({ status: 0, stderr: '' })
    expect(ran.stdout).toMatch(/^All is well: \d+ Actions \(0 pending\), \d+ keys, \d+ Events, \d+ records\.\n$/)
  })

  test('a copy is audited like the store itself, and is not changed by it', async () => {
    const copy = copied()
    expect(await runCli(['verify', '--data', copy])).toMatchObject({ status: 0, stderr: '' })
    expect(await runCli(['verify', '--data', copy])).toMatchObject({ status: 0, stderr: '' })
  })

  test('what is wrong is told in sentences, and the exit status is 1', async () => {
    const copy = copied()
    const db = new DatabaseSync(copy)
    const { changes } = db.prepare('UPDATE usage SET units = units + 1').run()
    db.close()
    expect(Number(changes)).toBeGreaterThan(0)
    const ran = await runCli(['verify', '--data', copy])
    const told = JSON.parse(ran.stdout) as { ok: boolean; faults: string[] }
    expect(told.ok).toBe(false)
    expect(told.faults.join('\n')).toMatch(/usage/i)
    expect(ran.stderr).toMatch(/^startup-builder: \d+ things? (is|are) wrong with .*copy\.db\n$/)
    expect(ran.status).toBe(1)
  })

  test('a file that is not there, and one that is no store, are one clear line', async () => {
    const folder = newFolder('verify')
    const absent = await runCli(['verify', '--data', join(folder, 'absent.db')])
    expect(absent.stderr).toMatch(/^startup-builder: There is no data file .*absent\.db.*\n$/)
    expect(absent).toMatchObject({ status: 1, stdout: '' })
    writeFileSync(join(folder, 'letter.db'), 'Dear reader, this is a letter and no database at all. '.repeat(100))
    const letter = await runCli(['verify', '--data', join(folder, 'letter.db')])
    expect(letter.stderr.trimEnd().split('\n')).toHaveLength(1)
    expect(letter.stderr).toContain('letter.db')
    expect(letter).toMatchObject({ status: 1, stdout: '' })
  })
})
