import { spawn, spawnSync } from 'node:child_process'
import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { createServer } from 'node:net'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { afterEach, describe, expect, test } from 'vitest'
import { newFolder, root, startPayments } from '../support/server.ts'

// `npm start` runs scripts/start.ts after the set-up that `npm test` has done as well.

const started: ChildProcess[] = []

afterEach(async () => {
  for (const child of started.splice(0)) {
    if (child.exitCode !== null || child.signalCode !== null) continue
    child.kill('SIGTERM')
    await once(child, 'exit')
  }
})

function start(env: Record<string, string>): ChildProcess {
  const child = spawn(process.execPath, [join(root, 'scripts/start.ts')], {
    env: { ...process.env, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  started.push(child)
  return child
}

/** Waits until a start has said how to call it; gives the command to paste, exactly as it stands there. */
async function welcomed(child: ChildProcess): Promise<{ url: string; command: string; said: string }> {
  let said = ''
  let failed = ''
  child.stderr?.setEncoding('utf8').on('data', (chunk: string) => (failed += chunk))
  child.stdout?.setEncoding('utf8').on('data', (chunk: string) => (said += chunk))
  await expect.poll(() => said.includes('Paste it twice') || child.exitCode !== null, { timeout: 20_000 }).toBe(true)
  expect(failed).toBe('')
  const command = /^curl (?:.*\\\n)*.*$/m.exec(said)?.[0] ?? ''
  const url = /http:\/\/127\.0\.0\.1:\d+/.exec(command)?.[0] ?? ''
  return { url, command, said }
}

/** Does what the command says. A shell splits it into words, as it would for a person who pastes it. */
async function paste(
  command: string,
): Promise<{ status: number; replayed: string | null; action: Record<string, unknown> }> {
  const words = spawnSync('sh', ['-c', `curl() { printf '%s\\0' "$@"; }\n${command}`], { encoding: 'utf8' })
  expect(words.stderr).toBe('')
  const headers: [string, string][] = []
  let [method, url, body] = ['GET', '', '']
  const args = words.stdout.split('\0').slice(0, -1)
  for (let arg = args.shift(); arg !== undefined; arg = args.shift()) {
    if (arg === '-i') continue
    else if (arg === '-X') method = args.shift() ?? ''
    else if (arg === '-d') body = args.shift() ?? ''
    else if (arg === '-H') headers.push((args.shift() ?? '').split(': ') as [string, string])
    else url = arg
  }
  const response = await fetch(url, { method, headers, body })
  const action = (await response.json()) as Record<string, unknown>
  return { status: response.status, replayed: response.headers.get('idempotent-replayed'), action }
}

describe('npm start', () => {
  test('K4: the printed command places an Order; pasted twice, and after a restart too, it is the same Action', async () => {
    const folder = newFolder('start')
    const first = start({ PORT: '0', DATA: folder })
    const { command, url } = await welcomed(first)
    const once_ = await paste(command)
    expect(once_).toMatchObject({ status: 200, replayed: null })
    expect(once_.action).toMatchObject({
      status: 'succeeded',
      verb: 'Order.place',
      worker: 'checkout',
      idempotencyKey: 'cart_8812-checkout',
    })
    expect(await paste(command)).toEqual({ ...once_, replayed: 'true' })

    first.kill('SIGINT')
    expect((await once(first, 'exit'))[0]).toBe(0)
    await expect(fetch(`${url}/healthz`)).rejects.toThrow(TypeError)

    const second = start({ PORT: '0', DATA: folder })
    const again = await welcomed(second)
    expect(again.command).not.toBe(command)
    expect(await paste(again.command)).toEqual({ ...once_, replayed: 'true' })
  })

  test('PAYMENTS_URL points at a provider that runs elsewhere', async () => {
    const payments = await startPayments()
    const { command } = await welcomed(start({ PORT: '0', DATA: newFolder('start'), PAYMENTS_URL: payments.url }))
    expect(await paste(command)).toMatchObject({ status: 200 })
    expect(await payments.charges()).toHaveLength(1)
  })

  test('a port in use is one clear line, and nothing is left running', async () => {
    const other = createServer().listen(0, '127.0.0.1')
    await once(other, 'listening')
    const { port } = other.address() as AddressInfo
    const child = start({ PORT: String(port), DATA: newFolder('start') })
    const [said, failed, [status]] = await Promise.all([
      text(child.stdout!),
      text(child.stderr!),
      once(child, 'exit') as Promise<[number | null]>,
    ])
    expect({ said, status }).toEqual({ said: '', status: 1 })
    expect(failed).toBe(
      `npm start: port ${port} is in use: stop what listens there, or run PORT=${port + 1} npm start\n`,
    )
    other.close()
  })

  test('killed with -9, it takes what it started along', async () => {
    const child = start({ PORT: '0', DATA: newFolder('start') })
    const { url } = await welcomed(child)
    child.kill('SIGKILL')
    await expect
      .poll(
        () =>
          fetch(`${url}/healthz`).then(
            () => true,
            () => false,
          ),
        { timeout: 10_000 },
      )
      .toBe(false)
  })
})
