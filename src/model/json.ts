import { isUtf8 } from 'node:buffer'
import { inputDepthMax } from './limits.ts'
import { problem, type Problem } from './problem.ts'

/** An input as the call's body had it: its value, and the text that is kept and shown. */
export interface ParsedInput {
  value: Record<string, unknown>
  text: string
}

/**
 * Reads the body of a call (K3). No body is `{}`. Throws `invalid-json` for what isn't JSON or UTF-8, a byte order mark,
 * lone surrogates and members named twice; `unsafe-number`, `input-too-deep` and `input-not-object`.
 *
 * `JSON.parse` is the reader, so that what is checked and what is used can't differ. It keeps the last of two members
 * with one name, so members are counted in the text and in the value: the counts are equal only if no name came twice.
 */
export function parseInput(body: Uint8Array): ParsedInput {
  if (body.length === 0) return { value: {}, text: '{}' }
  if (!isUtf8(body)) throw invalidJson('The body is not valid UTF-8.')
  const bytes = Buffer.isBuffer(body) ? body : Buffer.from(body.buffer, body.byteOffset, body.byteLength)
  const text = bytes.toString('utf8')
  if (text.charCodeAt(0) === 0xfeff) throw invalidJson('The body begins with a byte order mark.')
  const value = parse(text)
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw problem('input-not-object', `The input is ${named(value)}, not an object.`)
  }
  const escapes = text.includes('\\u')
  if (countMembers(bytes) !== checkNode(value, 1, escapes))
    throw invalidJson('The body names a member twice in one object.')
  return { value: value as Record<string, unknown>, text }
}

function invalidJson(detail: string): Problem {
  return problem('invalid-json', detail)
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch (error) {
    // JSON.parse throws a SyntaxError. Its message quotes the input, which belongs in no log; only the place is taken.
    const at = /at position (\d+)/.exec(error instanceof Error ? error.message : '')?.[1]
    throw invalidJson(
      at === undefined ? 'The body is not valid JSON.' : `The body is not valid JSON, at character ${at}.`,
    )
  }
}

/** How many members the objects of a valid JSON text have: its colons outside strings. */
function countMembers(bytes: Buffer): number {
  let members = 0
  for (let i = 0; i < bytes.length; i++) {
    const byte = bytes[i]
    if (byte === 0x3a) members++
    else if (byte === 0x22) i = endOfString(bytes, i + 1)
  }
  return members
}

/** The index of the quote that ends a string; bytes above 127 are never a quote or a backslash in UTF-8. */
function endOfString(bytes: Buffer, start: number): number {
  for (let i = start; i < bytes.length; i++) {
    const byte = bytes[i]
    if (byte === 0x22) return i
    if (byte === 0x5c) i++
  }
  return bytes.length
}

/** Checks an object or array and all in it, and gives the number of members of its objects. */
function checkNode(node: object, depth: number, escapes: boolean): number {
  if (depth > inputDepthMax)
    throw problem('input-too-deep', `The input is nested more than ${inputDepthMax} levels deep.`)
  let members = 0
  if (Array.isArray(node)) {
    for (let i = 0; i < node.length; i++) members += checkValue(node[i], depth, escapes)
    return members
  }
  const object = node as Record<string, unknown>
  for (const name in object) {
    if (escapes && !name.isWellFormed()) throw loneSurrogate()
    members += 1 + checkValue(object[name], depth, escapes)
  }
  return members
}

function checkValue(value: unknown, depth: number, escapes: boolean): number {
  if (typeof value === 'string') {
    if (escapes && !value.isWellFormed()) throw loneSurrogate()
  } else if (typeof value === 'number') {
    if (!isSafeNumber(value)) throw unsafeNumber(value)
  } else if (typeof value === 'object' && value !== null) return checkNode(value, depth + 1, escapes)
  return 0
}

/** Every double from 2^53 on is an integer, and so are the infinities here: one comparison tells them all. */
function isSafeNumber(value: number): boolean {
  return value <= Number.MAX_SAFE_INTEGER && value >= Number.MIN_SAFE_INTEGER
}

