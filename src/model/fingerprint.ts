import { hash } from 'node:crypto'
import canonicalize from 'canonicalize'

/** The scheme of the fingerprints made now. It is stored with each, so that a later one never breaks an old key (K3). */
export const fingerprintScheme = 1

/**
 * The canonical JSON (RFC 8785) of parsed JSON: members in the order of their UTF-16 code units, no white space, numbers
 * and strings in their one form. Two texts that mean the same input have the same one.
 *
 * `JSON.stringify` writes numbers and strings as RFC 8785 wants them, and members in the order that the object has them;
 * so only the order needs work. Names that look like integers always come first in an object, and `canonicalize`
 * takes those.
 */
export function canonical(value: unknown): string {
  if (isInOrder(value)) return JSON.stringify(value)
  const sorted = sortedCopy(value)
  if (isInOrder(sorted)) return JSON.stringify(sorted)
  const text = canonicalize(value)
  if (text === undefined) throw new TypeError('only parsed JSON has a canonical form')
  return text
}

/** SHA-256 over the UTF-8 of the canonical JSON: 32 bytes (K3). */
export function fingerprint(value: unknown): Buffer {
  return Buffer.from(sha256(value), 'latin1')
}

/** What a key binds of an input: one byte for the scheme, then the 32 of the fingerprint. */
export function boundFingerprint(value: unknown): Buffer {
  const bytes = Buffer.allocUnsafe(33)
  bytes[0] = fingerprintScheme
  bytes.write(sha256(value), 1, 'latin1')
  return bytes
}

/** One character a byte: three times as fast as asking for a Buffer. */
function sha256(value: unknown): string {
  return hash('sha256', canonical(value), 'binary')
}

/** Whether the members of every object in it are in the order that RFC 8785 wants. */
function isInOrder(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return true
  if (Array.isArray(value)) return value.every(isInOrder)
  const object = value as Record<string, unknown>
  let before = ''
  for (const name in object) {
    // JavaScript compares strings by UTF-16 code units, which is the order of RFC 8785.
    if (name < before || !isInOrder(object[name])) return false
    before = name
  }
  return true
}

function sortedCopy(value: unknown): unknown {
  if (typeof value !== 'object' || value === null) return value
  if (Array.isArray(value)) return value.map(sortedCopy)
  const object = value as Record<string, unknown>
  const copy: Record<string, unknown> = {}
  for (const name of Object.keys(object).sort()) {
    const member = sortedCopy(object[name])
    // Assigned, `__proto__` would become the copy's prototype and be lost from the text (K3).
    if (name === '__proto__') Object.defineProperty(copy, name, { value: member, enumerable: true })
    else copy[name] = member
  }
  return copy
}
