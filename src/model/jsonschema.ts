/** A JSON Schema, draft 2020-12, as Standard Schema libraries tell it. */
export type JsonSchema = Readonly<Record<string, unknown>>

/** The schema at a reference within the document: `#/$defs/Address`. */
export function resolve(root: JsonSchema, ref: string): unknown {
  let at: unknown = root
  for (const name of ref === '#' ? [] : decodeURIComponent(ref).slice(2).split('/'))
    at = isObject(at) ? at[name.replaceAll('~1', '/').replaceAll('~0', '~')] : undefined
  if (!ref.startsWith('#') || at === undefined) throw new Error(`it refers to ${ref}, which is not in it`)
  return at
}

export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
