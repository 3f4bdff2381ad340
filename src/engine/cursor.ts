import { hash } from 'node:crypto'
import { problem } from '../model/problem.ts'

/**
 * Cursors of lists (§3): a position and a check value that ties it to the list and its filters, so that a made-up cursor,
 * or one of another list, is refused instead of skipping or repeating members. It hides nothing and protects nothing:
 * what a list shows is decided anew for every page. It holds over restarts.
 */

/** The list and its filters, in one form. */
export function listIdentity(list: string, namespace: string, filters: Readonly<Record<string, unknown>>): string {
  return JSON.stringify([list, namespace, Object.entries(filters).sort(([a], [b]) => (a < b ? -1 : 1))])
}

/** The cursor for a position (a whole number, 0 or more) in a list. */
export function writeCursor(identity: string, position: number): string {
  const bytes = Buffer.alloc(14)
  bytes.writeUIntBE(Math.floor(position / 2 ** 24), 0, 4)
  bytes.writeUIntBE(position % 2 ** 24, 4, 3)
  check(identity, position).copy(bytes, 7)
  return bytes.toString('base64url')
}

/** The position of a cursor; 0 without one. Throws `invalid-cursor` for one that this list did not give. */
export function readCursor(identity: string, cursor: string | undefined): number {
  if (cursor === undefined) return 0
  const bytes = Buffer.from(cursor, 'base64url')
  if (bytes.length === 14 && bytes.toString('base64url') === cursor) {
    const position = bytes.readUIntBE(0, 4) * 2 ** 24 + bytes.readUIntBE(4, 3)
    if (check(identity, position).equals(bytes.subarray(7))) return position
  }
  throw problem('invalid-cursor', 'The value of `after` is not a cursor that this list with these filters gave.')
}

function check(identity: string, position: number): Buffer {
  return hash('sha256', `${position} ${identity}`, 'buffer').subarray(0, 7)
}
