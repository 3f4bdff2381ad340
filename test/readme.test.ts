import { execFile } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, describe, expect, test } from 'vitest'
import { endAll, newFolder, root, startPayments, startServer, startupFile } from './support/server.ts'

// What README shows is run as it stands there; only the address is the test server's.

const readme = readFileSync(join(root, 'README.md'), 'utf8')

function block(language: string, containing: string): string {
  const blocks = [...readme.matchAll(/```(\w+)\n([\s\S]*?)```/g)]
  const found = blocks.find(([, name, text]) => name === language && text?.includes(containing))
  if (found?.[2] === undefined) throw new Error(`README has no ${language} block with ${containing}`)
  return found[2]
}

async function shell(command: string, env: Record<string, string>): Promise<string> {
  const { stdout } = await promisify(execFile)('bash', ['-c', command], { env: { ...process.env, ...env } })
  return stdout
}

describe('README', () => {
  afterAll(() => endAll())

  test('K4: the curl places an Order, and pasted twice it shows the same Action, replayed', async () => {
    await using payments = await startPayments()
    await using server = await startServer({ env: { PAYMENTS_URL: payments.url } })
    const env = { STARTUP_BUILDER_API_KEY: await server.token() }
    const curl = block('bash', 'cart_8812-checkout').replace('http://127.0.0.1:4000', server.url)
    const [first, second] = [await shell(curl, env), await shell(curl, env)]
    expect(first).toMatch(/^HTTP\/1.1 200/)
    expect(first).not.toContain('Idempotent-Replayed')
    expect(second).toContain('Idempotent-Replayed: true')
    const bodyOf = (answer: string) => answer.split('\r\n\r\n')[1]
    expect(bodyOf(second)).toBe(bodyOf(first))
    const other = await shell(curl.replace('offer_serif_family', 'offer_mono_family'), env)
    expect(other).toMatch(/^HTTP\/1.1 409/)
    expect(await payments.charges()).toHaveLength(1)
  })

  test('S4: the definition is served as it stands, by the commands that follow it', async () => {
    const data = join(newFolder('readme'), 'shop.db')
    const file = startupFile({ source: block('ts', 'Order.place') }, data)
    writeFileSync(
      join(dirname(file), 'cards.ts'),
      `export const chargeCard = async (_: unknown, key: string) => ({ id: 'ch_' + key })\n`,
    )
    await using server = await startServer({ startup: file, data })
    const commands = block('bash', 'worker add').trim().split('\n')
    expect(commands[0]).toMatch(/^npx startup-builder serve startup\.ts --data \S+ --port 4000$/)
    const add = commands[1]
      ?.replace(/--data \S+/, `--data ${data}`)
      .replace('npx startup-builder', `node ${join(root, 'dist/cli/main.js')}`)
    const { token } = JSON.parse(await shell(add ?? '', {})) as { token: string }
    const answer = await fetch(`${server.url}/glyphs.store/orders/place`, {
      method: 'POST',
      headers: { authorization: `Bearer ${token}`, 'idempotency-key': 'readme', 'content-type': 'application/json' },
      body: '{"offer":"offer_nobody"}',
    })
    expect(await answer.json()).toMatchObject({ status: 'refused', fix: { code: 'record-not-found' } })
  })
})
