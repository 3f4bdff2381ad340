import type {
  Action,
  ActionStatus,
  Fix,
  ActionError,
  Outcome,
  PendingAction,
  SettledAction,
  SettledStatus,
  StepStatus,
  StepView,
  WaitingFor,
} from '../../model/action.ts'
import { bytesToId, idToBytes, isActionId, type ActionId, type EventId } from '../../model/ids.ts'
import type { Key } from '../../model/key.ts'
import type { Claim } from '../store.ts'
import { keyHash, keyText } from './keys.ts'
import { present, type WorkerName } from './names.ts'
import type { Open, Tx } from './tx.ts'

/** The columns of an Action's row that make the Action, as `actionRow` reads them. */
export interface ActionRow {
  readonly n: number
  readonly id: ActionId
  readonly ns: number
  readonly worker: number
  readonly verb: number
  readonly status: number
  readonly mode: number | null
  readonly key: Uint8Array | null
  readonly fingerprint: Uint8Array
  readonly createdAt: number
  readonly tookMs: number | null
  readonly seq: number | null
  readonly event: Uint8Array | null
  readonly target: string | null
  readonly input: string
  readonly outcome: string | null
  readonly bound: string | null
  readonly on: number | null
  readonly root: number | null
  readonly decidedAgainst: string | null
  readonly decidedAfter: string | null
  readonly steps: string | null
  readonly attempts: number | null
}

/** By their numbers on disk. */
export const statuses = ['pending', 'succeeded', 'failed', 'refused'] as const satisfies readonly ActionStatus[]
export const statusNumbers = { pending: 0, succeeded: 1, failed: 2, refused: 3 } as const satisfies Record<
  ActionStatus,
  number
>

type Columns = [
  Uint8Array,
  number,
  number,
  number,
  number,
  number | null,
  Uint8Array | null,
  Uint8Array,
  number,
  number | null,
  number | null,
  Uint8Array | null,
  string | null,
  string,
  string | null,
  string | null,
  number | null,
  number | null,
  string | null,
  string | null,
  string | null,
  number | null,
]

export function actionRow({ db }: Pick<Open, 'db'>, n: number): ActionRow {
  const row = db.get<Columns>(
    `SELECT id, ns, worker, verb, status, mode, key, fingerprint, created_at, took_ms, seq, event, target, input, outcome,
            bound, on_n, root, decided_against, decided_after, steps, attempts
     FROM actions WHERE n = ?`,
    n,
  )
  const [id, ns, worker, verb, status, mode, key, fingerprint, createdAt, tookMs, seq, event, target, input, ...rest] =
    present(row, `Action ${n}`)
  const [outcome, bound, on, root, decidedAgainst, decidedAfter, steps, attempts] = rest
  return {
    n,
    id: `act_${bytesToId(id)}`,
    ns,
    worker,
    verb,
    status,
    mode,
    key,
    fingerprint,
    createdAt,
    tookMs,
    seq,
    event,
    target,
    input,
    outcome,
    bound,
    on,
    root,
    decidedAgainst,
    decidedAfter,
    steps,
    attempts,
  }
}

/** The number of the Action with this id; undefined when it was never on record. */
export function actionNumber({ db }: Pick<Open, 'db'>, id: string): number | undefined {
  if (!isActionId(id)) return undefined
  return db.get<[number]>('SELECT n FROM actions WHERE id = ?', idToBytes(id.slice(4)))?.[0]
}

export function actionId({ db }: Pick<Open, 'db'>, n: number): ActionId {
  const row = db.get<[Uint8Array]>('SELECT id FROM actions WHERE n = ?', n)
  return `act_${bytesToId(present(row, `Action ${n}`)[0])}`
}

/** The Action that a Worker's key is bound to (K2): in memory, then in the table, the whole key compared. */
export function boundAction(
  open: Open,
  workerId: string,
  key: string,
  hash: number,
  own: readonly number[],
): Action | null {
  const worker = open.names.worker(workerId)
  if (worker === undefined) return null
  const found =
    matching(open, worker, key, own) ??
    matching(open, worker, key, open.keys.inMemory(hash)) ??
    matching(open, worker, key, open.keys.inTable(hash))
  return found === null ? null : toAction(open, found)
}

function matching(open: Open, { worker }: WorkerName, key: string, candidates: readonly number[]): ActionRow | null {
  for (const n of candidates) {
    const row = actionRow(open, n)
    if (row.worker === worker && row.key !== null && keyText(row.key) === key) return row
  }
  return null
}

