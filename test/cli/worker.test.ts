import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { beforeAll, describe, expect, test } from 'vitest'
import { newFolder, runCli, startServer } from '../support/server.ts'
import type { TestServer } from '../support/server.ts'

let server: TestServer

beforeAll(async () => {
  server = await startServer()
})

async function me(token: string): Promise<{ status: number; body: Record<string, unknown> }> {
  const response = await fetch(`${server.url}/me`, { headers: { authorization: `Bearer ${token}` } })
  return { status: response.status, body: (await response.json()) as Record<string, unknown> }
}

const add = (...args: string[]) => server.cli('worker', 'add', ...args)

describe('worker add', () => {
  test('H1: it prints { id, name, token } and nothing else on standard output, and the server knows the token at once', async () => {
    const { status, stdout, stderr } = await add(
      'till',
      '--kind',
      'app',
      '--grant',
      'Order.place',
      'Order:read',
      '--grant',
      'events',
    )
    expect(status).toBe(0)
    expect(stderr).toBe('')
    const added = JSON.parse(stdout) as Record<string, string>
    expect(Object.keys(added)).toEqual(['id', 'name', 'token'])
    expect(added['id']).toMatch(/^worker_[0-9a-z]{26}$/)
    expect(added['token']).toMatch(/^sb_[A-Za-z0-9_-]{43}$/)
    const known = await me(added['token'] ?? '')
    expect(known.status).toBe(200)
    expect(JSON.stringify(known.body)).toContain('Order:read')
    expect(known.body).toMatchObject({ namespace: 'glyphs.store' })
  })

  test('H1: a token is stored hashed: its text is nowhere in the data folder', async () => {
    const token = await server.token('hashed')
    const folder = dirname(server.data)
    for (const file of readdirSync(folder)) {
      expect(readFileSync(join(folder, file)).includes(token), file).toBe(false)
      expect(readFileSync(join(folder, file)).includes(token.slice(3)), file).toBe(false)
    }
  })

  test('it works on a data file that was never served, which then is made, and needs --namespace there', async () => {
    const data = join(newFolder('worker'), 'deep', 'startup.db')
    const unsaid = await runCli(['worker', 'add', 'robot', '--kind', 'agent', '--data', data])
    expect(unsaid.stderr).toMatch(
      /^startup-builder: No definition has been served on this data file yet: say --namespace/,
    )
    expect(unsaid.status).toBe(1)
    const added = await runCli([
      'worker',
      'add',
      'robot',
      '--kind',
      'agent',
      '--grant',
      '*',
      '--namespace',
      'glyphs.store',
      '--data',
      data,
    ])
    expect(added.status).toBe(0)
    const { token } = JSON.parse(added.stdout) as { token: string }
    const later = await startServer({ data })
    const response = await fetch(`${later.url}/me`, { headers: { authorization: `Bearer ${token}` } })
    expect(response.status).toBe(200)
    expect(await response.json()).toMatchObject({ namespace: 'glyphs.store' })
  })

  test('a name is given once, not even again after a removal', async () => {
    await server.token('once')
    expect(await server.cli('worker', 'revoke', 'once', '--remove')).toMatchObject({ status: 0 })
    const again = await add('once', '--kind', 'agent', '--grant', '*')
    expect(again.stderr).toMatch(/^startup-builder: The name once is taken in glyphs\.store/)
    expect(again).toMatchObject({ status: 1, stdout: '' })
    const token = await server.cli('worker', 'token', 'once')
    expect(token.stderr).toMatch(/^startup-builder: The Worker once was removed/)
    expect(token).toMatchObject({ status: 1, stdout: '' })
  })

  test.each([
    [['a/b'], /"a\/b" is no name for a Worker/],
    [['käse'], /is no name for a Worker/],
    [[''], /is no name for a Worker/],
    [['a'.repeat(65)], /is no name for a Worker/],
    [['startup-builder'], /is the built-in Worker's/],
    [['w', '--grant', 'order.place'], /There is no grant "order\.place"\. Did you mean Order\.place\?/],
    [['w', '--grant', 'Order.read.all'], /There is no grant "Order\.read\.all"\. A grant is one of/],
    [['w', '--grant', 'order:read'], /Did you mean Order:read\?/],
    [['w', '--grant', 'Order:place'], /Did you mean Order\.place\?/],
    [['w', '--grant', 'event'], /Did you mean events\?/],
    [['w', '--grant', 'Events'], /Did you mean events\?/],
    [['w', '--grant', 'action:all'], /Did you mean actions:own or actions:all\?/],
    [['w', '--grant', 'approve:order.refund'], /Did you mean approve:Order\.refund\?/],
    [['w', '--grant', 'orders/place'], /There is no grant "orders\/place"/],
    [['w', '--grant', ''], /There is no grant ""/],
  ] as const)('worker add %j is refused with a hint, and adds nobody', async (args, says) => {
    const { status, stdout, stderr } = await add(...args, '--kind', 'agent')
    expect(stderr).toMatch(says)
    expect(stderr.trimEnd().split('\n')).toHaveLength(1)
    expect({ status, stdout }).toEqual({ status: 1, stdout: '' })
    const list = await server.cli('worker', 'list', '--output', 'json')
    expect(list.stderr).toBe('')
    expect(JSON.parse(list.stdout).data.map(({ name }: { name: string }) => name)).not.toContain('w')
  })

  test('a Worker without a grant is added with a warning, and so is one of a namespace that nobody serves', async () => {
    const { status, stdout, stderr } = await add('idle', '--kind', 'human', '--namespace', 'glyph.store')
    expect(stderr).toMatch(
      /warning: No definition of glyph\.store has been served on this data file yet; it has glyphs\.store\./,
    )
    expect(stderr).toMatch(/warning: idle has no grant/)
    expect(status).toBe(0)
    expect(JSON.parse(stdout)).toMatchObject({ name: 'idle' })
  })

  test('8 Workers added at once while the server runs are all added', async () => {
    const names = Array.from({ length: 8 }, (_, index) => `crowd-${index}`)
    const added = await Promise.all(names.map((name) => add(name, '--kind', 'agent', '--grant', 'events')))
    expect(added.map(({ status }) => status)).toEqual(names.map(() => 0))
    expect(new Set(added.map(({ stdout }) => (JSON.parse(stdout) as { id: string }).id)).size).toBe(names.length)
  })
})

describe('worker token and revoke', () => {
  test('K2: a further token is the same Worker; both work until it is revoked, and then neither does', async () => {
    const first = await server.token('rotated')
    const ran = await server.cli('worker', 'token', 'rotated')
    const second = (JSON.parse(ran.stdout) as { token: string }).token
    expect(second).not.toBe(first)
    expect((await me(first)).body).toEqual((await me(second)).body)
    const revoked = await server.cli('worker', 'revoke', 'rotated')
    expect(JSON.parse(revoked.stdout)).toMatchObject({ name: 'rotated', revoked: 2, removed: false })
    // V4: the server obeys from its next call.
    expect((await me(first)).status).toBe(401)
    expect((await me(second)).status).toBe(401)
    const third = (JSON.parse((await server.cli('worker', 'token', 'rotated')).stdout) as { token: string }).token
    expect((await me(third)).status).toBe(200)
  })

  test('H1: a token that expires says when, and is 401 after that', async () => {
    const ran = await add('short', '--kind', 'agent', '--grant', '*', '--expires', '2s')
    const { token, expiresAt } = JSON.parse(ran.stdout) as { token: string; expiresAt: string }
    expect(expiresAt).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/)
    expect((await me(token)).status).toBe(200)
    await sleep(Date.parse(expiresAt) - Date.now() + 50)
    expect((await me(token)).status).toBe(401)
  })

  test('who is not there is told so, with exit status 1', async () => {
    for (const command of ['token', 'revoke']) {
      const ran = await server.cli('worker', command, 'nobody')
      expect(ran.stderr).toBe(
        'startup-builder: There is no Worker nobody on this data file. See: startup-builder worker list\n',
      )
      expect(ran).toMatchObject({ status: 1, stdout: '' })
    }
  })
})

