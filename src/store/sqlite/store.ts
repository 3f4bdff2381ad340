import { closeSync } from 'node:fs'
import { Buckets } from '../../model/buckets.ts'
import { IdSource, type ActionId } from '../../model/ids.ts'
import type { Notice, Store, StoreOptions } from '../store.ts'
import * as actions from './actions.ts'
import { census } from './census.ts'
import { Checkpointer } from './checkpointer.ts'
import * as claims from './claims.ts'
import { seamError } from './database.ts'
import { deploy, deployFaults, markSeeded } from './deploy.ts'
import { events } from './events.ts'
import { blockedBy } from './holds.ts'
import { inbox, item } from './inbox.ts'
import { KeyIndex, keyHash, keysInMemory } from './keys.ts'
import { lastId } from './lastid.ts'
import { listActions } from './lists.ts'
import { LogSync } from './logsync.ts'
import { readMeta } from './meta.ts'
import { Names } from './names.ts'
import { openFile, openLog, pathOf, takeOwnership, type Role } from './open.ts'
import * as records from './records.ts'
import { settle } from './settle.ts'
import * as steps from './steps.ts'
import { fencesPerEpoch, lastSeq, type Open, type Tx } from './tx.ts'
import { usage } from './usage.ts'
import { verify } from './verify.ts'
import * as workers from './workers.ts'
import { Writer } from './writer.ts'

export { StoreOpenError } from './open.ts'

export interface SqliteOptions extends StoreOptions {
  /** A server owns the store. An admin's command does not: it adds and revokes Workers, and verifies (V4). */
  readonly role: Role
  /** Throw when there is no store at the path, instead of making one. */
  readonly mustExist?: boolean
  /** Keys kept in memory before they are moved to the table, 2^18 unless given. */
  readonly keysInMemory?: number
}

/**
 * Opens a store in a SQLite file, making it if need be: `openSqlite('data/glyphs.db', { role: 'server', … })`. Throws a
 * StoreOpenError, one sentence, when it can't be: in use, of a newer version, damaged, no store, not writable.
 */
export async function openSqlite(path: string, options: SqliteOptions): Promise<Store> {
  const real = pathOf(path, options.mustExist ?? false)
  if (options.role === 'admin') return admin(await openFile(path, real, 'admin'), options)
  const lock = await takeOwnership(path, real)
  try {
    return server(real, await openFile(path, real, 'server'), lock, options)
  } catch (error) {
    lock.close()
    throw error
  }
}

type Connection = Awaited<ReturnType<typeof openFile>>

function begin(db: Connection, options: SqliteOptions, epoch: number): Open {
  const last = lastId(db)
  const { machine } = options
  return {
    db,
    names: new Names(db),
    keys: new KeyIndex(db, options.keysInMemory ?? keysInMemory),
    ids: new IdSource(
      () => machine.now(),
      (bytes) => machine.randomBytes(bytes),
      last ?? undefined,
    ),
    now: () => machine.now(),
    epoch,
    counts: {
      lastN: db.get<[number | null]>('SELECT max(n) FROM actions')?.[0] ?? 0,
      seqs: new Map(),
      fence: epoch * fencesPerEpoch,
      holds: db.get<[number]>('SELECT count(*) FROM holds')?.[0] ?? 0,
    },
  }
}

function admin(db: Connection, options: SqliteOptions): Store {
  const open = begin(db, options, readMeta(db, 'epoch'))
  const writer = new Writer(open, { sync: null, onDoubt: options.onDoubt, onSynced: () => undefined })
  const close = async () => {
    await writer.close()
    db.close()
  }
  return storeOf(open, writer, new Set(), close, 'admin')
}

