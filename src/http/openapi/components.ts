import { isObject, resolve, type JsonSchema } from '../../model/jsonschema.ts'
import { headerRefs } from './headers.ts'

/** The components of a document: each under a name of its own, found by reference. */
export class Components {
  readonly schemas: Record<string, JsonSchema> = {}
  readonly responses: Record<string, object> = {}
  readonly #names = new Set<string>()
  readonly #operationIds = new Set<string>()

  /** The answer to a request whose `If-None-Match` names what is still right. */
  get notModified(): JsonSchema {
    this.responses['NotModified'] ??= {
      description: 'What the client has is still right.',
      headers: headerRefs('ETag', 'RateLimit', 'RateLimit-Policy'),
    }
    return { $ref: '#/components/responses/NotModified' }
  }

  /** Adds a schema under a name that nothing else has; gives the reference to it. */
  add(name: string, schema: JsonSchema): JsonSchema {
    this.claim([name])
    this.schemas[name] = schema
    return refTo(name)
  }

  /**
   * Adds the JSON Schema of a Noun or a Verb. Its references are to its own root, which is not the document's: its `$defs`
   * become components, and what refers to them follows. One that leads nowhere says nothing of its values, and so does its place here.
   */
  adopt(names: readonly [string, ...string[]], schema: JsonSchema, description: string): JsonSchema {
    const name = this.claim(names)
    const defs = { ...object(schema['$defs']), ...object(schema['definitions']) }
    const moved = new Map(
      Object.keys(defs).map((def) => [def, this.claim([`${name}_${def.replace(/[^\w.-]/g, '_')}`])]),
    )
    const rewrite = rewriter(schema, name, moved)
    for (const [def, place] of moved) this.schemas[place] = rewrite(defs[def])
    const { $defs: _, definitions: __, ...rest } = rewrite(schema)
    this.schemas[name] = { description, ...rest }
    return refTo(name)
  }

  /** The first of the names that is free; when none is, the last with a number. Names of the platform are claimed before those of a definition. */
  claim(names: readonly [string, ...string[]]): string {
    return claimIn(this.#names, names)
  }

  /** An `operationId` that nothing else has, as `claim` does it. */
  operationId(names: readonly [string, ...string[]]): string {
    return claimIn(this.#operationIds, names)
  }
}

/** A reference to a component's schema. */
export function refTo(name: string): JsonSchema {
  return { $ref: `#/components/schemas/${name}` }
}

function claimIn(taken: Set<string>, names: readonly [string, ...string[]]): string {
  let name = names.find((one) => !taken.has(one))
  for (let n = 2; name === undefined; n++) {
    const numbered = `${names.at(-1)}_${n}`
    if (!taken.has(numbered)) name = numbered
  }
  taken.add(name)
  return name
}

/** Words whose values are data, whatever their members are called. */
const data = new Set(['default', 'const', 'enum', 'examples'])
/** Words whose members are names, not words. */
const named = new Set(['properties', 'patternProperties', '$defs', 'definitions', 'dependentSchemas'])
/** Words that would change what a reference is relative to. */
const rebasing = new Set(['$schema', '$id', '$anchor', '$dynamicAnchor'])

/** Rewrites the references of a schema to where the schema, and its `$defs`, are in the document. */
function rewriter(
  root: JsonSchema,
  name: string,
  moved: ReadonlyMap<string, string>,
): (schema: unknown) => Record<string, unknown> {
  function place(ref: string): string | null {
    try {
      resolve(root, ref)
    } catch {
      return null // it refers to what is not in the schema
    }
    const [, word = '', def = '', ...rest] = ref.split('/')
    const def$ = moved.get(decodeURIComponent(def).replaceAll('~1', '/').replaceAll('~0', '~'))
    const inDefs = (word === '$defs' || word === 'definitions') && def$ !== undefined
    const path = inDefs ? rest : ref.split('/').slice(1)
    return ['#/components/schemas', inDefs ? def$ : name, ...path].join('/')
  }

  function rewrite(node: unknown, isNames = false): unknown {
    if (Array.isArray(node)) return node.map((one) => rewrite(one))
    if (!isObject(node)) return node
    const copy: Record<string, unknown> = {}
    for (const [word, value] of Object.entries(node)) {
      if (isNames) copy[word] = rewrite(value)
      else if (word === '$ref' && typeof value === 'string') Object.assign(copy, referred(value))
      else if (data.has(word)) copy[word] = value
      else if (!rebasing.has(word)) copy[word] = rewrite(value, named.has(word))
    }
    return copy
  }

  function referred(ref: string): JsonSchema {
    const at = place(ref)
    return at === null ? { description: `Described elsewhere, as ${ref}.` } : { $ref: at }
  }

  return (schema) => rewrite(schema) as Record<string, unknown>
}

function object(value: unknown): Record<string, unknown> {
  return isObject(value) ? value : {}
}