describe('worker limit', () => {
  const limitsOf = async (token: string) => (await me(token)).body['limits']

  test('§10: a limit is given when the Worker is added, changed and taken away, and the server obeys at once (V4)', async () => {
    const added = await add('limited', '--kind', 'app', '--grant', '*', '--rate', '0.5', '--burst', '3')
    const { token, ...shown } = JSON.parse(added.stdout) as { token: string }
    expect([added.stderr, Object.keys(shown)]).toEqual(['', ['id', 'name']])
    const limits = (throttle: object | null) => ({ calls: throttle, reads: throttle, verbs: {} })
    expect(await limitsOf(token)).toEqual(limits({ rate: 0.5, burst: 3 }))
    const changed = await server.cli('worker', 'limit', 'limited', '--rate', '7', '--burst', '100')
    expect(JSON.parse(changed.stdout)).toMatchObject({ name: 'limited', throttle: { rate: 7, burst: 100 } })
    expect(await limitsOf(token)).toEqual(limits({ rate: 7, burst: 100 }))
    const { stdout } = await server.cli('worker', 'list')
    const { data } = JSON.parse(stdout) as { data: Record<string, unknown>[] }
    expect(data.find(({ name }) => name === 'limited')).toMatchObject({ throttle: { rate: 7, burst: 100 } })
    const removed = await server.cli('worker', 'limit', 'limited', '--none')
    expect(JSON.parse(removed.stdout)).toMatchObject({ name: 'limited', throttle: null })
    expect(await limitsOf(token)).toEqual(limits(null))
  })

  test.each([
    ['limit limited', /say --rate with --burst, or --none/],
    ['limit limited --rate 5', /--rate and --burst go together/],
    ['limit limited --burst 5', /--rate and --burst go together/],
    ['limit limited --rate 5 --burst 5 --none', /say --rate with --burst, or --none/],
    ['limit limited --rate 0 --burst 5', /above 0/],
    ['limit limited --rate -1 --burst 5', /above 0|argument missing|unknown option/],
    ['limit limited --rate 1e3 --burst 5', /above 0/],
    ['limit limited --rate 1000001 --burst 5', /at most 1000000/],
    ['limit limited --rate 5 --burst 0', /whole number of calls from 1/],
    ['limit limited --rate 5 --burst 1.5', /whole number of calls from 1/],
    ['limit limited --rate 5 --rate 6 --burst 1', /given twice/],
    ['limit nobody --none', /There is no Worker nobody/],
    ['add half --kind app --rate 5', /--rate and --burst go together/],
  ])('worker %s is a usage or local error, and changes nothing', async (command, says) => {
    const ran = await server.cli('worker', ...command.split(' '))
    expect(ran.stderr).toMatch(says)
    expect(ran).toMatchObject({ status: 1, stdout: '' })
  })
})

