import { beforeAll, describe, expect, test } from 'vitest'
import { connectRaw, rawMessage } from '../support/raw.ts'
import type { TestServer } from '../support/server.ts'
import { caller, expectProblem, newKey, startKiln, stores } from './wire.ts'
import type { ActionView, Caller, Page } from './wire.ts'

describe.each(stores)('the key, over %s', (store) => {
  let server: TestServer
  let kiln: Caller

  beforeAll(async () => {
    server = await startKiln(store)
    kiln = caller(server, 'kiln.test', await server.token('first', ['*'], { namespace: 'kiln.test' }))
  })

  describe('what a second request gets', () => {
    test('K4: a settled Action is replayed in its final status, byte for byte, with Idempotent-Replayed: true', async () => {
      for (const [then, status] of [
        ['succeed', 'succeeded'],
        ['throw', 'failed'],
        ['refuse', 'refused'],
      ]) {
        const key = newKey()
        const first = await kiln.call('orders/bake', { then }, { key })
        expect(first.json()).toMatchObject({ status })
        expect(first.header('idempotent-replayed')).toBeNull()
        for (const mode of [undefined, 'send', 'do']) {
          const again = await kiln.call('orders/bake', { then }, { key, ...(mode === undefined ? {} : { mode }) })
          expect(again.status).toBe(200)
          expect(again.header('idempotent-replayed')).toBe('true')
          expect(again.header('action-status')).toBe(status)
          expect(again.text).toBe(first.text)
        }
      }
    })

    test('K4: a pending Action is waited on as the second request says, and no answer of a wait is a replay', async () => {
      const key = newKey()
      const input = { ms: 1_000 }
      const bake = (headers: Record<string, string> = {}, mode?: string) =>
        kiln.call('orders/bake', input, { key, headers, ...(mode === undefined ? {} : { mode }) })
      const first = await bake({}, 'send')
      expect([first.status, first.json()['status']]).toEqual([202, 'pending'])
      const sent = await bake({}, 'send')
      const asked = await bake({ prefer: 'wait=0' })
      for (const pending of [sent, asked]) {
        expect(pending.status).toBe(202)
        expect(pending.json()).toMatchObject({ id: first.json()['id'], status: 'pending', mode: 'send' })
        expect(pending.header('idempotent-replayed')).toBeNull()
      }
      const waited = await bake()
      expect(waited.json()).toMatchObject({ id: first.json()['id'], status: 'succeeded' })
      expect(waited.header('idempotent-replayed')).toBeNull()
      const settled = await bake()
      expect(settled.header('idempotent-replayed')).toBe('true')
      expect(settled.text).toBe(waited.text)
    })

    test('K4: a mismatch names the first Action and what differed, and runs nothing', async () => {
      const key = newKey()
      const [one, two] = await Promise.all([kiln.action('orders/place', {}), kiln.action('orders/place', {})])
      const path = (action: ActionView, verb: string) => `orders/${String(action.output?.['$id'])}/${verb}`
      const first = await kiln.action(path(one, 'edit'), { note: 'first' }, { key })
      const events = await kiln.get('events?limit=1000')
      for (const [where, input, differs] of [
        [path(one, 'edit'), { note: 'other' }, ['input']],
        [path(two, 'edit'), { note: 'first' }, ['target']],
        [path(one, 'remove'), { note: 'first' }, ['operation']],
        [path(two, 'remove'), { note: 'other' }, ['operation', 'target', 'input']],
      ] as const) {
        const told = expectProblem(await kiln.call(where, input, { key }), 'idempotency-mismatch')
        expect(told).toMatchObject({ firstAction: first.id, differs, retryable: false })
      }
      expect((await kiln.get('events?limit=1000')).text).toBe(events.text)
      expect((await kiln.get(`orders/${String(two.output?.['$id'])}`)).json()).toMatchObject({ $version: 1 })
    })

    test('K4: a mismatch with a pending Action names it at once, and that goes on', async () => {
      const key = newKey()
      const running = kiln.call('orders/bake', { ms: 1_500 }, { key })
      await new Promise((resolve) => setTimeout(resolve, 20)) // before the claim would be written ahead by itself
      const started = Date.now()
      const told = expectProblem(await kiln.call('orders/bake', { ms: 1_501 }, { key }), 'idempotency-mismatch')
      expect(Date.now() - started).toBeLessThan(1_200)
      const named = await kiln.get(`actions/${String(told['firstAction'])}`)
      expect(named.json()).toMatchObject({ idempotencyKey: key, status: 'pending' })
      expect((await running).json()).toMatchObject({ id: told['firstAction'], status: 'succeeded' })
    })

    test('K3: Mode, Prefer, versions and predecessors are no part of what a key binds', async () => {
      const before = newKey()
      await kiln.action('orders/place', {}, { key: before })
      const key = newKey()
      const first = await kiln.action('orders/place', { total: 3 }, { key })
      for (const options of [
        { mode: 'send' },
        { headers: { prefer: 'wait=1' } },
        { headers: { prefer: 'respond-async' } },
        { headers: { 'record-version': 'orders/order_1=3' } },
        { headers: { 'decided-after': encodeURIComponent(before) } },
      ]) {
        const again = await kiln.call('orders/place', { total: 3 }, { key, ...options })
        expect(again.header('idempotent-replayed')).toBe('true')
        expect(again.json()).toEqual(first)
      }
    })

    test('K3: the key of a retry or a cancel binds that operation, the Action and the body, and names what it made', async () => {
      const failed = await kiln.action('orders/bake', { then: 'throw' })
      const stranger = await kiln.action('orders/bake', { then: 'throw' })
      const key = newKey()
      const retried = await kiln.action(`actions/${failed.id}/retry`, undefined, { key })
      expect(retried).toMatchObject({ verb: 'Order.bake', on: failed.id, idempotencyKey: key, status: 'failed' })
      for (const body of [undefined, {}]) {
        const again = await kiln.call(`actions/${failed.id}/retry`, body, { key }) // no body means {}
        expect(again.header('idempotent-replayed')).toBe('true')
        expect(again.json()).toEqual(retried)
      }
      for (const [path, body, differs] of [
        [`actions/${stranger.id}/retry`, {}, ['target']],
        [`actions/${failed.id}/cancel`, {}, ['operation']],
        [`actions/${failed.id}/retry`, { steps: {} }, ['input']],
        ['orders/bake', { then: 'throw' }, ['operation', 'target', 'input']],
      ] as const) {
        const told = expectProblem(await kiln.call(path, body, { key }), 'idempotency-mismatch')
        expect(told).toMatchObject({ firstAction: retried.id, differs })
      }
    })
  })

  describe('how often it happens', () => {
    test('K5: 64 requests with one key on 64 connections make one Action, one Event, one unit, 64 equal answers', async () => {
      for (const [path, body] of [
        ['orders/place', '{"total":64}'],
        ['orders/bake', '{"ms":60}'],
      ] as const) {
        const key = newKey('race')
        const lines: [string, string][] = [
          ['Authorization', `Bearer ${kiln.token}`],
          ['Content-Type', 'application/json'],
          ['Idempotency-Key', key],
        ]
        const connections = await Promise.all(Array.from({ length: 64 }, () => connectRaw(server.url)))
        const usage = await units(path)
        for (const connection of connections) connection.send(rawMessage('POST', `/kiln.test/${path}`, lines, body))
        const answers = await Promise.all(connections.map((connection) => connection.response()))
        for (const connection of connections) connection.destroy()
        expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200]))
        expect(new Set(answers.map(({ body }) => body)).size).toBe(1)
        const [action, ...more] = await kiln.recorded(key)
        expect(more).toEqual([])
        const events = (await kiln.get('events?limit=1000')).json<Page<{ action: string }>>().data
        expect(events.filter((event) => event.action === action?.id)).toHaveLength(1)
        expect(await units(path)).toBe(usage + 1)
        expect((await kiln.get(`orders/${String(action?.output?.['$id'])}`)).json()).toMatchObject({ $version: 1 })
      }
    })

    /** What a Verb's succeeded Actions have metered, over all days. */
    async function units(path: string): Promise<number> {
      const verb = path.replace('orders/', 'Order.')
      const { data } = (await kiln.get('usage')).json<Page<{ verb: string; units: number }>>()
      return data.filter((row) => row.verb === verb).reduce((sum, row) => sum + row.units, 0)
    }

    test('K5: replays and mismatches emit nothing and meter nothing', async () => {
      const key = newKey()
      await kiln.action('orders/place', { total: 8 }, { key })
      const [events, before] = [await kiln.get('events?limit=1000'), await units('orders/place')]
      for (let i = 0; i < 5; i++) await kiln.call('orders/place', { total: 8 }, { key })
      for (let i = 0; i < 5; i++) await kiln.call('orders/place', { total: i }, { key })
      expect((await kiln.get('events?limit=1000')).text).toBe(events.text)
      expect(await units('orders/place')).toBe(before)
    })

    test('K5: requests with one key and many inputs at once: one of them is the Action, all others are mismatches', async () => {
      const key = newKey('many')
      const answers = await Promise.all(
        Array.from({ length: 32 }, (_, total) => kiln.call('orders/place', { total: total % 8 }, { key })),
      )
      const [action, ...more] = await kiln.recorded(key)
      expect(more).toEqual([])
      for (const [i, answer] of answers.entries()) {
        if (i % 8 === action?.input['total']) expect(answer.json()).toEqual(action)
        else expect(expectProblem(answer, 'idempotency-mismatch')['firstAction']).toBe(action?.id)
      }
      expect(answers.filter(({ status }) => status === 200).length).toBeGreaterThan(0)
    })
  })

  test('K6: a key holds over restarts: an old key replays the same bytes from the store, and a mismatch stays one', async () => {
    const own = await startKiln(store)
    const before = caller(own, 'kiln.test', await own.token('keeper', ['*'], { namespace: 'kiln.test' }))
    const sent = Array.from({ length: 30 }, (_, total) => ({ key: newKey('old'), total }))
    const first = await Promise.all(sent.map(({ key, total }) => before.call('orders/place', { total }, { key })))
    for (let restarts = 0; restarts < 2; restarts++) {
      expect(await own.stop()).toBe(0)
      await own.start()
      const after = caller(own, 'kiln.test', before.token)
      for (const [i, { key, total }] of sent.entries()) {
        const again = await after.call('orders/place', { total }, { key })
        expect(again.header('idempotent-replayed')).toBe('true')
        expect(again.text).toBe(first[i]?.text)
        expectProblem(await after.call('orders/place', { total: -1 }, { key }), 'idempotency-mismatch')
      }
    }
    await own.stop()
  })
})
