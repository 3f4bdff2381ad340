import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { root, startServer, type TestServer } from '../support/server.ts'
import {
  caller,
  eventually,
  expectProblem,
  newKey,
  stores,
  type ActionView,
  type Caller,
  type Json,
  type Page,
} from './wire.ts'

describe.each(stores)('%s', () => {
  let server: TestServer
  let agent: Caller
  beforeAll(async () => {
    server = await startServer({ startup: join(root, 'test/startups/corners.ts') })
    agent = caller(server, 'corners.test', await server.token('agent'))
  })
  afterAll(() => server[Symbol.asyncDispose]())

  async function opened(fields: Json = {}): Promise<string> {
    return `orders/${String((await agent.action('orders/open', fields)).output?.['$id'])}`
  }

  test('V6: of two updates that one run begins at once on one record, none is lost', async () => {
    const order = await opened()
    expect((await agent.action(`${order}/both`, { how: 'update' })).status).toBe('succeeded')
    expect((await agent.get(order)).json()).toMatchObject({ a: 1, b: 2, $version: 2 })
  })

  test('V6: an update that is begun beside a deletion does not revive the record', async () => {
    const order = await opened()
    expect((await agent.action(`${order}/both`, { how: 'delete' })).status).toBe('succeeded')
    expectProblem(await agent.get(order), 'record-not-found')
  })

  test('V6: of two creations of one unique value, or of one id, begun at once, the second is not-unique', async () => {
    for (const twins of [{ code: newKey('code') }, { id: `order_${newKey('id')}` }]) {
      expect(await agent.action('orders/twins', twins)).toMatchObject({
        status: 'failed',
        error: { code: 'not-unique', retry: 'pointless' },
      })
    }
  })

  test('V6: what a run moved away from a value does not hide others from its next look-up', async () => {
    const from = newKey('queue')
    for (let i = 0; i < 7; i++) await opened({ status: from })
    expect((await agent.action('orders/sweep', { from })).output).toEqual({ swept: 7 })
    expect((await agent.get(`orders?status=${from}`)).json<Page>().data).toEqual([])
  })

  test('V2: a retry asks each rejected step under a new key, one that it reaches later too', async () => {
    const keys: string[] = []
    let action = await agent.action('orders/cards', {})
    for (let round = 0; round < 3; round++) {
      expect(action).toMatchObject({ status: 'failed', error: { code: 'declined' } })
      keys.push(String(action.error?.message))
      action = await agent.action(`actions/${action.id}/retry`, {})
    }
    expect(new Set(keys).size).toBe(3)
  })

  test('V6: a value that is taken while a step runs ends the Action: failed, held, in the inbox; it does not run for ever', async () => {
    const code = newKey('code')
    const sent = await agent.action('orders/claim', { code, ms: 400 }, { mode: 'send' })
    await eventually(async () => {
      const { steps } = (await agent.get(`actions/${sent.id}`)).json<ActionView>()
      expect(steps.map(({ status }) => status)).toEqual(['started'])
    })
    expect((await agent.action('orders/open', { code })).status).toBe('succeeded')
    const settled = (await agent.get(`actions/${sent.id}?wait=20`)).json<ActionView>()
    expect(settled).toMatchObject({
      status: 'failed',
      error: { code: 'not-unique' },
      steps: [{ step: 'charge#1', status: 'done' }],
    })
    const { data } = (await agent.get('inbox?status=open')).json<Page<{ action: string; kind: string }>>()
    expect(data).toContainEqual(expect.objectContaining({ action: sent.id, kind: 'failed' }))
  })

  test('V3: a retry that tells the outcome of a step which has no unknown one is 400, and puts nothing on record', async () => {
    const failed = await agent.action('orders/cards', {})
    const key = newKey()
    for (const step of ['primary', 'primary#1', 'nonsense#9']) {
      const steps = { [step]: { outcome: 'it happened' } }
      expect(
        expectProblem(await agent.call(`actions/${failed.id}/retry`, { steps }, { key }), 'invalid-input'),
      ).toMatchObject({ errors: [{ path: `steps.${step}` }] })
    }
    expect(await agent.recorded(key)).toEqual([])
  })
})
