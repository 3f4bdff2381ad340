import { createHash } from 'node:crypto'
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { gunzipSync } from 'node:zlib'
import { afterAll, describe, expect, test } from 'vitest'
import { schemaHash, type Kept, type KeptCall } from '../support/kept.ts'
import { endAll, newFolder, root, startServer } from '../support/server.ts'
import type { TestServer } from '../support/server.ts'

afterAll(endAll)

const folder = join(root, 'test/fixtures/stores')
const versions = readdirSync(folder).flatMap((name) => (name.endsWith('.db.gz') ? [name.slice(0, -6)] : []))

function keptOf(version: string): Kept {
  return JSON.parse(readFileSync(join(folder, `${version}.json`), 'utf8')) as Kept
}

function fileOf(version: string): Buffer {
  return gunzipSync(readFileSync(join(folder, `${version}.db.gz`)))
}

/** The format's version of a file, as its header has it. */
function formatOf(file: Buffer): number {
  return file.readUInt32BE(60)
}

async function send(server: TestServer, token: string, { namespace, key, path, input, headers }: KeptCall) {
  const response = await fetch(`${server.url}/${namespace}/${path}`, {
    method: 'POST',
    headers: {
      authorization: `Bearer ${token}`,
      'content-type': 'application/json',
      'idempotency-key': Buffer.from(key, 'utf8').toString('latin1'),
      ...headers,
    },
    body: JSON.stringify(input),
  })
  return { status: response.status, text: await response.text() }
}

test('there is a kept data file', () => {
  expect(versions.length).toBeGreaterThan(0)
})

describe.each(versions)('the data file of %s', (version) => {
  const kept = keptOf(version)

  test('V4: it opens, is whole, resumes what was pending, and every key answers as it did', async () => {
    const data = join(newFolder('kept'), 'kept.db')
    const file = fileOf(version)
    expect(createHash('sha256').update(file).digest('hex')).toBe(kept.sha256)
    writeFileSync(data, file)
    await using server = await startServer({ startup: join(folder, 'startup.ts'), data })
    expect((await server.cli('verify')).stdout).toContain('"ok":true')

    const tokens = new Map<string, string>()
    for (const call of kept.calls) {
      const { worker, namespace } = call
      // Its Worker was removed: nobody may speak for it any more, and its Action stays on record.
      if (worker === 'worker-0') continue
      let token = tokens.get(worker)
      if (token === undefined) {
        const ran = await server.cli('worker', 'token', worker, '--namespace', namespace)
        token = (JSON.parse(ran.stdout) as { token: string }).token
        tokens.set(worker, token)
      }
      if (call.answer !== null) expect(await send(server, token, call)).toEqual({ status: 200, text: call.answer })
      else {
        // Sent anew without `send`, it is waited for.
        const { status, text } = await send(server, token, { ...call, path: call.path.replace('?mode=send', '') })
        expect({ key: call.key, status, text }).toMatchObject({ status: 200 })
        expect(JSON.parse(text)).toMatchObject({ status: 'succeeded' })
      }
    }
    const verified = await server.cli('verify')
    expect(JSON.parse(verified.stdout)).toMatchObject({ ok: true, counts: { pending: 0 } })
  })

  test('it has every kind of row', () => {
    const data = join(newFolder('kept'), 'kept.db')
    writeFileSync(data, fileOf(version))
    const db = new DatabaseSync(data)
    const count = (sql: string): number =>
      Number(Object.values(db.prepare(`SELECT count(*) FROM ${sql}`).get() ?? {})[0])
    const kinds = [
      ...[0, 1, 2, 3].map((status) => `actions WHERE status = ${status}`),
      ...['started', 'done', 'rejected', 'unknown'].map((status) => `journal WHERE status = '${status}'`),
      ...["waiting_for = 'predecessor'", "waiting_for = 'record'", 'running IS NOT NULL'].map(
        (is) => `pending WHERE ${is}`,
      ),
      ...['decided IS NULL', 'decided IS NOT NULL'].map((is) => `inbox WHERE ${is}`),
      ...['version < 0', 'version > 1'].map((is) => `records WHERE ${is}`),
      ...['revoked_at IS NOT NULL', 'expires_at IS NOT NULL'].map((is) => `tokens WHERE ${is}`),
      ...['holds', 'usage', 'versions', 'chains', 'record_index', 'workers WHERE removed_at IS NOT NULL'],
    ]
    expect(kinds.filter((kind) => count(kind) === 0)).toEqual([])
    db.close()
  })

  test('the migrations that made its format are as they were: a change of the schema is a new migration', () => {
    const mend = 'a released migration may not change: add another. Not released yet? node scripts/fixture-store.ts'
    expect(schemaHash(formatOf(fileOf(version))), mend).toBe(kept.schema)
  })
})
