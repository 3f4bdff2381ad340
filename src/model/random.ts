/**
 * A generator of chance that gives the same numbers for the same 16 bytes of seed, so that a Verb's `random` is equal in
 * every re-run, resume and retry (V1). sfc32: fast, small and without known bias; not for secrets. Numbers are in [0, 1),
 * with 53 bits as `Math.random` has.
 */
export function seededRandom(seed: Uint8Array): () => number {
  if (seed.length !== 16) throw new RangeError('a seed has 16 bytes')
  const view = new DataView(seed.buffer, seed.byteOffset, seed.byteLength)
  let a = view.getInt32(0)
  let b = view.getInt32(4)
  let c = view.getInt32(8)
  let counter = view.getInt32(12)

  function next32(): number {
    const result = (((a + b) | 0) + counter) | 0
    counter = (counter + 1) | 0
    a = b ^ (b >>> 9)
    b = (c + (c << 3)) | 0
    c = (((c << 21) | (c >>> 11)) + result) | 0
    return result >>> 0
  }

  // Seeds that differ in a single bit give unlike numbers only after some rounds.
  for (let round = 0; round < 15; round++) next32()
  return () => ((next32() >>> 5) * 2 ** 26 + (next32() >>> 6)) / 2 ** 53
}
