/**
 * Ids: a prefix and 26 characters that order by time, `act_01k9…`. The alphabet is Crockford's base 32 in lower case,
 * whose characters ascend as bytes do, so that ids, their 16 bytes and the moments they were made at order alike (§3).
 *
 *     10 characters   milliseconds since 1970
 *      8 characters   40 bits of chance
 *      5 characters   25 bits: chance at first, then a counter within one millisecond
 *      3 characters   15 bits: zero in an id that an IdSource gives, else the place in the block derived from it
 */

/** The 26 characters of an id, without a prefix. */
export type UniqueId = string
export type ActionId = `act_${string}`
export type EventId = `evt_${string}`
export type ItemId = `item_${string}`

const alphabet = '0123456789abcdefghjkmnpqrstvwxyz'
const idLength = 26
const timeMsEnd = 2 ** 48
const hiEnd = 2 ** 40
const counterEnd = 2 ** 25

/** How many ids one base id yields with `idInBlock`. More than the records that one Action may make. */
export const idBlockSize = 2 ** 15

/** Every pair of characters, by its ten bits: an id is written two characters at a time. */
const pairs: readonly string[] = Array.from(
  { length: 1024 },
  (_, bits) => `${alphabet[bits >> 5]}${alphabet[bits & 31]}`,
)

/** The five bits of a character by its code; 255 where it is none of the alphabet. */
const bitsOf = new Uint8Array(128).fill(255)
for (let bits = 0; bits < 32; bits++) bitsOf[alphabet.charCodeAt(bits)] = bits

/**
 * Gives ids that only ever ascend, also when the clock stands still or steps back (§3). Clock and chance are handed in;
 * `last` is the highest id that the store knows (with its prefix or without), so that it holds over a restart too.
 */
export class IdSource {
  readonly #now: () => number
  readonly #randomBytes: (count: number) => Uint8Array
  #timeMs = -1
  #hi = 0
  #counter = 0
  /** The first 18 characters, which stay the same within a millisecond. */
  #head = ''

  constructor(now: () => number, randomBytes: (count: number) => Uint8Array, last?: string) {
    this.#now = now
    this.#randomBytes = randomBytes
    if (last === undefined) return
    const bytes = idToBytes(last.slice(-idLength))
    this.#timeMs = bytes.readUIntBE(0, 6)
    this.#hi = bytes.readUIntBE(6, 5)
    this.#counter = Math.floor(bytes.readUIntBE(11, 5) / idBlockSize)
    this.#head = write50(this.#timeMs) + write40(this.#hi)
  }

