import { randomFillSync } from 'node:crypto'

/** Random bytes are fetched from the system this many at a time: to ask it costs more than the bytes do. */
const pooled = 8192

let pool = Buffer.alloc(0)

/** Each byte is given out once, in a copy of its own. */
function randomBytes(count: number): Uint8Array {
  if (count > pool.length) pool = randomFillSync(Buffer.allocUnsafeSlow(Math.max(count, pooled)))
  const bytes = Buffer.from(pool.subarray(0, count))
  pool = pool.subarray(count)
  return bytes
}

/** Time and chance as the machine has them: handed in wherever they are needed, and read nowhere else (house rule 3). */
export const machine = {
  /** Milliseconds since 1970. */
  now: (): number => Date.now(),
  randomBytes,
}
