import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { beforeAll, describe, expect, test } from 'vitest'
import { paths } from '../../src/http/routes.ts'
import { problems } from '../../src/model/problem.ts'
import { addWorker } from '../../src/server/workers.ts'
import { rawMessage, rawRequest } from '../support/raw.ts'
import type { RawResponse } from '../support/raw.ts'
import { root } from '../support/server.ts'
import type { TestServer } from '../support/server.ts'
import { newKey, startKiln, stores } from './wire.ts'

const shop = 'https://shop.glyphs.store'
const other = 'http://localhost:5173'

/** Headers that the API reads and that no page can set, or that it may set without being allowed to (Fetch, 2.2.2). */
const neverAsked = new Set([
  ...['accept', 'origin', 'host', 'content-length', 'transfer-encoding', 'content-encoding', 'expect', 'connection'],
  ...['access-control-request-method', 'x-forwarded-for'],
])

/** The names of the headers that the source of the HTTP room and the key's parser read, in lower case. */
function headersRead(): string[] {
  const folder = join(root, 'src/http')
  const files = [...readdirSync(folder), '../model/key.ts'].filter((name) => /(?<!\.test)\.ts$/.test(name))
  const read = new Set<string>()
  for (const file of files) {
    const text = readFileSync(join(folder, file), 'utf8')
    for (const [, name = ''] of text.matchAll(/headers(?:\.|\[')([a-z][a-z-]+)\b/g)) read.add(name)
    for (const [, names = ''] of text.matchAll(/\{([^{}]*)\}(?:: IncomingHttpHeaders| = (?:[\w.]+\.)?headers\b)/g)) {
      for (const [, quoted = '', bare = ''] of names.matchAll(/'([a-z-]+)'|\b([a-z]+)\b(?=\s*(?:,|$|\}))/g))
        read.add(quoted || bare)
    }
    for (const [, name = ''] of text.matchAll(/(?:isTwice|linesOf|only)\([^()']*'([a-z-]+)'/g)) read.add(name)
    for (const [, name = ''] of text.matchAll(/'((?:idempotency|decided|record)-[a-z-]+)'/g)) read.add(name)
  }
  // What a variable is called, what is done to a list of headers, and codes of errors are no names of headers.
  for (const none of ['push', 'length', 'encoding', 'wanted', ...Object.keys(problems)]) read.delete(none)
  return [...read].sort()
}

describe.each(stores)('browsers, over %s', (store) => {
  let server: TestServer
  let token: string

  beforeAll(async () => {
    server = await startKiln(store, { args: ['--origin', shop, '--origin', other] })
    const wanted = { name: 'page', kind: 'app', grants: ['*'], namespace: 'kiln.test', expiresMs: null } as const
    token = (await addWorker(server.data, wanted, () => undefined)).token
  })

  const ask = (method: string, path: string, lines: readonly (readonly [string, string])[], body?: string) =>
    rawRequest(server.url, rawMessage(method, path, lines, body), { head: method === 'HEAD' })
  const preflight = (path: string, method: string, origin: string, more: readonly (readonly [string, string])[] = []) =>
    ask('OPTIONS', path, [['Origin', origin], ['Access-Control-Request-Method', method], ...more])
  const list = (answer: RawResponse, name: string) => (answer.headers[name] ?? '').toLowerCase().split(/, */)
  const cors = ({ headers }: RawResponse) => Object.keys(headers).filter((name) => name.startsWith('access-control-'))
  const concrete = (path: string) =>
    path.replaceAll(
      /:(\w+)/g,
      (_, name: string) => ({ namespace: 'kiln.test', nouns: 'orders', code: 'forbidden', verb: 'edit' })[name] ?? 'x',
    )

  test('H2: every route and method has its preflight, which needs no token and tells what that path takes', async () => {
    for (const { path, get, post } of paths) {
      const methods = [...(get === undefined ? [] : ['GET', 'HEAD']), ...(post === undefined ? [] : ['POST'])]
      for (const origin of [shop, other]) {
        const answer = await preflight(concrete(path), methods[0] ?? '', origin)
        expect([answer.status, answer.body], path).toEqual([204, ''])
        expect(answer.headers['access-control-allow-origin']).toBe(origin)
        expect(answer.headers['access-control-allow-methods']).toBe(methods.join(', '))
        expect(answer.headers['access-control-max-age']).toBe('600')
        expect(list(answer, 'vary')).toContain('origin')
        // A token is sent by the page itself: no cookie, and nothing that the browser keeps (H1).
        expect(answer.headers['access-control-allow-credentials']).toBeUndefined()
      }
    }
  })

  test('H2: the preflight allows each header that the API reads, and no other', async () => {
    const read = headersRead()
    expect(read).toEqual(
      expect.arrayContaining([
        'authorization',
        'idempotency-key',
        'record-version',
        'prefer',
        'if-none-match',
        'traceparent',
      ]),
    )
    const allowed = list(await preflight('/kiln.test/orders/place', 'POST', shop), 'access-control-allow-headers')
    expect(allowed.toSorted()).toEqual(read.filter((name) => !neverAsked.has(name)).sort())
  })

  test('H2: a page reads the headers that §3 gives, on every answer: what succeeded, what was refused, what is nowhere', async () => {
    const bearer = ['Authorization', `Bearer ${token}`] as const
    const type = ['Content-Type', 'application/json'] as const
    for (const answer of [
      await ask(
        'POST',
        '/kiln.test/orders/place',
        [['Origin', shop], bearer, type, ['Idempotency-Key', newKey()]],
        '{}',
      ),
      await ask(
        'POST',
        '/kiln.test/orders/place',
        [['Origin', shop], bearer, type, ['Idempotency-Key', newKey()]],
        '{',
      ),
      await ask('POST', '/kiln.test/orders/place', [['Origin', shop], type], '{}'),
      await ask('GET', '/kiln.test/orders', [['Origin', shop], bearer]),
      await ask('HEAD', '/kiln.test', [['Origin', shop], bearer]),
      await ask('PUT', '/kiln.test', [['Origin', shop]]),
      await ask('GET', '/no/where/that/is/ours', [['Origin', shop]]),
      await ask('GET', '/healthz', [
        ['Origin', shop],
        ['Host', 'y'],
        ['Host', 'x'],
      ]),
      await ask('GET', '/errors/forbidden', [
        ['Origin', shop],
        ['Accept', 'text/html'],
      ]),
    ]) {
      expect(answer.headers['access-control-allow-origin']).toBe(shop)
      expect(list(answer, 'access-control-expose-headers').toSorted()).toEqual(
        [
          'idempotent-replayed',
          'action-status',
          'location',
          'retry-after',
          'ratelimit',
          'ratelimit-policy',
          'etag',
          'preference-applied',
        ].sort(),
      )
      expect(list(answer, 'vary')).toContain('origin')
      expect(answer.headers['access-control-allow-credentials']).toBeUndefined()
    }
  })

  test('H2: an origin is one that is listed, exactly: no part, no other port, no null, no list', async () => {
    const near = [
      'null',
      '*',
      '',
      'https://evil.test',
      'http://shop.glyphs.store',
      `${shop}.`,
      `${shop}/`,
      `${shop}:443`,
      `${shop}, ${other}`,
    ]
    for (const origin of [...near, shop.toUpperCase(), `${shop}.evil.test`, 'https://xshop.glyphs.store', '\xff']) {
      const [asked, answer] = [
        await preflight('/me', 'GET', origin),
        await ask('GET', '/healthz', [['Origin', origin]]),
      ]
      expect([asked.status, cors(asked), answer.status, cors(answer)], origin).toEqual([405, [], 200, []])
      // A cache must not hand either answer to the shop.
      expect([list(asked, 'vary'), list(answer, 'vary')]).toEqual([['origin'], ['origin']])
    }
  })

  test('H2: OPTIONS without what makes it a preflight is a method that no path has', async () => {
    expect((await ask('OPTIONS', '/me', [['Origin', shop]])).status).toBe(405)
    expect((await ask('OPTIONS', '/me', [['Access-Control-Request-Method', 'GET']])).status).toBe(405)
    expect((await preflight('/no/where/that/is/ours', 'GET', shop)).status).toBe(404)
  })

  test('H2: a preflight for a private network is answered as any other: permission for that is not ours to give', async () => {
    const answer = await preflight('/me', 'GET', shop, [['Access-Control-Request-Private-Network', 'true']])
    expect([answer.status, answer.headers['access-control-allow-private-network']]).toEqual([204, undefined])
  })

  test('H2: with * any origin may read, null too, and each answer still names the origin that asked', async () => {
    const open = await startKiln(store, { args: ['--origin', '*'] })
    for (const origin of [shop, 'null', 'https://anybody.test']) {
      const answer = await rawRequest(open.url, rawMessage('GET', '/healthz', [['Origin', origin]]))
      expect([answer.headers['access-control-allow-origin'], answer.headers['vary']]).toEqual([origin, 'Origin'])
      expect(answer.headers['access-control-allow-credentials']).toBeUndefined()
    }
    expect(await open.stop()).toBe(0)
  })

  test('H2: every answer says that it is what it is declared as, and a page can load and run nothing', async () => {
    const bearer = ['Authorization', `Bearer ${token}`] as const
    const html = ['Accept', 'text/html'] as const
    for (const [method, path, lines] of [
      ...paths.map(({ path, get }) => [get === undefined ? 'POST' : 'GET', concrete(path), [bearer]] as const),
      ...['/errors', '/errors/forbidden'].map((path) => ['GET', path, [html]] as const),
      ['GET', '/no/where/that/is/ours', [html]] as const,
      ['GET', '/he althz', []] as const,
      ['DELETE', '/me', []] as const,
    ]) {
      const { headers, status } = await ask(method, path, lines)
      expect([status, headers['x-content-type-options']], path).toEqual([status, 'nosniff'])
      for (const told of ['server', 'x-powered-by', 'set-cookie']) expect(headers[told]).toBeUndefined()
      if (headers['content-type']?.startsWith('text/html') !== true) continue
      expect(headers['content-security-policy']).toMatch(
        /^default-src 'none'; style-src 'sha256-[\w+/]{43}='; base-uri 'none'; form-action 'none'; frame-ancestors 'none'$/,
      )
      expect(headers['referrer-policy']).toBe('no-referrer')
    }
    const page = await ask('GET', '/errors', [html])
    expect(page.headers['content-type']).toMatch('text/html')
    expect(page.body).not.toMatch(/<script|<img|<link|\sstyle=|\son\w+=|javascript:/i)
  })
})
