import { execFileSync, spawn, type ChildProcess } from 'node:child_process'
import fs, {
  chmodSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { syncBuiltinESMExports } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { DatabaseSync } from 'node:sqlite'
import { fileURLToPath } from 'node:url'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { checkKey } from '../../src/model/key.ts'
import { openSqlite, StoreOpenError } from '../../src/store/sqlite/store.ts'
import type { StoreOptions } from '../../src/store/store.ts'
import {
  Bench,
  benchForEach,
  customer,
  failed,
  manifest,
  namespace,
  order,
  orderNoun,
  updateOf,
  type StoreUnderTest,
} from './suite/harness.ts'

const under: StoreUnderTest = {
  name: 'sqlite',
  open: (place, options) => openSqlite(place, { ...options, role: 'server' }),
  openAdmin: (place, options) => openSqlite(place, { ...options, role: 'admin' }),
}
const options: StoreOptions = {
  machine: { now: () => Date.now(), randomBytes: (bytes) => crypto.getRandomValues(new Uint8Array(bytes)) },
  onDoubt: (reason) => {
    throw reason
  },
}
const script = fileURLToPath(new URL('./process.ts', import.meta.url))
const isRoot = process.getuid?.() === 0

let folder: string
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'store-file-'))
})
afterEach(() => {
  rmSync(folder, { recursive: true, force: true })
})

async function refusal(path: string, role: 'server' | 'admin' = 'server', mustExist = false): Promise<string> {
  const error: unknown = await openSqlite(path, { ...options, role, mustExist }).then(
    (store) => store.close(),
    (reason: unknown) => reason,
  )
  expect(error).toBeInstanceOf(StoreOpenError)
  const { message } = error as Error
  expect(message.split('\n')).toHaveLength(1)
  return message
}

/** A store with one settled Action, closed. */
async function madeStore(path: string): Promise<void> {
  const bench = new Bench(under, path)
  await bench.open()
  await bench.store.deploy(manifest)
  await bench.settled(await bench.worker('checkout'), { writes: [order('order_1')] }, { key: 'k' })
  await bench.store.close()
}

