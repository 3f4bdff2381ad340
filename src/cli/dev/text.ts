import { relative } from 'node:path'
import { styleText } from 'node:util'

type Style = Parameters<typeof styleText>[0]

/** Colour at a terminal that has it; NO_COLOR and FORCE_COLOR are obeyed. */
const hasColours = process.stdout.isTTY && process.stdout.hasColors()

export function styled(style: Style, text: string): string {
  return hasColours ? styleText(style, text, { validateStream: false }) : text
}

/** A text that came from elsewhere, on one line and unable to steer the terminal: controls are shown as escapes. */
export function plain(text: string): string {
  return text.replace(/[\p{Cc}\p{Cf}\u2028\u2029]/gu, (char) => {
    const code = char.codePointAt(0) ?? 0
    return code > 0xffff ? `\\u{${code.toString(16)}}` : `\\u${code.toString(16).padStart(4, '0')}`
  })
}

export function print(...lines: readonly string[]): void {
  process.stdout.write(lines.map((line) => `${line}\n`).join(''))
}

/** The time of day here, to the second. */
export function clock(): string {
  return styled('dim', new Date().toTimeString().slice(0, 8))
}

/** A path as a person at this terminal would say it. */
export function short(path: string): string {
  const near = relative(process.cwd(), path)
  return near.startsWith('..') ? path : near
}
