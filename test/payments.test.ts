import { spawn } from 'node:child_process'
import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { RequestListener } from 'node:http'
import { connect } from 'node:net'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { text } from 'node:stream/consumers'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { payments } from '../examples/glyphs.store/payments/client.ts'

// The provider is a downstream with idempotency keys; V2 leans on every promise that is tested here.

const main = fileURLToPath(new URL('../examples/glyphs.store/payments/main.ts', import.meta.url))
const started: ChildProcess[] = []
let folder: string
let data: string

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'payments-'))
  data = join(folder, 'deep', 'payments.sqlite')
})

afterEach(async () => {
  await Promise.all(started.splice(0).map((child) => end(child, 'SIGKILL')))
  rmSync(folder, { recursive: true, force: true })
})

async function end(child: ChildProcess, signal: 'SIGKILL' | 'SIGTERM' | 'SIGINT'): Promise<number | null> {
  if (child.exitCode === null && child.signalCode === null) {
    const exit = once(child, 'exit')
    child.kill(signal)
    await exit
  }
  return child.exitCode
}

function run(...options: string[]): ChildProcess {
  const child = spawn(process.execPath, [main, ...options], { stdio: ['pipe', 'pipe', 'pipe'] })
  started.push(child)
  return child
}

async function start(...options: string[]): Promise<{ url: string; child: ChildProcess }> {
  const child = run('--port', '0', '--data', data, ...options)
  const [line] = (await once(createInterface(child.stdout!), 'line')) as [string]
  const { url } = JSON.parse(line) as { url: string }
  return { url, child }
}

async function post(url: string, path: string, key: string | null, body: unknown) {
  const response = await fetch(url + path, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...(key === null ? {} : { 'idempotency-key': key }) },
    body: typeof body === 'string' ? body : JSON.stringify(body),
  })
  return {
    status: response.status,
    replayed: response.headers.get('idempotent-replayed'),
    body: (await response.json()) as Answer,
  }
}

type Answer = Record<string, unknown> & { id: string; error?: { code: string; message: string } }

async function list(url: string, path: string): Promise<Record<string, unknown>[]> {
  const response = await fetch(url + path)
  expect(response.status).toBe(200)
  return ((await response.json()) as { data: Record<string, unknown>[] }).data
}

const ok = { amount: 4200, currency: 'eur', card: 'tok_ok' }