/**
 * Why an fdatasync of the log's file after COMMIT is as durable as `synchronous=FULL`, which does that within COMMIT:
 *
 * - A COMMIT appends frames to the log and changes nothing else. After power loss the log is valid up to the last commit
 *   whose frames are whole and chained by checksums; the sync puts them all there, in whatever order they are written.
 * - The file keeps its name and inode: SQLite deletes it when the last connection closes, and ours stays open. Its entry in
 *   the folder is on disk since `openLog`. No lock rests on it, so that our descriptor takes none away.
 * - The log begins anew only when all of it is in the database and that is synced: the thread that copies has
 *   `synchronous=NORMAL`, which syncs the log before it copies and the database after it. The new header with its new salt
 *   is synced by the writer that begins anew (NORMAL does that), before frames follow; old frames never match the salt.
 * - What the thread copies before our sync it has synced in the log itself.
 * - Another process's commit (an admin's, `synchronous=FULL`) syncs this same file before it becomes visible.
 * - What a killed process left in the page cache is synced by `openLog` before anybody sees it.
 */
function server(path: string, db: Connection, lock: Connection, options: SqliteOptions): Store {
  db.control('BEGIN IMMEDIATE')
  db.run(`UPDATE meta SET value = value + 1 WHERE name = 'epoch'`)
  // Turns are for fairness among what runs, and nothing runs yet.
  db.run('DELETE FROM holds WHERE turn = 1')
  db.control('COMMIT')
  const walFd = openLog(path)
  const open = begin(db, options, readMeta(db, 'epoch'))
  open.keys.load()
  const listeners = new Set<(notice: Notice) => void>()
  const writer: Writer = new Writer(open, {
    sync: new LogSync(walFd, () => performance.now()),
    onDoubt: options.onDoubt,
    onCommit: options.onCommit,
    onSynced: (notices) => {
      for (const notice of notices) for (const listener of listeners) listener(notice)
      checkpointer.look()
    },
  })
  const checkpointer = new Checkpointer(path, walFd, (work) => writer.pausedFor(work), options.onDoubt)
  const close = async () => {
    await writer.close()
    await checkpointer.close()
    closeSync(walFd)
    db.close()
    lock.close()
  }
  return storeOf(open, writer, listeners, close, 'server')
}

