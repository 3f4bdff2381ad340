import { DatabaseSync } from 'node:sqlite'
import { beforeAll, describe, expect, test } from 'vitest'
import { paths } from '../../src/http/routes.ts'
import { problems } from '../../src/model/problem.ts'
import type { ProblemCode } from '../../src/model/problem.ts'
import { addToken, addWorker, revokeWorker } from '../../src/server/workers.ts'
import { rawMessage, rawRequest } from '../support/raw.ts'
import type { RawResponse } from '../support/raw.ts'
import type { TestServer } from '../support/server.ts'
import { caller, eventually, expectProblem, newKey, startKiln, stores } from './wire.ts'
import type { ActionView, Caller, Page } from './wire.ts'

/** The grants of H1, one Worker for each; the last Worker has none. */
const grants = [
  ...['Order.bake', 'Order.edit', 'Order:read', 'actions:own', 'actions:all'],
  ...['events', 'usage', 'inbox', 'approve:Order.refund', '*', 'nothing'],
]

/**
 * Every route, and whose data is asked for. `with` are the grants that let a Worker in (`any token`, or `no token` at
 * all), `gets` is what it is told then, `else` what everybody else is. Calls that would change something are sent so that
 * what comes after the rights stops them: a settled Action can't be cancelled, an apply must say Versions.
 */
const table = `
  route                             | data    | with                   | gets                | else
  GET /healthz                      | -       | no token               | 200                 |
  GET /readyz                       | -       | no token               | 200                 |
  GET /metrics                      | -       | no token               | 200                 |
  GET /errors                       | -       | no token               | 200                 |
  GET /errors/:code                 | -       | no token               | 200                 |
  GET /me                           | own     | any token              | 200                 |
  GET /:namespace                   | -       | any token              | 200                 |
  GET /:namespace/openapi.json      | -       | any token              | 200                 |
  GET /:namespace/actions           | -       | any token              | 200                 |
  GET /:namespace/actions/:id       | own     | any token              | 200                 |
  GET /:namespace/actions/:id       | others' | actions:all *          | 200                 | action-not-found
  GET /:namespace/actions/:id       | absent  |                        |                     | action-not-found
  POST /:namespace/actions/:id/retry  | own     | Order.bake *           | not-retryable       | forbidden
  POST /:namespace/actions/:id/retry  | others' | Order.bake *           | not-retryable       | action-not-found, forbidden: actions:all
  POST /:namespace/actions/:id/retry  | absent  |                        |                     | action-not-found
  POST /:namespace/actions/:id/cancel | own     | Order.bake *           | not-cancellable     | forbidden
  POST /:namespace/actions/:id/cancel | others' | Order.bake *           | not-cancellable     | action-not-found, forbidden: actions:all
  POST /:namespace/actions/:id/cancel | absent  |                        |                     | action-not-found
  GET /:namespace/events            | -       | events *               | 200                 | forbidden
  GET /:namespace/usage             | -       | usage *                | 200                 | forbidden
  GET /:namespace/inbox             | -       | any token              | 200                 |
  GET /:namespace/inbox/:id         | own     | any token              | 200                 |
  GET /:namespace/inbox/:id         | failed  | inbox *                | 200                 | item-not-found
  GET /:namespace/inbox/:id         | refused |                        |                     | item-not-found
  GET /:namespace/inbox/:id         | absent  |                        |                     | item-not-found
  POST /:namespace/inbox/:id/apply    | own     | Order.edit *           | version-required    | forbidden
  POST /:namespace/inbox/:id/apply    | failed  | *                      | invalid-input       | item-not-found, forbidden: inbox
  POST /:namespace/inbox/:id/apply    | refused |                        |                     | item-not-found
  POST /:namespace/inbox/:id/apply    | absent  |                        |                     | item-not-found
  POST /:namespace/inbox/:id/dismiss  | own     | any token              | invalid-input       |
  POST /:namespace/inbox/:id/dismiss  | failed  | inbox *                | invalid-input       | item-not-found
  POST /:namespace/inbox/:id/dismiss  | refused |                        |                     | item-not-found
  POST /:namespace/inbox/:id/dismiss  | absent  |                        |                     | item-not-found
  POST /:namespace/inbox/:id/approve  | own     |                        |                     | operation-not-found
  POST /:namespace/inbox/:id/approve  | absent  |                        |                     | operation-not-found
  POST /:namespace/inbox/:id/decline  | own     |                        |                     | operation-not-found
  POST /:namespace/inbox/:id/decline  | absent  |                        |                     | operation-not-found
  GET /:namespace/:nouns            | -       | Order:read *           | 200                 | forbidden
  GET /:namespace/:nouns/:id        | others' | Order:read *           | 200                 | forbidden
  GET /:namespace/:nouns/:id        | absent  | Order:read *           | record-not-found    | forbidden
  POST /:namespace/:nouns/:id       | bake    | Order.bake *           | 200                 | forbidden
  POST /:namespace/:nouns/:id       | vanish  |                        |                     | operation-not-found
  GET /:namespace/:nouns/:id/versions | others' | Order:read *           | 200                 | forbidden
  GET /:namespace/:nouns/:id/versions | absent  | Order:read *           | record-not-found    | forbidden
  POST /:namespace/:nouns/:id/:verb   | others' | Order.edit *           | 200                 | forbidden
  POST /:namespace/:nouns/:id/:verb   | absent  | Order.edit *           | record-not-found    | forbidden
`