describe('the key (V2: what a derived key is handed on to)', () => {
  test('V2: the same key and body charges once and replays the first answer', async () => {
    const { url } = await start()
    const first = await post(url, '/charges', 'k1', ok)
    expect(first).toMatchObject({ status: 200, replayed: null })
    expect(first.body).toMatchObject({ ...ok, key: 'k1', refunded: false, amountRefunded: 0 })
    expect(first.body.id).toMatch(/^ch_[0-9a-f]{32}$/)

    const second = await post(url, '/charges', 'k1', { card: 'tok_ok', amount: 4200.0, currency: 'eur' })
    expect(second).toEqual({ ...first, replayed: 'true' })
    expect(await list(url, '/charges')).toEqual([first.body])
    expect(await list(url, '/calls')).toEqual([{ key: 'k1', path: '/charges', count: 2 }])
  })

  test('V2: the same key with another body, or on the other path, is 409 and does nothing', async () => {
    const { url } = await start()
    const { body } = await post(url, '/charges', 'k1', ok)
    for (const [path, other] of [
      ['/charges', { ...ok, amount: 4201 }],
      ['/charges', { ...ok, card: 'tok_declined' }],
      ['/refunds', { charge: body.id }],
    ] as const) {
      const answer = await post(url, path, 'k1', other)
      expect(answer).toMatchObject({ status: 409, replayed: null, body: { error: { code: 'idempotency_mismatch' } } })
    }
    expect(await list(url, '/charges')).toEqual([body])
    expect(await list(url, '/refunds')).toEqual([])
  })

  test('V2: 64 calls at once with one key are one charge and one answer; with 64 keys, 64 charges', async () => {
    const { url } = await start()
    const same = await Promise.all(Array.from({ length: 64 }, () => post(url, '/charges', 'one', ok)))
    expect(new Set(same.map(({ body }) => body.id)).size).toBe(1)
    expect(same.filter(({ replayed }) => replayed === null)).toHaveLength(1)

    const keys = Array.from({ length: 64 }, (_, index) => `key-${index}`)
    const many = await Promise.all(keys.map((key) => post(url, '/charges', key, ok)))
    expect(new Set(many.map(({ body }) => body.id)).size).toBe(64)
    expect(await list(url, '/charges')).toHaveLength(65)
    expect(await list(url, '/calls')).toContainEqual({ key: 'one', path: '/charges', count: 64 })
  })

  test('a request that cannot be understood is 400, and its key stays free', async () => {
    const { url } = await start()
    expect(await post(url, '/charges', null, ok)).toMatchObject({
      status: 400,
      body: { error: { code: 'idempotency_key_required' } },
    })
    for (const [key, body, code] of [
      ['', ok, 'idempotency_key_required'],
      ['x'.repeat(256), ok, 'invalid_idempotency_key'],
      ['k', '{"amount":', 'invalid_json'],
      ['k', '', 'invalid_json'],
      ['k', '[]', 'invalid_json'],
      ['k', 'null', 'invalid_json'],
      ['k', 'x'.repeat(200_000), 'body_too_large'],
      ['k', { card: 'tok_ok' }, 'invalid_amount'],
      ['k', { ...ok, amount: '4200' }, 'invalid_amount'],
      ['k', { ...ok, amount: 0 }, 'invalid_amount'],
      ['k', { ...ok, amount: -1 }, 'invalid_amount'],
      ['k', { ...ok, amount: 1.5 }, 'invalid_amount'],
      ['k', { ...ok, amount: 2 ** 53 }, 'invalid_amount'],
      ['k', { ...ok, currency: 'euro' }, 'invalid_currency'],
      ['k', { ...ok, currency: 7 }, 'invalid_currency'],
      ['k', { amount: 1 }, 'invalid_request'],
      ['k', { ...ok, amuont: 1 }, 'unknown_parameter'],
    ] as const) {
      const answer = await post(url, '/charges', key, body)
      expect([answer.status, answer.body.error?.code], JSON.stringify(body).slice(0, 80)).toEqual([400, code])
    }
    for (const body of [{}, { charge: 1 }, { charge: 'ch', amount: 0 }, { charge: 'ch', reason: 1 }]) {
      expect((await post(url, '/refunds', 'k', body)).status).toBe(400)
    }
    expect(await list(url, '/charges')).toEqual([])
    expect(await post(url, '/charges', 'k', ok)).toMatchObject({ status: 200, replayed: null })
    expect((await fetch(`${url}/elsewhere`)).status).toBe(404)
  })
})

