import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { dirname, join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { text } from 'node:stream/consumers'
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, test } from 'vitest'
import { connectRaw, rawMessage } from '../support/raw.ts'
import { fault, shimEnv } from '../support/shim/shim.ts'
import { cli, glyphs, newFolder, runCli, startPayments, startServer } from '../support/server.ts'
import type { Ran, TestServer } from '../support/server.ts'

/** Tries to serve the example; what can't work is one clear line on standard error and exit status 1. */
async function refused(...args: string[]): Promise<string> {
  return toldInOneLine(await runCli(['serve', glyphs, ...args]))
}

function toldInOneLine({ status, stdout, stderr }: Ran): string {
  expect(stderr).toMatch(/^startup-builder: .*\n$/)
  expect(stderr).not.toContain('fault of startup-builder itself')
  expect({ status, stdout }).toEqual({ status: 1, stdout: '' })
  return stderr
}

async function place(server: TestServer, token: string, key: string, input: object = {}): Promise<Response> {
  return fetch(`${server.url}/glyphs.store/orders/place`, {
    method: 'POST',
    headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json', 'idempotency-key': key },
    body: JSON.stringify({ offer: 'offer_serif_family', ...input }),
  })
}

describe('what keeps it from serving is one clear line, a status that is not 0, and no data lost', () => {
  test('a port in use, before the data file is touched', async () => {
    const other = createServer().listen(0, '127.0.0.1')
    await once(other, 'listening')
    const { port } = other.address() as AddressInfo
    const data = join(newFolder('serve'), 'startup.db')
    expect(await refused('--data', data, '--port', String(port))).toContain(`Port ${port} is in use on 127.0.0.1`)
    expect(existsSync(data)).toBe(false)
    other.close()
  })

  test('an address that is not this machine’s', async () => {
    const data = join(newFolder('serve'), 'startup.db')
    expect(await refused('--data', data, '--port', '4999', '--host', '192.0.2.1')).toContain(
      '192.0.2.1 is no address of this machine',
    )
  })

  test('a file that is no database stays as it is', async () => {
    const data = join(newFolder('serve'), 'startup.db')
    const letter = 'Dear reader, this is a letter and no database at all. '.repeat(100)
    writeFileSync(data, letter)
    expect(await refused('--data', data, '--port', '0')).toContain(data)
    expect(readFileSync(data, 'utf8')).toBe(letter)
  })

  test('a store that was cut in half stays as it is', async () => {
    const server = await startServer()
    await server.stop()
    const whole = readFileSync(server.data)
    const half = whole.subarray(0, Math.floor(whole.length / 2))
    writeFileSync(server.data, half)
    expect(await refused('--data', server.data, '--port', '0')).toMatch(/damaged/)
    expect(readFileSync(server.data).equals(half)).toBe(true)
    writeFileSync(server.data, whole)
    await server.start()
  })

  test('somebody else’s SQLite file stays as it is', async () => {
    const data = join(newFolder('serve'), 'cookbook.db')
    const db = new DatabaseSync(data)
    db.exec('CREATE TABLE recipes (name TEXT); PRAGMA user_version = 3')
    db.close()
    const before = readFileSync(data)
    expect(await refused('--data', data, '--port', '0')).toContain(data)
    expect(readFileSync(data).equals(before)).toBe(true)
  })

  test('a data file of a newer version stays as it is', async () => {
    const server = await startServer()
    await server.stop()
    const db = new DatabaseSync(server.data)
    const { user_version: version } = db.prepare('PRAGMA user_version').get() as { user_version: number }
    expect(version).toBeGreaterThan(0)
    db.exec('PRAGMA user_version = 9999; PRAGMA wal_checkpoint(TRUNCATE)')
    db.close()
    const before = readFileSync(server.data)
    expect(await refused('--data', server.data, '--port', '0')).toMatch(/newer/)
    expect(readFileSync(server.data).equals(before)).toBe(true)
  })

  test('a folder where there should be a file', async () => {
    const data = newFolder('serve')
    expect(await refused('--data', data, '--port', '0')).toContain(data)
  })

  test('a folder that cannot be written to', async () => {
    const folder = newFolder('serve')
    const data = join(folder, 'startup.db')
    chmodSync(folder, 0o555)
    const said = toldInOneLine(await asNobody(['serve', glyphs, '--data', data, '--port', '0']))
    expect(said).toContain('startup.db')
    expect(existsSync(data)).toBe(false)
    chmodSync(folder, 0o755)
  })

  test('a data file that cannot be written to', async () => {
    const server = await startServer()
    await server.stop()
    chmodSync(server.data, 0o444)
    chmodSync(dirname(server.data), 0o555)
    chmodSync(dirname(dirname(server.data)), 0o755)
    toldInOneLine(await asNobody(['serve', glyphs, '--data', server.data, '--port', '0']))
    chmodSync(dirname(server.data), 0o755)
    chmodSync(server.data, 0o644)
    await server.start()
  })

  test('V4: a store that another server owns, which it waits for 5 s', async () => {
    const server = await startServer()
    const since = performance.now()
    const said = await refused('--data', server.data, '--port', '0')
    expect(said).toMatch(/another server|in use/)
    expect(performance.now() - since).toBeGreaterThan(4_000)
    expect((await fetch(`${server.url}/healthz`)).status).toBe(200)
  })

  test('V4: who waits for the store gets it when the other server ends within 5 s', async () => {
    const server = await startServer()
    const next = startServer({ data: server.data })
    await sleep(1_000)
    await server.stop()
    expect((await fetch(`${(await next).url}/readyz`)).status).toBe(200)
  })
})

