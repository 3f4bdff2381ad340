import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { track } from '../support/processes.ts'
import { newFolder, root, startPayments, startServer, type TestServer } from '../support/server.ts'
import { caller, eventually, type Caller } from './wire.ts'

// What docs/events.md shows is run as it stands there; only the address is the test server's.

const blocks = [...readFileSync(join(root, 'docs/events.md'), 'utf8').matchAll(/```(\w+)\n([\s\S]*?)```/g)]
const of = (language: string) => blocks.filter(([, name]) => name === language).map(([, , text = '']) => text)

describe('docs/events.md', () => {
  let server: TestServer
  let shop: Caller
  let payments: Awaited<ReturnType<typeof startPayments>>
  let env: NodeJS.ProcessEnv
  const here = (text: string) => text.replaceAll('http://127.0.0.1:4000', server.url)

  beforeAll(async () => {
    payments = await startPayments()
    server = await startServer({ env: { PAYMENTS_URL: payments.url } })
    shop = caller(server, 'glyphs.store', await server.token())
    env = { ...process.env, STARTUP_BUILDER_API_KEY: shop.token }
    await shop.action('orders/place', { offer: 'offer_serif_family' })
  })
  afterAll(async () => {
    await server[Symbol.asyncDispose]()
    await payments.stop()
  })

  test('E1, E2: each command does what is said of it', async () => {
    const told = []
    for (const command of of('bash')) {
      // A stream does not end by itself.
      const bounded = here(command).replace('curl -N', 'curl -N --max-time 1')
      const ran = promisify(execFile)('bash', ['-c', bounded], { env })
      told.push((await ran.catch((error: unknown) => error as { stdout: string })).stdout)
    }
    const [list = '', stream = '', resumed = '', usage = ''] = told
    expect(JSON.parse(list)).toMatchObject({ data: [{ seq: 1 }, { seq: 2 }], next: '2' })
    expect(stream).toMatch(/^retry: \d+\n\nid: 1\ndata: \{.*"seq":1,.*\}\n\nid: 2\n/)
    expect(stream).toContain('"type":"Order.placed"')
    expect(resumed).toMatch(/^retry: \d+\n\nid: 3\n/)
    expect(JSON.parse(usage)).toMatchObject({ next: null })
    expect(usage).toContain('"verb":"Order.place","worker":"checkout"')
    expect(told).toHaveLength(4)
  })

  test('E1: an Event has the members that are shown', async () => {
    const shown = JSON.parse(of('json')[0] ?? '') as object
    const { data } = (await shop.get('events')).json<{ data: { type: string }[] }>()
    const placed = data.find(({ type }) => type === 'Order.placed')
    expect(Object.keys(placed ?? {})).toEqual(Object.keys(shown))
  })

  test('E1: the program handles each Event once, over its own end too', async () => {
    const folder = newFolder('follow')
    writeFileSync(join(folder, 'follow.mjs'), here(of('js')[0] ?? ''))
    const lines: string[] = []
    const run = () => {
      const child = spawn(process.execPath, ['follow.mjs'], { cwd: folder, env, stdio: ['ignore', 'pipe', 'inherit'] })
      track(child)
      child.stdout.setEncoding('utf8').on('data', (text: string) => lines.push(...text.trim().split('\n')))
      return child
    }
    const head = async () => (await shop.get('events')).json<{ data: unknown[] }>().data.length
    const caughtUp = () =>
      eventually(async () => {
        expect(lines).toHaveLength(await head())
        expect(existsSync(join(folder, 'position')) && readFileSync(join(folder, 'position'), 'utf8')).toBe(
          String(lines.length),
        )
      }, 20_000)
    const first = run()
    await caughtUp()
    await shop.action('orders/place', { offer: 'offer_serif_family' })
    await caughtUp()
    first.kill('SIGKILL')
    await once(first, 'exit')
    await shop.action('orders/place', { offer: 'offer_serif_family' })
    const second = run()
    await caughtUp()
    second.kill('SIGKILL')
    await once(second, 'exit')
    expect(lines.map((line) => Number(line.split(' ')[0]))).toEqual(lines.map((_, index) => index + 1))
    expect(lines.at(-1)).toMatch(/^\d+ Order\.placed act_/)
  })
})
