import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { describe, expect, test } from 'vitest'
import { connectRaw, rawMessage } from '../support/raw.ts'
import { root } from '../support/server.ts'
import { caller, expectProblem, newKey, startKiln, stores } from './wire.ts'
import type { Page } from './wire.ts'

const sleep = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms))

describe.each(stores)('faults around the server, over %s', (store) => {
  const start = async (options = {}) => {
    const server = await startKiln(store, options)
    const token = await server.token('unlucky', ['*'], { namespace: 'kiln.test' })
    return { server, kiln: caller(server, 'kiln.test', token) }
  }

  test('R1: while the store cannot be written it is 503 store-unavailable, nothing is recorded, and the same key runs once after', async () => {
    const { server, kiln } = await start()
    const [key, replayed] = [newKey(), newKey()]
    await kiln.action('orders/place', { total: 1 }, { key: replayed })
    const other = new DatabaseSync(server.data)
    other.exec('BEGIN IMMEDIATE') // as a backup or an administrator's tool that does not let go
    const asked = ['do', 'send'].map((mode) => kiln.call('orders/place', { total: 2 }, { key: `${key}-${mode}`, mode }))
    // What is on record goes on being read and replayed meanwhile.
    const again = await kiln.call('orders/place', { total: 1 }, { key: replayed })
    expect(again.header('idempotent-replayed')).toBe('true')
    for (const answer of await Promise.all(asked)) {
      expect(expectProblem(answer, 'store-unavailable')['retryable']).toBe(true)
      expect(answer.header('retry-after')).toMatch(/^\d+$/)
    }
    other.exec('ROLLBACK')
    other.close()
    for (const mode of ['do', 'send']) {
      expect(await kiln.recorded(`${key}-${mode}`)).toEqual([])
      const fresh = await kiln.call('orders/place', { total: 2 }, { key: `${key}-${mode}`, mode })
      expect(fresh.header('idempotent-replayed')).toBeNull()
      expect([200, 202]).toContain(fresh.status)
      expect(await kiln.recorded(`${key}-${mode}`)).toHaveLength(1)
    }
    const { data } = (await kiln.get('events')).json<Page>()
    expect(data.length).toBeLessThanOrEqual(3)
    expect(await server.stop()).toBe(0)
  })

  test('V4: on SIGTERM it answers what it accepted, tells everything else 503 shutting-down, and ends with 0', async () => {
    const { server, kiln } = await start()
    const head = (key: string): [string, string][] => [
      ['Authorization', `Bearer ${kiln.token}`],
      ['Content-Type', 'application/json'],
      ['Idempotency-Key', key],
    ]
    const [slow, half, late] = [newKey('slow'), newKey('half'), newKey('late')]
    const [running, sending, idle] = await Promise.all([
      connectRaw(server.url),
      connectRaw(server.url),
      connectRaw(server.url),
    ])
    running.send(rawMessage('POST', '/kiln.test/orders/bake', head(slow), '{"ms":1500}'))
    sending.send(rawMessage('POST', '/kiln.test/orders/place', [...head(half), ['Content-Length', '11']]))
    idle.send(rawMessage('GET', '/readyz'))
    expect((await idle.response()).status).toBe(200)
    await sleep(150)
    const stopped = server.stop()
    expect(expectProblem(await sending.response(), 'shutting-down')['retryable']).toBe(true)
    idle.send(rawMessage('POST', '/kiln.test/orders/place', head(late), '{}'))
    expectProblem(await idle.response(), 'shutting-down')
    const answer = await running.response()
    expect(answer.json()).toMatchObject({ status: 'succeeded', idempotencyKey: slow })
    expect(answer.headers['connection']).toBe('close')
    expect(await running.closed()).toBe('ended')
    for (const connection of [running, sending, idle]) connection.destroy()
    expect(await stopped).toBe(0)
    await server.start()
    const after = caller(server, 'kiln.test', kiln.token)
    expect([await after.recorded(half), await after.recorded(late)]).toEqual([[], []])
    expect((await after.call('orders/bake', { ms: 1500 }, { key: slow })).text).toBe(answer.body)
    expect(await server.stop()).toBe(0)
  })

  test('V4: what still runs when the grace is over is given back, and settles at the next start', async () => {
    const { server, kiln } = await start({ args: ['--grace', '1'] })
    const key = newKey('long')
    const running = kiln.call('orders/bake', { ms: 3_000 }, { key }).catch(() => null)
    await sleep(200)
    const began = Date.now()
    expect(await server.stop()).toBe(0)
    expect(Date.now() - began).toBeLessThan(6_000)
    // Its caller was told that it is pending, or nothing at all: never that it is not on record.
    expect([null, 202]).toContain((await running)?.status ?? null)
    await server.start()
    const after = caller(server, 'kiln.test', kiln.token)
    const [action] = await after.recorded(key)
    const settled = await after.get(`actions/${action?.id}?wait=20`)
    expect(settled.json()).toMatchObject({ id: action?.id, status: 'succeeded' })
    expect(await server.stop()).toBe(0)
  })

  test('§11: a request that arrives too slowly is 408, and nothing of it is recorded', async () => {
    const { server, kiln } = await start({ nodeArgs: ['--import', join(root, 'test/fixtures/hurry.ts')] })
    const key = newKey('late')
    const lines: [string, string][] = [
      ['Authorization', `Bearer ${kiln.token}`],
      ['Content-Type', 'application/json'],
      ['Idempotency-Key', key],
      ['Content-Length', '11'],
    ]
    const whole = rawMessage('POST', '/kiln.test/orders/place', lines)
    for (const begun of [whole.subarray(0, 40), Buffer.concat([whole, Buffer.from('{"total"')])]) {
      const connection = await connectRaw(server.url)
      connection.send(begun)
      const told = expectProblem(await connection.response(), 'request-timeout')
      expect(told['retryable']).toBe(true)
      connection.finish()
      expect(await connection.closed()).toBe('ended')
      connection.destroy()
    }
    expect(await kiln.recorded(key)).toEqual([])
    expect((await kiln.call('orders/place', { total: 1 }, { key })).header('idempotent-replayed')).toBeNull()
    expect(await server.stop()).toBe(0)
  })
})