describe('a store’s file', () => {
  test('V4: a second server waits, and is told so in one line; the first goes on', async () => {
    const path = join(folder, 's.db')
    const bench = new Bench(under, path)
    await bench.open()
    const before = performance.now()
    expect(await refusal(path)).toBe(`the store ${path} is in use by another server`)
    expect(performance.now() - before).toBeGreaterThan(4500)
    await bench.worker('still-served')
    await bench.store.close()
  })

  test('V4: a server that starts while the last one ends gets the store within the wait', async () => {
    const path = join(folder, 's.db')
    const first = await under.open(path, options)
    const second = under.open(path, options)
    await new Promise((resolve) => setTimeout(resolve, 200))
    await first.close()
    await (await second).close()
  })

  test('V4: an administrator makes a store that was never served, and the server finds what was added', async () => {
    const path = join(folder, 'new', 'deep', 's.db')
    const bench = new Bench(under, path)
    bench.store = await under.openAdmin(path, options)
    const worker = await bench.worker('first')
    await bench.store.close()
    await bench.open()
    expect((await bench.store.workers(namespace)).map(({ id }) => id)).toEqual([worker.id])
    await bench.verifyClean()
    await bench.store.close()
  })

  test.each(['server', 'admin'] as const)(
    'a file that is no database, for a %s: one clear line, and it is left as it is',
    async (role) => {
      const path = join(folder, 's.db')
      const text = 'These are somebody’s notes, not a database. '.repeat(500)
      writeFileSync(path, text)
      expect(await refusal(path, role)).toMatch(/no startup-builder store, or it is damaged/)
      expect(readFileSync(path, 'utf8')).toBe(text)
    },
  )

  test('a damaged store: one clear line, and nothing is changed', async () => {
    const path = join(folder, 's.db')
    await madeStore(path)
    const bytes = readFileSync(path)
    bytes.fill(0xff, 100, 4000)
    writeFileSync(path, bytes)
    expect(await refusal(path)).toMatch(/damaged/)
    expect(readFileSync(path).equals(bytes)).toBe(true)
  })

  test('a SQLite database of something else is left as it is', async () => {
    const path = join(folder, 's.db')
    const other = new DatabaseSync(path)
    other.exec('CREATE TABLE notes (text TEXT)')
    other.close()
    const bytes = readFileSync(path)
    expect(await refusal(path)).toMatch(/something else/)
    expect(readFileSync(path).equals(bytes)).toBe(true)
  })

  test('a store of a newer version is left as it is, by a server and by a command', async () => {
    const path = join(folder, 's.db')
    await madeStore(path)
    const newer = new DatabaseSync(path)
    newer.exec('PRAGMA user_version = 99')
    newer.close()
    const bytes = readFileSync(path)
    for (const role of ['server', 'admin'] as const) expect(await refusal(path, role)).toMatch(/newer version .*99/)
    expect(readFileSync(path).equals(bytes)).toBe(true)
  })

  test('a folder, a path through a file, and no store where one must be: one clear line each', async () => {
    mkdirSync(join(folder, 'd'))
    writeFileSync(join(folder, 'f'), '')
    expect(await refusal(join(folder, 'd'))).toMatch(/is a folder/)
    expect(await refusal(join(folder, 'f', 's.db'))).toMatch(/can't be made/)
    expect(await refusal(join(folder, 'none.db'), 'admin', true)).toMatch(/no store/)
    expect(existsSync(join(folder, 'none.db'))).toBe(false)
    // An empty file is a store that is not made yet.
    await (await under.open(join(folder, 'f'), options)).close()
  })

  test('a read-only folder: one clear line, and nothing is made', async () => {
    const closed = join(folder, 'closed')
    mkdirSync(closed)
    chmodSync(folder, 0o755)
    chmodSync(closed, 0o555)
    const path = join(closed, 's.db')
    // Root may write anywhere: then somebody else tries.
    const child = run('open', path, isRoot ? { uid: 65534, gid: 65534 } : {})
    expect(await child.line(/^(opened|refused)/)).toMatch(/^refused .*permission denied/)
    await child.ended
    expect(existsSync(path)).toBe(false)
  })

  test('one store under two names has one owner', async () => {
    const path = join(folder, 's.db')
    const first = await under.open(path, options)
    fs.symlinkSync(path, join(folder, 'link.db'))
    expect(await refusal(join(folder, 'link.db'))).toMatch(/in use/)
    await first.close()
  })
})

describe('what is on disk', () => {
  test('R3: every Action that was answered survives kill -9, and the store has no fault', async () => {
    const path = join(folder, 's.db')
    const sent = new Set<string>()
    const settled = new Set<string>()
    for (let round = 0; round < 6; round++) {
      const child = run('write', path)
      child.onLine = (line) => {
        const [kind, key = ''] = line.split(' ')
        if (kind === 'sent') sent.add(key)
        else if (kind === 'settled') settled.add(key)
      }
      await child.line(/^ready/)
      await new Promise((resolve) => setTimeout(resolve, 20 + round * 60))
      child.process.kill('SIGKILL')
      await child.ended
    }
    expect(settled.size).toBeGreaterThan(100)
    const store = await under.open(path, options)
    const faults: string[] = []
    const counts = await store.verify((fault) => faults.push(fault))
    expect(faults).toEqual([])
    for (const key of settled) expect(await store.lookUp('worker_process', checkKey(key))).not.toBeNull()
    expect(counts.actions).toBeGreaterThanOrEqual(settled.size)
    expect(counts.actions).toBeLessThanOrEqual(sent.size)
    expect(await store.usage('kiln.test', '2026-01-01', '9999-01-01')).toMatchObject([{ units: counts.actions }])
    await store.close()
  })

  test('R1: a full disk is StoreUnavailable with nothing recorded, and the same keys work once there is room', async () => {
    const path = join(folder, 's.db')
    const child = run('fill', path, {}, 3000)
    const full = await child.line(/^full after/)
    child.process.stdin?.write('again\n')
    expect(await child.line(/^(still full|works)/)).toBe('still full')
    execFileSync('/usr/bin/prlimit', ['--pid', String(child.process.pid), '--fsize=unlimited'])
    child.process.stdin?.end('again\n')
    const works = await child.line(/^(still full|works)/)
    const count = Number(full.split(' ')[2])
    expect(works).toBe(`works after ${count + 3}`)
    expect(await child.line(/^audit/)).toBe(`audit ${count + 3} ${count + 3} []`)
    await child.ended
  })

  describe('with the syncs of this process watched', () => {
    const real = fs.fdatasync
    afterEach(() => {
      fs.fdatasync = real
      syncBuiltinESMExports()
    })
    function watchSyncs(sync: (fd: number, done: (error: NodeJS.ErrnoException | null) => void) => void): void {
      fs.fdatasync = sync as typeof fs.fdatasync
      syncBuiltinESMExports()
    }

    test('R3: an answer comes after the sync that began after its commit, and is in the log as it was then', async () => {
      const path = join(folder, 's.db')
      const bench = new Bench(under, path)
      let inLog: Buffer = Buffer.alloc(0)
      let onDisk: Buffer = inLog
      watchSyncs((fd, done) => {
        const log = readFileSync(`${path}-wal`)
        inLog = log
        setTimeout(() => {
          real(fd, (error) => {
            onDisk = log
            done(error)
          })
        }, 5)
      })
      await bench.open()
      await bench.store.deploy(manifest)
      const worker = await bench.worker('checkout')
      await Promise.all(
        Array.from({ length: 40 }, async (_, i) => {
          await new Promise((resolve) => setTimeout(resolve, i))
          await bench.settled(worker, { writes: [order(`order_${i}`)] }, { key: `k${i}` })
          if (i % 4 !== 0) return
          // Power loss now: of the log there is what was synced, and rubbish after it.
          const lost = join(folder, `lost-${i}.db`)
          copyFileSync(path, lost)
          writeFileSync(`${lost}-wal`, Buffer.concat([onDisk, Buffer.alloc(3000, i)]))
          const after = await under.open(lost, options)
          expect((await after.lookUp(worker.id, checkKey(`k${i}`)))?.status).toBe('succeeded')
          const faults: string[] = []
          await after.verify((fault) => faults.push(fault))
          expect(faults).toEqual([])
          await after.close()
        }),
      )
      expect(inLog.length).toBeGreaterThan(0)
      await bench.store.close()
    })

    test('R3: while a sync is under way nothing is answered, and durable() waits for it', async () => {
      const bench = new Bench(under, join(folder, 's.db'))
      await bench.open()
      await bench.store.deploy(manifest)
      const worker = await bench.worker('checkout')
      let sync = () => undefined as void
      watchSyncs((fd, done) => {
        sync = () => real(fd, done)
      })
      const told: string[] = []
      const first = bench.settled(worker, {}, { key: 'k' }).then(() => told.push('first'))
      await turnsUntil(async () => (await bench.store.lookUp(worker.id, checkKey('k'))) !== null)
      const second = bench.settled(worker, {}, { key: 'k2' }).then(() => told.push('second'))
      const durable = bench.store.durable()?.then(() => told.push('durable'))
      expect(durable).toBeDefined()
      await new Promise((resolve) => setTimeout(resolve, 50))
      expect(told).toEqual([])
      // What arrives while a sync is under way is the next group: nobody can read it yet.
      expect(await bench.store.lookUp(worker.id, checkKey('k2'))).toBeNull()
      watchSyncs(real)
      sync()
      await Promise.all([first, second, durable])
      expect(told.toSorted()).toEqual(['durable', 'first', 'second'])
      await bench.store.close()
    })

    test('R3: after a failed sync nothing is answered any more, and the server is told', async () => {
      const path = join(folder, 's.db')
      const bench = new Bench(under, path)
      await bench.open()
      await bench.store.deploy(manifest)
      const worker = await bench.worker('checkout')
      watchSyncs((_fd, done) =>
        setImmediate(() => done(Object.assign(new Error('EIO: i/o error, fdatasync'), { code: 'EIO' }))),
      )
      const told: string[] = []
      for (const key of ['k', 'k2']) {
        bench.settle(worker, {}, { key }).then(
          () => told.push('resolved'),
          () => told.push('rejected'),
        )
      }
      await turnsUntil(async () => bench.doubts.length > 0)
      bench.settle(worker).then(
        () => told.push('resolved'),
        () => told.push('rejected'),
      )
      bench.store.durable()?.then(
        () => told.push('resolved'),
        () => told.push('rejected'),
      )
      expect(bench.store.durable()).toBeDefined()
      await new Promise((resolve) => setTimeout(resolve, 100))
      expect(told).toEqual([])
      expect(bench.doubts.map(({ message }) => message)).toEqual(['EIO: i/o error, fdatasync'])
      await bench.store.close()
    })
  })

  test('the log is copied and begins anew while writers go on', async () => {
    const path = join(folder, 's.db')
    const bench = new Bench(under, path)
    await bench.open()
    await bench.store.deploy(manifest)
    const worker = await bench.worker('checkout')
    const output = JSON.stringify('x'.repeat(100_000))
    let bytes = 0
    await Promise.all(
      Array.from({ length: 16 }, async () => {
        while ((bytes += output.length) < 250_000_000)
          await bench.settled(worker, { outcome: { status: 'succeeded', output } })
      }),
    )
    expect(statSync(`${path}-wal`).size).toBeLessThan(128 * 2 ** 20)
    await bench.store.close()
    expect(existsSync(`${path}-wal`)).toBe(false)
    await bench.open()
    await bench.verifyClean()
    await bench.store.close()
  })
})

describe('verify', () => {
  const at = benchForEach(under)

  test.each([
    ['a lost Event', `UPDATE actions SET seq = 9 WHERE seq = 2`, /has seq 3 after 1: its Events have a gap/],
    [
      'usage that nobody metered',
      `UPDATE usage SET units = units + 1`,
      /Usage of Order\.place by checkout on 2026-11-30 is 6/,
    ],
    ['usage that is missing', `DELETE FROM usage`, /Usage of .* is missing/],
    [
      'a Version that is gone',
      `DELETE FROM versions WHERE version = 2`,
      /orders\/order_1 is at Version 2 and has 1 Versions/,
    ],
    [
      'a record that no Action changed',
      `UPDATE records SET fields = '{"status":"paid","total":1}' WHERE id = 'order_1'`,
      /is not what its changes made/,
    ],
    [
      'an index entry that is gone',
      `DELETE FROM record_index WHERE value = '"a@b"'`,
      /The index Customer\.email lacks c1/,
    ],
    [
      'an index entry too many',
      `INSERT INTO record_index SELECT nf, '"x"', 1 FROM index_fields`,
      /has \d entries for \d records/,
    ],
    [
      'a second Action of a key',
      `UPDATE actions SET key = (SELECT key FROM actions WHERE n = 1) WHERE n = 2`,
      /second Action of one key/,
    ],
    [
      'a key that can not be found',
      `UPDATE meta SET value = 3 WHERE name = 'keys_indexed'`,
      /key index has 0 of 3 keys/,
    ],
    ['a run state of a settled Action', `INSERT INTO pending (action, fence) VALUES (1, 1)`, /not pending/],
    ['a pending Action without a run state', `DELETE FROM pending`, /is pending and has no run state/],
    [
      'two live Actions of a chain',
      `UPDATE actions SET root = 1, on_n = 1 WHERE n = 2`,
      /2 Actions that are pending or succeeded/,
    ],
    [
      'a hold of a settled chain',
      `INSERT INTO holds (ns, resource, root, turn) VALUES (1, 'Order/x', 1, 0)`,
      /its chain holds records/,
    ],
    ['a journal of nobody', `UPDATE journal SET root = 77`, /to whose chain it does not belong/],
    ['an inbox item of another kind', `UPDATE inbox SET kind = 'refused'`, /is refused, and its Action is not/],
    [
      'a token of nobody',
      `INSERT INTO tokens (hash, worker, created_at) VALUES (zeroblob(32), 99, 0)`,
      /token of Worker number 99/,
    ],
    ['an input that is not JSON', `UPDATE actions SET input = '{' WHERE n = 1`, /input that is not JSON/],
  ])('finds %s', async (_, sql, sentence) => {
    const { bench, worker } = at
    await bench.settled(worker, { writes: [order('order_1')] })
    await bench.settled(worker, {
      writes: [updateOf(orderNoun, await bench.record('Order', 'order_1'), { total: 11 })],
    })
    await bench.settled(worker, { writes: [customer('c1', 'a@b')] })
    await bench.settled(worker, { units: 2 })
    await bench.failAfterEffect(worker, ['Order/y'])
    await bench.claimed(worker)
    await bench.settled(worker, { outcome: failed })
    await bench.verifyClean()
    const copy = join(folder, 'copy.db')
    await bench.store.close()
    copyFileSync(bench.place, copy)
    await bench.open()
    const tampered = new DatabaseSync(copy)
    tampered.exec(sql)
    tampered.close()
    const store = await under.openAdmin(copy, options)
    const faults: string[] = []
    await store.verify((fault) => faults.push(fault))
    await store.close()
    expect(faults.join('\n')).toMatch(sentence)
  })
})

async function turnsUntil(isDone: () => Promise<boolean>): Promise<void> {
  for (let turns = 0; turns < 2000; turns++) {
    if (await isDone()) return
    await new Promise((resolve) => setTimeout(resolve, 1))
  }
  throw new Error('it never happened')
}

interface Running {
  readonly process: ChildProcess
  readonly ended: Promise<void>
  onLine: (line: string) => void
  /** The next line that matches. */
  line(pattern: RegExp): Promise<string>
}

/** Runs process.ts, with files of at most `fileKib` if given. */
function run(mode: string, path: string, as: { uid?: number; gid?: number } = {}, fileKib?: number): Running {
  const limit = fileKib === undefined ? '' : `ulimit -S -f ${fileKib}; `
  const child = spawn(
    'bash',
    ['-c', `${limit}exec "$0" "$@"`, process.execPath, '--disable-warning=ExperimentalWarning', script, mode, path],
    {
      ...as,
      stdio: ['pipe', 'pipe', 'inherit'],
    },
  )
  const lines: string[] = []
  const waiting: { pattern: RegExp; resolve: (line: string) => void }[] = []
  const running: Running = {
    process: child,
    ended: new Promise((resolve) => child.on('close', () => resolve())),
    onLine: () => undefined,
    line: (pattern) =>
      new Promise((resolve) => {
        waiting.push({ pattern, resolve })
        match()
      }),
  }
  function match(): void {
    for (const [i, { pattern, resolve }] of waiting.entries()) {
      const at = lines.findIndex((line) => pattern.test(line))
      if (at === -1) continue
      waiting.splice(i, 1)
      resolve(lines.splice(0, at + 1).at(-1) ?? '')
      return
    }
  }
  createInterface({ input: child.stdout }).on('line', (line) => {
    running.onLine(line)
    lines.push(line)
    match()
  })
  return running
}
