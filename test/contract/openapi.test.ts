import { Validator, type SpecData } from '@seriousme/openapi-schema-validator'
import { beforeAll, describe, expect, test } from 'vitest'
import glyphs from '../../examples/glyphs.store/startup.ts'
import { toldDefinition, toldOpenapi } from '../../src/http/definition.ts'
import { paths } from '../../src/http/routes.ts'
import { problems } from '../../src/model/problem.ts'
import type { Startup } from '../../src/model/startup.ts'
import model from '../startups/model.ts'
import notes from '../startups/notes.ts'
import race from '../startups/race.ts'
import shapes from '../startups/shapes.ts'
import verbs from '../startups/verbs.ts'
import { startServer, type TestServer } from '../support/server.ts'
import { newAjv, type Document } from './described.ts'
import { caller, expectProblem, startKiln, type Json } from './wire.ts'

const startups = [glyphs, shapes, model, notes, race, verbs].flat() as readonly Startup[]
const origin = 'http://127.0.0.1:4000'
const documentOf = (startup: Startup) => JSON.parse(toldOpenapi(startup, origin).json) as Document

/** Calls that have their routes already, and come with a later part of the contract; and what is for scrapers, not for clients. */
const undescribed = /\/inbox\/\{id\}\/(approve|decline)$|^get \/metrics$/

describe.each(startups.map((startup) => [startup.namespace, startup] as const))('%s', (_, startup) => {
  const document = documentOf(startup)
  const operations = Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({ name: `${method} ${path}`, operation })),
  )

  test('§3: the document is OpenAPI 3.1, as a public validator has it', async () => {
    // This validator takes a member that is named `$id`, which every record has, for the keyword.
    const readable = JSON.stringify(document).replaceAll('"$id":{', '"id_":{')
    const result = await new Validator().validate(JSON.parse(readable) as SpecData)
    expect(result).toEqual({ valid: true })
  })

  test('§3: each schema of the document and of the definition is one of draft 2020-12, and no reference leads nowhere', () => {
    const { schemas = {} } = document.components
    const ajv = newAjv()
    for (const keyword of ['openapi', 'info', 'servers', 'security', 'tags', 'paths', 'components'])
      ajv.addKeyword(keyword)
    ajv.addSchema({ ...document, $id: 'document' })
    for (const name of Object.keys(schemas)) ajv.compile({ $ref: `document#/components/schemas/${name}` })
    const { nouns, verbs } = JSON.parse(toldDefinition(startup).json) as { nouns: Json[]; verbs: Json[] }
    for (const { schema } of nouns) newAjv().compile(schema as Json)
    for (const { input, output } of verbs) {
      newAjv().compile(input as Json)
      if (output !== null) newAjv().compile(output as Json)
    }
  })

  test('§3: every route is described, and nothing else is', () => {
    const { namespace, nouns, verbs } = startup
    const described = operations.map(({ name }) => name).filter((name) => !undescribed.test(name))
    const general = paths
      .filter(({ path }) => !path.startsWith('/:namespace/:nouns'))
      .flatMap(({ path, get, post }) => {
        const template = path.replace(':namespace', namespace).replace(/:(\w+)/g, '{$1}')
        return [...(get ? [`get ${template}`] : []), ...(post ? [`post ${template}`] : [])]
      })
      .filter((name) => !undescribed.test(name))
    const own = [...nouns.values()].flatMap(({ plural }) =>
      ['', '/{id}', '/{id}/versions'].map((rest) => `get /${namespace}/${plural}${rest}`),
    )
    const calls = [...verbs.values()].map(
      ({ noun, verb, target }) =>
        `post /${namespace}/${nouns.get(noun)?.plural}${target === 'record' ? '/{id}' : ''}/${verb}`,
    )
    expect(described.toSorted()).toEqual([...general, ...own, ...calls].toSorted())
  })

  test('§3: each operation has a readable name of its own, and each path parameter is described', () => {
    const ids = operations.map(({ operation }) => operation.operationId)
    expect(new Set(ids).size).toBe(ids.length)
    for (const id of ids) expect(id).toMatch(/^[A-Z][A-Za-z0-9_]*$/)
    for (const { name, operation } of operations) {
      const named = JSON.stringify(operation.parameters ?? [])
      for (const [, parameter] of name.matchAll(/\{(\w+)\}/g))
        expect(named, name).toMatch(new RegExp(`"name":"${parameter}","in":"path"|parameters/\\w+Id"`))
    }
  })

  test('§11: every code of the door is told of some operation, but for those of paths that there are not', () => {
    const told = Object.keys(problems).filter((code) => JSON.stringify(document).includes(`"const":"${code}"`))
    // Without a definition there is no document, and no description of a path has a method that the path has not.
    const nowhere = ['method-not-allowed', 'no-definition']
    expect(told.toSorted()).toEqual(
      Object.keys(problems)
        .filter((code) => !nowhere.includes(code))
        .toSorted(),
    )
  })
})

