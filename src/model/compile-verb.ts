import { checkMembers, checkOr, schemaOr } from './compile-schema.ts'
import type { AnyVerb, Declaration } from './define-types.ts'
import { list, type Faults } from './definitionerror.ts'
import { burstMax, rateMax, timeoutMsDefault, timeoutMsMax, unitsPerActionMax } from './limits.ts'
import { closest } from './closest.ts'
import { isObject, resolve, type JsonSchema } from './jsonschema.ts'
import { isCamelCase, reservedVerbs } from './names.ts'
import { pastParticiple } from './participle.ts'
import { closed, isSchema, opened } from './schema.ts'
import type { Check, Noun, Throttle, Verb } from './startup.ts'

type Fault = (sentence: string) => void

/** Compiles a Verb and notes its faults. Null when it has no Noun or no input, so that nothing can be made of it. */
export function compileVerb(definition: AnyVerb, nouns: ReadonlyMap<string, Noun>, faults: Faults): Verb | null {
  const { operation, options, line } = definition
  const fault: Fault = (sentence) => faults.add(line, sentence)
  const dot = operation.indexOf('.')
  const [noun, verb] = [operation.slice(0, Math.max(dot, 0)), operation.slice(dot + 1)]
  checkName(operation, noun, verb, nouns, fault)
  const target = options.target ?? 'collection'
  if (target !== 'record' && target !== 'collection')
    fault(`the target of ${operation} must be 'record' or 'collection'`)
  if (typeof options.run !== 'function') fault(`${operation} needs a function run(context)`)
  const input = compileInput(operation, options.input, fault)
  const reads = declared(operation, 'reads', options.reads, noun, target, nouns, fault)
  const writes = declared(operation, 'writes', options.writes, noun, target, nouns, fault)
  const outputSchema = compileOutput(operation, options.output, fault)
  checkTimeout(operation, options.timeout, fault)
  checkThrottle(operation, options.throttle, fault)
  if (input === null) return null
  return {
    operation,
    noun,
    verb,
    target,
    ...input,
    outputSchema,
    reads,
    writes,
    eventTypes: eventTypes(operation, noun, verb, options.event, fault),
    timeoutMs: options.timeout ?? timeoutMsDefault,
    meter: meterOf(operation, options.meter),
    throttle: options.throttle ?? null,
    run: options.run,
  }
}

/** The sentence for a Verb that declares nothing where it should, or null (W2). */
export function warningOf(definition: AnyVerb, verb: Verb): string | null {
  const { line, options } = definition
  const whom = verb.target === 'record' && !verb.reads.has(verb.noun) && !verb.writes.has(verb.noun)
  if ((options.reads !== undefined || options.writes !== undefined) && !whom) return null
  const what = whom ? `fields of ${verb.noun}` : 'fields'
  const place = line === null ? '' : `${line}: `
  return `${place}${verb.operation} declares no ${what} that it reads or writes, so it depends on every one: a call is refused as stale when any has changed since it was decided`
}

function checkName(
  operation: string,
  noun: string,
  verb: string,
  nouns: ReadonlyMap<string, Noun>,
  fault: Fault,
): void {
  if (!nouns.has(noun)) {
    const close = closest(noun, [...nouns.keys()])
    const mend = close === null ? `the Nouns are ${list([...nouns.keys()])}` : `did you mean "${close}.${verb}"?`
    fault(`Verb "${operation}" is of a Noun that there isn't: ${mend}`)
  }
  if (!isCamelCase(verb)) fault(`Verb "${operation}" must be a Noun, a dot and a name in camelCase: "Order.markPaid"`)
  else if (reservedVerbs.has(verb))
    fault(`Verb "${operation}" can't be named ${verb}, which the SDK has itself: choose another`)
}

function compileInput(
  operation: string,
  schema: unknown,
  fault: Fault,
): { check: Check; inputSchema: JsonSchema } | null {
  if (!isSchema(schema)) {
    fault(`${operation} needs an input: a schema with Standard Schema and its JSON Schema, such as z.object({ … })`)
    return null
  }
  const json = schemaOr(schema, 'input', (why) =>
    fault(
      `the input of ${operation} can't be told as JSON Schema: ${why}; take what JSON has, such as text for a date`,
    ),
  )
  const check = json && checkOr(schema, json, (why) => fault(`the input of ${operation} can't be checked: ${why}`))
  if (json === null || check === null) return null
  if (!isObjectSchema(json, json)) {
    fault(`the input of ${operation} must be an object: z.object({ … })`)
    return null
  }
  checkMembers(`the input of ${operation}`, json, fault)
  return { check, inputSchema: closed(json) }
}

