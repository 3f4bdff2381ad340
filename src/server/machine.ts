import { randomBytes } from 'node:crypto'

/** Time and chance as the machine has them: handed in wherever they are needed, and read nowhere else (house rule 3). */
export const machine = {
  /** Milliseconds since 1970. */
  now: (): number => Date.now(),
  randomBytes: (count: number): Uint8Array => randomBytes(count),
}