function loneSurrogate(): Problem {
  return invalidJson('A string of the body holds half of a surrogate pair.')
}

function unsafeNumber(value: number): Problem {
  const what = Number.isFinite(value) ? 'a whole number beyond ±9007199254740991' : 'a number too large to be kept'
  return problem('unsafe-number', `The input holds ${what}. Send it as a string.`)
}

function named(value: unknown): string {
  if (value === null) return 'null'
  return Array.isArray(value) ? 'an array' : `a ${typeof value}`
}

/** JSON text, or why a value has none that would come back as it was. */
export type Storable = { text: string; fault: null } | { text: null; fault: string }

/** Objects that JSON would turn into `{}`, silently, by what `Object.prototype.toString` calls them. */
const lostInJson = new Set(
  ['Map', 'Set', 'WeakMap', 'WeakSet', 'Promise', 'RegExp', 'Error', 'ArrayBuffer', 'SharedArrayBuffer', 'WeakRef'].map(
    (name) => `[object ${name}]`,
  ),
)

/** What is thrown through `JSON.stringify` to end it; its message is the fault. */
class StorableFault extends Error {}

/**
 * The JSON text of what a Verb or a step returned (V2, V5), or the fault that keeps it from being stored: what JSON would
 * drop or change is a fault, not a surprise in a later replay. `undefined` alone or in an array is `null`; a member that
 * is `undefined` is left out, as an optional member is; an object with `toJSON`, such as a Date, is what that gives.
 * `bytesMax` bounds the UTF-8 text.
 */
export function toStorable(value: unknown, bytesMax: number): Storable {
  let bytesLeft = bytesMax
  function check(this: unknown, name: string, member: unknown): unknown {
    const fault =
      faultOf(member) ?? (member === null ? invalidDate(this, name) : null) ?? (name.isWellFormed() ? null : halfPair)
    if (fault !== null)
      throw new StorableFault(name === '' ? fault : `${fault}, as ${JSON.stringify(name.slice(0, 80))}`)
    // Ends early what could never fit, before its text fills the memory; the text itself is measured in the end.
    if (member !== undefined) bytesLeft -= typeof member === 'string' ? member.length : 1
    if (bytesLeft < 0) throw new StorableFault(tooLarge(bytesMax))
    return member
  }
  try {
    // The top is `undefined` for itself or for its toJSON.
    const text = (JSON.stringify(value, check) as string | undefined) ?? 'null'
    return Buffer.byteLength(text) > bytesMax ? { text: null, fault: tooLarge(bytesMax) } : { text, fault: null }
  } catch (error) {
    return { text: null, fault: error instanceof StorableFault ? error.message : stringifyFault(error) }
  }
}

const halfPair = 'half of a surrogate pair'

function tooLarge(bytesMax: number): string {
  return `more than ${bytesMax} bytes of JSON`
}

function faultOf(value: unknown): string | null {
  switch (typeof value) {
    case 'string':
      return value.isWellFormed() ? null : halfPair
    case 'number':
      return Number.isFinite(value) ? null : String(value)
    case 'bigint':
    case 'function':
    case 'symbol':
      return `a ${typeof value}`
    case 'object': {
      if (value === null || Array.isArray(value) || Object.getPrototypeOf(value) === Object.prototype) return null
      const kind = Object.prototype.toString.call(value)
      return lostInJson.has(kind) || ArrayBuffer.isView(value) ? `a ${kind.slice(8, -1)}` : null
    }
    default:
      return null
  }
}

/** A Date that is none: its toJSON gives null. */
function invalidDate(holder: unknown, name: string): string | null {
  return (holder as Record<string, unknown>)[name] instanceof Date ? 'an invalid Date' : null
}

/** `JSON.stringify` throws a TypeError for a cycle, a RangeError for too deep or too long, and whatever a toJSON throws. */
function stringifyFault(error: unknown): string {
  if (error instanceof RangeError) return 'too deeply nested, or too long'
  if (error instanceof TypeError && error.message.includes('circular')) return 'an object that contains itself'
  return 'an object whose toJSON or getter throws'
}