describe('refunds', () => {
  test('a charge is refunded once: the same key replays, another is told charge_already_refunded', async () => {
    const { url } = await start()
    const charge = await post(url, '/charges', 'k1', ok)
    const refund = await post(url, '/refunds', 'r1', { charge: charge.body.id, reason: 'wrong font' })
    expect(refund.body).toMatchObject({ charge: charge.body.id, amount: 4200, reason: 'wrong font', key: 'r1' })
    expect(await post(url, '/refunds', 'r1', { charge: charge.body.id, reason: 'wrong font' })).toEqual({
      ...refund,
      replayed: 'true',
    })
    const no = await post(url, '/refunds', 'r2', { charge: charge.body.id })
    expect(no).toMatchObject({ status: 400, replayed: null, body: { error: { code: 'charge_already_refunded' } } })
    expect(await post(url, '/refunds', 'r2', { charge: charge.body.id })).toEqual({ ...no, replayed: 'true' })
    expect(await list(url, '/refunds')).toEqual([refund.body])
    expect(await list(url, '/charges')).toEqual([{ ...charge.body, refunded: true, amountRefunded: 4200 }])
    // The charge's own key still gives its first answer.
    expect((await post(url, '/charges', 'k1', ok)).body).toEqual(charge.body)
  })

  test('parts are refunded until nothing is left, and never more, however many ask at once', async () => {
    const { url } = await start()
    const { body: charge } = await post(url, '/charges', 'k1', { amount: 100, card: 'tok_ok' })
    expect(charge).toMatchObject({ currency: 'usd' })
    const parts = await Promise.all(
      Array.from({ length: 8 }, (_, index) => post(url, '/refunds', `r${index}`, { charge: charge.id, amount: 30 })),
    )
    expect(parts.filter(({ status }) => status === 200)).toHaveLength(3)
    expect(parts.filter(({ body }) => body.error?.code === 'amount_too_large')).toHaveLength(5)
    expect(await list(url, '/charges')).toMatchObject([{ refunded: false, amountRefunded: 90 }])
    expect((await post(url, '/refunds', 'rest', { charge: charge.id })).body).toMatchObject({ amount: 10 })
    expect(await list(url, '/charges')).toMatchObject([{ refunded: true, amountRefunded: 100 }])
    expect(await post(url, '/refunds', 'none', { charge: 'ch_none' })).toMatchObject({
      status: 404,
      body: { error: { code: 'charge_not_found' } },
    })
  })

  test('the reason steers faults by whole words: declined, lost, down', async () => {
    const { url } = await start()
    const charges = await Promise.all([1, 2, 3].map((n) => post(url, '/charges', `k${n}`, ok)))
    const [a, b, c] = charges.map(({ body }) => body.id)

    const no = await post(url, '/refunds', 'a', { charge: a, reason: 'declined' })
    expect(no).toMatchObject({ status: 402, body: { error: { code: 'refund_declined' } } })
    expect(await post(url, '/refunds', 'a2', { charge: a, reason: 'download failed, lostness' })).toMatchObject({
      status: 200,
    })

    await expect(post(url, '/refunds', 'b', { charge: b, reason: 'answer lost' })).rejects.toThrow(TypeError)
    expect(await post(url, '/refunds', 'b', { charge: b, reason: 'answer lost' })).toMatchObject({ replayed: 'true' })

    const down = []
    for (let call = 0; call < 3; call++) down.push(await post(url, '/refunds', 'c', { charge: c, reason: 'down' }))
    expect(down.map(({ status }) => status)).toEqual([503, 503, 200])
    expect((await list(url, '/refunds')).map(({ key }) => key)).toEqual(['a2', 'b', 'c'])
  })
})

describe('test cards', () => {
  test('tok_declined and unknown cards are a definitive no, replayed under the same key', async () => {
    const { url } = await start()
    for (const [card, code] of [
      ['tok_declined', 'card_declined'],
      ['tok_nonesuch', 'invalid_card'],
    ] as const) {
      const first = await post(url, '/charges', card, { ...ok, card })
      expect(first).toMatchObject({ status: 402, replayed: null, body: { error: { code } } })
      expect(await post(url, '/charges', card, { ...ok, card })).toEqual({ ...first, replayed: 'true' })
    }
    expect(await list(url, '/charges')).toEqual([])
  })

  test('tok_lost charges, cuts the connection the first time, and replays after that', async () => {
    const { url } = await start()
    await post(url, '/charges', 'warm', ok) // so that the cut connection is one that was used before
    await expect(post(url, '/charges', 'k1', { ...ok, card: 'tok_lost' })).rejects.toThrow(TypeError)
    expect(await list(url, '/calls')).toContainEqual({ key: 'k1', path: '/charges', count: 1 })
    const [, lost] = await list(url, '/charges')
    expect(lost).toMatchObject({ key: 'k1', card: 'tok_lost' })
    expect(await post(url, '/charges', 'k1', { ...ok, card: 'tok_lost' })).toMatchObject({
      status: 200,
      replayed: 'true',
      body: lost,
    })
    expect(await list(url, '/charges')).toHaveLength(2)
  })

  test('tok_down is 503 twice for each key, then works', async () => {
    const { url } = await start()
    for (const key of ['k1', 'k2']) {
      const statuses = []
      for (let call = 0; call < 4; call++) {
        statuses.push((await post(url, '/charges', key, { ...ok, card: 'tok_down' })).status)
      }
      expect(statuses).toEqual([503, 503, 200, 200])
    }
    expect(await list(url, '/charges')).toHaveLength(2)
  })

  test('tok_slow takes 2 s, and charges once when asked twice meanwhile or when its caller hangs up', async () => {
    const { url } = await start()
    const since = performance.now()
    const slow = { ...ok, card: 'tok_slow' }
    const hangUp = fetch(`${url}/charges`, {
      method: 'POST',
      headers: { 'idempotency-key': 'gone' },
      body: JSON.stringify(slow),
      signal: AbortSignal.timeout(300),
    })
    const [gone, first, second] = await Promise.allSettled([
      hangUp,
      post(url, '/charges', 'k1', slow),
      post(url, '/charges', 'k1', slow),
    ])
    expect(gone.status).toBe('rejected')
    expect(performance.now() - since).toBeGreaterThan(1_900)
    if (first.status === 'rejected' || second.status === 'rejected') throw new Error('a slow charge got no answer')
    expect(first.value.body).toEqual(second.value.body)
    await expect.poll(() => list(url, '/charges')).toHaveLength(2)
    const again = performance.now()
    expect(await post(url, '/charges', 'gone', slow)).toMatchObject({ status: 200, replayed: 'true' })
    expect(performance.now() - again).toBeLessThan(1_500)
    expect(await list(url, '/charges')).toHaveLength(2)
  })
})

