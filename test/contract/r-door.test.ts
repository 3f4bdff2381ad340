import { beforeAll, describe, expect, test } from 'vitest'
import { connectRaw, rawMessage, rawRequest } from '../support/raw.ts'
import type { TestServer } from '../support/server.ts'
import { caller, expectProblem, newKey, startKiln, stores } from './wire.ts'
import type { Caller } from './wire.ts'

const twentyMegabytes = 20 * 1024 * 1024

describe.each(stores)('the rule of the door, over %s', (store) => {
  let server: TestServer
  let kiln: Caller
  let clerk: Caller

  beforeAll(async () => {
    server = await startKiln(store)
    kiln = caller(server, 'kiln.test', await server.token('door', ['*'], { namespace: 'kiln.test' }))
    const grants = ['Order.place', 'Order.edit']
    clerk = caller(server, 'kiln.test', await server.token('clerk', grants, { namespace: 'kiln.test' }))
  })

  /** A request in which everything after the token may be wrong. */
  const send = (method: string, path: string, lines: readonly (readonly [string, string])[] = [], body?: string) =>
    rawRequest(server.url, rawMessage(method, path, lines, body))
  const bearer = (token: string): [string, string] => ['Authorization', `Bearer ${token}`]
  const type: [string, string] = ['Content-Type', 'application/json']

  test('R2: a path that has no form of ours is 404, and a method that a path has not is 405, before the token', async () => {
    for (const path of ['/', '/kiln.test/orders/a/b/c', '/Kiln.Test/orders', '/kiln.test/orders/%ff', '/healthz/x']) {
      expectProblem(await send('GET', path), 'not-found')
    }
    expectProblem(await send('POST', '/kiln.test/orders/a%2fb/edit', [type], '{}'), 'not-found')
    for (const [method, path, allowed] of [
      ['DELETE', '/kiln.test/orders/place', 'POST'],
      ['PUT', '/kiln.test/orders/order_1', 'GET'],
      ['POST', '/kiln.test/orders', 'GET'],
      ['POST', '/kiln.test/actions', 'GET'],
      ['GET', '/kiln.test/orders/order_1/edit', 'POST'],
      ['POST', '/me', 'GET'],
      ['POST', '/healthz', 'GET'],
      ['PATCH', '/kiln.test', 'GET'],
    ] as const) {
      const answer = await send(method, path)
      expectProblem(answer, 'method-not-allowed')
      expect(answer.headers['allow']).toContain(allowed)
      expect(answer.headers['allow']).not.toContain(method)
    }
  })

  test('R2: the token comes before the namespace, and a bad one is 401 with its challenge', async () => {
    for (const lines of [
      [],
      [bearer('nonsense')],
      [['Authorization', kiln.token]],
      [['Authorization', `Basic ${kiln.token}`]],
      [['Authorization', '']],
      [['Authorization', `Bearer ${kiln.token} x`]],
      [['Authorization', 'Bearer \xff\xfe']],
      [bearer(kiln.token), bearer(clerk.token)],
    ] as const) {
      const answer = await send('POST', '/other.test/orders/place', [...lines, type], '{}')
      expectProblem(answer, 'unauthorized')
      expect(answer.headers['www-authenticate']).toMatch(/^Bearer\b/)
    }
    const answer = await send(
      'POST',
      '/kiln.test/orders/place',
      [['authorization', `bearer ${kiln.token}`], type],
      '{}',
    )
    expectProblem(answer, 'idempotency-key-required') // the scheme's case does not matter (RFC 9110)
  })

  test("R2: another's namespace and an unknown one are one and the same 403, before the syntax of the headers", async () => {
    const told = []
    for (const namespace of ['forge.test', 'unknown.test']) {
      const lines: [string, string][] = [bearer(kiln.token), ['Idempotency-Key', ''], ['Record-Version', 'x'], type]
      const answer = expectProblem(await send('POST', `/${namespace}/orders/place`, lines, '{'), 'wrong-namespace')
      told.push(JSON.stringify({ ...answer, requestId: '' }).replaceAll(namespace, 'NAMESPACE'))
      expectProblem(await send('GET', `/${namespace}/orders?nonsense=1`, [bearer(kiln.token)]), 'wrong-namespace')
    }
    expect(told[0]).toBe(told[1])
  })

  test('R2: the syntax of key, Mode and version headers comes before size, type and JSON of the body', async () => {
    const wrongBody = [['Content-Type', 'text/plain']] as const
    for (const [code, query, lines] of [
      ['idempotency-key-required', '', []],
      ['invalid-idempotency-key', '', [['Idempotency-Key', '']]],
      ['invalid-mode', '?mode=dry', [['Idempotency-Key', 'k']]],
      ['invalid-mode', '?mode=', [['Idempotency-Key', 'k']]],
      ['invalid-query', '?mdoe=try', [['Idempotency-Key', 'k']]],
      ['invalid-query', '?mode=do&mode=try', [['Idempotency-Key', 'k']]],
      [
        'invalid-record-version',
        '',
        [
          ['Idempotency-Key', 'k'],
          ['Record-Version', 'three'],
        ],
      ],
      [
        'use-record-version',
        '',
        [
          ['Idempotency-Key', 'k'],
          ['If-Match', '"3"'],
        ],
      ],
      [
        'invalid-decided-after',
        '',
        [
          ['Idempotency-Key', 'k'],
          ['Decided-After', '%zz'],
        ],
      ],
    ] as const) {
      const all = [bearer(kiln.token), ...wrongBody, ...lines]
      expectProblem(await send('POST', `/kiln.test/orders/place${query}`, all, '{'), code)
      // It is early: a body that was announced and never comes is not waited for.
      const announced: [string, string] = ['Content-Length', String(twentyMegabytes)]
      expectProblem(await send('POST', `/kiln.test/orders/place${query}`, [...all, announced]), code)
    }
    expect(await kiln.recorded('k')).toEqual([])
  })

  test('R2: the throttle comes after the syntax of the headers and before the body', async () => {
    const toll = caller(server, 'toll.test', await server.token('toll', ['*'], { namespace: 'toll.test' }))
    const lines = [bearer(toll.token), ['Content-Type', 'text/plain']] as const
    const path = '/toll.test/orders/place'
    const codes: string[] = []
    for (let i = 0; i < 4; i++) {
      // What the body is turned away for was let in by the throttle, and counts.
      codes.push((await send('POST', path, [...lines, ['Idempotency-Key', 't']], '{')).json()['code'])
    }
    expect(codes).toEqual([...Array<string>(3).fill('unsupported-media-type'), 'throttled'])
    expectProblem(await send('POST', path, [...lines, ['Idempotency-Key', '']], '{'), 'invalid-idempotency-key')
    expectProblem(await send('POST', `${path}?mode=try`, [...lines], '{'), 'throttled')
    expect(await toll.recorded('t')).toEqual([])
  })

  test('R2: size, content type and JSON are looked at in this order, and before the key', async () => {
    const key = newKey()
    await kiln.action('orders/place', { total: 1 }, { key })
    const lines = [bearer(kiln.token), ['Idempotency-Key', key]] as [string, string][]
    const place = (type: string | null, body: string) =>
      send('POST', '/kiln.test/orders/place', type === null ? lines : [...lines, ['Content-Type', type]], body)
    const large = `{"note":"${'x'.repeat(1024 * 1024)}"`
    expectProblem(await place('text/plain', large), 'body-too-large')
    expectProblem(await place('text/plain', '{'), 'unsupported-media-type')
    expectProblem(await place(null, '{"total":1}'), 'unsupported-media-type')
    expectProblem(await place('application/json; charset=latin1', '{"total":1}'), 'unsupported-media-type')
    const encoded = [...lines, type, ['Content-Encoding', 'gzip']] as [string, string][]
    expectProblem(await send('POST', '/kiln.test/orders/place', encoded, '{"total":1}'), 'unsupported-media-type')
    expectProblem(await place('application/json', '{'), 'invalid-json')
    for (const good of ['application/json', 'Application/JSON; charset=UTF-8', 'application/json;charset="utf-8"']) {
      expect((await place(good, '{"total":1}')).headers['idempotent-replayed'], good).toBe('true')
    }
  })

  test('R2: the key is looked up before the operation, the right, the target and the schema', async () => {
    const key = newKey()
    const first = await clerk.action('orders/place', { total: 7 }, { key })
    for (const [path, input, differs] of [
      ['orders/vanish', { total: 7 }, ['operation']], // no such operation: 404 with another key
      ['unicorns/place', { total: 7 }, ['operation']],
      ['orders/say', { total: 7 }, ['operation']], // not granted: 403 with another key
      ['orders/order_none/edit', { total: 7 }, ['operation', 'target']], // no such record
      ['orders/place', { totall: 7 }, ['input']], // does not fit
      ['orders/place', { total: 'seven' }, ['input']],
    ] as const) {
      const told = expectProblem(await clerk.call(path, input, { key }), 'idempotency-mismatch')
      expect(told).toMatchObject({ firstAction: first.id, differs })
    }
    expect(await clerk.recorded(key)).toEqual([first])
  })

  test('R2: after the key come operation, right, target and schema, in this order', async () => {
    const none = caller(server, 'kiln.test', await server.token('nobody', [], { namespace: 'kiln.test' }))
    const wrong = { totall: 1 }
    expectProblem(await none.call('orders/vanish', wrong), 'operation-not-found')
    expectProblem(await none.call('unicorns/place', wrong), 'operation-not-found')
    expectProblem(await none.call('orders/edit', wrong), 'operation-not-found') // it takes a record
    expectProblem(await none.call('orders/order_1/place', wrong), 'operation-not-found') // it takes none
    expectProblem(await none.call('orders/order_none/edit', wrong), 'forbidden')
    expectProblem(await clerk.call('orders/order_none/edit', wrong), 'record-not-found')
    const { output } = await clerk.action('orders/place', {})
    const key = newKey()
    const told = expectProblem(
      await clerk.call(`orders/${String(output?.['$id'])}/edit`, wrong, { key }),
      'invalid-input',
    )
    expect(JSON.stringify(told['errors'])).toContain('totall')
    expect(await clerk.recorded(key)).toEqual([])
  })

  test('R2: unknown members are refused at any depth, each by name, and defaults stay free', async () => {
    const wrong = { totl: 5, lines: [{ sku: 'a' }, { sku: 'b', skuu: 'c' }] }
    const told = expectProblem(await kiln.call('orders/place', wrong), 'invalid-input')
    const named = JSON.stringify(told['errors'])
    expect(named).toContain('totl')
    expect(named).toContain('skuu')
    expect(named).toMatch(/lines\W+1/)
    expect(await kiln.action('orders/place', {})).toMatchObject({
      status: 'succeeded',
      input: {},
      output: { total: 0 },
    })
  })

  test('R2: a call on a record that was deleted goes on record, refused, and is replayed so', async () => {
    const { output } = await kiln.action('orders/place', {})
    const path = `orders/${String(output?.['$id'])}`
    await kiln.action(`${path}/remove`, {})
    const key = newKey()
    const first = await kiln.call(`${path}/edit`, { note: 'x' }, { key })
    expect(first.status).toBe(200)
    expect(first.json()).toMatchObject({ status: 'refused', fix: { code: 'record-deleted' }, output: null })
    const again = await kiln.call(`${path}/edit`, { note: 'x' }, { key })
    expect(again.header('idempotent-replayed')).toBe('true')
    expect(again.text).toBe(first.text)
    expectProblem(await kiln.get(path), 'record-not-found')
  })

  test.each([
    ['a length that is too large', 'body-too-large', 'good'],
    ['a bad token', 'unauthorized', 'bad'],
  ] as const)(
    'R2: 20 MB with %s: the client reads its answer, and the connection is never reset',
    async (_, code, is) => {
      const token = is === 'good' ? kiln.token : 'nonsense'
      for (const framing of ['length', 'chunked'] as const) {
        const connection = await connectRaw(server.url)
        const lines: [string, string][] = [bearer(token), type, ['Idempotency-Key', newKey()]]
        lines.push(
          framing === 'length' ? ['Content-Length', String(twentyMegabytes)] : ['Transfer-Encoding', 'chunked'],
        )
        connection.send(rawMessage('POST', '/kiln.test/orders/place', lines))
        const chunk = Buffer.alloc(1024 * 1024, 0x20)
        for (let sent = 0; sent < twentyMegabytes; sent += chunk.length) {
          connection.send(
            framing === 'length' ? chunk : Buffer.concat([Buffer.from('100000\r\n'), chunk, Buffer.from('\r\n')]),
          )
          await new Promise((resolve) => setImmediate(resolve))
        }
        if (framing === 'chunked') connection.send('0\r\n\r\n')
        expectProblem(await connection.response(), code)
        connection.finish()
        expect(await connection.closed()).toBe('ended')
        connection.destroy()
      }
      const body = new Uint8Array(twentyMegabytes)
      expectProblem(await caller(server, 'kiln.test', token).call('orders/place', undefined, { raw: body }), code)
    },
  )

  test('R2: whoever waits for 100 Continue gets the early answer instead, or is told to go on', async () => {
    const head = (token: string, key: string): Buffer =>
      rawMessage('POST', '/kiln.test/orders/place', [
        bearer(token),
        type,
        ['Idempotency-Key', key],
        ['Expect', '100-continue'],
        ['Content-Length', '11'],
      ])
    const early = await connectRaw(server.url)
    early.send(head('nonsense', newKey()))
    expectProblem(await early.response(), 'unauthorized')
    early.destroy()
    const patient = await connectRaw(server.url)
    const interim = new Promise<string>((resolve) =>
      patient.socket.once('data', (data: Buffer) => resolve(data.toString('latin1'))),
    )
    patient.send(head(kiln.token, newKey()))
    expect(await interim).toMatch(/^HTTP\/1\.1 100 /)
    patient.send('{"total":4}')
    expect((await patient.response()).json()).toMatchObject({ status: 'succeeded', output: { total: 4 } })
    patient.destroy()
  })
})