function storeOf(
  open: Open,
  writer: Writer,
  listeners: Set<(notice: Notice) => void>,
  close: () => Promise<void>,
  role: Role,
): Store {
  const tokens = new workers.Tokens(open)
  // One process serves a file (V4): what is counted in its memory is counted for all.
  const buckets = new Buckets()
  let closing: Promise<void> | null = null

  function read<Answer>(reading: () => Answer): Answer {
    try {
      return reading()
    } catch (error) {
      throw seamError(error)
    }
  }

  /** What only the owner of the store may write. */
  async function owned<Answer>(run: (tx: Tx) => Answer, alone = false): Promise<Answer> {
    if (role === 'admin') throw new Error('only a server writes Actions')
    return writer.submit(run, alone)
  }

  async function changeWorkers<Answer>(run: (tx: Tx) => Answer): Promise<Answer> {
    const answer = await writer.submit((tx) => {
      tx.afterCommit(() => tokens.forget())
      return run(tx)
    })
    return answer
  }

  function action(namespace: string, id: ActionId) {
    const n = actions.actionNumber(open, id)
    const row = n === undefined ? null : actions.actionRow(open, n)
    return row === null || row.ns !== open.names.namespace(namespace) ? null : actions.toAction(open, row)
  }

  function chain(root: ActionId) {
    const n = actions.actionNumber(open, root)
    if (n === undefined) return []
    return actions.chainOf(open, n).map((member) => actions.toAction(open, actions.actionRow(open, member.n)))
  }

  return {
    deploy: (manifest) => owned((tx) => deploy(tx, manifest), true),
    deployFaults: (manifest) => writer.submit<readonly string[]>((tx) => deployFaults(tx, manifest), true),
    markSeeded: (namespace) => owned((tx) => markSeeded(tx, namespace)),
    namespaces: async () =>
      read(() => {
        const sql = 'SELECT name FROM namespaces WHERE ns IN (SELECT ns FROM nouns) ORDER BY ns'
        return open.db.all<[string]>(sql).map(([name]) => name)
      }),

    workerOfToken: (hash) => read(() => tokens.worker(hash)),
    addWorker: (worker, hash, expiresAt) => changeWorkers((tx) => workers.addWorker(tx, worker, hash, expiresAt)),
    addToken: (workerId, hash, expiresAt) => changeWorkers((tx) => workers.addToken(tx, workerId, hash, expiresAt)),
    revokeWorker: (workerId, remove) => changeWorkers((tx) => workers.revokeWorker(tx, workerId, remove)),
    limitWorker: (workerId, throttle) => changeWorkers((tx) => workers.limitWorker(tx, workerId, throttle)),
    workers: async (namespace) => read(() => workers.workers(open, namespace)),
    take: (wanted) => buckets.take(wanted, open.now()),

    lookUp: (workerId, key) => read(() => actions.boundAction(open, workerId, key, keyHash(workerId, key), [])),
    claim: (claim) => owned((tx) => claims.claim(tx, claim)),
    adopt: (id) => owned((tx) => claims.adopt(tx, id)),
    wait: (lease, waitingFor, ranMs) => owned((tx) => claims.wait(tx, lease, waitingFor, ranMs)),
    release: (leases) => owned((tx) => claims.release(tx, leases)),
    hold: (lease, resources) => owned((tx) => steps.hold(tx, lease, resources)),
    startStep: (start) => owned((tx) => steps.startStep(tx, start)),
    endStep: (lease, entry, ranMs) => owned((tx) => steps.endStep(tx, lease, entry, ranMs)),
    settle: (settlement) => owned((tx) => settle(tx, settlement)),
    pending: async (after, limit) => read(() => claims.pending(open, after, limit)),
    census: () => census(open, read),

    durable: () => writer.durable(),
    validate: async (namespace, reads) => read(() => records.stands(open, namespace, reads)),
    action: async (namespace, id) => read(() => action(namespace, id)),
    chain: async (root) => read(() => chain(root)),
    journal: async (root) => read(() => steps.journal(open, actions.actionNumber(open, root) ?? 0)),
    blocker: async (namespace, resources, root) =>
      read(() => {
        const rootN = root === null ? null : (actions.actionNumber(open, root) ?? null)
        return blockedBy(open, open.counts.holds, open.names.namespace(namespace) ?? 0, resources, rootN)
      }),
    record: async (namespace, noun, id) => read(() => records.record(open, namespace, noun, id)),
    recordAt: async (namespace, noun, id, version) => read(() => records.recordAt(open, namespace, noun, id, version)),
    find: async (namespace, noun, field, value, limit) =>
      read(() => records.find(open, namespace, noun, field, value, limit)),
    versions: async (namespace, noun, id, after, limit) =>
      read(() => records.versions(open, namespace, noun, id, after, limit)),
    records: async (namespace, noun, filters, page) =>
      read(() => records.records(open, namespace, noun, filters, page)),
    actions: async (namespace, filter, page) => read(() => listActions(open, namespace, filter, page)),
    events: async (namespace, after, limit) => read(() => events(open, namespace, after, limit)),
    lastSeq: async (namespace) => read(() => lastSeq(open.db, open.names.namespace(namespace) ?? 0)),
    inbox: async (namespace, filter, page) => read(() => inbox(open, namespace, filter, page)),
    item: async (namespace, id) => read(() => item(open, namespace, id)),
    usage: async (namespace, from, to) => read(() => usage(open, namespace, from, to)),

    lastId: async () => read(() => lastId(open.db)),
    listen: (listener) => {
      listeners.add(listener)
      return () => listeners.delete(listener)
    },
    verify: async (report) => read(() => verify(open, report)),
    close: () => (closing ??= close()),
  }
}