describe('the process', () => {
  test('V2: kill -9 loses no charge, refund, key or count that was answered', async () => {
    const before = await start()
    const charge = await post(before.url, '/charges', 'k1', ok)
    const no = await post(before.url, '/charges', 'k2', { ...ok, card: 'tok_declined' })
    const refund = await post(before.url, '/refunds', 'r1', { charge: charge.body.id })
    await post(before.url, '/charges', 'k3', { ...ok, card: 'tok_down' })
    await expect(post(before.url, '/charges', 'k4', { ...ok, card: 'tok_lost' })).rejects.toThrow()
    const lists = async (url: string) => [
      await list(url, '/charges'),
      await list(url, '/refunds'),
      await list(url, '/calls'),
    ]
    const kept = await lists(before.url)
    await end(before.child, 'SIGKILL')

    const { url } = await start()
    expect(await lists(url)).toEqual(kept)
    expect(await post(url, '/charges', 'k1', ok)).toEqual({ ...charge, replayed: 'true' })
    expect(await post(url, '/charges', 'k2', { ...ok, card: 'tok_declined' })).toEqual({ ...no, replayed: 'true' })
    expect(await post(url, '/refunds', 'r1', { charge: charge.body.id })).toEqual({ ...refund, replayed: 'true' })
    expect((await post(url, '/charges', 'k3', { ...ok, card: 'tok_down' })).status).toBe(503)
    expect((await post(url, '/charges', 'k3', { ...ok, card: 'tok_down' })).status).toBe(200)
    expect(await post(url, '/charges', 'k4', { ...ok, card: 'tok_lost' })).toMatchObject({ replayed: 'true' })
    expect(await post(url, '/charges', 'k1', { ...ok, amount: 1 })).toMatchObject({ status: 409 })
  })

  test('V2: kill -9 under load, then every call again with its key: one charge a key, the answered ones unchanged', async () => {
    const before = await start()
    const keys = Array.from({ length: 1_000 }, (_, index) => `key-${index}`)
    const answered = new Map<string, Answer>()
    const waiting = [...keys]
    const sender = async () => {
      for (let key = waiting.shift(); key !== undefined; key = waiting.shift()) {
        const answer = await post(before.url, '/charges', key, ok)
        answered.set(key, answer.body)
        if (answered.size === 200) before.child.kill('SIGKILL')
      }
    }
    const senders = await Promise.allSettled(Array.from({ length: 64 }, sender))
    await end(before.child, 'SIGKILL')
    expect(senders.every(({ status }) => status === 'rejected')).toBe(true)
    expect(answered.size).toBeLessThan(keys.length)

    const { url } = await start()
    for (const key of keys) {
      const { status, body } = await post(url, '/charges', key, ok)
      expect(status).toBe(200)
      if (answered.has(key)) expect(body).toEqual(answered.get(key))
    }
    const charges = await list(url, '/charges')
    expect(charges).toHaveLength(keys.length)
    expect(new Set(charges.map(({ key }) => key)).size).toBe(keys.length)
  })

  test('SIGTERM answers what is under way, then ends with 0', async () => {
    const { url, child } = await start()
    const slow = post(url, '/charges', 'k1', { ...ok, card: 'tok_slow' })
    await sleep(300)
    child.kill('SIGTERM')
    await sleep(100)
    await expect(fetch(`${url}/charges`)).rejects.toThrow(TypeError)
    expect(await slow).toMatchObject({ status: 200 })
    expect(await end(child, 'SIGTERM')).toBe(0)
    const { url: after } = await start()
    expect(await list(after, '/charges')).toHaveLength(1)
  })

  test('SIGINT ends it with 0, and so does a parent that goes, if and only if it was told so', async () => {
    const alone = await start()
    expect(await end(alone.child, 'SIGINT')).toBe(0)

    const child = await start('--parent-stdin')
    child.child.stdin!.end()
    const [code] = (await once(child.child, 'exit')) as [number | null]
    expect(code).toBe(0)

    const independent = await start()
    independent.child.stdin!.end()
    await sleep(300)
    expect(await list(independent.url, '/charges')).toEqual([])
  })

  test('a stop is not held up by a client that never finishes its request', async () => {
    const { url, child } = await start()
    const socket = connect(Number(new URL(url).port), '127.0.0.1')
    socket.on('error', () => {}) // the cut is what is waited for
    socket.write('POST /charges HTTP/1.1\r\nHost: x\r\nIdempotency-Key: k\r\nContent-Length: 100\r\n\r\n{')
    await expect.poll(() => list(url, '/calls')).toHaveLength(1)
    const since = performance.now()
    expect(await end(child, 'SIGTERM')).toBe(0)
    expect(performance.now() - since).toBeLessThan(6_000)
  })

  test('what cannot work is one clear line and exit 1', async () => {
    const { url } = await start()
    const corrupt = join(folder, 'corrupt.sqlite')
    writeFileSync(corrupt, 'not a database, and long enough to be read as the header of one. '.repeat(20))
    for (const [options, says] of [
      [['--port', new URL(url).port, '--data', join(folder, 'b.sqlite')], 'EADDRINUSE'],
      [['--port', new URL(url).port, '--data', join(folder, 'b.sqlite'), '--parent-stdin'], 'EADDRINUSE'],
      [['--port', '0', '--data', corrupt], 'not a database'],
      [['--port', '0'], '--data'],
      [['--port', 'http', '--data', data], '--port'],
      [['--port', '70000', '--data', data], '--port'],
      [['--prot', '0', '--data', data], '--prot'],
    ] as const) {
      const child = run(...options)
      const [error, [code]] = await Promise.all([text(child.stderr!), once(child, 'exit') as Promise<[number | null]>])
      const lines = error.split('\n').filter((line) => line.startsWith('payments: '))
      expect(lines.join(), options.join(' ')).toContain(says)
      expect(error).not.toContain('    at ')
      expect(code).toBe(1)
    }
  })
})

