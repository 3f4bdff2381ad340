/**
 * `node scripts/fixture-store.ts`: makes the data file of this version that is kept for ever and opened by
 * test/store/kept-files.test.ts: test/fixtures/stores/VERSION.db.gz, and VERSION.json, which says what it answers. To be run
 * once for a release, after `npm run build`; again only while that version is not released.
 */
import { createHash } from 'node:crypto'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { gzipSync } from 'node:zlib'
import { endAll, newFolder, root } from '../test/support/processes.ts'
import { startServer } from '../test/support/server.ts'
import { schemaHash, type Kept, type KeptCall } from '../test/support/kept.ts'

const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { version: string }
const folder = join(root, 'test/fixtures/stores')
const server = await startServer({ startup: join(folder, 'startup.ts'), env: { DESK_HANGS: '1' } })
const calls: KeptCall[] = []

interface ShownAction {
  readonly id: string
  readonly status: string
  readonly output: { readonly $id?: string } | null
}

async function worker(name: string, namespace = 'kept.test'): Promise<(call: Call) => Promise<ShownAction>> {
  const token = await server.token(name, ['*'], { namespace })
  return async ({ key, path, input, headers = {} }) => {
    const response = await fetch(`${server.url}/${namespace}/${path}`, {
      method: 'POST',
      headers: {
        authorization: `Bearer ${token}`,
        'content-type': 'application/json',
        // The key's UTF-8 bytes, one character each, as they go over the wire.
        'idempotency-key': Buffer.from(key, 'utf8').toString('latin1'),
        ...headers,
      },
      body: JSON.stringify(input),
    })
    const answer = await response.text()
    if (response.status !== 200 && response.status !== 202) throw new Error(`${key}: ${response.status} ${answer}`)
    const settled = response.status === 200 ? answer : null
    calls.push({ namespace, worker: name, key, path, input, headers, answer: settled })
    return JSON.parse(answer) as ShownAction
  }
}

interface Call {
  readonly key: string
  readonly path: string
  readonly input: object
  readonly headers?: Readonly<Record<string, string>>
}

try {
  const clerk = await worker('clerk')
  const open = (key: string, input: object = {}) => clerk({ key, path: 'orders/open', input })
  const opened: string[] = []
  for (let i = 0; i < 12; i++) opened.push((await open(`open ${i}`, { note: `n° ${i} ✓`, total: i })).output?.$id ?? '')
  const [first = '', second = '', third = '', fourth = '', fifth = ''] = opened
  await open('"quoted" key')
  await open('ключ 鍵 🔑', { note: 'Unicode \u2028 \u0000 \\ "' })
  await clerk({ key: 'edit', path: `orders/${first}/edit`, input: { note: 'changed' } })
  const stale = { 'record-version': '1' }
  await clerk({ key: 'stale', path: `orders/${first}/edit`, input: { note: 'too late' }, headers: stale })
  await clerk({ key: 'pay', path: `orders/${second}/pay`, input: { how: 'ok' } })
  const failed = await clerk({ key: 'pay no', path: `orders/${third}/pay`, input: { how: 'no' } })
  await clerk({ key: 'retry', path: `actions/${failed.id}/retry`, input: {} })
  const broken = await clerk({ key: 'pay broken', path: `orders/${fourth}/pay`, input: { how: 'broken' } })
  await clerk({ key: 'retry broken', path: `actions/${broken.id}/retry`, input: {} })
  await clerk({ key: 'remove', path: `orders/${opened[5] ?? ''}/remove`, input: {} })
  await clerk({ key: 'decline', path: 'orders/decline', input: {} })
  await clerk({ key: 'register', path: 'customers/register', input: { email: 'ada@example.com' } })
  await clerk({ key: 'register again', path: 'customers/register', input: { email: 'ada@example.com' } })
  for (let i = 0; i < 10; i++) {
    const other = await worker(`worker-${i}`, i % 2 === 0 ? 'kept.test' : 'other.test')
    // One key, many Workers: each has its own Action.
    await other({ key: 'one key', path: 'orders/open', input: { total: i } })
  }
  await server.cli('worker', 'revoke', 'worker-0', '--namespace', 'kept.test', '--remove')
  await server.cli('worker', 'revoke', 'worker-1', '--namespace', 'other.test')
  await server.cli('worker', 'token', 'worker-2', '--namespace', 'kept.test', '--expires', '30d')

  // Within a step with an effect, holding its record; one that waits for it; and one that waits for the record.
  const path = `orders/${fifth}/pay?mode=send`
  await clerk({ key: 'hang', path, input: { how: 'hang' } })
  await sleep(500)
  const after = { 'decided-after': 'hang' }
  await clerk({ key: 'after', path: 'orders/open?mode=send', input: { note: 'after' }, headers: after })
  await clerk({ key: 'blocked', path: `orders/${fifth}/edit?mode=send`, input: { note: 'blocked' } })
  await sleep(500)
  await server.kill9()

  const copy = join(newFolder('kept'), 'kept.db')
  const ran = await server.cli('backup', copy)
  if (ran.status !== 0) throw new Error(ran.stderr)
  const file = readFileSync(copy)
  const kept: Kept = { version, schema: schemaHash(), sha256: createHash('sha256').update(file).digest('hex'), calls }
  writeFileSync(join(folder, `${version}.db.gz`), gzipSync(file, { level: 9 }))
  writeFileSync(join(folder, `${version}.json`), `${JSON.stringify(kept, null, 2)}\n`)
  process.stdout.write(`${version}: ${calls.length} calls, ${file.length} bytes\n`)
} finally {
  await endAll()
}