test('§3: names are the words of the definition, and one that is taken gives way', () => {
  const shape = startups.find(({ namespace }) => namespace === 'shapes.test')
  if (shape === undefined) throw new Error('there is no shapes.test')
  const document = documentOf(shape)
  const idAt = (method: string, path: string) => document.paths[`/shapes.test/${path}`]?.[method]?.operationId
  expect(idAt('post', 'orders/send')).toBe('OrderSend')
  expect(idAt('get', 'orders')).toBe('OrderList')
  expect(idAt('get', 'orders/{id}')).toBe('OrderGet')
  expect(idAt('get', 'orders/{id}/versions')).toBe('OrderVersions')
  // The Noun Event against the Events of the platform; Order.placeItem against OrderPlace.item.
  expect([idAt('get', 'events'), idAt('post', 'orders/placeItem'), idAt('post', 'order-places/item')]).toEqual([
    'EventList',
    'OrderPlaceItem',
    'OrderPlace_item',
  ])
})

test('§3: an input is described as it is sent: what has a default may be left out, what is not known may not be there', () => {
  const { schemas = {} } = documentOf(glyphs).components
  expect(schemas['OrderPlaceInput']).toMatchObject({ required: ['offer'], additionalProperties: false })
  expect(schemas['OrderPlaceInput']?.['properties']).toMatchObject({
    seats: { default: 1 },
    card: { default: 'tok_ok' },
  })
  // A record has what has a default.
  expect(schemas['Offer']?.['required']).toEqual(['$id', '$noun', '$version', 'title', 'price', 'currency', 'active'])
})

test('§3: a filter has no default, since a list without one is not filtered', () => {
  const list = documentOf(glyphs).paths['/glyphs.store/offers']?.['get']
  expect(list?.parameters).toContainEqual(expect.objectContaining({ name: 'active', schema: { type: 'boolean' } }))
})

test('§3: a filter on a field that may be null is a value of it', () => {
  const shape = startups.find(({ namespace }) => namespace === 'shapes.test')
  const list = shape && documentOf(shape).paths['/shapes.test/concerts']?.['get']
  const level = list?.parameters?.find(({ name }) => name === 'level')
  expect(level).toMatchObject({ in: 'query', schema: { type: 'integer' } })
  expect(level?.['schema']).not.toHaveProperty('anyOf')
})

test('§3: an output may have more than its Verb declares of it, since nothing is taken out of it', () => {
  const shape = startups.find(({ namespace }) => namespace === 'shapes.test')
  const { schemas = {} } = shape === undefined ? { schemas: {} } : documentOf(shape).components
  expect(schemas['EventAnnounceOutput']).toMatchObject({ type: 'object', required: ['id', 'level'] })
  expect(JSON.stringify(schemas['OrderSendOutput'])).not.toContain('additionalProperties')
  expect(schemas['OrderSendInput']).toMatchObject({ additionalProperties: false })
})

describe('over HTTP', () => {
  let server: TestServer
  beforeAll(async () => {
    server = await startKiln('sqlite')
  })

  test('H1: any Worker of the namespace gets the whole document, and nobody else does', async () => {
    const kiln = caller(server, 'kiln.test', await server.token('nobody', [], { namespace: 'kiln.test' }))
    const answer = await kiln.get('openapi.json')
    expect([answer.status, answer.header('content-type')]).toEqual([200, 'application/json; charset=utf-8'])
    expect(answer.json<Document>().servers).toEqual([{ url: server.url }])
    expectProblem(await caller(server, 'forge.test', kiln.token).get('openapi.json'), 'wrong-namespace')
    expectProblem(await caller(server, 'kiln.test', 'nonsense').get('openapi.json'), 'unauthorized')
    expectProblem(await kiln.get('openapi.json?pretty=1'), 'invalid-query')
  })

  test('§3: the document and the definition have an ETag, and one that is still right is 304', async () => {
    const kiln = caller(server, 'kiln.test', await server.token('cache', [], { namespace: 'kiln.test' }))
    for (const path of ['openapi.json', undefined]) {
      const etag = (await kiln.get(path)).header('etag') ?? ''
      expect(etag).toMatch(/^"[\w-]{22}"$/)
      const again = await kiln.get(path, { 'if-none-match': `"other", W/${etag}` })
      expect([again.status, again.text, again.header('etag')]).toEqual([304, '', etag])
      expect((await kiln.get(path, { 'if-none-match': '"other"' })).status).toBe(200)
    }
  })

  test('N2: a record that has a field which its Noun has no more is one that the schemas describe', async () => {
    const source = (field: string) => `import { noun, startup } from 'startup-builder'
      import { z } from 'zod'
      const Note = noun({ fields: z.object({ text: z.string()${field} }) })
      const notes = startup('notes.test', { nouns: { Note } })
      const write = notes.verb('Note.write', {
        input: z.object({ text: z.string()${field} }), reads: {}, run: ({ input, records }) => records.Note.create(input),
      })
      export default notes.serve({ verbs: [write] })`
    const changing = await startServer({ startup: { source: source(', color: z.string()') } })
    const by = caller(changing, 'notes.test', await changing.token('noter'))
    const { output } = await by.action('notes/write', { text: 'a', color: 'red' })
    await changing.stop()
    await changing.start({ startup: { source: source('') } })
    const now = caller(changing, 'notes.test', by.token)
    const record = (await now.get(`notes/${String(output?.['$id'])}`)).json()
    expect(record).toMatchObject({ text: 'a', color: 'red' })
    const { nouns } = (await now.get()).json<{ nouns: { schema: Json }[] }>()
    const { schemas = {} } = (await now.get('openapi.json')).json<Document>().components
    for (const schema of [nouns[0]?.schema, schemas['Note']])
      expect(newAjv().validate(schema ?? false, record)).toBe(true)
  })
})
