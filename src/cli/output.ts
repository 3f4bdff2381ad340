import { LocalError, messageOf } from '../server/local-error.ts'

export type OutputFormat = 'json' | 'text'

/** How results are shown: as asked for, else for people at a terminal and as JSON everywhere else (§13). */
export function outputFormat(asked: OutputFormat | undefined): OutputFormat {
  return asked ?? (process.stdout.isTTY ? 'text' : 'json')
}

/** Prints a result on standard output, where nothing else ever goes. */
export function printJson(value: unknown): void {
  process.stdout.write(`${JSON.stringify(value, null, process.stdout.isTTY ? 2 : 0)}\n`)
}

export function printText(text: string): void {
  process.stdout.write(`${text}\n`)
}

/** Tells people something, on standard error: `startup-builder: …`. */
export function tell(...lines: readonly string[]): void {
  process.stderr.write(lines.map((line, index) => `${index === 0 ? 'startup-builder: ' : ''}${line}\n`).join(''))
}

/** A table of text columns, each as wide as its widest cell. */
export function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const widths = head.map((_, column) => Math.max(...[head, ...rows].map((row) => (row[column] ?? '').length)))
  const line = (row: readonly string[]): string =>
    row.map((cell, column) => cell.padEnd(widths[column] ?? 0)).join('  ')
  return [head, ...rows].map((row) => line(row).trimEnd()).join('\n')
}

/** Tells why a command failed. A LocalError in its own words; anything else is a fault of ours, and says where it is. */
export function tellFailure(error: unknown): void {
  if (error instanceof LocalError) return tell(...error.lines)
  tell(`this is a fault of startup-builder itself: ${messageOf(error)}`)
  if (error instanceof Error && error.stack !== undefined) process.stderr.write(`${error.stack}\n`)
}