test('a full disk at the start is one clear line, and a start later serves', async () => {
  const data = join(newFolder('serve'), 'startup.db')
  mkdirSync(dirname(data), { recursive: true })
  const full = fault(join(newFolder('serve'), 'full'))
  full.on()
  const env = shimEnv({ folder: dirname(data), full: full.path })
  toldInOneLine(await runCli(['serve', glyphs, '--data', data, '--port', '0'], { env }))
  full.off()
  await startServer({ data, env })
})

describe('a graceful stop', () => {
  test.each(['SIGTERM', 'SIGINT'] as const)(
    '%s answers what was accepted, refuses what is new, and exits with 0',
    async (signal) => {
      const payments = await startPayments()
      const server = await startServer({ env: { PAYMENTS_URL: payments.url } })
      const token = await server.token()
      const slow = place(server, token, 'slow', { card: 'tok_slow' })
      await expect.poll(() => payments.calls()).toHaveLength(1)
      const ended = server.stop(signal)
      await sleep(200)
      await expect(fetch(`${server.url}/healthz`)).rejects.toThrow(TypeError)
      const answer = await slow
      expect(answer.status).toBe(200)
      expect(await answer.json()).toMatchObject({ status: 'succeeded', idempotencyKey: 'slow' })
      expect(await ended).toBe(0)
      expect(await payments.charges()).toHaveLength(1)
    },
  )

  test('R1: a request that comes in while it stops is 503 shutting-down, puts nothing on record, and leaves its key free', async () => {
    const payments = await startPayments()
    const server = await startServer({ env: { PAYMENTS_URL: payments.url } })
    const token = await server.token()
    const late = await connectRaw(server.url)
    const [head, rest] = [
      `POST /glyphs.store/offers/publish HTTP/1.1\r\nHost: x\r\n`,
      '{"title":"Late","price":1,"currency":"EUR"}',
    ]
    late.send(head)
    const slow = place(server, token, 'slow', { card: 'tok_slow' })
    await expect.poll(() => payments.calls()).toHaveLength(1)
    const ended = server.stop()
    await sleep(300)
    late.send(
      `Authorization: Bearer ${token}\r\nContent-Type: application/json\r\nIdempotency-Key: late\r\n` +
        `Content-Length: ${rest.length}\r\n\r\n${rest}`,
    )
    const answer = await late.response()
    expect(answer.status).toBe(503)
    expect(answer.json()).toMatchObject({ code: 'shutting-down', retryable: true })
    expect(answer.headers).toMatchObject({ 'retry-after': '1', connection: 'close' })
    expect((await slow).status).toBe(200)
    expect(await ended).toBe(0)
    await server.start()
    const list = await fetch(`${server.url}/glyphs.store/actions?key=late`, {
      headers: { authorization: `Bearer ${token}` },
    })
    expect(await list.json()).toMatchObject({ data: [] })
  })

  test('R1, V4: what outlasts the grace is answered 202, resumed at the next start, and charged once', async () => {
    const payments = await startPayments()
    const server = await startServer({ env: { PAYMENTS_URL: payments.url }, args: ['--grace', '0.3'] })
    const token = await server.token()
    const slow = place(server, token, 'slow', { card: 'tok_slow' })
    await expect.poll(() => payments.calls()).toHaveLength(1)
    const since = performance.now()
    expect(await server.stop()).toBe(0)
    expect(performance.now() - since).toBeLessThan(3_000)
    const answer = await slow
    expect(answer.status).toBe(202)
    const { id } = (await answer.json()) as { id: string }
    await server.start()
    const again = await place(server, token, 'slow', { card: 'tok_slow' })
    expect(await again.json()).toMatchObject({ id, status: 'succeeded' })
    expect(await payments.charges()).toHaveLength(1)
  })

  test('a client that never finishes its request does not hold it up', async () => {
    const server = await startServer()
    const token = await server.token()
    const connection = await connectRaw(server.url)
    connection.send(
      rawMessage('POST', '/glyphs.store/orders/place', [
        ['Authorization', `Bearer ${token}`],
        ['Content-Type', 'application/json'],
        ['Idempotency-Key', 'half'],
        ['Content-Length', '100'],
      ]),
    )
    connection.send('{"offer":')
    await sleep(300)
    const since = performance.now()
    expect(await server.stop()).toBe(0)
    expect(performance.now() - since).toBeLessThan(6_000)
    connection.destroy()
  })

  test('idle connections do not hold it up', async () => {
    const server = await startServer()
    const connection = await connectRaw(server.url)
    connection.send(rawMessage('GET', '/healthz'))
    expect((await connection.response()).status).toBe(200)
    const since = performance.now()
    expect(await server.stop()).toBe(0)
    expect(performance.now() - since).toBeLessThan(1_500)
    connection.destroy()
  })

  test('a second signal ends it at once, and what was under way is resumed', async () => {
    const payments = await startPayments()
    const server = await startServer({ env: { PAYMENTS_URL: payments.url } })
    const token = await server.token()
    const slow = place(server, token, 'slow', { card: 'tok_slow' }).catch((error: unknown) => error)
    await expect.poll(() => payments.calls()).toHaveLength(1)
    const since = performance.now()
    const exit = once(server.child, 'exit') as Promise<[number | null]>
    server.child.kill('SIGTERM')
    await sleep(100)
    server.child.kill('SIGINT')
    expect((await exit)[0]).toBe(130)
    expect(performance.now() - since).toBeLessThan(1_500)
    expect(await slow).toBeInstanceOf(Error)
    await server.start()
    const again = await place(server, token, 'slow', { card: 'tok_slow' })
    expect(await again.json()).toMatchObject({ status: 'succeeded' })
    expect(await payments.charges()).toHaveLength(1)
  })

  test('with --parent-stdin it ends when its parent does, and without it standard input is nothing to it', async () => {
    const server = await startServer()
    const exit = once(server.child, 'exit') as Promise<[number | null]>
    server.child.stdin?.end()
    expect((await exit)[0]).toBe(0)

    const child = spawn(process.execPath, [cli, 'serve', glyphs, '--data', server.data, '--port', '0'], {
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    const output = text(child.stdout)
    await sleep(2_500)
    expect(child.exitCode).toBe(null)
    child.kill('SIGTERM')
    expect(await output).toContain('"msg":"listening"')
  })
})

describe('the log', () => {
  test('it is JSON, a line each, with levels, times and request ids, and never a token or an input', async () => {
    const payments = await startPayments()
    const server = await startServer({ env: { PAYMENTS_URL: payments.url } })
    const token = await server.token()
    expect((await place(server, token, 'key-of-log', { card: 'tok_declined' })).status).toBe(200)
    expect((await place(server, token.replace(/.$/, ''), 'key-of-log')).status).toBe(401)
    expect((await place(server, token, 'key-of-log-2', { ofer: 'input-in-log' })).status).toBe(400)
    await server.stop()
    const lines = server.logs.filter((line) => !('line' in line))
    expect(lines).toHaveLength(server.logs.length)
    expect(lines.length).toBeGreaterThan(4)
    for (const line of lines) {
      expect(line['level']).toMatch(/^(info|warn|error)$/)
      expect(line['time']).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/)
    }
    expect(lines.filter((line) => typeof line['requestId'] === 'string').length).toBeGreaterThanOrEqual(3)
    const all = JSON.stringify(lines)
    for (const secret of [token.slice(3, 30), 'input-in-log', 'tok_declined', 'offer_serif_family'])
      expect(all).not.toContain(secret)
  })

  test('--log-level warn leaves out what is not worth a look', async () => {
    const data = join(newFolder('serve'), 'startup.db')
    const child = spawn(
      process.execPath,
      [cli, 'serve', glyphs, '--data', data, '--port', '0', '--log-level', 'warn'],
      {
        stdio: ['ignore', 'pipe', 'pipe'],
      },
    )
    const output = text(child.stdout)
    await expect.poll(() => existsSync(data), { timeout: 10_000 }).toBe(true)
    await sleep(1_000)
    child.kill('SIGTERM')
    expect(await output).toBe('')
  })
})

test('R3, V4: a start after kill -9 is a start like any other', async () => {
  const payments = await startPayments()
  const server = await startServer({ env: { PAYMENTS_URL: payments.url } })
  const token = await server.token()
  const first = (await (await place(server, token, 'k1')).json()) as { id: string }
  await server.kill9()
  await server.start()
  const again = await place(server, token, 'k1')
  expect(again.headers.get('idempotent-replayed')).toBe('true')
  expect(await again.json()).toMatchObject({ id: first.id, status: 'succeeded' })
  expect(await server.cli('verify')).toMatchObject({ status: 0 })
})

/** Runs the command line as a user who may only read. Root may write everywhere. */
async function asNobody(args: string[]): Promise<Ran> {
  if (process.getuid?.() !== 0) return runCli(args)
  const child = spawn(process.execPath, [cli, ...args], {
    uid: 65_534,
    gid: 65_534,
    stdio: ['ignore', 'pipe', 'pipe'],
    cwd: '/',
  })
  const [stdout, stderr, [status]] = await Promise.all([
    text(child.stdout),
    text(child.stderr),
    once(child, 'close') as Promise<[number | null]>,
  ])
  return { status, stdout, stderr }
}

test('R3: a failed fsync ends the process with 70, unanswered and told in one line; the next start serves again', async () => {
  const data = join(newFolder('serve'), 'startup.db')
  const broken = fault(join(newFolder('serve'), 'broken'))
  const server = await startServer({ data, env: shimEnv({ folder: dirname(data), syncFails: broken.path }) })
  const token = await server.token()
  const exit = once(server.child, 'exit') as Promise<[number | null]>
  broken.on()
  await expect(place(server, token, 'k1')).rejects.toThrow(TypeError)
  expect((await exit)[0]).toBe(70)
  await expect
    .poll(() => server.logs.at(-1))
    .toMatchObject({ level: 'error', msg: expect.stringContaining('the outcome of a commit is unknown') })
  broken.off()
  await server.start()
})

describe('what a Verb’s author gets wrong', () => {
  const source = `
import { noun, startup } from 'startup-builder'
import { z } from 'zod'
const Order = noun({ fields: z.object({ how: z.string() }) })
const kiln = startup('kiln.test', { nouns: { Order } })
const place = kiln.verb('Order.place', {
  input: z.object({ how: z.string() }),
  reads: {},
  async run({ input, records }) {
    if (input.how === 'float') void Promise.reject(new Error('nobody awaits this'))
    if (input.how === 'throw' && process.env.POISONED === '1') {
      setTimeout(() => { throw new Error('nobody catches this') }, 200)
      await new Promise((resolve) => setTimeout(resolve, 5_000))
    }
    return records.Order.create(input)
  },
})
export default kiln.serve({ verbs: [place] })
`
  function call(server: TestServer, token: string, how: string): Promise<Response> {
    return fetch(`${server.url}/kiln.test/orders/place`, {
      method: 'POST',
      headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json', 'idempotency-key': how },
      body: JSON.stringify({ how }),
    })
  }

  test('V4: an error that nobody catches ends the process with 70, told in the log; the next start resumes what ran', async () => {
    const server = await startServer({ startup: { source }, env: { POISONED: '1' } })
    const token = await server.token()
    const exit = once(server.child, 'exit') as Promise<[number | null]>
    await expect(call(server, token, 'throw')).rejects.toThrow(TypeError)
    expect((await exit)[0]).toBe(70)
    await expect.poll(() => JSON.stringify(server.logs)).toContain('nobody catches this')
    await server.start({ env: { POISONED: '0' } })
    const response = await call(server, token, 'throw')
    expect(response.status).toBe(200)
    expect(await response.json()).toMatchObject({ status: 'succeeded', attempts: 2 })
  })

  test('a promise that nobody awaits is told in the log, and ends nothing', async () => {
    const server = await startServer({ startup: { source } })
    const token = await server.token()
    expect((await call(server, token, 'float')).status).toBe(200)
    await expect.poll(() => JSON.stringify(server.logs)).toContain('nobody awaits this')
    expect((await call(server, token, 'next')).status).toBe(200)
    expect(await server.stop()).toBe(0)
  })
})

test('H2: --origin says which pages of browsers may call, and it may be given several times', async () => {
  const server = await startServer({ args: ['--origin', 'https://glyphs.store', '--origin', 'http://localhost:5173'] })
  const allowed = async (origin: string): Promise<string | null> => {
    const headers = { origin, 'access-control-request-method': 'POST' }
    const response = await fetch(`${server.url}/glyphs.store/orders/place`, { method: 'OPTIONS', headers })
    return response.headers.get('access-control-allow-origin')
  }
  expect(await allowed('https://glyphs.store')).toBe('https://glyphs.store')
  expect(await allowed('http://localhost:5173')).toBe('http://localhost:5173')
  expect(await allowed('https://evil.test')).toBe(null)
})