/** What a pending Action's run state shows of it. */
interface PendingView {
  readonly attempts: number
  readonly waitingFor: WaitingFor | null
}

function pendingView({ db }: Open, n: number): PendingView {
  const row = db.get<[number, WaitingFor | null]>('SELECT attempts, waiting_for FROM pending WHERE action = ?', n)
  const [attempts, waitingFor] = present(row, `pending Action ${n}`)
  return { attempts, waitingFor }
}

/** A row as the Action that it is. */
export function toAction(open: Open, row: ActionRow): Action {
  const { names } = open
  const worker = names.workerByNumber(row.worker)
  const verb = names.verbName(row.verb)
  const [operation, target] =
    row.bound === null ? [verb, row.target] : (JSON.parse(row.bound) as [string, string | null])
  const common = {
    id: row.id,
    namespace: names.namespaceName(row.ns),
    verb,
    worker: worker.name,
    workerId: worker.id,
    key: row.key === null ? null : (keyText(row.key) as Key),
    bound: { operation, target, fingerprint: row.fingerprint },
    mode: row.mode === null ? ('do' as const) : ('send' as const),
    target: row.target,
    input: row.input,
    on: row.on === null ? null : actionId(open, row.on),
    root: row.root === null ? row.id : actionId(open, row.root),
    decidedAgainst: row.decidedAgainst === null ? nothing : (JSON.parse(row.decidedAgainst) as Record<string, number>),
    decidedAfter: row.decidedAfter === null ? [] : (JSON.parse(row.decidedAfter) as string[]),
    createdAt: row.createdAt,
  }
  if (row.status === statusNumbers.pending) {
    return { ...common, status: 'pending', steps: journaledSteps(open, row.root ?? row.n), ...pendingView(open, row.n) }
  }
  const { outcome, event, seq, tookMs } = row
  if (outcome === null || event === null || seq === null || tookMs === null)
    throw new Error(`${row.id} is settled by half`)
  return {
    ...common,
    status: settledStatus(row.status),
    steps: row.steps === null ? [] : (JSON.parse(row.steps) as StepView[]),
    attempts: row.attempts ?? 1,
    outcome: toOutcome(row.status, outcome),
    event: `evt_${bytesToId(event)}` satisfies EventId,
    seq,
    settledAt: row.createdAt + tookMs,
  }
}

const nothing: Readonly<Record<string, number>> = Object.freeze({})

function settledStatus(status: number): SettledStatus {
  const name = statuses[status]
  if (name === undefined || name === 'pending') throw new Error(`${status} is no status of a settled Action`)
  return name
}

export function toOutcome(status: number, text: string): Outcome {
  const name = settledStatus(status)
  if (name === 'succeeded') return { status: name, output: text }
  if (name === 'failed') return { status: name, error: JSON.parse(text) as ActionError }
  return { status: name, fix: JSON.parse(text) as Fix }
}

export function outcomeText(outcome: Outcome): string {
  if (outcome.status === 'succeeded') return outcome.output
  return JSON.stringify(outcome.status === 'failed' ? outcome.error : outcome.fix)
}

/** A pending Action's steps are its chain's journal as it stands. */
export function journaledSteps({ db }: Pick<Open, 'db'>, root: number): StepView[] {
  const rows = db.all<[string, StepStatus, number]>(
    'SELECT step, status, attempts FROM journal WHERE root = ? ORDER BY place',
    root,
  )
  return rows.map(([step, status, attempts]) => ({ step, status, attempts }))
}

/** What is known of an Action that a claim puts on record: its numbers, and the Action as it is shown. */
export interface Recorded {
  readonly n: number
  readonly ns: number
  readonly worker: number
  readonly verb: number
  readonly createdAt: number
  /** Null: itself. */
  readonly root: number | null
  readonly common: Omit<PendingAction, 'status' | 'waitingFor' | 'steps' | 'attempts'>
}

/** The numbers that a claim's row will have; nothing is written yet. */
export function recordedOf(tx: Tx, claim: Claim, chain: { on: number; root: number } | null): Recorded {
  const worker = present(tx.names.worker(claim.workerId), `Worker ${claim.workerId}`)
  if (worker.ns !== tx.names.namespace(claim.namespace))
    throw new Error(`${claim.worker} is no Worker of ${claim.namespace}`)
  return {
    n: tx.nextN(),
    ns: worker.ns,
    worker: worker.worker,
    verb: tx.names.internVerb(claim.verb),
    createdAt: claim.createdAt,
    root: chain === null ? null : chain.root,
    common: {
      id: claim.id,
      namespace: claim.namespace,
      verb: claim.verb,
      worker: worker.name,
      workerId: claim.workerId,
      key: claim.key,
      bound: claim.bound,
      mode: claim.mode,
      target: claim.target,
      input: claim.input,
      on: claim.on,
      root: chain === null ? claim.id : actionId(tx, chain.root),
      decidedAgainst: claim.decidedAgainst,
      decidedAfter: claim.decidedAfter,
      createdAt: claim.createdAt,
    },
  }
}