/** Whether every value that fits is an object. */
function isObjectSchema(root: JsonSchema, schema: unknown, depth = 0): boolean {
  if (!isObject(schema) || depth > 20) return false
  if (schema['type'] === 'object') return true
  if (typeof schema['$ref'] === 'string') return isObjectSchema(root, resolve(root, schema['$ref']), depth + 1)
  const either = schema['anyOf'] ?? schema['oneOf']
  if (Array.isArray(either)) return either.length > 0 && either.every((one) => isObjectSchema(root, one, depth + 1))
  return Array.isArray(schema['allOf']) && schema['allOf'].some((one) => isObjectSchema(root, one, depth + 1))
}

function compileOutput(operation: string, schema: unknown, fault: Fault): JsonSchema | null {
  if (schema === undefined) return null
  if (isSchema(schema)) {
    const json = schemaOr(schema, 'output', (why) =>
      fault(`the output of ${operation} can't be told as JSON Schema: ${why}`),
    )
    return json && opened(json)
  }
  fault(`the output of ${operation} must be a schema with Standard Schema and its JSON Schema, or left out`)
  return null
}

function declared(
  operation: string,
  option: 'reads' | 'writes',
  given: Declaration | undefined,
  target: string,
  kind: string,
  nouns: ReadonlyMap<string, Noun>,
  fault: Fault,
): ReadonlyMap<string, ReadonlySet<string>> {
  const byNoun = new Map<string, ReadonlySet<string>>()
  if (given === undefined) return byNoun
  if (isList(given) && kind !== 'record') {
    fault(`${option} of ${operation} must be by Noun, since it has no target: ${option}: { ${target}: […] }`)
    return byNoun
  }
  for (const [name, fields] of Object.entries(isList(given) ? { [target]: given } : given)) {
    if (fields === undefined) continue
    const noun = nouns.get(name)
    if (noun === undefined) fault(`${option} of ${operation} names Noun "${name}", which there isn't`)
    for (const field of noun === undefined ? [] : fields)
      if (!noun?.fieldNames.includes(field)) fault(unknownField(operation, option, field, noun))
    byNoun.set(name, new Set(fields))
  }
  return byNoun
}

function unknownField(operation: string, option: string, field: string, noun: Noun | undefined): string {
  const names = noun?.fieldNames ?? []
  const close = closest(field, names)
  const mend = close === null ? `its fields are ${list(names)}` : `did you mean "${close}"?`
  return `${option} of ${operation} names "${field}", which Noun "${noun?.name}" doesn't have: ${mend}`
}

function isList(given: Declaration): given is readonly string[] {
  return Array.isArray(given)
}

function eventTypes(
  operation: string,
  noun: string,
  verb: string,
  event: string | undefined,
  fault: Fault,
): Verb['eventTypes'] {
  const succeeded = event ?? `${noun}.${pastParticiple(verb)}`
  const name = succeeded.startsWith(`${noun}.`) ? succeeded.slice(noun.length + 1) : ''
  if (!isCamelCase(name))
    fault(
      `the event "${succeeded}" of ${operation} must be "${noun}." and a past participle: "${noun}.${pastParticiple(verb)}"`,
    )
  return { succeeded, failed: `${operation}.failed`, refused: `${operation}.refused` }
}

function checkTimeout(operation: string, timeout: number | undefined, fault: Fault): void {
  if (timeout !== undefined && !(Number.isInteger(timeout) && timeout >= 1 && timeout <= timeoutMsMax))
    fault(`the timeout of ${operation} is ${String(timeout)}; it must be whole milliseconds from 1 to ${timeoutMsMax}`)
}

/** Notes what is wrong with a throttle (§10): of a Verb, or of the whole. */
export function checkThrottle(owner: string, throttle: Throttle | undefined, fault: Fault): void {
  if (throttle === undefined) return
  const { rate, burst } = isObject(throttle) ? throttle : { rate: NaN, burst: NaN }
  if (!(typeof rate === 'number' && rate > 0 && rate <= rateMax))
    fault(`throttle.rate of ${owner} must be calls a second, above 0 and at most 1,000,000`)
  if (!(Number.isInteger(burst) && burst >= 1 && burst <= burstMax))
    fault(`throttle.burst of ${owner} must be a whole number of calls from 1 to 1,000,000`)
}

/** One unit unless the Verb says (E2). What isn't a whole number of units is the Verb's fault, and thrown as such. */
function meterOf(operation: string, meter: ((input: never, output: never) => number) | undefined): Verb['meter'] {
  if (meter === undefined) return () => 1
  return (input, output) => {
    const units = meter(input as never, output as never)
    if (!Number.isSafeInteger(units) || units < 0 || units > unitsPerActionMax)
      throw new RangeError(
        `meter of ${operation} gave ${String(units)}: not a whole number of units up to 1,000,000,000`,
      )
    return units
  }
}
