import pluralize from 'pluralize'

/** Plurals that a path of the platform already uses: `/{ns}/actions` can't be a Noun's (N1). */
export const reservedPlurals: ReadonlySet<string> = new Set([
  'actions',
  'events',
  'usage',
  'inbox',
  'me',
  'mcp',
  'openapi.json',
])

/** Verbs that the SDK's `$.Order` uses itself, or that would make it a promise (N1). */
export const reservedVerbs: ReadonlySet<string> = new Set([
  'get',
  'list',
  'versions',
  'find',
  'then',
  'catch',
  'finally',
  'toJSON',
  'constructor',
])

/** Namespaces that a path of the server already uses: `/healthz` (N1). */
export const reservedNamespaces: ReadonlySet<string> = new Set([
  'errors',
  'healthz',
  'readyz',
  'metrics',
  'me',
  'console',
])

/** Nouns that the platform has built in (N1). */
export const reservedNouns: ReadonlySet<string> = new Set(['Action', 'Inbox', 'Script', 'Worker'])

/** Whether a Noun's name is in PascalCase, in ASCII letters and digits: `FontLicense` (N1). */
export function isPascalCase(name: string): boolean {
  return /^[A-Z][A-Za-z0-9]*$/.test(name)
}

/** Whether a Verb's name is in camelCase, in ASCII letters and digits: `place`, `markPaid`. */
export function isCamelCase(name: string): boolean {
  return /^[a-z][A-Za-z0-9]*$/.test(name)
}

/** Whether a plural can stand in a path: `font-licenses`. */
export function isKebabCase(name: string): boolean {
  return /^[a-z][a-z0-9]*(-[a-z0-9]+)*$/.test(name)
}

/** Whether a text has the form of a namespace: labels of lower-case letters, digits and inner hyphens, with dots between. */
export function isNamespace(name: string): boolean {
  return name.length <= 253 && /^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?(\.[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)*$/.test(name)
}

/** Whether a text has the form of a record's id (§1). */
export function isRecordId(id: string): boolean {
  return /^[A-Za-z0-9_-]{1,64}$/.test(id)
}

/** The words of a PascalCase or camelCase name, in lower case: `HTTPServer` → `http`, `server`. */
function words(name: string): string[] {
  return name
    .replace(/([a-z0-9])([A-Z])/g, '$1 $2')
    .replace(/([A-Z])([A-Z][a-z])/g, '$1 $2')
    .toLowerCase()
    .split(' ')
}

/** The plural of a Noun as it stands in paths: `FontLicense` → `font-licenses`. `plural` is what the Noun declares. */
export function kebabPlural(noun: string, plural?: string): string {
  if (plural !== undefined) return plural
  const all = words(noun)
  const last = all.pop() ?? ''
  return [...all, pluralize.plural(last)].join('-')
}

/** What the ids of a Noun's records begin with: `FontLicense` → `font_license_`. */
export function idPrefix(noun: string): string {
  return `${words(noun).join('_')}_`
}

/** A record's name among all records of its namespace: `offers/offer_serif_family` (W1). */
export type RecordKey = `${string}/${string}`

export function recordKey(plural: string, id: string): RecordKey {
  return `${plural}/${id}`
}

/** The plural and id in a record's name, or null when the text isn't one. Whether the Noun exists is another question. */
export function parseRecordKey(text: string): { plural: string; id: string } | null {
  const slash = text.indexOf('/')
  const plural = text.slice(0, slash)
  const id = text.slice(slash + 1)
  return slash > 0 && isKebabCase(plural) && isRecordId(id) ? { plural, id } : null
}
