import { waitSecondsMax } from './limits.ts'

/** What a caller prefers about waiting (§3). */
export interface Preferences {
  respondAsync: boolean
  /** Whole seconds, 0 to 300; absent when nothing was said. */
  wait?: number
}

/** A name, perhaps with a value, without its parameters (RFC 7240, section 2). */
const preference = /^([!#$%&'*+.^_`|~0-9A-Za-z-]+)(?:[ \t]*=[ \t]*([!#$%&'*+.^_`|~0-9A-Za-z-]+|"(?:[^"\\]|\\.)*")?)?$/

/**
 * Reads `Prefer` (RFC 7240): the value of the header, of several of them joined by commas, or undefined without one. What
 * is malformed or unknown is ignored; of a preference that comes twice the first counts. More than 300 seconds are 300.
 */
export function parsePrefer(header: string | undefined): Preferences {
  const preferences: Preferences = { respondAsync: false }
  if (header === undefined) return preferences
  for (const part of splitOutsideQuotes(header, ',')) {
    const [withoutParameters = ''] = splitOutsideQuotes(part, ';')
    const [, name = '', given = ''] = preference.exec(withoutParameters.trim()) ?? []
    const value = given.startsWith('"') ? given.slice(1, -1).replace(/\\(.)/g, '$1') : given
    switch (name.toLowerCase()) {
      case 'respond-async':
        if (value === '') preferences.respondAsync = true
        break
      case 'wait':
        if (/^\d+$/.test(value)) preferences.wait ??= Math.min(Number(value), waitSecondsMax)
    }
  }
  return preferences
}

/** The value of `Preference-Applied` for what was applied, or undefined when nothing was. */
export function preferenceApplied(applied: Preferences): string | undefined {
  const all = []
  if (applied.respondAsync) all.push('respond-async')
  if (applied.wait !== undefined) all.push(`wait=${applied.wait}`)
  return all.length === 0 ? undefined : all.join(', ')
}

/** The parts between separators, one look at each character: a header made to be slow is as fast as any other. */
function splitOutsideQuotes(text: string, separator: ',' | ';'): string[] {
  if (!text.includes('"')) return text.split(separator)
  const parts: string[] = []
  let start = 0
  let quoted = false
  for (let i = 0; i < text.length; i++) {
    const character = text[i]
    if (character === '"') quoted = !quoted
    else if (quoted && character === '\\') i++
    else if (!quoted && character === separator) {
      parts.push(text.slice(start, i))
      start = i + 1
    }
  }
  parts.push(text.slice(start))
  return parts
}
