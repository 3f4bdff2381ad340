/**
 * A process of its own that writes to a store, for tests that kill it, fill its disk or take its rights away:
 * `node process.ts MODE PATH`. It tells on standard output, line by line, what it was answered.
 */
import { createHash, randomBytes } from 'node:crypto'
import { writeSync } from 'node:fs'
import { createInterface } from 'node:readline'
import { IdSource } from '../../src/model/ids.ts'
import { checkKey } from '../../src/model/key.ts'
import { openSqlite, StoreOpenError } from '../../src/store/sqlite/store.ts'
import { StoreUnavailable, type Settlement, type Store } from '../../src/store/store.ts'

const [mode = '', path = ''] = process.argv.slice(2)
const machine = { now: () => Date.now(), randomBytes: (bytes: number) => randomBytes(bytes) }
const ids = new IdSource(machine.now, machine.randomBytes)
const namespace = 'kiln.test'
const worker = { id: 'worker_process', namespace, name: 'process', kind: 'app' as const, grants: ['*'] }

function tell(line: string): void {
  writeSync(1, `${line}\n`)
}

function settlement(key: string, output: string): Settlement {
  const id = `order_${ids.next()}`
  return {
    by: {
      claim: {
        id: `act_${ids.next()}`,
        namespace,
        workerId: worker.id,
        worker: worker.name,
        key: checkKey(key),
        bound: {
          operation: 'Order.place',
          target: null,
          fingerprint: new Uint8Array([1, ...createHash('sha256').update(key).digest()]),
        },
        verb: 'Order.place',
        target: null,
        input: '{}',
        mode: 'do',
        on: null,
        decidedAgainst: {},
        decidedAfter: [],
        createdAt: machine.now(),
        waitingFor: null,
        running: true,
      },
    },
    outcome: { status: 'succeeded', output },
    eventType: 'Order.placed',
    steps: [],
    reads: { records: [], lookups: [] },
    writes: [
      {
        kind: 'create',
        noun: 'Order',
        id,
        version: 1,
        fields: { key },
        changes: [{ field: 'key', to: key }],
        indexes: [{ field: 'key', unique: true, to: key }],
      },
    ],
    units: 1,
    item: null,
    holds: 'release',
  }
}

async function open(): Promise<Store> {
  const store = await openSqlite(path, {
    role: 'server',
    machine,
    onDoubt: (reason) => tell(`doubt ${reason.message}`),
    keysInMemory: 100,
  })
  await store.deploy({
    namespace,
    nouns: [
      {
        noun: 'Order',
        plural: 'orders',
        fields: [{ field: 'key', required: true, default: null }],
        index: [],
        unique: ['key'],
      },
    ],
    verbs: [],
  })
  await store.addWorker(worker, null, null)
  return store
}

/** Settles Actions, sixteen at a time, until it is killed. */
async function write(): Promise<void> {
  const store = await open()
  const run = randomBytes(4).toString('hex')
  let count = 0
  const one = async (): Promise<void> => {
    for (;;) {
      const key = `${run}-${count++}`
      tell(`sent ${key}`)
      const { kind } = await store.settle(settlement(key, 'null'))
      tell(`${kind} ${key}`)
    }
  }
  tell('ready')
  await Promise.all(Array.from({ length: 16 }, one))
}

/** Settles big Actions until the disk is full; after each line on standard input it tries the last one again. */
async function fill(): Promise<void> {
  const store = await open()
  const output = JSON.stringify('x'.repeat(50_000))
  let count = 0
  const attempt = async (): Promise<boolean> => {
    const group = [0, 1, 2].map((i) => store.settle(settlement(`key-${count + i}`, output)))
    const answers = await Promise.allSettled(group)
    const unavailable = answers.filter(({ status }) => status === 'rejected')
    for (const answer of unavailable)
      if (!(answer.status === 'rejected' && answer.reason instanceof StoreUnavailable)) throw new Error('another error')
    if (unavailable.length === 0) count += 3
    return unavailable.length === 0
  }
  while (await attempt()) if (count > 3000) throw new Error('the disk is never full')
  tell(`full after ${count}`)
  for await (const _ of createInterface({ input: process.stdin })) {
    const worked = await attempt()
    tell(worked ? `works after ${count}` : 'still full')
    if (worked) break
  }
  const faults: string[] = []
  const counts = await store.verify((fault) => faults.push(fault))
  tell(`audit ${counts.actions} ${counts.events} ${JSON.stringify(faults)}`)
  await store.close()
}

async function openOnly(): Promise<void> {
  try {
    await (await open()).close()
    tell('opened')
  } catch (error) {
    if (!(error instanceof StoreOpenError)) throw error
    tell(`refused ${error.message}`)
  }
}

if (mode === 'write') await write()
else if (mode === 'fill') await fill()
else await openOnly()
