import { beforeAll, describe, expect, test } from 'vitest'
import { rawMessage, rawRequest } from '../support/raw.ts'
import type { TestServer } from '../support/server.ts'
import { caller, eventually, expectProblem, newKey, reply, startKiln, stores } from './wire.ts'
import type { ActionView, Caller, Json, Page } from './wire.ts'

describe.each(stores)('records and the other paths, over %s', (store) => {
  let server: TestServer
  let kiln: Caller

  beforeAll(async () => {
    server = await startKiln(store)
    kiln = caller(server, 'kiln.test', await server.token('router', ['*'], { namespace: 'kiln.test' }))
  })

  const open = (path: string, headers: Record<string, string> = {}) => fetch(server.url + path, { headers }).then(reply)
  const newOrder = async (input: Json = {}) =>
    (await kiln.action('orders/place', input)).output as Json & { $id: string }

  describe('records', () => {
    test('§3: one record is what it is, with its Version as its ETag', async () => {
      const order = await newOrder({ total: 5, note: 'n' })
      const path = `orders/${order.$id}`
      const first = await kiln.get(path)
      expect([first.status, first.header('etag')]).toEqual([200, '"1"'])
      expect(first.json()).toEqual({ $id: order.$id, $noun: 'Order', $version: 1, status: 'open', total: 5, note: 'n' })
      await kiln.action(`${path}/edit`, { note: 'm' })
      await kiln.action(`${path}/edit`, { total: 6 })
      const third = await kiln.get(path)
      expect([third.header('etag'), third.json()['$version']]).toEqual(['"3"', 3])
      expectProblem(await kiln.get('orders/order_none'), 'record-not-found')
      expectProblem(await kiln.get(`offers/${order.$id}`), 'record-not-found')
    })

    test('§1: each Action that changes a record makes one Version, whose field changes are kept, after a deletion too', async () => {
      const order = await newOrder({ total: 5 })
      const path = `orders/${order.$id}`
      const actions = [
        await kiln.action(`${path}/edit`, { note: 'x', total: 6 }),
        await kiln.action(`${path}/refund`, { reason: 'late' }),
        await kiln.action(`${path}/remove`, {}),
      ]
      const answer = await kiln.get(`${path}/versions`)
      const { data, next } = answer.json<Page<{ version: number; changes: Json[]; action: string; at: string }>>()
      expect(next).toBeNull()
      expect(data.map(({ version }) => version)).toEqual([1, 2, 3, 4])
      expect(data.slice(1).map(({ action }) => action)).toEqual(actions.map(({ id }) => id))
      expect(data.slice(1).map(({ at }) => at)).toEqual(actions.map(({ settledAt }) => settledAt))
      for (const one of data) expect(Object.keys(one)).toEqual(['version', 'changes', 'action', 'at'])
      const byField = (changes: Json[] = []) =>
        changes.toSorted((a, b) => (String(a['field']) < String(b['field']) ? -1 : 1))
      expect(byField(data[0]?.changes).map(({ field, to }) => [field, to])).toEqual([
        ['note', ''],
        ['status', 'open'],
        ['total', 5],
      ])
      expect(byField(data[1]?.changes)).toEqual([
        { field: 'note', from: '', to: 'x' },
        { field: 'total', from: 5, to: 6 },
      ])
      expect(data[2]?.changes).toEqual([{ field: 'status', from: 'open', to: 'refunded' }])
      expectProblem(await kiln.get(path), 'record-not-found')
      expectProblem(await kiln.get('orders/order_none/versions'), 'record-not-found')
    })

    test('§1: an id is never used again after deletion', async () => {
      const id = newKey('order')
      expect((await kiln.action('orders/place', { id })).output).toMatchObject({ $id: id })
      expect((await kiln.action('orders/place', { id })).status).not.toBe('succeeded')
      await kiln.action(`orders/${id}/remove`, {})
      expect((await kiln.action('orders/place', { id })).status).not.toBe('succeeded')
      expect((await kiln.get(`orders/${id}/versions`)).json<Page>().data).toHaveLength(2)
    })

    test('W1: Record-Version is for the target or for named records, and a malformed one is 400', async () => {
      const order = await newOrder()
      const edit = (version: string) =>
        kiln.call(`orders/${order.$id}/edit`, { note: version }, { headers: { 'record-version': version } })
      const name = `orders/${order.$id}`
      const plain = (await edit('1')).json<ActionView>()
      expect(plain).toMatchObject({ status: 'succeeded', decidedAgainst: { [name]: 1 } })
      expect((await edit(`offers/offer_1=7, ${name}=2`)).json<ActionView>().decidedAgainst).toEqual({
        'offers/offer_1': 7,
        [name]: 2,
      })
      for (const wrong of [
        '',
        '0',
        '-1',
        '1.5',
        '07',
        '+1',
        'x',
        '"1"',
        'W/"1"',
        '1 2',
        `${name}`,
        `${name}=`,
        `${name}=x`,
        `${name}=1,`,
        `${name}=1,${name}=1`,
        `1, ${name}=1`,
        '1, 1',
        `orders=1`,
        'orders/a/b=1',
        '/x=1',
        '99999999999999999999',
      ]) {
        expectProblem(await edit(wrong), 'invalid-record-version')
      }
      expectProblem(
        await kiln.call('orders/place', {}, { headers: { 'record-version': '3' } }),
        'invalid-record-version',
      )
      for (const tag of ['"1"', '*', '']) {
        expectProblem(await kiln.call(`${name}/edit`, {}, { headers: { 'if-match': tag } }), 'use-record-version')
      }
    })
  })

  describe('the other paths', () => {
    test('§3: GET /me tells the calling Worker, its namespace and grants', async () => {
      const token = await server.token('reader', ['Order:read', 'Order.place'], {
        namespace: 'kiln.test',
        kind: 'human',
      })
      const me = await open('/me', { authorization: `Bearer ${token}` })
      expect(me.status).toBe(200)
      expect(me.json()).toMatchObject({ name: 'reader', kind: 'human', namespace: 'kiln.test' })
      expect(me.json()['grants']).toEqual(expect.arrayContaining(['Order:read', 'Order.place']))
      expect(me.text).not.toContain(token)
      expectProblem(await open('/me'), 'unauthorized')
    })

    test("§3: GET /{ns} tells the namespace's Nouns, Verbs and JSON Schemas, each with its route", async () => {
      const page = (await kiln.get()).json<{ namespace: string; nouns: Json[]; verbs: Json[] }>()
      expect(page.namespace).toBe('kiln.test')
      const text = JSON.stringify(page)
      for (const noun of ['Order', 'Offer', 'FontLicense']) expect(text).toContain(`"${noun}"`)
      for (const verb of ['Order.place', 'Order.edit', 'FontLicense.issue']) expect(text).toContain(`"${verb}"`)
      for (const path of ['/kiln.test/font-licenses/issue', '/kiln.test/orders/{id}/edit'])
        expect(text).toContain(`"${path}"`)
      const place = page.verbs.find((verb) => Object.values(verb).includes('Order.place'))
      expect(place?.['input']).toMatchObject({
        type: 'object',
        properties: { total: { type: 'number' }, note: { type: 'string' } },
      })
      expectProblem(await open('/kiln.test'), 'unauthorized')
    })

    test('§3: health needs no token, and readiness is told once leases are taken over', async () => {
      expect((await open('/healthz')).status).toBe(200)
      expect((await open('/readyz')).status).toBe(200)
      const own = await startKiln(store)
      await eventually(async () => expect((await fetch(`${own.url}/readyz`)).status).toBe(200))
      expect(await own.stop()).toBe(0)
    })

    test('§3: what only reads can be asked for with HEAD, and is answered without a body', async () => {
      const order = await newOrder()
      const lines = [['Authorization', `Bearer ${kiln.token}`]] as const
      const path = `/kiln.test/orders/${order.$id}`
      const head = await rawRequest(server.url, rawMessage('HEAD', path, lines), { head: true })
      expect([head.status, head.headers['etag'], head.body]).toEqual([200, '"1"', ''])
      const wrong = await rawRequest(server.url, rawMessage('HEAD', '/kiln.test/orders/place/x', lines), { head: true })
      expect(wrong.status).toBe(405)
    })

    test('A3: a cancel makes an Action of its own, whose output is the Action as it then is', async () => {
      const { id } = await kiln.action('orders/bake', { ms: 2_000 }, { mode: 'send' })
      const key = newKey()
      const cancel = await kiln.call(`actions/${id}/cancel`, undefined, { key })
      expect(cancel.json()).toMatchObject({
        verb: 'Action.cancel',
        target: id,
        status: 'succeeded',
        idempotencyKey: key,
        input: {},
      })
      const shown = (await kiln.get(`actions/${id}`)).json<ActionView>()
      expect(shown).toMatchObject({ status: 'refused', fix: { code: 'cancelled' } })
      expect(cancel.json<ActionView>().output).toEqual(shown)
      const again = await kiln.call(`actions/${id}/cancel`, undefined, { key })
      expect([again.header('idempotent-replayed'), again.text]).toEqual(['true', cancel.text])
    })
  })
})
