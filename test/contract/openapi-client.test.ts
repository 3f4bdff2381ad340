import { execFile } from 'node:child_process'
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { beforeAll, describe, expect, test } from 'vitest'
import { newFolder, root, startPayments, startServer, type TestServer } from '../support/server.ts'

const run = promisify(execFile)
const bin = (name: string) => join(root, 'node_modules', name)

/** What somebody writes who has nothing of this platform but the client that was generated from its document. */
const usage = `
import { client } from './client/client.gen'
import { offerList, orderGet, orderPlace, orderRefund, type OrderPlaceData } from './client'

client.setConfig({ auth: process.env['TOKEN'] })

const place = (body: OrderPlaceData['body'], key: string, mode?: 'try') =>
  orderPlace({ body, headers: { 'Idempotency-Key': key }, ...(mode === undefined ? {} : { query: { mode } }) })

/** The members that the type of each answer has: what is misspelt here does not compile. */
async function main() {
  const offers = await offerList({ query: { active: true, limit: 1 } })
  const offer = offers.data?.data[0]
  if (offer === undefined) throw new Error('there is no Offer')
  const price: number = offer.price

  const first = await place({ offer: offer.$id }, 'cart_8812-checkout')
  const again = await place({ offer: offer.$id }, 'cart_8812-checkout')
  const dry = await place({ offer: offer.$id }, 'unused', 'try')
  if (first.data === undefined || first.data.mode === 'try') throw new Error('it was not placed')
  if (again.data === undefined || again.data.mode === 'try') throw new Error('it was not replayed')
  if (dry.data?.mode !== 'try') throw new Error('it was not tried')
  const verb: 'Order.place' = first.data.verb
  const seats: number | undefined = first.data.input.seats

  const other = await place({ offer: offer.$id, seats: 2 }, 'cart_8812-checkout')
  const mismatch = other.error
  if (mismatch?.code !== 'idempotency-mismatch') throw new Error('it was no mismatch')
  const differs: ('operation' | 'target' | 'input')[] = mismatch.differs

  const wrong = await place({ offer: offer.$id, seats: -1 }, 'cart_8813-checkout')
  const invalid = wrong.error
  if (invalid?.code !== 'invalid-input') throw new Error('it was accepted')
  const status: 400 = invalid.status

  const orderId = (first.data.output as { $id: string }).$id
  const order = await orderGet({ path: { id: orderId } })
  const refunded = await orderRefund({
    path: { id: orderId },
    body: { reason: 'twice' },
    headers: { 'Idempotency-Key': 'refund-1', 'Record-Version': String(order.data?.$version) },
  })

  // @ts-expect-error: an input without its required member
  void (() => place({}, 'key'))
  // @ts-expect-error: a member that the Verb does not know
  void (() => place({ offer: 'x', pirce: 1 }, 'key'))
  // @ts-expect-error: a durable call without a key
  void (() => orderPlace({ body: { offer: 'x' } }))

  process.stdout.write(
    JSON.stringify({
      price,
      verb,
      seats: seats ?? null,
      ids: [first.data.id, again.data.id],
      replayed: [first, again].map(({ response }) => response?.headers.get('Idempotent-Replayed') ?? null),
      dry: dry.data.changes.length,
      mismatch: [mismatch.firstAction, differs, mismatch.retryable],
      invalid: [status, invalid.errors.map(({ path }) => path)],
      order: [order.data?.$noun, order.data?.price, order.data?.status],
      refunded: refunded.data?.status,
    }),
  )
}
void main()
`

describe('§3: a client that a public generator makes of the document', () => {
  const folder = newFolder('generated')
  let server: TestServer
  let token: string

  beforeAll(async () => {
    const payments = await startPayments()
    server = await startServer({ env: { PAYMENTS_URL: payments.url } })
    token = await server.token('generated')
  })

  test('§3: places an Order, reads that a replay is one, and has its errors as typed problems', async () => {
    const url = `${server.url}/glyphs.store/openapi.json`
    const document = await fetch(url, { headers: { authorization: `Bearer ${token}` } })
    writeFileSync(join(folder, 'openapi.json'), await document.text())
    // The command of docs/openapi.md.
    const generator = bin('@hey-api/openapi-ts/bin/run.js')
    await run(process.execPath, [generator, '-i', 'openapi.json', '-o', 'client', '--silent'], { cwd: folder })
    expect(readdirSync(join(folder, 'client'))).toContain('sdk.gen.ts')

    writeFileSync(join(folder, 'use.ts'), usage)
    mkdirSync(join(folder, 'js'))
    writeFileSync(join(folder, 'js/package.json'), '{ "type": "commonjs" }\n')
    const options = ['--strict', '--module', 'commonjs', '--moduleResolution', 'bundler', '--target', 'es2023']
    const types = [
      '--types',
      'node',
      '--typeRoots',
      bin('@types'),
      '--skipLibCheck',
      '--rootDir',
      '.',
      '--outDir',
      'js',
    ]
    const compiled = await run(process.execPath, [bin('typescript/bin/tsc'), ...options, ...types, 'use.ts'], {
      cwd: folder,
    }).catch((error: { stdout: string }) => error)
    expect(compiled.stdout).toBe('')

    const { stdout } = await run(process.execPath, ['js/use.js'], {
      cwd: folder,
      env: { ...process.env, TOKEN: token },
    })
    const said = JSON.parse(stdout) as { ids: [string, string] }
    const [first, again] = said.ids
    expect(again).toBe(first)
    expect(said).toEqual({
      ids: [first, first],
      price: 4900,
      verb: 'Order.place',
      seats: null,
      replayed: [null, 'true'],
      dry: 2,
      mismatch: [first, ['input'], false],
      invalid: [400, ['seats']],
      order: ['Order', 4900, 'placed'],
      refunded: 'succeeded',
    })
  }, 60_000)

  test('§3: the command that makes it is the one that the docs name', () => {
    const docs = readFileSync(join(root, 'docs/openapi.md'), 'utf8')
    expect(docs).toContain('npx @hey-api/openapi-ts -i openapi.json -o client')
  })
})