describe('worker list', () => {
  test('it is JSON where standard output is no terminal, without any token', async () => {
    const token = await server.token('listed', ['Order.place'])
    const { stdout, status } = await server.cli('worker', 'list')
    expect(status).toBe(0)
    const { data } = JSON.parse(stdout) as { data: Record<string, unknown>[] }
    expect(data.find(({ name }) => name === 'listed')).toMatchObject({
      namespace: 'glyphs.store',
      kind: 'agent',
      grants: ['Order.place'],
      removed: false,
      tokens: [{ expiresAt: null, revoked: false }],
    })
    expect(stdout).not.toContain(token.slice(3))
  })

  test('it is a table for people when asked for', async () => {
    const { stdout } = await server.cli('worker', 'list', '--output', 'text')
    expect(stdout).toMatch(/^NAME +NAMESPACE +KIND +TOKENS +GRANTS\n/)
    expect(stdout).toMatch(/^listed +glyphs\.store +agent +1 +Order\.place$/m)
  })

  test.each(['list', 'token x', 'revoke x', 'limit x --none'])(
    'worker %s makes no data file where there is none',
    async (command) => {
      const data = join(newFolder('worker'), 'startup.db')
      const ran = await runCli(['worker', ...command.split(' '), '--data', data])
      expect(ran.stderr).toMatch(/^startup-builder: There is no data file .*startup\.db/)
      expect(ran).toMatchObject({ status: 1, stdout: '' })
      expect(existsSync(data)).toBe(false)
    },
  )
})
