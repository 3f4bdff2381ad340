import { cpSync, writeFileSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, expect, test } from 'vitest'
import { machine } from '../../src/server/machine.ts'
import { openSqlite } from '../../src/store/sqlite/store.ts'
import { endAll, newFolder, root, startPayments, startServer } from '../support/server.ts'
import type { TestServer } from '../support/server.ts'
import type { ShownAction } from './shop.ts'

afterAll(endAll)

const notes = join(root, 'test/startups/notes.ts')

interface Answered {
  readonly status: number
  readonly headers: Headers
  readonly action: ShownAction
}

async function post(server: TestServer, token: string, path: string, key: string, input: object): Promise<Answered> {
  const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json', 'idempotency-key': key }
  const response = await fetch(server.url + path, { method: 'POST', headers, body: JSON.stringify(input) })
  return { status: response.status, headers: response.headers, action: (await response.json()) as ShownAction }
}

async function get<T>(server: TestServer, token: string, path: string): Promise<T> {
  const response = await fetch(server.url + path, { headers: { authorization: `Bearer ${token}` } })
  return (await response.json()) as T
}

function expectOne<T>(all: readonly T[]): T {
  const [one] = all
  if (one === undefined || all.length > 1) throw new Error(`one was expected, there are ${all.length}`)
  return one
}

async function until(is: () => Promise<boolean>, ms = 10_000): Promise<void> {
  const deadline = Date.now() + ms
  while (!(await is())) {
    if (Date.now() > deadline) throw new Error(`it did not come true within ${ms} ms`)
    await sleep(20)
  }
}

/** Crashes counted under each pending Action, as a start that takes them over would find them; looked up in a copy. */
async function crashesOnDisk(data: string): Promise<number[]> {
  const copy = join(newFolder('copy'), 'data')
  cpSync(dirname(data), copy, { recursive: true, filter: (path) => !path.endsWith('-shm') })
  const onDoubt = (reason: Error): void => {
    throw reason
  }
  const store = await openSqlite(join(copy, basename(data)), { role: 'server', machine, onDoubt })
  try {
    return (await store.pending(0, 1000)).map(({ crashes }) => crashes)
  } finally {
    await store.close()
  }
}

test('V4: an Action whose process was killed within a step settles after a restart, though nobody asks again', async () => {
  await using payments = await startPayments()
  await using server = await startServer({ env: { PAYMENTS_URL: payments.url } })
  const token = await server.token()
  const input = { offer: 'offer_serif_family', card: 'tok_slow' }
  const sent = await post(server, token, '/glyphs.store/orders/place?mode=send', 'stuck', input)
  expect(sent.status).toBe(202)
  await until(async () => (await payments.calls()).length === 1)
  await server.kill9()

  await server.start()
  const from = performance.now()
  const action = await get<ShownAction>(server, token, `/glyphs.store/actions/${sent.action.id}?wait=10`)
  expect(performance.now() - from).toBeLessThan(5_000)
  expect(action).toMatchObject({ status: 'succeeded', attempts: 2 })
  expect(await payments.charges()).toHaveLength(1)
  // The derived key is the same in both attempts (V2).
  expect(await payments.calls()).toMatchObject([{ count: 2 }])
})

test('V4: an Action that takes the process down ends with `resume-limit` after 20 crashes; 100 beside it settle', async () => {
  await using server = await startServer({ startup: notes })
  const token = await server.token('checkout', ['*'], { namespace: 'notes.test' })
  const ordinary = await Promise.all(
    Array.from({ length: 100 }, (_, n) =>
      post(server, token, '/notes.test/notes/ponder?mode=send', `ordinary-${n}`, { text: `${n}`, ms: 400 }),
    ),
  )
  expect(ordinary.map(({ status }) => status)).toEqual(Array.from({ length: 100 }, () => 202))
  const ended = new Promise<number | null>((resolve) => server.child.once('exit', (code) => resolve(code)))
  // Its answer may or may not get out before the end.
  const poison = await post(server, token, '/notes.test/notes/die?mode=send', 'poison', {}).catch(
    (error: unknown) => error,
  )
  expect(poison instanceof TypeError || (poison as Answered).status === 202).toBe(true)
  expect(await ended).toBe(9)

  let crashes = 1
  const isSettled = async (): Promise<boolean> => {
    const { data } = await get<{ data: ShownAction[] }>(server, token, '/notes.test/actions?key=poison')
    return expectOne(data).status !== 'pending'
  }
  for (let settled = false; !settled;) {
    try {
      await server.start()
      settled = await isSettled()
      while (!settled && server.child.exitCode === null) settled = await isSettled()
    } catch (error) {
      // It took the process down before that listened, or while we asked.
      if (!String(error).includes('ended before') && !(error instanceof TypeError)) throw error
    }
    if (settled) break
    await until(async () => server.child.exitCode !== null)
    crashes++
    expect(crashes).toBeLessThanOrEqual(20)
  }

  expect(crashes).toBe(20)
  const { data } = await get<{ data: ShownAction[] }>(server, token, '/notes.test/actions?key=poison')
  expect(data).toMatchObject([{ status: 'failed', error: { code: 'resume-limit' } }])
  for (const { action } of ordinary) {
    const now = await get<ShownAction>(server, token, `/notes.test/actions/${action.id}?wait=10`)
    expect(now.status).toBe('succeeded')
  }
  const inbox = await get<{ data: { kind: string; action: string; status: string }[] }>(
    server,
    token,
    '/notes.test/inbox',
  )
  expect(inbox.data).toMatchObject([{ kind: 'failed', status: 'open' }])
  expect((await server.cli('verify')).status).toBe(0)
}, 120_000)