describe('the client (V2: how an outcome is told)', () => {
  class Rejected extends Error {}
  const call = (key: string, signal = AbortSignal.timeout(10_000)) => ({
    key,
    signal,
    reject: (code: string, message: string): never => {
      throw new Rejected(`${code}: ${message}`)
    },
  })

  afterEach(() => {
    delete process.env['PAYMENTS_URL']
  })

  test('V2: a yes is returned, and returned again under the same key', async () => {
    const { url } = await start()
    process.env['PAYMENTS_URL'] = `${url}/`
    const charge = await payments.charge(ok, call('k1'))
    expect(charge).toMatchObject({ ...ok, key: 'k1' })
    expect(await payments.charge(ok, call('k1'))).toEqual(charge)
    const refund = await payments.refund({ charge: charge.id, reason: 'wrong font' }, call('r1'))
    expect(refund).toMatchObject({ charge: charge.id, amount: 4200 })
    expect(await list(url, '/calls')).toHaveLength(2)
  })

  test('V2: a definitive no is rejected with its code', async () => {
    const { url } = await start()
    process.env['PAYMENTS_URL'] = url
    const charge = await payments.charge(ok, call('k1'))
    await payments.refund({ charge: charge.id }, call('r1'))
    for (const [promise, code] of [
      [payments.charge({ ...ok, card: 'tok_declined' }, call('k2')), 'card_declined'],
      [payments.charge({ ...ok, card: 'tok_x' }, call('k3')), 'invalid_card'],
      [payments.charge({ ...ok, amount: 0 }, call('k4')), 'invalid_amount'],
      [payments.refund({ charge: charge.id }, call('r2')), 'charge_already_refunded'],
      [payments.refund({ charge: 'ch_x' }, call('r3')), 'charge_not_found'],
    ] as const) {
      const error: unknown = await promise.catch((thrown: unknown) => thrown)
      expect(error).toBeInstanceOf(Rejected)
      expect(String(error)).toContain(code)
    }
  })

  test('V2: an unknown outcome is thrown, not rejected, and the same key then finds it', async () => {
    const { url, child } = await start()
    process.env['PAYMENTS_URL'] = url
    const unknown = async (promise: Promise<unknown>) => {
      const error: unknown = await promise.catch((thrown: unknown) => thrown)
      expect(error).toBeInstanceOf(Error)
      expect(error).not.toBeInstanceOf(Rejected)
    }
    await unknown(payments.charge({ ...ok, card: 'tok_lost' }, call('lost')))
    expect(await payments.charge({ ...ok, card: 'tok_lost' }, call('lost'))).toMatchObject({ key: 'lost' })
    await unknown(payments.charge({ ...ok, card: 'tok_down' }, call('down')))
    await unknown(payments.charge({ ...ok, card: 'tok_down' }, call('down')))
    expect(await payments.charge({ ...ok, card: 'tok_down' }, call('down'))).toMatchObject({ key: 'down' })
    await unknown(payments.charge({ ...ok, card: 'tok_slow' }, call('slow', AbortSignal.timeout(200))))
    // The key has paid for another request: that is no reason to believe that nothing was paid.
    await unknown(payments.charge({ ...ok, amount: 1 }, call('lost')))
    await end(child, 'SIGKILL')
    await unknown(payments.charge(ok, call('gone')))
  })

  test('V2: what a gateway answers in the provider’s place is an unknown outcome, whatever its status', async () => {
    const answers: RequestListener[] = [
      (_, response) => response.writeHead(404).end('<h1>Not Found</h1>'),
      (_, response) => response.writeHead(404).end('{"message":"no such route"}'),
      (_, response) => response.writeHead(200).end('<h1>Welcome</h1>'),
      (_, response) => response.writeHead(200).end('{"data":[]}'),
      (_, response) => response.writeHead(302, { location: '/charges' }).end(),
      ...[401, 403, 408, 409, 425, 429, 500, 502, 503, 504].map(
        (status): RequestListener =>
          (_, response) =>
            response.writeHead(status).end('{"error":{"code":"c","message":"m"}}'),
      ),
    ]
    const gateway = createServer((request, response) =>
      answers[Number(request.headers['idempotency-key'])]!(request, response),
    )
    gateway.listen(0, '127.0.0.1')
    await once(gateway, 'listening')
    try {
      process.env['PAYMENTS_URL'] = `http://127.0.0.1:${(gateway.address() as AddressInfo).port}`
      for (const index of answers.keys()) {
        const error: unknown = await payments.charge(ok, call(String(index))).catch((thrown: unknown) => thrown)
        expect(error, `answer ${index}`).toBeInstanceOf(Error)
        expect(error, `answer ${index}`).not.toBeInstanceOf(Rejected)
      }
    } finally {
      gateway.closeAllConnections()
      gateway.close()
    }
  })
})
