import { afterEach, describe, expect, test } from 'vitest'
import { startServer, type TestServer } from '../support/server.ts'
import { caller, eventually, newKey, stores, type ActionView, type Caller, type Page } from './wire.ts'

// A definition grows (N2): each test serves one definition, then another on the same store.

const head = `import { noun, startup } from 'startup-builder'\nimport { z } from 'zod'\n`

/** A definition with these Order fields and Verbs. */
function definition({ fields = 'note: z.string().optional()', options = '', verbs = '' }): { source: string } {
  return {
    source: `${head}
const Order = noun({ fields: z.object({ ${fields} }), ${options} })
const kiln = startup('kiln.test', { nouns: { Order } })
const open = kiln.verb('Order.open', { input: z.looseObject({}), reads: {}, run: ({ input, records }) => records.Order.create(input as never) })
${verbs}
export default kiln.serve({ verbs: [open${/const (\w+) =/.exec(verbs) ? `, ${/const (\w+) =/.exec(verbs)?.[1]}` : ''}] })
`,
  }
}

const slow = `const slow = kiln.verb('Order.slow', {
  input: z.object({ ms: z.number().default(60_000) }), reads: {},
  async run({ input, records, signal }) {
    await new Promise((resolve) => setTimeout(resolve, input.ms))
    return records.Order.create({})
  } })`
const quick = slow.replace('await new Promise((resolve) => setTimeout(resolve, input.ms))', '')

describe.each(stores)('%s', () => {
  let server: TestServer
  let agent: Caller
  afterEach(() => server[Symbol.asyncDispose]())

  async function serve(startup: { source: string }): Promise<void> {
    server = await startServer({ startup, args: ['--grace', '0'] })
    agent = caller(server, 'kiln.test', await server.token())
  }

  async function redeploy(startup: { source: string }): Promise<void> {
    await server.stop()
    await server.start({ startup })
  }

  test('N2: a new field on old records takes its default when read; old Versions do not change', async () => {
    await serve(definition({}))
    const id = String((await agent.action('orders/open', { note: 'a' })).output?.['$id'])
    await redeploy(definition({ fields: "note: z.string().optional(), status: z.string().default('open')" }))
    expect((await agent.get(`orders/${id}`)).json()).toMatchObject({ note: 'a', status: 'open', $version: 1 })
    expect((await agent.get(`orders/${id}/versions`)).text).not.toContain('status')
  })

  test('N2: a new field without a default, or with one that is a function, is refused at load when old records exist', async () => {
    await serve(definition({}))
    await agent.action('orders/open', {})
    await server.stop()
    for (const field of ['status: z.string()', 'status: z.string().default(() => String(Math.random()))']) {
      await expect(
        server.start({ startup: definition({ fields: `note: z.string().optional(), ${field}` }) }),
      ).rejects.toThrow(/Order\.status/)
    }
    await server.start({ startup: definition({}) })
    expect((await agent.get('orders')).json<Page>().data).toHaveLength(1)
  })

  test('N2: a new index is built at load; a new unique that old records break is refused, naming the value', async () => {
    await serve(definition({}))
    for (const note of ['a', 'a', 'b']) await agent.action('orders/open', { note })
    await server.stop()
    await expect(server.start({ startup: definition({ options: "unique: ['note']" }) })).rejects.toThrow(/Order\.note/)
    await server.start({ startup: definition({ options: "index: ['note']" }) })
    expect((await agent.get('orders?note=a')).json<Page>().data).toHaveLength(2)
  })

  test('R2: a replay answers though its Verb was removed; a new call of it is 404', async () => {
    await serve(definition({ verbs: quick }))
    const key = newKey()
    const first = await agent.action('orders/slow', { ms: 1 }, { key })
    await redeploy(definition({}))
    const again = await agent.call('orders/slow', { ms: 1 }, { key })
    expect(again.header('idempotent-replayed')).toBe('true')
    expect(again.json()).toEqual(first)
    expect((await agent.call('orders/slow', { ms: 2 }, { key })).json()).toMatchObject({
      code: 'idempotency-mismatch',
      differs: ['input'],
    })
    expect((await agent.call('orders/slow', { ms: 1 })).json()).toMatchObject({ code: 'operation-not-found' })
  })

  test('R2: a replay answers though the schema no longer takes its input', async () => {
    await serve(definition({ verbs: quick }))
    const key = newKey()
    const first = await agent.action('orders/slow', { ms: 1 }, { key })
    await redeploy(definition({ verbs: quick.replace('z.number().default(60_000)', 'z.string()') }))
    expect((await agent.call('orders/slow', { ms: 1 }, { key })).json()).toEqual(first)
    expect((await agent.call('orders/slow', { ms: 1 })).json()).toMatchObject({ code: 'invalid-input' })
  })

  test('N2: a pending Action goes on with its recorded input; one whose Verb is gone waits for a definition, cancellable', async () => {
    await serve(definition({ verbs: slow }))
    const [first, second] = await Promise.all([1, 2].map(() => agent.action('orders/slow', {}, { mode: 'send' })))
    await redeploy(definition({}))
    await eventually(async () => {
      expect((await agent.get(`actions/${first?.id}`)).json()).toMatchObject({
        status: 'pending',
        waitingFor: 'definition',
      })
    })
    expect(await agent.action(`actions/${second?.id}/cancel`, {})).toMatchObject({ status: 'succeeded' })
    await redeploy(definition({ verbs: quick }))
    expect((await agent.get(`actions/${first?.id}?wait=5`)).json<ActionView>()).toMatchObject({
      status: 'succeeded',
      input: {},
    })
    expect((await agent.get(`actions/${second?.id}`)).json<ActionView>()).toMatchObject({ status: 'refused' })
    const ran = await server.cli('verify')
    expect(ran.status, ran.stdout + ran.stderr).toBe(0)
  })

  test('N2: a pending Action whose recorded input no longer fits waits for a definition that it fits', async () => {
    await serve(definition({ verbs: slow }))
    const action = await agent.action('orders/slow', { ms: 59_000 }, { mode: 'send' })
    await redeploy(definition({ verbs: quick.replace('z.number().default(60_000)', 'z.string()') }))
    await eventually(async () => {
      expect((await agent.get(`actions/${action.id}`)).json()).toMatchObject({
        status: 'pending',
        waitingFor: 'definition',
      })
    })
    await redeploy(definition({ verbs: quick }))
    expect((await agent.get(`actions/${action.id}?wait=5`)).json<ActionView>()).toMatchObject({ status: 'succeeded' })
  })
})