test('V4: each death under an Action counts, and progress begins the count anew', async () => {
  await using server = await startServer({ startup: notes })
  const token = await server.token('checkout', ['*'], { namespace: 'notes.test' })
  const files = [join(newFolder('gate'), 'one'), join(newFolder('gate'), 'two')] as const
  const input = { text: 'after all', files }
  const sent = await post(server, token, '/notes.test/notes/wait?mode=send', 'waits', input)
  const isAt = async (crashes: number): Promise<void> =>
    until(async () => (await crashesOnDisk(server.data)).join() === `${crashes}`)
  for (const deaths of [1, 2, 3]) {
    await isAt(deaths) // as it is if the process dies now
    await server.kill9()
    await server.start()
  }
  await isAt(4)
  writeFileSync(files[0], '')
  await isAt(1)
  await server.kill9()
  await server.start()
  writeFileSync(files[1], '')
  const action = await get<ShownAction>(server, token, `/notes.test/actions/${sent.action.id}?wait=10`)
  expect(action).toMatchObject({ status: 'succeeded', attempts: 5 })
}, 60_000)

test('V4: a graceful stop is no crash: what still ran is given back and resumed', async () => {
  await using server = await startServer({ startup: notes, args: ['--grace', '0.2'] })
  const token = await server.token('checkout', ['*'], { namespace: 'notes.test' })
  const file = join(newFolder('gate'), 'open')
  const sent = await post(server, token, '/notes.test/notes/wait?mode=send', 'waits', {
    text: 'after all',
    files: [file],
  })
  for (let stops = 0; stops < 3; stops++) {
    expect(await server.stop()).toBe(0)
    expect(await crashesOnDisk(server.data)).toEqual([0])
    await server.start()
    await until(async () => (await crashesOnDisk(server.data))[0] === 1) // it runs again
  }
  writeFileSync(file, '')
  const action = await get<ShownAction>(server, token, `/notes.test/actions/${sent.action.id}?wait=10`)
  expect(action).toMatchObject({ status: 'succeeded', attempts: 4 })
}, 60_000)

test('V4: SIGTERM answers what was accepted, takes nothing more, and ends with 0', async () => {
  await using server = await startServer({ startup: notes })
  const token = await server.token('checkout', ['*'], { namespace: 'notes.test' })
  const accepted = Array.from({ length: 10 }, (_, n) =>
    post(server, token, '/notes.test/notes/ponder', `accepted-${n}`, { text: `${n}`, ms: 700 }),
  )
  await until(async () => (await crashesOnDisk(server.data)).length === 10)
  const stopped = server.stop()
  await sleep(100)
  // Refused at the door, or not even let in: nothing is on record.
  const late = await post(server, token, '/notes.test/notes/write', 'late', { text: 'late' }).catch(
    (error: unknown) => error,
  )
  expect(late instanceof TypeError || (late as Answered).status === 503).toBe(true)
  for (const { status, action } of await Promise.all(accepted)) {
    expect(status).toBe(200)
    expect(action.status).toBe('succeeded')
  }
  expect(await stopped).toBe(0)
  expect(await crashesOnDisk(server.data)).toEqual([])
  await server.start()
  const again = await post(server, token, '/notes.test/notes/write', 'late', { text: 'late' })
  expect(again.status).toBe(200)
  expect(again.headers.get('idempotent-replayed')).toBeNull()
}, 60_000)