  /** The next base id: 26 characters, greater than every one before, with its whole block free. */
  next(): UniqueId {
    const nowMs = this.#now()
    if (nowMs > this.#timeMs || this.#timeMs < 0) this.#begin(nowMs)
    else if (++this.#counter === counterEnd) this.#carry()
    return this.#head + write25(this.#counter) + '000'
  }

  #begin(nowMs: number): void {
    if (!Number.isInteger(nowMs) || nowMs < 0 || nowMs >= timeMsEnd) throw new RangeError(`no id has the time ${nowMs}`)
    const chance = this.#randomBytes(9)
    const at = (i: number): number => chance[i] ?? 0
    this.#timeMs = nowMs
    this.#hi = at(0) * 2 ** 32 + at(1) * 2 ** 24 + at(2) * 2 ** 16 + at(3) * 2 ** 8 + at(4)
    this.#counter = ((at(5) & 1) << 24) | (at(6) << 16) | (at(7) << 8) | at(8)
    this.#head = write50(nowMs) + write40(this.#hi)
  }

  #carry(): void {
    this.#counter = 0
    if (++this.#hi === hiEnd) {
      this.#hi = 0
      if (++this.#timeMs === timeMsEnd) throw new RangeError('the ids are used up')
    }
    this.#head = write50(this.#timeMs) + write40(this.#hi)
  }
}

/**
 * The `index`-th id (0 to 32,767) of the block that belongs to a base id: the same in every re-run (V1), ascending with
 * `index`, and below the next base id. `index` 0 is the base itself.
 */
export function idInBlock(base: UniqueId, index: number): UniqueId {
  if (base.length !== idLength || !base.endsWith('000')) throw new RangeError(`${base} is no base id`)
  if (!Number.isInteger(index) || index < 0 || index >= idBlockSize)
    throw new RangeError(`a block has no place ${index}`)
  return base.slice(0, 23) + pairs[index >> 5] + alphabet[index & 31]
}

/** The 26 characters as 16 bytes that order alike: 6 of time, 10 of the rest. Throws a RangeError for anything else. */
export function idToBytes(id: UniqueId): Buffer {
  if (id.length !== idLength) throw new RangeError('an id has 26 characters')
  const bytes = Buffer.allocUnsafe(16)
  const timeMs = read20(id, 0) * 2 ** 30 + read20(id, 4) * 2 ** 10 + (read20(id, 6) & 1023)
  if (timeMs >= timeMsEnd) throw new RangeError('the time of the id is out of range')
  bytes.writeUIntBE(timeMs, 0, 6)
  write40Bytes(bytes, 6, read20(id, 10), read20(id, 14))
  write40Bytes(bytes, 11, read20(id, 18), read20(id, 22))
  return bytes
}

/** The 26 characters of the 16 bytes at `offset`: what `idToBytes` was given. */
export function bytesToId(bytes: Uint8Array, offset = 0): UniqueId {
  if (offset < 0 || offset + 16 > bytes.length) throw new RangeError('an id has 16 bytes')
  const at = (i: number): number => bytes[offset + i] ?? 0
  const timeHigh = at(0) * 2 ** 16 + at(1) * 2 ** 8 + at(2)
  const timeLow = at(3) * 2 ** 16 + at(4) * 2 ** 8 + at(5)
  return write50(timeHigh * 2 ** 24 + timeLow) + read40Bytes(at, 6) + read40Bytes(at, 11)
}

/** Whether a text is an id with this prefix: `isId('act_', id)`. Made-up ones need no look-up. */
export function isId(prefix: string, text: string): boolean {
  if (text.length !== prefix.length + idLength || !text.startsWith(prefix)) return false
  if (text.charCodeAt(prefix.length) > 0x37) return false
  for (let i = prefix.length; i < text.length; i++) if ((bitsOf[text.charCodeAt(i)] ?? 255) === 255) return false
  return true
}

export function isActionId(text: string): text is ActionId {
  return isId('act_', text)
}

export function isEventId(text: string): text is EventId {
  return isId('evt_', text)
}

export function isItemId(text: string): text is ItemId {
  return isId('item_', text)
}

/** When the id was made, in milliseconds since 1970, as far as the clock of its maker was right. */
export function idTimeMs(id: string): number {
  return idToBytes(id.slice(-idLength)).readUIntBE(0, 6)
}

function write20(bits: number): string {
  return `${pairs[(bits >>> 10) & 1023]}${pairs[bits & 1023]}`
}

function write25(bits: number): string {
  return `${pairs[(bits >>> 15) & 1023]}${pairs[(bits >>> 5) & 1023]}${alphabet[bits & 31]}`
}

function write40(bits: number): string {
  return write20(Math.floor(bits / 2 ** 20)) + write20(bits % 2 ** 20)
}

function write50(bits: number): string {
  return write25(Math.floor(bits / 2 ** 25)) + write25(bits % 2 ** 25)
}

/** Four characters as a number of 20 bits. */
function read20(id: string, at: number): number {
  const a = bitsOf[id.charCodeAt(at)] ?? 255
  const b = bitsOf[id.charCodeAt(at + 1)] ?? 255
  const c = bitsOf[id.charCodeAt(at + 2)] ?? 255
  const d = bitsOf[id.charCodeAt(at + 3)] ?? 255
  if ((a | b | c | d) > 31) throw new RangeError('an id has other characters')
  return (a << 15) | (b << 10) | (c << 5) | d
}

function write40Bytes(bytes: Buffer, at: number, high20: number, low20: number): void {
  bytes[at] = high20 >>> 12
  bytes[at + 1] = high20 >>> 4
  bytes[at + 2] = (high20 << 4) | (low20 >>> 16)
  bytes[at + 3] = low20 >>> 8
  bytes[at + 4] = low20
}

function read40Bytes(at: (i: number) => number, from: number): string {
  const high20 = (at(from) << 12) | (at(from + 1) << 4) | (at(from + 2) >>> 4)
  const low20 = ((at(from + 2) & 15) << 16) | (at(from + 3) << 8) | at(from + 4)
  return write20(high20) + write20(low20)
}
