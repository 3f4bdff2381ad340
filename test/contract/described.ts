import addFormats from 'ajv-formats'
import { Ajv2020 } from 'ajv/dist/2020.js'
import type { ValidateFunction } from 'ajv/dist/2020.js'
import { expect } from 'vitest'
import type { Json, Reply } from './wire.ts'

/** A validator of draft 2020-12 with formats, as a client has one. */
export function newAjv(): Ajv2020 {
  const ajv = new Ajv2020({ strict: true, strictTypes: false, strictRequired: false, allErrors: true })
  addFormats.default(ajv)
  return ajv
}

/** What is read of an OpenAPI document. */
export interface Document {
  readonly openapi: string
  readonly servers: readonly { readonly url: string }[]
  readonly paths: Readonly<Record<string, Readonly<Record<string, Described>>>>
  readonly components: Readonly<Record<string, Readonly<Record<string, Json>>>>
}

export interface Described {
  readonly operationId: string
  readonly security?: readonly Readonly<Record<string, readonly string[]>>[]
  readonly parameters?: readonly Json[]
  readonly requestBody?: { readonly required: boolean; readonly content: Readonly<Record<string, { schema: Json }>> }
  readonly responses: Readonly<Record<string, Json>>
}

/** Headers that this platform gives a meaning: an answer has them only where its description does. */
const meaningful = [
  ...['Idempotent-Replayed', 'Action-Status', 'Location', 'Retry-After', 'RateLimit', 'RateLimit-Policy'],
  ...['ETag', 'Preference-Applied', 'WWW-Authenticate'],
]

/** Checks answers against what the document says of them. */
export class Description {
  readonly document: Document
  /** What was checked: `post /kiln.test/orders/place 200`. */
  readonly checked = new Set<string>()
  readonly #ajv = new Ajv2020({ strict: false, allErrors: true })
  readonly #validators = new Map<string, ValidateFunction>()

  constructor(document: Document) {
    this.document = document
    addFormats.default(this.#ajv)
    // Closed, so that a member that nobody described is found.
    this.#ajv.addSchema({ ...(close(document) as object), $id: 'document' })
  }

  /** The template of a path: `/kiln.test/orders/{id}` for `/kiln.test/orders/order_1`. */
  template(method: string, path: string): string {
    const { paths } = this.document
    if (paths[path]?.[method] !== undefined) return path
    const found = Object.keys(paths).find(
      (one) => paths[one]?.[method] !== undefined && new RegExp(`^${one.replace(/\{\w+\}/g, '[^/]+')}$`).test(path),
    )
    if (found === undefined) throw new Error(`the document has no ${method} ${path}`)
    return found
  }

  operation(method: string, template: string): Described {
    const found = this.document.paths[template]?.[method]
    if (found === undefined) throw new Error(`the document has no ${method} ${template}`)
    return found
  }

  /** Parameters by place and name, headers in lower case: `header idempotency-key`. */
  parameters(operation: Described): string[] {
    return (operation.parameters ?? [])
      .map((one) => this.#resolved(one))
      .map(
        ({ in: place, name }) => `${String(place)} ${place === 'header' ? String(name).toLowerCase() : String(name)}`,
      )
  }

  /** Whether a body fits the input of an operation. */
  takes(method: string, template: string, body: unknown): boolean {
    return (
      this.#fits(['paths', template, method, 'requestBody', 'content', 'application/json', 'schema'], body) === null
    )
  }

  /** Checks status, headers and body of an answer. */
  check(method: string, path: string, answer: Reply): void {
    const template = this.template(method, path)
    const { responses } = this.operation(method, template)
    const where = `${method} ${template} ${answer.status}`
    const response = responses[answer.status]
    expect(response, `${where} is not described: ${answer.text}`).toBeDefined()
    if (response === undefined) return
    const at = this.#place(response, ['paths', template, method, 'responses', String(answer.status)])
    const described = this.#resolved(response)
    this.#checkHeaders(where, at, (described['headers'] ?? {}) as Json, answer)
    const content = described['content'] as Json | undefined
    if (content === undefined) expect(answer.text, where).toBe('')
    else this.#checkBody(where, at, content, answer)
    this.checked.add(where)
  }

  #checkHeaders(where: string, at: readonly string[], headers: Json, answer: Reply): void {
    for (const name of meaningful) {
      const value = answer.header(name)
      if (value === null) continue
      const header = headers[name] as Json | undefined
      expect(header, `${where} has ${name}, which is not described`).toBeDefined()
      if (header === undefined) continue
      const place = [...this.#place(header, [...at, 'headers', name]), 'schema']
      const isInteger = (this.#resolved(header)['schema'] as Json)['type'] === 'integer'
      expect(this.#fits(place, isInteger ? Number(value) : value), `${where} ${name}: ${value}`).toBeNull()
    }
  }

  #checkBody(where: string, at: readonly string[], content: Json, answer: Reply): void {
    const type = (answer.header('content-type') ?? '').split(';')[0] ?? ''
    expect(Object.keys(content), where).toContain(type)
    if (!/json$/.test(type)) return
    expect(this.#fits([...at, 'content', type, 'schema'], answer.json()), `${where}: ${answer.text}`).toBeNull()
  }

  #fits(place: readonly string[], value: unknown): string | null {
    const pointer = place.map((name) => encodeURIComponent(name.replaceAll('~', '~0').replaceAll('/', '~1'))).join('/')
    let validate = this.#validators.get(pointer)
    if (validate === undefined) {
      validate = this.#ajv.compile({ $ref: `document#/${pointer}` })
      this.#validators.set(pointer, validate)
    }
    return validate(value) ? null : this.#ajv.errorsText(validate.errors)
  }

  #place(one: Json, at: readonly string[]): readonly string[] {
    return typeof one['$ref'] === 'string' ? one['$ref'].split('/').slice(1) : at
  }

  #resolved(one: Json): Json {
    if (typeof one['$ref'] !== 'string') return one
    const [, , kind = '', name = ''] = one['$ref'].split('/')
    const found = this.document.components[kind]?.[name]
    if (found === undefined) throw new Error(`the document has no ${one['$ref']}`)
    return found
  }
}

/** Every schema that names members and says nothing of others takes no others; but an output may have more than is declared. */
function close(node: unknown): unknown {
  if (Array.isArray(node)) return node.map(close)
  if (typeof node !== 'object' || node === null) return node
  const copy: Json = Object.fromEntries(
    Object.entries(node).map(([name, value]) => [name, name.endsWith('Output') ? value : close(value)]),
  )
  const isOpen = copy['type'] === 'object' && 'properties' in copy
  return isOpen && !('additionalProperties' in copy) && !('allOf' in copy)
    ? { ...copy, additionalProperties: false }
    : copy
}
