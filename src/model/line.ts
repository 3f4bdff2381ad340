/**
 * The place of the call of `below` in the author's file, for messages: `startup.ts:12`. Null where the engine has no
 * such stack. Only the file's own name is given, as authors know it.
 */
export function lineOf(below: (...args: never[]) => unknown): string | null {
  const holder: { stack?: string } = {}
  if (typeof Error.captureStackTrace !== 'function') return null
  Error.captureStackTrace(holder, below)
  const caller = holder.stack?.split('\n').find((line) => line.trimStart().startsWith('at '))
  return /([^/\\(]+:\d+):\d+\)?$/.exec(caller ?? '')?.[1] ?? null
}
