/**
 * What keeps a command from doing its work and is for its user to mend: a missing file, a port in use, a mistake in the
 * definition. It is told in its own words, without a stack trace, and the exit status is 1 (§13).
 */
export class LocalError extends Error {
  override readonly name = 'LocalError'
  /** What to print: a first sentence, and where several things are wrong, one line each. */
  readonly lines: readonly string[]

  constructor(...lines: readonly string[]) {
    super(lines.join('\n'))
    this.lines = lines
  }
}

/** The code of an error of Node's own: `EADDRINUSE`, `ERR_MODULE_NOT_FOUND`; undefined when it has none. */
export function codeOf(error: unknown): string | undefined {
  if (!(error instanceof Error) || !('code' in error)) return undefined
  return typeof error.code === 'string' ? error.code : undefined
}

/** An error's message as one line. */
export function messageOf(error: unknown): string {
  const message = error instanceof Error ? error.message : String(error)
  return message.split('\n')[0] ?? ''
}
