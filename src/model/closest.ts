/** The name that is one or two slips away from what was written, or null. */
export function closest(written: string, names: readonly string[]): string | null {
  const most = written.length < 4 ? 1 : 2
  if (written.length > 64) return null
  let best: { name: string; slips: number } | null = null
  for (const name of names) {
    const slips = slipsBetween(written.toLowerCase(), name.toLowerCase())
    if (slips <= most && slips < name.length && slips < (best?.slips ?? Infinity)) best = { name, slips }
  }
  return best?.name ?? null
}

/** How many letters must be put in, left out, replaced or exchanged with the next (optimal string alignment). */
function slipsBetween(a: string, b: string): number {
  const rows: number[][] = [Array.from({ length: b.length + 1 }, (_, j) => j)]
  const cell = (i: number, j: number): number => rows[i]?.[j] ?? Infinity
  for (let i = 1; i <= a.length; i++) {
    const row = [i]
    rows.push(row)
    for (let j = 1; j <= b.length; j++) {
      const replaced = cell(i - 1, j - 1) + (a[i - 1] === b[j - 1] ? 0 : 1)
      const exchanged = a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1] ? cell(i - 2, j - 2) + 1 : Infinity
      row.push(Math.min(replaced, exchanged, cell(i - 1, j) + 1, cell(i, j - 1) + 1))
    }
  }
  return cell(a.length, b.length)
}
