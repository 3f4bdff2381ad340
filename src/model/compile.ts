import { compileNoun } from './compile-noun.ts'
import { checkThrottle, compileVerb, warningOf } from './compile-verb.ts'
import type { AnyNoun, AnyVerb, Nouns } from './define-types.ts'
import { Faults } from './definitionerror.ts'
import type { Manifest, ManifestNoun } from './manifest.ts'
import { isObject } from './jsonschema.ts'
import { isNamespace, isRecordId, reservedNamespaces } from './names.ts'
import type { Noun, SeedCall, Startup, Throttle, Verb } from './startup.ts'

/** A definition as the author gave it. */
export interface Definition {
  readonly namespace: string
  /** Of `startup(…)`, and of `serve(…)`. */
  readonly line: string | null
  readonly serveLine: string | null
  readonly nouns: Nouns
  /** Every Verb of this Startup, served or not. */
  readonly defined: readonly AnyVerb[]
  readonly verbs: readonly AnyVerb[]
  readonly seed?: readonly unknown[]
  readonly throttle?: Throttle
}

/** Checks a definition (N1) and compiles it. Throws a DefinitionError with every fault. */
export function compile(definition: Definition): Startup {
  const faults = new Faults()
  checkNamespace(definition, faults)
  const { nouns, manifest } = compileNouns(definition.nouns, definition.line, faults)
  const { verbs, warnings } = compileVerbs(definition, nouns, faults)
  const seed = compileSeed(definition, verbs, faults)
  checkThrottle('serve', definition.throttle, (sentence) => faults.add(definition.serveLine, sentence))
  faults.throwIfAny()
  return {
    namespace: definition.namespace,
    nouns,
    nounsByPlural: new Map([...nouns.values()].map((noun) => [noun.plural, noun])),
    verbs,
    manifest: manifestOf(definition.namespace, manifest, verbs),
    seed,
    throttle: definition.throttle ?? null,
    warnings,
  }
}

function checkNamespace({ namespace, line }: Definition, faults: Faults): void {
  if (!isNamespace(namespace))
    faults.add(line, `the namespace "${namespace}" must be like a domain, in lower case: "glyphs.store"`)
  else if (reservedNamespaces.has(namespace))
    faults.add(line, `the namespace "${namespace}" is a path of the server: choose another`)
}

function compileNouns(
  definitions: Nouns,
  line: string | null,
  faults: Faults,
): { nouns: Map<string, Noun>; manifest: ManifestNoun[] } {
  const nouns = new Map<string, Noun>()
  const manifest: ManifestNoun[] = []
  const byPlural = new Map<string, string>()
  for (const [name, definition] of Object.entries(definitions)) {
    if (!isNoun(definition)) {
      faults.add(line, `Noun "${name}" must be made with noun({ fields: … })`)
      continue
    }
    const compiled = compileNoun(name, definition, faults)
    if (compiled === null) continue
    const { noun } = compiled
    const other = byPlural.get(noun.plural)
    if (other !== undefined)
      faults.add(
        definition.line,
        `Nouns "${other}" and "${name}" have one plural, "${noun.plural}": give one another with plural:`,
      )
    byPlural.set(noun.plural, name)
    nouns.set(name, noun)
    manifest.push(compiled.manifest)
  }
  return { nouns, manifest }
}

function isNoun(value: unknown): value is AnyNoun {
  return isObject(value) && value['kind'] === 'noun' && isObject(value['options'])
}

