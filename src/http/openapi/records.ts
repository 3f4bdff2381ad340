import { isObject, type JsonSchema } from '../../model/jsonschema.ts'
import type { Noun, Startup } from '../../model/startup.ts'
import { refTo } from './components.ts'
import { parameterRefs } from './headers.ts'
import { addOperation, answer, type Draft, type Operation } from './operations.ts'
import { ofLists, ofReads } from './problems.ts'
import { page } from './schemas.ts'

/** Adds what is read of a Noun (§3): its records, one of them, and the Versions of one. */
export function addRecords(draft: Draft, { namespace }: Startup, noun: Noun): void {
  const { name, plural } = noun
  const record = draft.components.adopt([name, `${name}_record`], noun.jsonSchema, `A record of ${name}.`)
  const path = `/${namespace}/${plural}`
  const common = { method: 'get', tag: name, grants: [`${name}:read`] } as const
  const problems: Operation['problems'] = ['forbidden', 'not-found']
  addOperation(draft, {
    ...common,
    path,
    ids: [`${name}List`, `${name}_list`],
    summary: `List ${plural}`,
    description: 'Records in the order of their creation. Filters are on declared indexes.',
    parameters: [...filtersOf(draft, noun, record), ...parameterRefs('Limit', 'After')],
    answers: { 200: answer('A page of records.', page(record)) },
    problems: [...ofLists, ...problems, 'invalid-filter'],
    group: 'RecordList',
  })
  addOperation(draft, {
    ...common,
    path: `${path}/{id}`,
    ids: [`${name}Get`, `${name}_get`],
    summary: `Get one ${name}`,
    description: 'The record as it is now, with its Version as `ETag`. A deleted one is gone; its Versions stay.',
    parameters: parameterRefs('RecordId', 'IfNoneMatch'),
    answers: {
      200: answer('The record.', record, 'ETag'),
      304: draft.components.notModified,
    },
    problems: [...ofReads, ...problems, 'record-not-found'],
    group: 'Record',
  })
  addOperation(draft, {
    ...common,
    path: `${path}/{id}/versions`,
    ids: [`${name}Versions`, `${name}_versions`],
    summary: `Versions of one ${name}`,
    description: 'What each Action changed in the record, oldest first; of a deleted record too.',
    parameters: parameterRefs('RecordId', 'Limit', 'After'),
    answers: { 200: answer('A page of Versions.', page(refTo('Version'))) },
    problems: [...ofLists, ...problems, 'record-not-found'],
    group: 'RecordVersions',
  })
}

/** A parameter for each field that records are found by. Its schema is the field's, without its default: no filter is none. */
function filtersOf({ components }: Draft, { name, index, unique }: Noun, { $ref }: JsonSchema): JsonSchema[] {
  const adopted = components.schemas[String($ref).split('/').at(-1) ?? '']?.['properties']
  return [...index, ...unique].map((field) => {
    const schema = isObject(adopted) ? adopted[field] : undefined
    const { default: _, ...rest } = isObject(schema) ? withoutNull(schema) : {}
    return { name: field, in: 'query', description: `Only ${name} records whose ${field} is this.`, schema: rest }
  })
}

/** Nothing is found by null (§3): an alternative that is null is none of a filter. */
function withoutNull(schema: JsonSchema): JsonSchema {
  const { type, anyOf, ...rest } = schema
  if (Array.isArray(type)) {
    const others: unknown[] = type.filter((one) => one !== 'null')
    return { ...schema, type: others.length === 1 ? others[0] : others }
  }
  if (!Array.isArray(anyOf)) return schema
  const others: unknown[] = anyOf.filter((one: unknown) => isObject(one) && one['type'] !== 'null')
  const [only] = others
  return others.length === 1 && isObject(only) ? { ...rest, ...only } : { ...schema, anyOf: others }
}