interface Row {
  readonly route: string
  readonly data: string
  readonly isPublic: boolean
  /** Null: every Worker. */
  readonly allowed: readonly string[] | null
  readonly gets: string
  /** What each of the others is told. */
  readonly refused: (grant: string) => string
}

const rows: readonly Row[] = table
  .trim()
  .split('\n')
  .slice(1)
  .map((line) => {
    const [route = '', data = '', allowed = '', gets = '', otherwise = ''] = line.split('|').map((cell) => cell.trim())
    const [mostly = '', special = ''] = otherwise.split(', ')
    const [code = '', of = ''] = special.split(': ')
    return {
      route,
      data,
      isPublic: allowed === 'no token',
      allowed: / token$/.test(allowed) ? null : allowed.split(' '),
      gets,
      refused: (grant) => (of !== '' && grant === of ? code : mostly),
    }
  })

const lets = ({ allowed }: Row, grant: string) => allowed === null || allowed.includes(grant)

test('H1: every route has a row in the matrix', () => {
  const routes = paths.flatMap(({ path, get, post }) => [
    ...(get === undefined ? [] : [`GET ${path}`]),
    ...(post === undefined ? [] : [`POST ${path}`]),
  ])
  expect([...new Set(rows.map(({ route }) => route))].sort()).toEqual(routes.sort())
})

