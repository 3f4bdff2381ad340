import { existsSync, readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { newFolder, root, startServer, type TestServer } from '../support/server.ts'
import { caller, eventually, newKey, stores, type ActionView, type Caller } from './wire.ts'

interface Span {
  name: string
  kind: number
  traceId: string
  spanId: string
  parent: string | null
  state: string | null
  attributes: Record<string, string | number | boolean>
  status: { code: number; message?: string }
  events: number
  links: number
}

const [unset, error] = [0, 2]
const traceId = '4bf92f3577b34da6a3ce929d0e0e4736'
const callerSpan = '00f067aa0ba902b7'
let traces = 0

/** A caller's headers, each in a trace of its own. */
function fromCaller(): { trace: string; headers: Record<string, string> } {
  const trace = `${(traces++).toString(16).padStart(8, '0')}${traceId.slice(8)}`
  return { trace, headers: { traceparent: `00-${trace}-${callerSpan}-01`, tracestate: 'vendor=abc' } }
}

/** A downstream that keeps each call's headers; `broken` in its body is answered 500 the first time. */
async function startDownstream() {
  const calls: { headers: NodeJS.Dict<string | string[]>; body: { total: number } }[] = []
  const server = createServer((request, response) => {
    let text = ''
    request.setEncoding('utf8').on('data', (chunk: string) => (text += chunk))
    request.on('end', () => {
      const body = JSON.parse(text) as { total: number; how: string }
      const isFirst = calls.every((call) => call.body.total !== body.total)
      calls.push({ headers: request.headers, body })
      response.writeHead(body.how === 'broken' && isFirst ? 500 : 200, { 'Content-Type': 'application/json' })
      response.end('{"id":"charge_1"}')
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  const close = () => {
    server.closeAllConnections()
    server.close()
  }
  return { url: `http://127.0.0.1:${port}`, calls, close }
}

describe.each(stores)('%s', () => {
  let downstream: Awaited<ReturnType<typeof startDownstream>>
  let server: TestServer
  let agent: Caller
  const file = join(newFolder('spans'), 'spans.jsonl')

  const spans = (): Span[] =>
    existsSync(file)
      ? readFileSync(file, 'utf8')
          .split('\n')
          .filter((line) => line !== '')
          .map((line) => JSON.parse(line) as Span)
      : []

  /** All spans of a trace once one of this name has ended. */
  const ofTrace = (trace: string, name: string): Promise<Span[]> =>
    eventually(async () => {
      const found = spans().filter((span) => span.traceId === trace)
      expect(found.map((span) => span.name)).toContain(name)
      return found
    })
  const named = (found: readonly Span[], name: string): Span[] => found.filter((span) => span.name === name)

  beforeAll(async () => {
    downstream = await startDownstream()
    server = await startServer({
      startup: join(root, 'test/startups/traced.ts'),
      env: { DOWNSTREAM_URL: downstream.url, SPANS_FILE: file },
      nodeArgs: ['--import', join(root, 'test/fixtures/tracing.ts')],
    })
    agent = caller(server, 'traced.test', await server.token('agent'))
  })
  afterAll(async () => {
    await server[Symbol.asyncDispose]()
    downstream.close()
  })

  test('§3: spans chain from the caller through call, run and step to what the downstream received', async () => {
    const { trace, headers } = fromCaller()
    const action = await agent.action('orders/place', { total: 1 }, { headers })
    const found = await ofTrace(trace, 'call Order.place')
    const [call] = named(found, 'call Order.place')
    const [run] = named(found, 'run Order.place')
    const [step] = named(found, 'step charge')
    expect(call).toMatchObject({ parent: callerSpan, kind: 1, state: 'vendor=abc', status: { code: unset } })
    expect(run).toMatchObject({ parent: call?.spanId, kind: 0 })
    expect(step).toMatchObject({ parent: run?.spanId, attributes: { 'startup_builder.step': 'charge#1' } })
    const [received] = downstream.calls.filter(({ body }) => body.total === 1)
    expect(received?.headers).toMatchObject({
      traceparent: `00-${trace}-${step?.spanId}-01`,
      tracestate: 'vendor=abc',
    })
    // Claim, the step's start and end, settlement: each a commit of the run.
    const commits = named(found, 'commit')
    expect(commits).toHaveLength(4)
    for (const commit of commits) expect(commit.parent).toBe(run?.spanId)
    for (const span of [call, run, step]) expect(span?.attributes['startup_builder.action']).toBe(action.id)
    expect(call?.attributes).toMatchObject({ 'startup_builder.answer': 'settled', 'startup_builder.mode': 'do' })
    expect(run?.attributes).toMatchObject({ 'startup_builder.status': 'succeeded' })
    expect(step?.attributes).toMatchObject({ 'startup_builder.status': 'done', 'startup_builder.attempt': 1 })
  })

  test('§3: a step that is tried again has a span for each attempt, and a definitive no is not an error', async () => {
    const { trace, headers } = fromCaller()
    await agent.action('orders/place', { total: 2, how: 'broken' }, { headers })
    const attempts = named(await ofTrace(trace, 'call Order.place'), 'step charge')
    expect(attempts.map(({ attributes }) => attributes['startup_builder.status'])).toEqual(['unknown', 'done'])
    expect(attempts.map(({ status }) => status.code)).toEqual([error, unset])
    const handedOn = downstream.calls.filter(({ body }) => body.total === 2).map((call) => call.headers['traceparent'])
    expect(handedOn).toEqual(attempts.map(({ spanId }) => `00-${trace}-${spanId}-01`))

    const no = fromCaller()
    await agent.action('orders/place', { total: 3, how: 'no' }, { headers: no.headers })
    const [rejected] = named(await ofTrace(no.trace, 'call Order.place'), 'step charge')
    expect(rejected).toMatchObject({ status: { code: unset }, attributes: { 'startup_builder.status': 'rejected' } })
  })

  test('§3: a Verb without steps has one commit, and what runs on after its call is answered stays in its trace', async () => {
    const { trace, headers } = fromCaller()
    await agent.action('orders/note', {}, { headers })
    const found = await ofTrace(trace, 'call Order.note')
    expect(found.map(({ name }) => name).sort()).toEqual(['call Order.note', 'commit', 'run Order.note'])

    const sent = fromCaller()
    const answer = await agent.call('orders/note', { ms: 200 }, { mode: 'send', headers: sent.headers })
    expect(answer.status).toBe(202)
    const later = await ofTrace(sent.trace, 'run Order.note')
    const [run] = named(later, 'run Order.note')
    expect(named(later, 'call Order.note')[0]?.attributes['startup_builder.answer']).toBe('pending')
    expect(run?.parent).toBe(named(later, 'call Order.note')[0]?.spanId)
    // The claim is written by another turn of the event loop than the run's own, and still lies below it.
    for (const commit of named(later, 'commit')) expect(commit.parent).toBe(run?.spanId)
  })

  test('K4: a replay has a call and no run, and a mismatch is a call that failed by its code', async () => {
    const key = newKey()
    await agent.action('orders/note', { total: 5 }, { key })
    const again = fromCaller()
    await agent.action('orders/note', { total: 5 }, { key, headers: again.headers })
    const other = fromCaller()
    await agent.call('orders/note', { total: 6 }, { key, headers: other.headers })
    const [replay, ...more] = await ofTrace(again.trace, 'call Order.note')
    expect(replay?.attributes).toMatchObject({ 'startup_builder.answer': 'replayed' })
    expect(more).toEqual([])
    const [mismatch] = await ofTrace(other.trace, 'call Order.note')
    expect(mismatch).toMatchObject({
      status: { code: error },
      attributes: { 'startup_builder.answer': 'rejected', 'error.type': 'idempotency-mismatch' },
    })
  })

  test('§3: a malformed trace context is ignored, and a call without one begins a trace of its own', async () => {
    const key = newKey()
    for (const traceparent of [
      '',
      'nonsense',
      `00-${'0'.repeat(32)}-${callerSpan}-01`,
      '00-zz-zz-01',
      'x'.repeat(2000),
    ]) {
      const headers = { traceparent, tracestate: 'a=b' }
      expect((await agent.call('orders/note', {}, { key, headers })).status).toBe(200)
    }
    const action = await agent.action('orders/note', {}, { key })
    const calls = await eventually(async () => {
      const found = spans().filter(
        ({ name, attributes }) => name === 'call Order.note' && attributes['startup_builder.action'] === action.id,
      )
      expect(found).toHaveLength(6)
      return found
    })
    for (const call of calls) expect(call).toMatchObject({ parent: null, state: null })
    expect(new Set(calls.map((call) => call.traceId)).size).toBe(6)
  })

  test('§3: no span holds an input, an output, a key, a token or the message of an error, and its name is one of few', async () => {
    const [key, secret] = [newKey('s3cret-key'), 's3cret-input']
    const { trace, headers } = fromCaller()
    await agent.action('orders/place', { total: 7, secret }, { key, headers })
    await ofTrace(trace, 'call Order.place')
    const failing = fromCaller()
    await agent.action('orders/note', { fails: true }, { headers: failing.headers })
    await ofTrace(failing.trace, 'call Order.note')
    const unknown = fromCaller()
    await agent.call('s3cret-nouns/s3cretVerb', {}, { headers: unknown.headers })
    const [call] = await ofTrace(unknown.trace, 'call')
    expect(call).toMatchObject({ status: { code: error }, attributes: { 'error.type': 'operation-not-found' } })
    const text = readFileSync(file, 'utf8')
    for (const word of ['s3cret', agent.token, 'a secret in a message', 'order_']) expect(text).not.toContain(word)
    for (const { events, status } of spans()) expect([events, status.message ?? '']).toEqual([0, ''])
  })

  test('V4: a resumed Action runs in a trace of its own, which names it', async () => {
    const key = newKey()
    const { trace, headers } = fromCaller()
    const pending = agent.call('orders/note', { ms: 1500 }, { key, headers }).catch(() => null)
    const before = caller(server, 'traced.test', agent.token)
    const [claimed] = await eventually(async () => {
      const found = await before.recorded(key)
      expect(found).toHaveLength(1)
      return found
    })
    await server.kill9()
    await pending
    await server.start()
    agent = caller(server, 'traced.test', agent.token)
    const settled = (await agent.get(`actions/${claimed?.id}?wait=20`)).json<ActionView>()
    expect(settled).toMatchObject({ status: 'succeeded', attempts: 2 })
    const run = await eventually(async () => {
      const found = spans().find(
        (span) => span.name === 'run Order.note' && span.attributes['startup_builder.action'] === claimed?.id,
      )
      expect(found).toBeDefined()
      return found
    })
    expect(run).toMatchObject({ parent: null, attributes: { 'startup_builder.attempt': 2 } })
    expect(run?.traceId).not.toBe(trace)
  })

  test('V4: a stop hands on the spans that the SDK still had', async () => {
    const batch = join(newFolder('spans'), 'batch.jsonl')
    await using other = await startServer({
      startup: join(root, 'test/startups/traced.ts'),
      env: { SPANS_FILE: batch, SPANS_BATCH: '1' },
      nodeArgs: ['--import', join(root, 'test/fixtures/tracing.ts')],
    })
    await caller(other, 'traced.test', await other.token('agent')).action('orders/note', {})
    expect(existsSync(batch)).toBe(false)
    expect(await other.stop()).toBe(0)
    expect(readFileSync(batch, 'utf8')).toContain('"call Order.note"')
  })

  test('§3: without an SDK a caller’s trace context is left alone, and nothing is handed on', async () => {
    await using other = await startServer({
      startup: join(root, 'test/startups/traced.ts'),
      env: { DOWNSTREAM_URL: downstream.url },
    })
    const untraced = caller(other, 'traced.test', await other.token('agent'))
    await untraced.action('orders/place', { total: 99 }, { headers: fromCaller().headers })
    const [received] = downstream.calls.filter(({ body }) => body.total === 99)
    expect(received?.headers['idempotency-key']).toMatch(/^[0-9a-f]{32}$/)
    expect(received?.headers['traceparent']).toBeUndefined()
  })
})
