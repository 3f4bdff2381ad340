import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { plain, short, styled } from './text.ts'

/** The package's own files are not where an author has something to mend. */
const ownFolder = fileURLToPath(new URL('../..', import.meta.url))

/** How many of the author's frames are shown. */
const framesMax = 8

/** What a stack is told as when the author's own code has no part in it. */
const foreignFramesMax = 3

interface Frame {
  readonly name: string
  readonly path: string
  readonly line: number
  readonly column: number
}

/**
 * An error's stack as lines for a person: its message, then the frames of the author's own code as `path:line:column`, which
 * terminals link, with the line itself under the first. Types were stripped in place, so lines and columns are the source's.
 */
export function errorLines(stack: string): string[] {
  const [first = '', ...causes] = stack.split('\n[cause]: ')
  return [...stackLines(first), ...causes.flatMap((cause) => stackLines(`caused by ${cause}`))]
}

function stackLines(stack: string): string[] {
  const lines = stack.split('\n')
  const firstFrame = lines.findIndex((line) => /^\s+at /.test(line))
  const message = lines.slice(0, firstFrame === -1 ? undefined : firstFrame).map(plain)
  const all = (firstFrame === -1 ? [] : lines.slice(firstFrame)).map(frameOf).filter((frame) => frame !== null)
  const authors = all.filter(({ path }) => isAuthors(path)).slice(0, framesMax)
  const frames = authors.length > 0 ? authors : all.slice(0, foreignFramesMax)
  return [...message, ...frames.flatMap((frame, index) => [told(frame), ...(index === 0 ? excerpt(frame) : [])])]
}

/** The line that a message begins with the place of, `startup.ts:12: …`, as it stands in the file. */
export function placeLines(message: string): string[] {
  const [, path = '', line = '', column = '0'] = /^\s*(\S[^:]*):(\d+)(?::(\d+))?: /.exec(message) ?? []
  return path === '' ? [] : excerpt({ name: '', path, line: Number(line), column: Number(column) })
}

function told({ name, path, line, column }: Frame): string {
  const at = styled('cyan', `${short(path)}:${line}:${column}`)
  return name === '' ? `  at ${at}` : `  at ${at} ${styled('dim', `(${plain(name)})`)}`
}

/** `    at place (file:///…/startup.ts:12:5)`, with and without a name, as a URL and as a path. */
function frameOf(text: string): Frame | null {
  const [, name = '', place = '', line = '', column = ''] =
    /^\s+at (?:(?:async )?(.*?) \()?(?:async )?(.+?):(\d+):(\d+)\)?$/.exec(text) ?? []
  if (place === '' || place.startsWith('node:')) return null
  const path = place.startsWith('file:') ? fileURLToPath(place) : place
  return { name, path, line: Number(line), column: Number(column) }
}

function isAuthors(path: string): boolean {
  return !/[/\\]node_modules[/\\]/.test(path) && !path.startsWith(ownFolder)
}

function excerpt({ path, line, column }: Frame): string[] {
  const text = lineOf(path, line)
  if (text === null || text.trim() === '') return []
  const indent = text.length - text.trimStart().length
  const shown = plain(text.trim())
  const number = `${line} | `
  const source = `    ${styled('dim', number)}${shown}`
  if (column <= indent || column > text.length) return [source]
  return [source, `    ${' '.repeat(number.length + column - 1 - indent)}${styled('red', '^')}`]
}

function lineOf(path: string, line: number): string | null {
  try {
    return readFileSync(path, 'utf8').split('\n')[line - 1] ?? null
  } catch {
    // It may be gone, or a place that is no file.
    return null
  }
}
