import { bytesToId } from '../../model/ids.ts'
import { keyCodePointsMax } from '../../model/limits.ts'
import { actionId, chainOf, statuses, statusNumbers } from './actions.ts'
import type { Open } from './tx.ts'
import { dayOf, dayText } from './usage.ts'

/** Reports one thing that is wrong, in a sentence. */
export type Report = (fault: string) => void

type AuditColumns = [
  number,
  Uint8Array,
  number,
  number,
  number,
  number,
  Uint8Array | null,
  number,
  number | null,
  number | null,
  Uint8Array | null,
  number | null,
  string | null,
  string,
  string | null,
  number | null,
  number | null,
  number | null,
  number | null,
  number | null,
]

const strictUtf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

/** Each Action by itself: settled wholly or not at all, with a Worker, a Verb, a good key, and what it changed and metered. */
export function auditActions(open: Open, report: Report): void {
  const { db } = open
  const verbs = new Set(db.all<[number]>('SELECT verb FROM verbs').map(([verb]) => verb))
  const types = new Set(db.all<[number]>('SELECT type FROM event_types').map(([type]) => type))
  const units = new Map<string, number>()
  const rows = db.each<AuditColumns>(
    `SELECT a.n, a.id, a.ns, a.worker, a.verb, a.status, a.key, a.created_at, a.took_ms, a.seq, a.event, a.event_type,
            a.changed, a.input, a.outcome, a.on_n, a.root, a.units, w.ns, p.action
     FROM actions a LEFT JOIN workers w ON w.worker = a.worker LEFT JOIN pending p ON p.action = a.n ORDER BY a.n`,
  )
  for (const row of rows) {
    const [n, idBytes, ns, worker, verb, status, key, createdAt, tookMs, seq, event, type, changed, input, outcome] =
      row
    const [on, root, ownUnits, workerNs, pending] = row.slice(15) as (number | null)[]
    const id = `act_${bytesToId(idBytes)}`
    const isPending = status === statusNumbers.pending
    if (isPending !== (pending !== null))
      report(`${id} is ${statuses[status]} and has ${isPending ? 'no' : 'a'} run state.`)
    const settledParts = [tookMs, seq, event, type, outcome]
    if (settledParts.some((part) => (part === null) !== isPending))
      report(`${id} is settled by half: one Event a settled Action.`)
    if (workerNs !== ns) report(`${id} is of a Worker that its namespace does not have.`)
    if (!verbs.has(verb)) report(`${id} is of a Verb that is not registered.`)
    if (type !== null && !types.has(type)) report(`${id} has an Event of a type that is not registered.`)
    if (key !== null && !isGoodKey(key)) report(`${id} has a key that is none.`)
    if (!isJson(input)) report(`${id} has an input that is not JSON.`)
    if (outcome !== null && !isJson(outcome)) report(`${id} has an outcome that is not JSON.`)
    if (on !== null && on !== undefined && !isOlder(open, on, n))
      report(`${id} is on an Action that did not come before it.`)
    if (root !== null && root !== undefined && !isOlder(open, root, n))
      report(`${id} is of a chain that did not begin before it.`)
    if (changed !== null) auditChanged(open, report, id, n, changed)
    const metered = ownUnits ?? (status === statusNumbers.succeeded ? 1 : 0)
    if (tookMs === null || metered === 0) continue
    if (status !== statusNumbers.succeeded) report(`${id} is metered and did not succeed.`)
    const place = `${ns} ${dayOf(createdAt + tookMs)} ${verb} ${worker}`
    units.set(place, (units.get(place) ?? 0) + metered)
  }
  auditUsage(open, report, units)
}

function isGoodKey(bytes: Uint8Array): boolean {
  try {
    const length = [...strictUtf8.decode(bytes)].length
    return length >= 1 && length <= keyCodePointsMax
  } catch (error) {
    if (error instanceof TypeError) return false
    throw error
  }
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text)
    return true
  } catch (error) {
    if (error instanceof SyntaxError) return false
    throw error
  }
}

function isOlder({ db }: Open, earlier: number, n: number): boolean {
  return earlier < n && db.get<[number]>('SELECT 1 FROM actions WHERE n = ?', earlier) !== undefined
}

/** What an Action says that it changed is what the Versions say. */
function auditChanged({ db }: Open, report: Report, id: string, n: number, changed: string): void {
  const pairs = JSON.parse(changed) as number[]
  for (let i = 0; i < pairs.length; i += 2) {
    const row = db.get<[number]>(
      'SELECT action FROM versions WHERE record = ? AND version = ?',
      pairs[i] ?? 0,
      pairs[i + 1] ?? 0,
    )
    if (row?.[0] !== n) report(`${id} says that it made a Version of a record that it did not make.`)
  }
}

/** Usage is what the succeeded Actions metered, by UTC day of settlement (E2). */
function auditUsage({ db, names }: Open, report: Report, expected: Map<string, number>): void {
  const rows = db.each<[number, number, number, number, number]>('SELECT ns, day, verb, worker, units FROM usage')
  for (const [ns, day, verb, worker, units] of rows) {
    const place = `${ns} ${day} ${verb} ${worker}`
    const metered = expected.get(place) ?? 0
    expected.delete(place)
    if (units === metered) continue
    const what = `${names.verbName(verb)} by ${names.workerByNumber(worker).name} on ${dayText(day)}`
    report(`Usage of ${what} is ${units}; its succeeded Actions metered ${metered}.`)
  }
  for (const [place, metered] of expected) {
    const [, day = 0, verb = 0, worker = 0] = place.split(' ').map(Number)
    const what = `${names.verbName(verb)} by ${names.workerByNumber(worker).name} on ${dayText(day)}`
    report(`Usage of ${what} is missing; its succeeded Actions metered ${metered}.`)
  }
}

/** Each namespace's seq runs from 1 without a gap, and its Events' ids ascend with it (E1). */
export function auditEvents({ db, names }: Open, report: Report): void {
  let ns = 0
  let last = 0
  let lastEvent = ''
  const rows = db.each<[number, number, Uint8Array]>(
    'SELECT ns, seq, event FROM actions WHERE seq IS NOT NULL ORDER BY ns, seq',
  )
  for (const [nextNs, seq, event] of rows) {
    if (nextNs !== ns) {
      ns = nextNs
      last = 0
      lastEvent = ''
    }
    if (seq !== last + 1) report(`${names.namespaceName(ns)} has seq ${seq} after ${last}: its Events have a gap.`)
    const id = bytesToId(event)
    if (id <= lastEvent)
      report(`${names.namespaceName(ns)} has an Event at seq ${seq} whose id is not above the one before.`)
    last = seq
    lastEvent = id
  }
}

/** Of each chain at most one Action is live, and each retry is on a failed one of it (A2). */
export function auditChains(open: Open, report: Report): void {
  for (const [root] of open.db.each<[number]>('SELECT DISTINCT root FROM actions WHERE root IS NOT NULL')) {
    const chain = chainOf(open, root)
    const live = chain.filter(({ status }) => status === statusNumbers.pending || status === statusNumbers.succeeded)
    if (live.length > 1)
      report(`The chain of ${actionId(open, root)} has ${live.length} Actions that are pending or succeeded.`)
    const failed = new Set(chain.filter(({ status }) => status === statusNumbers.failed).map(({ n }) => n))
    const retries = open.db.all<[number, number | null]>('SELECT n, on_n FROM actions WHERE root = ?', root)
    for (const [n, on] of retries) {
      if (on === null || !failed.has(on))
        report(`${actionId(open, n)} is the retry of an Action that is no failed one of its chain.`)
    }
  }
}
