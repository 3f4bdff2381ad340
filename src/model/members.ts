import { closest } from './closest.ts'
import type { JsonSchema } from './jsonschema.ts'
import { faultsMax } from './limits.ts'
import { fits, isOfType, memberNode, shapesOf, type Node, type Shape } from './shape.ts'
import type { Fault } from './startup.ts'

/** Finds the members of a value that its schema does not know, at any depth; null when there are none. */
export type FindUnknown = (value: unknown) => Fault[] | null

/**
 * Compiles the finder of unknown members from a JSON Schema. Libraries differ here (zod strips them silently, others keep
 * them), so the door looks for itself: a mistyped `pirce` must not run (R2). A member is known when `properties`,
 * `patternProperties` or `additionalProperties` say so, in any part of an `allOf` and in one branch of an `anyOf` that the
 * value fits. An object of which nothing is said is open, such as zod's `unknown()`. Throws for a `$ref` that leads nowhere.
 */
export function unknownMembers(schema: JsonSchema): FindUnknown {
  const node = shapesOf(schema)
  return node.leaf ? () => null : (value) => unknownIn(node, value)
}

function unknownIn(node: Node, value: unknown): Fault[] | null {
  if (node.leaf || typeof value !== 'object' || value === null) return null
  const [only, ...others] = node.shapes
  if (only === undefined) return null
  return others.length === 0 ? unknownInShape(only, value) : unknownInAny(node.shapes, value)
}

/** Of several shapes those count that the value fits; if it fits none (its schema will say so), those of its kind. */
function unknownInAny(shapes: readonly Shape[], value: object): Fault[] | null {
  const fitting = shapes.filter((shape) => fits(shape, value))
  const alike = fitting.length > 0 ? fitting : shapes.filter((shape) => isOfType(shape, value))
  let fewest: Fault[] | null = null
  for (const shape of alike) {
    const faults = unknownInShape(shape, value)
    if (faults === null) return null
    if (fewest === null || faults.length < fewest.length) fewest = faults
  }
  return fewest
}

function unknownInShape(shape: Shape, value: object): Fault[] | null {
  let faults: Fault[] | null = null
  if (Array.isArray(value)) {
    for (let i = 0; i < value.length && !isEnough(faults); i++) {
      const found = unknownIn(shape.prefix[i] ?? shape.items, value[i])
      if (found !== null) faults = join(faults, found, i)
    }
    return faults
  }
  for (const name of Object.keys(value)) {
    if (isEnough(faults)) break
    const node = memberNode(shape, name)
    if (node === null) {
      faults = join(faults, [{ path: [], message: unknownMessage(name, shape) }], name)
    } else if (!node.leaf) {
      const found = unknownIn(node, (value as Record<string, unknown>)[name])
      if (found !== null) faults = join(faults, found, name)
    }
  }
  return faults
}

/** More would be told to nobody. */
function isEnough(faults: readonly Fault[] | null): boolean {
  return faults !== null && faults.length >= faultsMax
}

/** Adds faults found inside a member; nothing is allocated for a value without any. */
function join(faults: Fault[] | null, found: readonly Fault[], member: string | number): Fault[] {
  const all = faults ?? []
  for (const { path, message } of found) all.push({ path: [member, ...path], message })
  return all
}

function unknownMessage(name: string, shape: Shape): string {
  const close = closest(name, [...shape.members.keys()])
  return close === null ? 'is not known here' : `is not known here; did you mean "${close}"?`
}
