/** The value in the middle: one slow moment of the machine doesn't move it. NaN of none. */
export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b)
  const middle = Math.floor(sorted.length / 2)
  const high = sorted[middle] ?? NaN
  return sorted.length % 2 === 1 ? high : (high + (sorted[middle - 1] ?? NaN)) / 2
}
