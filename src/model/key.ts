import { keyCodePointsMax } from './limits.ts'
import { problem } from './problem.ts'

declare const keyBrand: unique symbol

/** An idempotency key that was checked (K1): 1 to 255 code points, well-formed, compared exactly. */
export type Key = string & { readonly [keyBrand]: true }

const plainName = 'idempotency-key'
const encodedName = 'idempotency-key-encoded'
const decidedAfterName = 'decided-after'

/** Strict, and keeping a byte order mark: U+FEFF at the start of a key is a character of it. */
const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

/**
 * The key of a request from its raw field lines (Node's `rawHeaders`: name, value, name, value …), or null when it has
 * none. Throws `invalid-idempotency-key` for an empty or too long key, two field lines, both headers, a lone surrogate,
 * or what isn't UTF-8 (K1). Nothing is trimmed beyond what HTTP itself strips from a field line.
 */
export function parseKeyHeaders(rawHeaders: readonly string[]): Key | null {
  let plain: string | undefined
  let encoded: string | undefined
  for (let i = 0; i + 1 < rawHeaders.length; i += 2) {
    const name = rawHeaders[i] ?? ''
    if (name.length === plainName.length && name.toLowerCase() === plainName) {
      if (plain !== undefined) throw invalidKey('Idempotency-Key was sent on more than one field line.')
      plain = rawHeaders[i + 1] ?? ''
    } else if (name.length === encodedName.length && name.toLowerCase() === encodedName) {
      if (encoded !== undefined) throw invalidKey('Idempotency-Key-Encoded was sent on more than one field line.')
      encoded = rawHeaders[i + 1] ?? ''
    }
  }
  if (encoded !== undefined) {
    if (plain !== undefined) throw invalidKey('Both Idempotency-Key and Idempotency-Key-Encoded were sent.')
    return keyOr(invalidKey, decodePercent(encoded))
  }
  return plain === undefined ? null : parsePlain(plain)
}

/** A key given as a string, by the SDK, the CLI or MCP. Throws `invalid-idempotency-key` (K1). */
export function checkKey(text: string): Key {
  return keyOr(invalidKey, isShortAscii(text) ? text : checked(text))
}

/** The header that carries a key: the plain one where that is safe, else the percent-encoded one (K1). */
export function encodeKeyHeader(key: Key): [name: string, value: string] {
  const plain = /^[\x21-\x2b\x2d-\x7e](?:[\x20-\x2b\x2d-\x7e]*[\x21-\x2b\x2d-\x7e])?$/.test(key)
  return plain ? ['Idempotency-Key', key] : ['Idempotency-Key-Encoded', encodeURIComponent(key)]
}

/**
 * The key that `Decided-After` names, percent-encoded (W3), or null without the header. Throws `invalid-decided-after`.
 */
export function parseDecidedAfter(rawHeaders: readonly string[]): Key | null {
  let encoded: string | undefined
  for (let i = 0; i + 1 < rawHeaders.length; i += 2) {
    const name = rawHeaders[i] ?? ''
    if (name.length !== decidedAfterName.length || name.toLowerCase() !== decidedAfterName) continue
    if (encoded !== undefined) throw invalidDecidedAfter('Decided-After was sent on more than one field line.')
    encoded = rawHeaders[i + 1] ?? ''
  }
  return encoded === undefined ? null : keyOr(invalidDecidedAfter, decodePercent(encoded))
}

/** The value of `Decided-After` for a key (W3). */
export function encodeDecidedAfter(key: Key): string {
  return encodeURIComponent(key)
}

/** The token of `Authorization: Bearer <token>` (RFC 6750), or null when the header is missing or of another form. */
export function parseAuthorization(value: string | undefined): string | null {
  return value === undefined ? null : (/^bearer +([A-Za-z0-9._~+/-]+=*) *$/i.exec(value)?.[1] ?? null)
}

/** A key, or what is wrong with it. */
type Checked = string | { fault: string }

function keyOr(refuse: (detail: string) => Error, result: Checked): Key {
  if (typeof result !== 'string') throw refuse(result.fault)
  return result as Key
}

function invalidKey(detail: string): Error {
  return problem('invalid-idempotency-key', detail)
}

function invalidDecidedAfter(detail: string): Error {
  return problem('invalid-decided-after', detail)
}

/** Nearly every key: it needs no decoding and no counting. */
function isShortAscii(text: string): boolean {
  if (text.length === 0 || text.length > keyCodePointsMax) return false
  for (let i = 0; i < text.length; i++) if (text.charCodeAt(i) > 0x7e) return false
  return true
}

function parsePlain(value: string): Key {
  return keyOr(invalidKey, isShortAscii(value) ? value : decodeLatin1(value))
}

/** Node gives each byte of a field line as one character; the bytes are read as UTF-8. */
function decodeLatin1(value: string): Checked {
  const bytes = new Uint8Array(value.length)
  for (let i = 0; i < value.length; i++) {
    const code = value.charCodeAt(i)
    if (code > 0xff) return { fault: notUtf8 }
    bytes[i] = code
  }
  try {
    return checked(utf8.decode(bytes))
  } catch {
    // A fatal TextDecoder throws a TypeError for what isn't UTF-8, and for nothing else.
    return { fault: notUtf8 }
  }
}

const notUtf8 = 'The key is not UTF-8.'

/**
 * A percent-encoded key. Commas and spaces are refused unencoded: they appear where something between the client and
 * here has joined two field lines, and no key is guessed (K1).
 */
function decodePercent(value: string): Checked {
  if (value === '') return { fault: 'The key is empty.' }
  if (!/^(?:[\x21-\x24\x26-\x2b\x2d-\x7e]|%[0-9A-Fa-f]{2})*$/.test(value)) {
    return {
      fault: 'The key is not percent-encoded: a % without two hexadecimal digits, or a character that must be encoded.',
    }
  }
  try {
    return checked(decodeURIComponent(value))
  } catch {
    // The form was checked, so that a URIError can only mean bytes that aren't UTF-8; half a surrogate pair is among them.
    return { fault: notUtf8 }
  }
}

function checked(text: string): Checked {
  if (text === '') return { fault: 'The key is empty.' }
  let codePoints = 0
  for (const character of text) {
    const codePoint = character.codePointAt(0) ?? 0
    if (codePoint >= 0xd800 && codePoint <= 0xdfff) return { fault: 'The key holds half of a surrogate pair.' }
    if (++codePoints > keyCodePointsMax) return { fault: `The key is longer than ${keyCodePointsMax} characters.` }
  }
  return text
}
