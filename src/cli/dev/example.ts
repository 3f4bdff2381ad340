type JsonSchema = Readonly<Record<string, unknown>>

/** How deep an example goes: a schema may contain itself. */
const depthMax = 6

const byFormat = new Map([
  ['email', 'ada@example.com'],
  ['date-time', '2030-01-01T12:00:00Z'],
  ['date', '2030-01-01'],
  ['time', '12:00:00Z'],
  ['duration', 'PT1H'],
  ['uri', 'https://example.com/'],
  ['url', 'https://example.com/'],
  ['uuid', '6f1c1f5e-8f7b-4d38-9a43-2f1f5a2b7c10'],
  ['ipv4', '192.0.2.1'],
  ['ipv6', '2001:db8::1'],
  ['hostname', 'example.com'],
])

/** Tried in turn where a pattern says what a text looks like. */
const commonTexts = [
  'EUR',
  'DE',
  'en',
  'example',
  'example-1',
  '1',
  '12345',
  '2030-01-01',
  '+4930123456',
  'A1',
  'a',
  'A',
]

/** A value that is known for a member of an input, by its name: what a seed says, or a record that exists. */
export type Known = (member: string) => unknown

/** An input for a JSON Schema: its required members, with values that are known or plausible. */
export function exampleOf(schema: JsonSchema, known: Known): unknown {
  return valueOf(schema, schema, 'example', known, 0)
}

function valueOf(schema: JsonSchema, root: JsonSchema, name: string, known: Known, depth: number): unknown {
  if (depth > depthMax) return null
  const inner = (one: unknown, as = name): unknown => valueOf(asSchema(one), root, as, known, depth + 1)
  if ('const' in schema) return schema['const']
  for (const word of ['enum', 'examples']) {
    const given = schema[word]
    if (Array.isArray(given) && given.length > 0) return given[0]
  }
  if ('default' in schema) return schema['default']
  if (typeof schema['$ref'] === 'string') return inner(referred(root, schema['$ref']))
  for (const word of ['anyOf', 'oneOf']) {
    const given = schema[word]
    if (Array.isArray(given) && given.length > 0) return inner(given[0])
  }
  if (Array.isArray(schema['allOf'])) {
    const parts = schema['allOf'].map(asSchema)
    return inner({ ...Object.assign({}, ...parts), ...without(schema, 'allOf'), ...merged([schema, ...parts]) })
  }
  switch (typeOf(schema)) {
    case 'object':
      return objectOf(schema, known, inner)
    case 'array':
      return Array.from({ length: Math.min(numberOf(schema['minItems'], 0), 10) }, () => inner(schema['items']))
    case 'integer':
    case 'number':
      return number(schema)
    case 'boolean':
      return true
    case 'null':
      return null
    default:
      return text(schema, name)
  }
}

function objectOf(schema: JsonSchema, known: Known, inner: (one: unknown, as?: string) => unknown): unknown {
  const properties = asSchema(schema['properties'])
  const required = Array.isArray(schema['required']) ? schema['required'].map(String) : []
  return Object.fromEntries(required.map((name) => [name, known(name) ?? inner(properties[name], name)]))
}

function number(schema: JsonSchema): number {
  const least = numberOf(
    schema['minimum'],
    numberOf(schema['exclusiveMinimum'], 0) + ('exclusiveMinimum' in schema ? 1 : 0),
  )
  const most = numberOf(schema['maximum'], Infinity)
  const step = numberOf(schema['multipleOf'], 1)
  const wanted = Math.ceil(Math.max(least, Math.min(1, most)) / step) * step
  return Math.min(wanted, most)
}

function text(schema: JsonSchema, name: string): string {
  const format = byFormat.get(String(schema['format']))
  if (format !== undefined) return format
  const least = numberOf(schema['minLength'], 0)
  const most = numberOf(schema['maxLength'], Infinity)
  const fits = (one: string): boolean => one.length >= least && one.length <= most && matches(schema['pattern'], one)
  const found = [name, ...commonTexts].find(fits)
  return found ?? name.padEnd(least, '-').slice(0, most === Infinity ? undefined : most)
}

function matches(pattern: unknown, text: string): boolean {
  if (typeof pattern !== 'string') return true
  try {
    return new RegExp(pattern, 'u').test(text)
  } catch {
    // A pattern of another dialect: nothing is known to fit.
    return false
  }
}

function typeOf(schema: JsonSchema): unknown {
  const { type } = schema
  if (Array.isArray(type)) return type.find((one) => one !== 'null') ?? 'null'
  return type ?? ('properties' in schema ? 'object' : 'string')
}

/** `#/$defs/Money` */
function referred(root: JsonSchema, ref: string): unknown {
  if (!ref.startsWith('#')) return {}
  const names = ref.slice(1).split('/').slice(1)
  const decoded = names.map((name) => name.replaceAll('~1', '/').replaceAll('~0', '~'))
  return decoded.reduce<unknown>((at, name) => asSchema(at)[name], root)
}

function merged(parts: readonly JsonSchema[]): JsonSchema {
  const properties = Object.assign({}, ...parts.map((part) => asSchema(part['properties']))) as JsonSchema
  const required = parts.flatMap((part) => (Array.isArray(part['required']) ? part['required'].map(String) : []))
  return Object.keys(properties).length === 0 ? {} : { properties, required: [...new Set(required)] }
}

function without(schema: JsonSchema, word: string): JsonSchema {
  return Object.fromEntries(Object.entries(schema).filter(([name]) => name !== word))
}

function asSchema(value: unknown): JsonSchema {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as JsonSchema) : {}
}

function numberOf(value: unknown, otherwise: number): number {
  return typeof value === 'number' ? value : otherwise
}
