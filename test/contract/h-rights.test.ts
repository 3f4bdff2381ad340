import { readdirSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { beforeAll, describe, expect, test } from 'vitest'
import { rawMessage, rawRequest } from '../support/raw.ts'
import type { TestServer } from '../support/server.ts'
import { caller, eventually, expectProblem, newKey, startKiln, stores } from './wire.ts'
import type { ActionView, Caller, Json, Page, Reply } from './wire.ts'

describe.each(stores)('rights, over %s', (store) => {
  let server: TestServer
  let owner: Caller
  let order: string
  let foreign: ActionView
  let item: Json

  beforeAll(async () => {
    server = await startKiln(store)
    owner = await worker('owner', ['*'])
    order = String((await owner.action('orders/place', { total: 1 })).output?.['$id'])
    foreign = await owner.action('orders/smelt', {})
    const items = (await owner.get('inbox')).json<Page>().data
    item = items.find(({ action }) => action === foreign.id) ?? {}
    expect(item).toMatchObject({ kind: 'failed', status: 'open' })
  })

  const worker = async (name: string, grants: readonly string[]): Promise<Caller> =>
    caller(server, 'kiln.test', await server.token(name, grants, { namespace: 'kiln.test' }))

  /** What a Worker may try, each with the grant that lets it. */
  const probes: Record<string, (by: Caller) => Promise<Reply>> = {
    'Order.place': (by) => by.call('orders/place', {}),
    'Order.say': (by) => by.call('orders/say', {}, { key: null, mode: 'try' }),
    'Order.edit': (by) => by.call(`orders/${order}/edit`, { note: newKey() }),
    'Order:read': (by) => by.get(`orders/${order}`),
    'Order:read (list)': (by) => by.get('orders'),
    'Order:read (Versions)': (by) => by.get(`orders/${order}/versions`),
    'FontLicense:read': (by) => by.get('font-licenses'),
    'actions:all': (by) => by.get(`actions/${foreign.id}`),
    events: (by) => by.get('events'),
    usage: (by) => by.get('usage'),
    inbox: (by) => by.get(`inbox/${String(item['id'])}`),
  }

  test.each([
    [[]],
    [['Order.place']],
    [['Order.edit']],
    [['Order.say']],
    [['Order:read']],
    [['FontLicense:read']],
    [['actions:own']],
    [['actions:all']],
    [['events']],
    [['usage']],
    [['inbox']],
    [['approve:Order.edit']],
    [['Order.place', 'Order:read', 'events']],
    [['*']],
  ])('H1: who is granted %j may do that and no more', async (grants) => {
    const by = await worker(newKey('granted'), grants)
    const allowed = []
    for (const [probe, ask] of Object.entries(probes)) {
      const answer = await ask(by)
      if (answer.status === 200) allowed.push(probe)
      // What a Worker may not see is not there for it; whatever else it may not do is forbidden.
      else if (probe === 'actions:all') expectProblem(answer, 'action-not-found')
      else if (probe === 'inbox') expectProblem(answer, 'item-not-found')
      else expectProblem(answer, 'forbidden')
    }
    const all = Object.keys(probes)
    expect(allowed).toEqual(
      grants.includes('*') ? all : all.filter((probe) => grants.includes(probe.split(' ')[0] ?? '')),
    )
  })

  test('H1: every Worker has its own Actions, its own inbox, /me and the namespace page', async () => {
    const smelter = await worker('smelter', ['Order.smelt'])
    const failed = await smelter.action('orders/smelt', {})
    expect((await smelter.get(`actions/${failed.id}`)).json()).toEqual(failed)
    expect((await smelter.get('actions')).json<Page>().data).toEqual([failed])
    expect((await smelter.get('inbox')).json<Page>().data.map(({ action }) => action)).toEqual([failed.id])
    expect((await smelter.get()).status).toBe(200)
    expect((await smelter.get(`actions?key=${foreign.idempotencyKey}`)).json<Page>().data).toEqual([])
    const asked = await smelter.get('actions?worker=owner')
    // Either way nothing of another's is shown.
    if (asked.status === 200) expect(asked.json<Page>().data).toEqual([])
    else expectProblem(asked, 'forbidden')
  })

  test("H1: the grant inbox shows what failed for others, and not what was refused to them, which is the caller's", async () => {
    const [careless, keeper] = [
      await worker('careless', ['Order.edit', 'Order.smelt']),
      await worker('keeper', ['inbox']),
    ]
    const failed = await careless.action('orders/smelt', {})
    await careless.action(`orders/${order}/edit`, { note: newKey() })
    const stale = await careless.action(`orders/${order}/edit`, { note: 'x' }, { headers: { 'record-version': '1' } })
    expect(stale.status).toBe('refused')
    const seen = (await keeper.get('inbox?limit=1000')).json<Page>().data.map(({ action }) => action)
    expect(seen).toContain(failed.id)
    expect(seen).not.toContain(stale.id)
    const own = (await careless.get('inbox')).json<Page>().data
    expect(own.map(({ action }) => action)).toEqual([failed.id, stale.id])
    expectProblem(await keeper.get(`inbox/${String(own[1]?.['id'])}`), 'item-not-found')
  })

  test('H1: who may call the operation may retry and cancel, under a name and a key of their own', async () => {
    const [nobody, colleague] = [await worker('nobody', ['Order.place']), await worker('colleague', ['Order.bake'])]
    const failed = await owner.action('orders/bake', { then: 'throw' })
    const slow = await owner.action('orders/bake', { ms: 2_000 }, { mode: 'send' })
    // What it can neither see nor call is not there for it.
    expectProblem(await nobody.call(`actions/${failed.id}/retry`), 'action-not-found')
    expectProblem(await nobody.call(`actions/${slow.id}/cancel`), 'action-not-found')
    const retried = await colleague.action(`actions/${failed.id}/retry`)
    expect(retried).toMatchObject({ worker: 'colleague', on: failed.id, verb: 'Order.bake' })
    expect(await colleague.action(`actions/${slow.id}/cancel`)).toMatchObject({
      worker: 'colleague',
      status: 'succeeded',
    })
    expect((await owner.get(`actions/${slow.id}`)).json()).toMatchObject({ worker: 'owner', status: 'refused' })
  })

  test('H1: an id is nothing outside its namespace: it can neither be read nor touched', async () => {
    const forge = caller(server, 'forge.test', await server.token('owner', ['*'], { namespace: 'forge.test' }))
    const slow = await owner.action('orders/bake', { ms: 1_000 }, { mode: 'send' })
    for (const path of [`orders/${order}`, `orders/${order}/versions`]) {
      expectProblem(await forge.get(path), 'record-not-found')
    }
    expectProblem(await forge.call(`orders/${order}/edit`, {}), 'record-not-found')
    for (const { id } of [foreign, slow]) {
      expectProblem(await forge.get(`actions/${id}`), 'action-not-found')
      expectProblem(await forge.call(`actions/${id}/retry`), 'action-not-found')
      expectProblem(await forge.call(`actions/${id}/cancel`), 'action-not-found')
    }
    expectProblem(await forge.get(`inbox/${String(item['id'])}`), 'item-not-found')
    for (const list of ['orders', 'actions', 'events', 'usage', 'inbox']) {
      expect((await forge.get(list)).json<Page>().data).toEqual([])
    }
    expect((await owner.get(`actions/${slow.id}?wait=10`)).json()).toMatchObject({ status: 'succeeded' })
  })

  test('V4: a revoked token is 401 from the next call on, and a new one finds what the old one began', async () => {
    const before = await worker('rotated', ['Order.place'])
    const key = newKey()
    const first = await before.action('orders/place', {}, { key })
    expect((await server.cli('worker', 'revoke', 'rotated', '--namespace', 'kiln.test')).status).toBe(0)
    expectProblem(await before.call('orders/place', {}, { key }), 'unauthorized')
    expectProblem(await before.get(), 'unauthorized')
    const made = await server.cli('worker', 'token', 'rotated', '--namespace', 'kiln.test')
    const after = caller(server, 'kiln.test', (JSON.parse(made.stdout) as { token: string }).token)
    const again = await after.call('orders/place', {}, { key })
    expect([again.header('idempotent-replayed'), again.json()]).toEqual(['true', first])
  })

  test('H1: a token that has expired is 401', async () => {
    await worker('brief', ['Order.place'])
    const made = await server.cli('worker', 'token', 'brief', '--namespace', 'kiln.test', '--expires', '2s')
    expect(made.status, made.stderr).toBe(0)
    const brief = caller(server, 'kiln.test', (JSON.parse(made.stdout) as { token: string }).token)
    expect((await brief.call('orders/place', {})).status).toBe(200)
    await eventually(async () => expectProblem(await brief.call('orders/place', {}), 'unauthorized'))
  })

  test('H1: tokens are stored hashed, and neither they nor inputs nor keys are in the log', async () => {
    const secret = newKey('swordfish')
    const by = await worker('secretive', ['*'])
    await by.action('orders/place', { note: secret }, { key: `${secret}-key` })
    await by.call('orders/place', { note: 5, [secret]: 1 })
    await by.call('orders/place', undefined, { raw: `{"note":"${secret}",}` })
    await by.call('orders/bake', { then: 'throw' }, { key: `${secret}-thrown` })
    await by.get(`actions?key=${secret}-key`)
    expectProblem(await caller(server, 'kiln.test', `${by.token}x`).get(), 'unauthorized')
    const folder = dirname(server.data)
    for (const name of readdirSync(folder)) {
      if (/\.(db|sqlite)|wal$/.test(name)) expect(readFileSync(join(folder, name)).includes(by.token), name).toBe(false)
    }
    await eventually(async () =>
      expect(server.logs.filter(({ worker }) => worker === 'secretive').length).toBeGreaterThanOrEqual(5),
    )
    const log = JSON.stringify(server.logs) + server.stderr()
    expect(log).not.toContain(by.token)
    expect(log).not.toContain(secret)
    // What an author's code threw is in the log, since it is nowhere else (V5).
    expect(log).toContain('the kiln at /srv/secret exploded')
  })

  test('§3: each request is one JSON line of the log, with the id that its problem shows', async () => {
    const told = expectProblem(await owner.get('orders/order_none'), 'record-not-found')
    const [line] = await eventually(async () => {
      const lines = server.logs.filter(({ requestId }) => requestId === told['requestId'])
      expect(lines).toHaveLength(1)
      return lines
    })
    expect(line).toMatchObject({ level: 'info', status: 404, method: 'GET', worker: 'owner', code: 'record-not-found' })
  })
})

describe.each(stores)('browsers, over %s', (store) => {
  const shop = 'https://shop.glyphs.store'
  let server: TestServer
  let token: string

  beforeAll(async () => {
    server = await startKiln(store, { args: ['--origin', shop, '--origin', 'http://localhost:5173'] })
    token = await server.token('page', ['*'], { namespace: 'kiln.test', kind: 'app' })
  })

  const send = (method: string, path: string, lines: readonly (readonly [string, string])[], body?: string) =>
    rawRequest(server.url, rawMessage(method, path, lines, body))
  const preflight = (origin: string, path = '/kiln.test/orders/place', method = 'POST') =>
    send('OPTIONS', path, [
      ['Origin', origin],
      ['Access-Control-Request-Method', method],
      ['Access-Control-Request-Headers', 'authorization,content-type,idempotency-key'],
    ])
  const list = (value: string | undefined) => (value ?? '').toLowerCase().split(/, */)

  test('H2: the preflight of an allowed origin needs no token and allows the methods and headers used here', async () => {
    for (const origin of [shop, 'http://localhost:5173']) {
      for (const [path, method] of [
        ['/kiln.test/orders/place', 'POST'],
        ['/kiln.test/orders/order_1', 'GET'],
        ['/kiln.test/orders/order_1/edit', 'POST'],
        ['/kiln.test/actions/act_1/retry', 'POST'],
        ['/kiln.test/events', 'GET'],
        ['/me', 'GET'],
      ] as const) {
        const answer = await preflight(origin, path, method)
        expect([200, 204]).toContain(answer.status)
        expect(answer.headers['access-control-allow-origin']).toBe(origin)
        expect(list(answer.headers['access-control-allow-methods'])).toContain(method.toLowerCase())
        expect(list(answer.headers['access-control-allow-headers'])).toEqual(
          expect.arrayContaining([
            'authorization',
            'content-type',
            'idempotency-key',
            'idempotency-key-encoded',
            'record-version',
            'decided-after',
            'prefer',
            'last-event-id',
          ]),
        )
        expect(list(answer.headers['vary'])).toContain('origin')
      }
    }
  })

  test('H2: a page of an allowed origin may read every answer, and the headers that matter', async () => {
    const lines: [string, string][] = [
      ['Origin', shop],
      ['Content-Type', 'application/json'],
      ['Idempotency-Key', newKey()],
    ]
    const authorization: [string, string] = ['Authorization', `Bearer ${token}`]
    for (const answer of [
      await send('POST', '/kiln.test/orders/place', [...lines, authorization], '{}'),
      await send('POST', '/kiln.test/orders/place', [...lines, authorization], '{"total":1}'), // a mismatch
      await send('POST', '/kiln.test/orders/place', lines, '{}'), // no token
      await send('GET', '/kiln.test/orders', [['Origin', shop], authorization]),
      await send('GET', '/nowhere/at/all/of/ours', [['Origin', shop]]),
    ]) {
      expect(answer.headers['access-control-allow-origin']).toBe(shop)
      expect(list(answer.headers['access-control-expose-headers'])).toEqual(
        expect.arrayContaining([
          'idempotent-replayed',
          'action-status',
          'location',
          'retry-after',
          'ratelimit',
          'ratelimit-policy',
          'etag',
          'preference-applied',
        ]),
      )
      expect(list(answer.headers['vary'])).toContain('origin')
    }
  })

  test('H2: another origin gets no permission, however near its name is', async () => {
    for (const origin of [
      'https://evil.test',
      'http://shop.glyphs.store',
      `${shop}.evil.test`,
      `${shop}:444`,
      'null',
      '*',
    ]) {
      const asked = await preflight(origin)
      expect(asked.headers['access-control-allow-origin']).toBeUndefined()
      expect(asked.headers['access-control-allow-headers']).toBeUndefined()
      const answer = await send('GET', '/healthz', [['Origin', origin]])
      expect(answer.status).toBe(200)
      expect(answer.headers['access-control-allow-origin']).toBeUndefined()
      expect(list(answer.headers['vary'])).toContain('origin') // a cache must not hand this answer to the shop
    }
  })

  test('H2: none is allowed unless configured', async () => {
    const plain = await startKiln(store)
    for (const method of ['OPTIONS', 'GET']) {
      const lines = [
        ['Origin', shop],
        ['Access-Control-Request-Method', 'POST'],
      ] as const
      const answer = await rawRequest(plain.url, rawMessage(method, '/kiln.test/orders/place', lines))
      const given = Object.keys(answer.headers).filter((name) => name.startsWith('access-control-'))
      expect(given).toEqual([])
    }
    expect(await plain.stop()).toBe(0)
  })
})