function compileVerbs(
  { nouns: definitions, defined, verbs: served, serveLine }: Definition,
  nouns: ReadonlyMap<string, Noun>,
  faults: Faults,
): { verbs: Map<string, Verb>; warnings: string[] } {
  const verbs = new Map<string, Verb>()
  const warnings: string[] = []
  const taken = new Map<string, string>()
  for (const definition of served) {
    if (!defined.includes(definition)) {
      faults.add(serveLine, 'verbs lists what is not a Verb of this Startup: define it with .verb(…)')
      continue
    }
    const { operation, line } = definition
    // A Noun whose own fields are at fault is told once, not again with each of its Verbs.
    const isOfFaultyNoun =
      !nouns.has(operation.split('.')[0] ?? '') && Object.hasOwn(definitions, operation.split('.')[0] ?? '')
    if (isOfFaultyNoun) continue
    if (verbs.has(operation)) faults.add(line, `Verb "${operation}" is defined twice`)
    const verb = compileVerb(definition, nouns, faults)
    if (verb === null) continue
    if (!verbs.has(operation)) checkTaken(verb, nouns, taken, (sentence) => faults.add(line, sentence))
    verbs.set(operation, verb)
    const warning = warningOf(definition, verb)
    if (warning !== null) warnings.push(warning)
  }
  for (const { operation, line } of defined)
    if (!served.some((one) => one.operation === operation))
      warnings.push(`${line === null ? '' : `${line}: `}${operation} is defined, but serve does not list it`)
  return { verbs, warnings }
}

/** No two Verbs share a route or a type of Event. */
function checkTaken(
  verb: Verb,
  nouns: ReadonlyMap<string, Noun>,
  taken: Map<string, string>,
  fault: (sentence: string) => void,
): void {
  const plural = nouns.get(verb.noun)?.plural ?? verb.noun
  const names = [
    `the route /${plural}/${verb.target === 'record' ? '{id}/' : ''}${verb.verb}`,
    ...Object.values(verb.eventTypes).map((type) => `the Event type "${type}"`),
  ]
  for (const name of names) {
    const other = taken.get(name)
    if (other !== undefined && other !== verb.operation)
      fault(`${other} and ${verb.operation} have both ${name}: give one another name, or event:`)
    taken.set(name, verb.operation)
  }
}

function compileSeed(
  { seed = [], serveLine }: Definition,
  verbs: ReadonlyMap<string, Verb>,
  faults: Faults,
): SeedCall[] {
  const calls: SeedCall[] = []
  for (const [i, call] of seed.entries()) {
    const fault = (sentence: string): void => faults.add(serveLine, `seed ${i + 1}: ${sentence}`)
    const [operation, ...rest] = Array.isArray(call) ? (call as unknown[]) : []
    const verb = typeof operation === 'string' ? verbs.get(operation) : undefined
    if (verb === undefined) {
      fault(`${JSON.stringify(operation)} is none of the Verbs that are served`)
      continue
    }
    const target = verb.target === 'record' ? rest.shift() : null
    if (target !== null && !(typeof target === 'string' && isRecordId(target)))
      fault(`${verb.operation} is called on a record: its id comes second`)
    const [input = {}, ...more] = rest
    if (!isObject(input) || more.length > 0) fault(`${verb.operation} takes one input, which is an object`)
    else
      calls.push({ operation: verb.operation, target: target as string | null, input: checkedSeed(verb, input, fault) })
  }
  return calls
}

/** The input, after a look at whether the door would take it. One that is checked asynchronously is looked at when it is called. */
function checkedSeed(
  verb: Verb,
  input: Readonly<Record<string, unknown>>,
  fault: (sentence: string) => void,
): SeedCall['input'] {
  const checked = verb.check(input)
  if (checked instanceof Promise) checked.catch(() => undefined)
  else if ('faults' in checked)
    for (const { path, message } of checked.faults)
      fault(`${verb.operation}: ${['input', ...path].join('.')}: ${message}`)
  return input
}

function manifestOf(namespace: string, nouns: readonly ManifestNoun[], verbs: ReadonlyMap<string, Verb>): Manifest {
  const all = [...verbs.values()]
  return {
    namespace,
    nouns,
    verbs: all.map(({ operation, noun, verb, target }) => ({ operation, noun, verb, target })),
  }
}
