import type { ActionId } from '../../model/ids.ts'
import type { Blocked } from '../store.ts'
import { actionId, chainOf, statusNumbers } from './actions.ts'
import { present } from './names.ts'
import type { Open, Tx } from './tx.ts'

/**
 * Who holds one of these resources against the chain (V6); null when nobody does, which costs nothing while there are no
 * holds at all. `root` null: a chain that is not on record yet, which holds nothing itself.
 */
export function blockedBy(
  open: Pick<Open, 'db'>,
  holds: number,
  ns: number,
  resources: Iterable<string>,
  root: number | null,
): Blocked | null {
  if (holds === 0) return null
  for (const resource of resources) {
    const row = open.db.get<[number]>('SELECT root FROM holds WHERE ns = ? AND resource = ?', ns, resource)
    if (row !== undefined && row[0] !== root) return { kind: 'blocked', resource, ...holderOf(open, row[0]) }
  }
  return null
}

/** The pending Action of the holding chain; or the one that failed last, on which the hold is stuck (V6). */
function holderOf(open: Pick<Open, 'db'>, root: number): { by: ActionId; stuck: boolean } {
  const chain = chainOf(open, root)
  const pending = chain.findLast(({ status }) => status === statusNumbers.pending)
  const holder = pending ?? chain.findLast(({ status }) => status === statusNumbers.failed) ?? chain.at(-1)
  return { by: actionId(open, present(holder, `chain of Action ${root}`).n), stuck: pending === undefined }
}

/** Takes holds on which an effect rests from here on; a turn on the same resources becomes one, other turns end. */
export function takeHolds(tx: Tx, ns: number, root: number, resources: readonly string[]): void {
  endTurn(tx, root, new Set(resources))
  for (const resource of resources) {
    const added = tx.db.run(
      'INSERT OR IGNORE INTO holds (ns, resource, root, turn) VALUES (?, ?, ?, 0)',
      ns,
      resource,
      root,
    )
    tx.changeHolds(added)
    if (added === 0) tx.db.run('UPDATE holds SET turn = 0 WHERE ns = ? AND resource = ? AND turn = 1', ns, resource)
  }
}

/** Takes a turn, in the place of the chain's earlier one. */
export function takeTurn(tx: Tx, ns: number, root: number, resources: readonly string[]): void {
  endTurn(tx, root, new Set(resources))
  for (const resource of resources) {
    tx.changeHolds(
      tx.db.run('INSERT OR IGNORE INTO holds (ns, resource, root, turn) VALUES (?, ?, ?, 1)', ns, resource, root),
    )
  }
}

/** Ends a chain's turn, apart from the resources in `kept`. */
export function endTurn(tx: Tx, root: number, kept: ReadonlySet<string> = none): void {
  if (tx.holds === 0) return
  const turns = tx.db.all<[string]>('SELECT resource FROM holds WHERE root = ? AND turn = 1', root)
  const ended = turns.map(([resource]) => resource).filter((resource) => !kept.has(resource))
  if (ended.length === 0) return
  for (const resource of ended) {
    tx.changeHolds(-tx.db.run('DELETE FROM holds WHERE root = ? AND resource = ? AND turn = 1', root, resource))
  }
  tx.notices.push({ kind: 'released', resources: ended })
}

const none: ReadonlySet<string> = new Set()

/** Ends all that a chain holds. */
export function releaseHolds(tx: Tx, root: number): void {
  if (tx.holds === 0) return
  const resources = tx.db.all<[string]>('SELECT resource FROM holds WHERE root = ?', root).map(([resource]) => resource)
  if (resources.length === 0) return
  tx.changeHolds(-tx.db.run('DELETE FROM holds WHERE root = ?', root))
  tx.notices.push({ kind: 'released', resources })
}
