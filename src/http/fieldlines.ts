/** What a request's raw field lines (Node's `rawHeaders`: name, value, name, value …) say that its joined headers don't. */

/** Whether there is more than one field line with this name (in lower case): Node keeps the first and drops the others. */
export function isTwice(rawHeaders: readonly string[], wanted: string): boolean {
  let found = 0
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const name = rawHeaders[i] ?? ''
    if (name.length === wanted.length && name.toLowerCase() === wanted) found++
  }
  return found > 1
}

/** The values of all field lines with this name (in lower case). */
export function linesOf(rawHeaders: readonly string[], wanted: string): string[] {
  const lines: string[] = []
  for (let i = 0; i + 1 < rawHeaders.length; i += 2) {
    const name = rawHeaders[i] ?? ''
    if (name.length === wanted.length && name.toLowerCase() === wanted) lines.push(rawHeaders[i + 1] ?? '')
  }
  return lines
}