describe.each(stores)('rights: route, grant and whose data, over %s', (store) => {
  let server: TestServer
  let owner: Holder
  const holders = new Map<string, Holder>()

  /** A Worker and what is its own. */
  interface Holder {
    readonly by: Caller
    readonly action: ActionView
    readonly order: string
    /** Items of its inbox. */
    readonly failed: string
    readonly refused: string
  }

  beforeAll(async () => {
    server = await startKiln(store, { args: ['--trusted-proxy', '127.0.0.1'] })
    owner = await holder('owner')
    for (const grant of grants) holders.set(grant, await holder(newKey('holder')))
    // Each had every right while it made what is its own, and has a single one from here on: no command takes a right away.
    const file = new DatabaseSync(server.data)
    const take = file.prepare('UPDATE workers SET grants = ? WHERE name = ?')
    for (const [grant, { action }] of holders) {
      take.run(JSON.stringify(grant === 'nothing' ? [] : [grant]), action.worker)
    }
    file.close()
  })

  const worker = async (name: string, of: readonly string[], namespace = 'kiln.test') =>
    addWorker(server.data, { name, kind: 'agent', grants: of, namespace, expiresMs: null }, () => undefined)

  async function holder(name: string): Promise<Holder> {
    const by = caller(server, 'kiln.test', (await worker(name, ['*'])).token)
    const action = await by.action('orders/bake', {})
    const order = String(action.output?.['$id'])
    await by.action(`orders/${order}/edit`, { note: 'n' })
    await by.action(`orders/${order}/edit`, { note: 'x' }, { headers: { 'record-version': '1' } })
    await by.action('orders/smelt', {})
    const items = (await by.get('inbox?limit=1000')).json<Page<{ id: string; kind: string; action: string }>>().data
    const mine = new Set((await by.get(`actions?worker=${name}`)).json<Page<ActionView>>().data.map(({ id }) => id))
    const item = (kind: string) => items.find((one) => one.kind === kind && mine.has(one.action))?.id ?? ''
    return { by, action, order, failed: item('failed'), refused: item('refused') }
  }

  /** The id that a row asks for. */
  function idOf({ route, data }: Row, asker: Holder): string {
    const of = data === 'own' ? asker : owner
    if (data === 'absent') return route.includes('/actions') ? absentId(of.action.id) : absentId(of.failed)
    if (route.includes('/actions/')) return of.action.id
    if (route.includes('/inbox/')) return data === 'failed' ? of.failed : of.refused
    return route === 'POST /:namespace/:nouns/:id' ? data : of.order
  }

  let asked = 0

  /** An id that nothing has, and that looks like one. */
  const absentId = (like: string) => `${like.slice(0, -3)}${like.endsWith('aaa') ? 'bbb' : 'aaa'}`

  function ask(row: Row, asker: Holder, token: string | null, namespace = 'kiln.test'): Promise<RawResponse> {
    const [method = '', path = ''] = row.route.split(' ')
    const values: Record<string, string> = {
      namespace,
      nouns: 'orders',
      code: 'forbidden',
      id: idOf(row, asker),
      verb: 'edit',
    }
    const target = path.replaceAll(/:(\w+)/g, (_, name: string) => values[name] ?? '')
    // Each comes from an address of its own: bad tokens are throttled by address (§10).
    const lines: [string, string][] = [['X-Forwarded-For', `10.0.${asked >> 8}.${asked++ & 255}`]]
    if (token !== null) lines.push(['Authorization', `Bearer ${token}`])
    if (method === 'GET') return rawRequest(server.url, rawMessage(method, target, lines))
    lines.push(['Content-Type', 'application/json'], ['Idempotency-Key', newKey()])
    // The Versions that a failed item shows are none: what stops its apply and each dismissal is a member too many.
    const stopped = row.data === 'failed' || target.endsWith('/dismiss') ? '{"unknown":1}' : '{}'
    return rawRequest(server.url, rawMessage(method, target, lines, stopped))
  }

  function expectTold(answer: RawResponse, told: string, where: string): void {
    if (told === '200') return expect(answer.status, `${where}: ${answer.body}`).toBe(200)
    expect(told in problems, where).toBe(true)
    expect(`${answer.status} ${answer.body}`, where).toContain(`"code":"${told}"`)
    expectProblem(answer, told as ProblemCode)
  }

  test.each(grants)('H1: a Worker with %s may do what the matrix says, and no more', async (grant) => {
    const asker = holders.get(grant) ?? owner
    for (const row of rows) {
      const answer = await ask(row, asker, asker.by.token)
      expectTold(answer, lets(row, grant) ? row.gets : row.refused(grant), `${row.route} of ${row.data} data`)
    }
  })

  test.each(grants)("H1: with %s, what is another's is told as what there is not, but for the id", async (grant) => {
    const asker = holders.get(grant) ?? owner
    const told = async (row: Row): Promise<string> => {
      const { status, body, lines } = await ask(row, asker, asker.by.token)
      const shown = lines.filter(([name]) => !/^(date|content-length)$/i.test(name))
      const text = body.replaceAll(idOf(row, asker), 'ID').replace(/"requestId":"\w+"/, '')
      return JSON.stringify([status, shown, text])
    }
    for (const row of rows.filter(({ data }) => /^(others'|failed|refused)$/.test(data))) {
      const absent = rows.find(({ route, data }) => route === row.route && data === 'absent')
      // Who may see it, or may call its operation, is told of it (A1).
      if (absent === undefined || lets(row, grant) || row.refused(grant) !== absent.refused(grant)) continue
      expect(await told(row), row.route).toBe(await told(absent))
    }
  })

  test.each(grants)(
    "H1: with %s a list shows the Worker's own, and others' only where the grant says so",
    async (grant) => {
      const { by, action } = holders.get(grant) ?? owner
      const all = ['actions:all', '*'].includes(grant)
      const ids = async (path: string) => {
        const answer = await by.get(path)
        expect(answer.status, answer.text).toBe(200)
        return answer.json<Page<{ id: string }>>().data.map(({ id }) => id)
      }
      for (const query of ['limit=1000', 'limit=1000&status=succeeded', 'limit=1000&verb=Order.bake']) {
        const listed = await ids(`actions?${query}`)
        expect(listed).toContain(action.id)
        expect(listed.includes(owner.action.id), query).toBe(all)
      }
      const own = new Set(await ids(`actions?limit=1000&worker=${action.worker}`))
      expect((await ids('actions?limit=1000')).every((id) => own.has(id))).toBe(all ? false : true)
      expect(await ids(`actions?key=${owner.action.idempotencyKey}`)).toEqual(all ? [owner.action.id] : [])
      const retried = await owner.by.action(
        `actions/${(await owner.by.action('orders/bake', { then: 'throw' })).id}/retry`,
      )
      expect(await ids(`actions?on=${retried.on}`)).toEqual(all ? [retried.id] : [])
      for (const name of ['owner', 'nobody-of-this-name']) {
        const answer = await by.get(`actions?worker=${name}`)
        if (all) expect(answer.json<Page>().data.length > 0).toBe(name === 'owner')
        else expectProblem(answer, 'forbidden')
      }
      const items = await ids('inbox?limit=1000')
      expect(items.includes(owner.failed)).toBe(['inbox', '*'].includes(grant))
      // What was refused to a Worker is its own to decide, with no grant anybody else's (W4).
      expect(items).not.toContain(owner.refused)
    },
  )

  test('H1: neither a stale fix nor a try tells the values of a Noun to who may not read it', async () => {
    const placed = await owner.by.action('orders/place', { note: 'the first secret' })
    const order = `orders/${String(placed.output?.['$id'])}`
    await owner.by.action(`${order}/edit`, { note: 'the second secret' })
    const decided = { headers: { 'record-version': `${order}=1` } }
    const grantsOf = async (...of: string[]) => caller(server, 'kiln.test', (await worker(newKey('prober'), of)).token)
    const [prober, reader] = [
      await grantsOf('Offer.price', 'Order.edit'),
      await grantsOf('Offer.price', 'Order.edit', 'Order:read'),
    ]
    const asked = [
      (by: Caller) => by.call('offers/price', { price: 1 }, decided),
      (by: Caller) => by.call('offers/price', { price: 1 }, { ...decided, mode: 'try' }),
      (by: Caller) => by.call(`${order}/edit`, { note: 'mine' }, { mode: 'try' }),
    ]
    for (const ask of asked) {
      const [hidden, shown] = [await ask(prober), await ask(reader)]
      expect(hidden.text).not.toMatch(/the (first|second) secret/)
      expect(hidden.text).toContain('"field":"note"')
      expect(shown.text).toContain('"from":"the')
    }
  })

  test('H1: a token of another namespace opens nothing in this one, whatever it is granted', async () => {
    const foreign = await worker(newKey('foreign'), ['*'], 'forge.test')
    for (const row of rows.filter(({ route }) => route.includes('/:namespace'))) {
      for (const namespace of ['kiln.test', 'nowhere.test']) {
        expectTold(await ask(row, owner, foreign.token, namespace), 'wrong-namespace', row.route)
      }
    }
  })

  test('H1: without a token that is good, every route that needs one is 401, whatever is behind it', async () => {
    const [revoked, removed, brief] = [
      await worker(newKey('revoked'), ['*']),
      await worker(newKey('removed'), ['*']),
      await worker(newKey('brief'), ['*']),
    ]
    const expired = await addToken(server.data, brief.name, 'kiln.test', 1)
    await revokeWorker(server.data, revoked.name, 'kiln.test', false)
    await revokeWorker(server.data, removed.name, 'kiln.test', true)
    const bad = [null, '', 'nonsense', revoked.token, removed.token, expired.token, `${brief.token} ${brief.token}`]
    await eventually(async () => expectProblem(await caller(server, 'kiln.test', expired.token).get(), 'unauthorized'))
    for (const row of rows) {
      for (const token of bad)
        expectTold(await ask(row, owner, token), row.isPublic ? '200' : 'unauthorized', row.route)
    }
  })
})