/** How an Action settles, as its row has it. */
export interface SettledColumns {
  readonly outcome: Outcome
  readonly settledAt: number
  readonly seq: number
  readonly event: EventId
  readonly eventType: number
  readonly changed: string | null
  readonly steps: readonly StepView[]
  readonly attempts: number
  readonly units: number
}

/** Puts an Action on record: pending, or settled in the same breath. */
export function insertAction(tx: Tx, recorded: Recorded, on: number | null, settled: SettledColumns | null): void {
  const { n, common } = recorded
  const { bound } = common
  const ownBound = bound.operation === common.verb && bound.target === common.target
  tx.db.run(
    `INSERT INTO actions (n, id, ns, worker, verb, status, mode, key, fingerprint, created_at, took_ms, seq, event,
       event_type, changed, target, input, outcome, bound, on_n, root, decided_against, decided_after, steps, attempts, units)
     VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
    n,
    idToBytes(common.id.slice(4)),
    recorded.ns,
    recorded.worker,
    recorded.verb,
    settled === null ? statusNumbers.pending : statusNumbers[settled.outcome.status],
    common.mode === 'do' ? null : 1,
    common.key === null ? null : Buffer.from(common.key, 'utf8'),
    bound.fingerprint,
    common.createdAt,
    settled === null ? null : settled.settledAt - common.createdAt,
    settled === null ? null : settled.seq,
    settled === null ? null : idToBytes(settled.event.slice(4)),
    settled === null ? null : settled.eventType,
    settled === null ? null : settled.changed,
    common.target,
    common.input,
    settled === null ? null : outcomeText(settled.outcome),
    ownBound ? null : JSON.stringify([bound.operation, bound.target]),
    on,
    recorded.root,
    jsonUnlessEmpty(common.decidedAgainst),
    common.decidedAfter.length === 0 ? null : JSON.stringify(common.decidedAfter),
    settled === null || settled.steps.length === 0 ? null : JSON.stringify(settled.steps),
    settled === null || settled.attempts === 1 ? null : settled.attempts,
    settled === null ? null : unitsColumn(settled),
  )
  if (common.key !== null) tx.addKey(keyHash(common.workerId, common.key), n)
}

/** Settles an Action that is on record as pending. */
export function settleRow(tx: Tx, n: number, createdAt: number, settled: SettledColumns): void {
  tx.db.run(
    `UPDATE actions SET status = ?, took_ms = ?, seq = ?, event = ?, event_type = ?, changed = ?, outcome = ?, steps = ?,
       attempts = ?, units = ? WHERE n = ? AND status = 0`,
    statusNumbers[settled.outcome.status],
    settled.settledAt - createdAt,
    settled.seq,
    idToBytes(settled.event.slice(4)),
    settled.eventType,
    settled.changed,
    outcomeText(settled.outcome),
    settled.steps.length === 0 ? null : JSON.stringify(settled.steps),
    settled.attempts === 1 ? null : settled.attempts,
    unitsColumn(settled),
    n,
  )
  tx.db.run('DELETE FROM pending WHERE action = ?', n)
}

function unitsColumn({ outcome, units }: SettledColumns): number | null {
  return units === (outcome.status === 'succeeded' ? 1 : 0) ? null : units
}

function jsonUnlessEmpty(record: Readonly<Record<string, number>>): string | null {
  const text = JSON.stringify(record)
  return text === '{}' ? null : text
}

export function settledAction(common: Recorded['common'], settled: SettledColumns): SettledAction {
  const { outcome, event, seq, settledAt, steps, attempts } = settled
  return { ...common, status: outcome.status, outcome, event, seq, settledAt, steps, attempts }
}

/** The chain's Actions, oldest first, by number and status. */
export function chainOf({ db }: Pick<Open, 'db'>, root: number): { n: number; status: number }[] {
  const rows = db.all<[number, number]>(
    `SELECT n, status FROM actions WHERE n = ? UNION ALL SELECT n, status FROM actions WHERE root = ? ORDER BY n`,
    root,
    root,
  )
  return rows.map(([n, status]) => ({ n, status }))
}
