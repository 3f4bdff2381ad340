import { expect, test } from 'vitest'
import { Components } from './components.ts'

const place = '#/components/schemas'

test('§3: what a schema refers to within itself is found where the document has it', () => {
  const components = new Components()
  const schema = {
    $schema: 'https://json-schema.org/draft/2020-12/schema',
    $id: 'https://example.test/order',
    type: 'object',
    properties: {
      self: { $ref: '#' },
      home: { $ref: '#/$defs/Address' },
      town: { $ref: '#/$defs/Address/properties/town' },
      odd: { $ref: '#/definitions/a~1b%20c' },
      first: { $ref: '#/properties/home' },
    },
    $defs: {
      Address: { type: 'object', properties: { town: { type: 'string' }, again: { $ref: '#/$defs/Address' } } },
    },
    definitions: { 'a/b c': { type: 'integer' } },
  }
  expect(components.adopt(['OrderInput'], schema, 'An order.')).toEqual({ $ref: `${place}/OrderInput` })
  expect(components.schemas).toEqual({
    OrderInput: {
      description: 'An order.',
      type: 'object',
      properties: {
        self: { $ref: `${place}/OrderInput` },
        home: { $ref: `${place}/OrderInput_Address` },
        town: { $ref: `${place}/OrderInput_Address/properties/town` },
        odd: { $ref: `${place}/OrderInput_a_b_c` },
        first: { $ref: `${place}/OrderInput/properties/home` },
      },
    },
    OrderInput_Address: {
      type: 'object',
      properties: { town: { type: 'string' }, again: { $ref: `${place}/OrderInput_Address` } },
    },
    OrderInput_a_b_c: { type: 'integer' },
  })
})

test('§3: what is data, and what is a name, is left as it is', () => {
  const components = new Components()
  const schema = {
    type: 'object',
    properties: { $id: { type: 'string' }, properties: { type: 'object', default: { $ref: '#/x', $id: 1 } } },
    default: { properties: { $ref: '#' } },
    enum: [{ $ref: '#/nowhere' }],
    description: 'its own words',
  }
  components.adopt(['Order'], schema, 'A record.')
  expect(components.schemas['Order']).toEqual(schema)
})

test('§3: a reference that leads nowhere says so, and nothing of the value', () => {
  const components = new Components()
  const [away, gone, anchor] = ['https://example.test/schema', '#/$defs/Gone', '#anchor']
  const refs = { away: { $ref: away }, gone: { $ref: gone }, anchor: { $ref: anchor } }
  components.adopt(['Order'], { type: 'object', properties: refs }, 'A record.')
  const told = JSON.stringify(components.schemas['Order'])
  expect(told).not.toContain('$ref":')
  for (const ref of [away, gone, anchor]) expect(told).toContain(ref)
})

test('§3: names are claimed once, whoever comes first', () => {
  const components = new Components()
  const names = ['Event', 'Event', 'Event', 'Event'].map(() => components.claim(['Event', 'Event_record']))
  expect(names).toEqual(['Event', 'Event_record', 'Event_record_2', 'Event_record_3'])
  components.adopt(['A'], { $defs: { 'x y': {}, x_y: {} } }, 'Two that look alike.')
  expect(Object.keys(components.schemas)).toEqual(expect.arrayContaining(['A', 'A_x_y', 'A_x_y_2']))
  expect(components.operationId(['Event'])).toBe('Event')
})
