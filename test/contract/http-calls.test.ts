import { beforeAll, describe, expect, test } from 'vitest'
import type { TestServer } from '../support/server.ts'
import { caller, expectProblem, newKey, startKiln, stores } from './wire.ts'
import type { Caller, Page } from './wire.ts'

const isoTime = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/

describe.each(stores)('calls and their answers, over %s', (store) => {
  let server: TestServer
  let kiln: Caller

  beforeAll(async () => {
    server = await startKiln(store)
    kiln = caller(server, 'kiln.test', await server.token('router', ['*'], { namespace: 'kiln.test' }))
  })

  describe('an Action', () => {
    test('§3: has exactly the members of the contract, in each of its states', async () => {
      const key = newKey('käse')
      const pending = await kiln.action('orders/bake', { ms: 150 }, { mode: 'send' })
      const before = newKey()
      const first = await kiln.action('orders/place', {}, { key: before })
      const succeeded = await kiln.action(
        'orders/place',
        { total: 4900 },
        {
          key: null,
          headers: {
            'idempotency-key-encoded': encodeURIComponent(key),
            'decided-after': encodeURIComponent(before),
            'record-version': `orders/${String(first.output?.['$id'])}=1`,
          },
        },
      )
      expect(succeeded).toEqual({
        id: expect.stringMatching(/^act_\w+$/),
        namespace: 'kiln.test',
        verb: 'Order.place',
        worker: 'router',
        idempotencyKey: key,
        status: 'succeeded',
        mode: 'do',
        target: null,
        input: { total: 4900 },
        output: {
          $id: expect.stringMatching(/^order_\w+$/),
          $noun: 'Order',
          $version: 1,
          status: 'open',
          total: 4900,
          note: '',
        },
        error: null,
        fix: null,
        on: null,
        decidedAgainst: { [`orders/${String(first.output?.['$id'])}`]: 1 },
        decidedAfter: [before],
        waitingFor: null,
        steps: [],
        event: expect.stringMatching(/^evt_\w+$/),
        attempts: 1,
        createdAt: expect.stringMatching(isoTime),
        settledAt: expect.stringMatching(isoTime),
      })
      expect(pending).toMatchObject({
        status: 'pending',
        mode: 'send',
        output: null,
        error: null,
        fix: null,
        event: null,
        settledAt: null,
      })
      const failed = await kiln.action('orders/bake', { then: 'throw' })
      expect(failed).toMatchObject({ status: 'failed', output: null, fix: null, event: expect.stringMatching(/^evt_/) })
      expect(Object.keys(failed.error ?? {})).toEqual(['code', 'message', 'retry'])
      expect(JSON.stringify(failed)).not.toContain('secret') // its message goes to the log alone (V5)
      const refused = await kiln.action('orders/bake', { then: 'refuse' })
      expect(refused).toMatchObject({ status: 'refused', output: null, error: null })
      expect(refused.fix).toEqual({ code: 'too-cold', message: 'the kiln is too cold', degrees: 20 })
      const target = String(succeeded.output?.['$id'])
      const edited = await kiln.action(`orders/${target}/edit`, { note: 'x' })
      expect(edited).toMatchObject({ target, verb: 'Order.edit', output: { $id: target, $version: 2, note: 'x' } })
      for (const action of [pending, failed, refused, edited])
        expect(Object.keys(action)).toEqual(Object.keys(succeeded))
    })

    test('§3: its input is shown as it was sent, and its ids rise with time', async () => {
      const raw = ' { "b" : 1.0,\n "a":[ -0, 1e2, "\\u00e9" ], "big": 0.1000000000000000055 } '
      const answer = await kiln.call('orders/say', undefined, { raw })
      expect(answer.text).toContain(raw.trim())
      const ids = []
      for (let i = 0; i < 20; i++) ids.push((await kiln.action('orders/say', {})).id)
      expect(ids).toEqual([...new Set(ids)].sort())
    })

    test('§3: is answered 200 when it is settled, however it ended, with its status in a header', async () => {
      for (const [then, status] of [
        ['succeed', 'succeeded'],
        ['throw', 'failed'],
        ['refuse', 'refused'],
      ]) {
        const answer = await kiln.call('orders/bake', { then })
        expect([answer.status, answer.header('action-status')]).toEqual([200, status])
        expect(answer.header('content-type')).toMatch(/^application\/json/)
        expect([answer.header('location'), answer.header('retry-after')]).toEqual([null, null])
        const shown = await kiln.get(`actions/${String(answer.json()['id'])}`)
        expect([shown.status, shown.header('action-status'), shown.text]).toEqual([200, status, answer.text])
        expect(shown.header('idempotent-replayed')).toBeNull()
      }
    })

    test('§3: is answered 202 with Location and Retry-After while it is pending, and can be waited on there', async () => {
      const answer = await kiln.call('orders/bake', { ms: 800 }, { mode: 'send' })
      const where = new URL(answer.header('location') ?? '', `${server.url}/kiln.test/orders/bake`)
      expect([answer.status, where.origin, where.pathname]).toEqual([
        202,
        server.url,
        `/kiln.test/actions/${String(answer.json()['id'])}`,
      ])
      expect(answer.header('retry-after')).toMatch(/^[1-9]\d*$/)
      const path = where.pathname.replace('/kiln.test/', '')
      const shown = await kiln.get(path)
      expect([shown.status, shown.json()['status']]).toEqual([202, 'pending'])
      expect(shown.header('retry-after')).toMatch(/^[1-9]\d*$/)
      const started = Date.now()
      const waited = await kiln.get(`${path}?wait=30`)
      expect([waited.status, waited.json()['status']]).toEqual([200, 'succeeded'])
      expect(Date.now() - started).toBeLessThan(5_000)
      expect((await kiln.get(`${path}?wait=30`)).text).toBe(waited.text)
    })

    test('§3: ?wait= waits as long as it says, and a malformed one is 400', async () => {
      const { id } = await kiln.action('orders/bake', { ms: 2_500 }, { mode: 'send' })
      const started = Date.now()
      expect((await kiln.get(`actions/${id}?wait=1`)).status).toBe(202)
      expect(Date.now() - started).toBeGreaterThanOrEqual(990)
      for (const wait of ['', '-1', '1.5', 'x', '1e1', '+1']) {
        expectProblem(await kiln.get(`actions/${id}?wait=${encodeURIComponent(wait)}`), 'invalid-wait')
      }
      expect((await kiln.get(`actions/${id}?wait=99999999999999999999`)).json()).toMatchObject({ status: 'succeeded' })
    })

    test('§3: one that is not there is 404', async () => {
      for (const id of ['act_none', 'act_', 'evt_x', 'x'.repeat(64)]) {
        expectProblem(await kiln.get(`actions/${id}`), 'action-not-found')
        expectProblem(await kiln.call(`actions/${id}/retry`), 'action-not-found')
        expectProblem(await kiln.call(`actions/${id}/cancel`), 'action-not-found')
      }
    })
  })

  describe('a call', () => {
    test('§3: Mode do waits until it is settled, send returns once it is on record, try stores nothing', async () => {
      const done = await kiln.call('orders/bake', { ms: 120 }, { mode: 'do' })
      expect(done.json()).toMatchObject({ status: 'succeeded', mode: 'do' })
      const key = newKey()
      const sent = await kiln.call('orders/bake', { ms: 120 }, { key, mode: 'send' })
      expect(sent.json()).toMatchObject({ status: 'pending', mode: 'send' })
      expect(await kiln.recorded(key)).toHaveLength(1)
      const counts = async () => [
        (await kiln.get('events?limit=1000')).json<Page>().data.length,
        (await kiln.get('orders?limit=1000')).json<Page>().data.length,
      ]
      await kiln.get(`actions/${String(sent.json()['id'])}?wait=10`)
      const before = await counts()
      const tried = newKey()
      const dry = await kiln.call('orders/bake', { ms: 1 }, { key: tried, mode: 'try' })
      expect([dry.status, dry.header('location'), dry.header('action-status')]).toEqual([200, null, null])
      expect(dry.json()).toMatchObject({ mode: 'try', status: 'succeeded', output: { note: 'baked' } })
      expect(await kiln.recorded(tried)).toEqual([])
      expect(await counts()).toEqual(before)
      expect((await kiln.call('orders/bake', {}, { key: tried })).header('idempotent-replayed')).toBeNull()
    })

    test('T1: try looks no key up, but checks the syntax of one that is sent', async () => {
      const key = newKey()
      await kiln.action('orders/place', { total: 1 }, { key })
      const dry = await kiln.call('orders/place', { total: 2 }, { key, mode: 'try' })
      expect(dry.json()).toMatchObject({ mode: 'try', status: 'succeeded', output: { total: 2 } })
      expect(dry.header('idempotent-replayed')).toBeNull()
      expectProblem(await kiln.call('orders/place', {}, { key: '', mode: 'try' }), 'invalid-idempotency-key')
      expectProblem(await kiln.call('orders/place', { totl: 2 }, { key: null, mode: 'try' }), 'invalid-input')
      expectProblem(await kiln.call('orders/vanish', {}, { key: null, mode: 'try' }), 'operation-not-found')
      expectProblem(await kiln.call('orders/order_none/edit', {}, { key: null, mode: 'try' }), 'record-not-found')
    })

    test.each([
      // Prefer, what is applied, and whether it waits for a call of 150 ms
      ['respond-async', 'respond-async', false],
      ['Respond-Async', 'respond-async', false],
      ['respond-async; x=1; y="a, wait=9"', 'respond-async', false],
      ['wait=0', 'wait=0', false],
      ['wait=10', 'wait=10', true],
      ['WAIT=10', 'wait=10', true],
      ['wait="10"', 'wait=10', true],
      ['wait=10, wait=0', 'wait=10', true], // the first of two counts (RFC 7240)
      ['wait = 10;foo', 'wait=10', true],
      ['respond-async, wait=10', 'respond-async, wait=10', true],
      ['wait=0,respond-async', 'respond-async, wait=0', false],
      ['return=minimal, wait=10', 'wait=10', true],
      ['wait=301', 'wait=300', true],
      ['wait=99999999999999999999999', 'wait=300', true],
      ['wait=-1', null, true],
      ['wait=1.5', null, true],
      ['wait=', null, true],
      ['wait', null, true],
      ['wait=soon', null, true],
      ['wait=+5', null, true],
      ['return=minimal', null, true],
      ['respond-async=yes', null, true],
      [',;=,"', null, true],
      ['', null, true],
    ] as const)('§3: Prefer: %s is applied as %s', async (prefer, applied, waits) => {
      const answer = await kiln.call('orders/bake', { ms: 150 }, { headers: { prefer } })
      expect(sorted(answer.header('preference-applied'))).toBe(sorted(applied))
      expect([answer.status, answer.json()['status']]).toEqual(waits ? [200, 'succeeded'] : [202, 'pending'])
      if (prefer.toLowerCase() === 'respond-async') expect(answer.json()['mode']).toBe('send')
    })
    const sorted = (list: string | null) => list?.split(/, */).sort().join() ?? null

    test('§3: Prefer on two field lines is one list, and wait=N bounds the waiting to N seconds', async () => {
      const started = Date.now()
      const lines = [
        ['Idempotency-Key', newKey()],
        ['Prefer', 'respond-async'],
        ['Prefer', 'wait=1'],
      ] as const
      const answer = await kiln.raw('orders/bake', lines, '{"ms":4000}')
      expect(answer.status).toBe(202)
      expect(answer.headers['location']).toBeDefined()
      expect(sorted(answer.headers['preference-applied'] ?? null)).toBe('respond-async,wait=1')
      expect(Date.now() - started).toBeGreaterThanOrEqual(990)
      expect(Date.now() - started).toBeLessThan(3_500)
    })

    test('§3: plurals are in kebab case, and a Noun of two words has them in its path and its ids', async () => {
      const input = { email: `${newKey('a')}@glyphs.store`, family: 'Serif', seats: 2 }
      const { output } = await kiln.action('font-licenses/issue', input)
      expect(output).toMatchObject({
        $noun: 'FontLicense',
        $id: expect.stringMatching(/^font_license_\w+$/),
        active: true,
      })
      expect((await kiln.get(`font-licenses/${String(output?.['$id'])}`)).json()).toEqual(output)
      for (const wrong of ['fontlicenses', 'font_licenses', 'FontLicenses', 'font-license', 'order']) {
        expectProblem(await kiln.get(wrong), 'not-found')
        const called = await kiln.call(`${wrong}/issue`, input)
        expect(called.status).toBe(404)
      }
    })
  })
})
