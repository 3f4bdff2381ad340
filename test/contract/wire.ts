import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect } from 'vitest'
import { problems } from '../../src/model/problem.ts'
import type { ProblemCode } from '../../src/model/problem.ts'
import type { RawResponse } from '../support/raw.ts'
import { rawMessage, rawRequest } from '../support/raw.ts'
import { root, startServer } from '../support/server.ts'
import type { ServerOptions, TestServer } from '../support/server.ts'

/** The stores that every suite runs over, by a loop in its file, so that one that is skipped is visible. */
export const stores = ['sqlite'] as const
export type StoreName = (typeof stores)[number]

export const kilnFile = join(root, 'test/fixtures/kiln.ts')
export const kilnSource = readFileSync(kilnFile, 'utf8')

/** Starts the server with the kiln on an empty store of this kind. */
export async function startKiln(store: StoreName, options: ServerOptions = {}): Promise<TestServer> {
  switch (store) {
    case 'sqlite':
      return startServer({ startup: kilnFile, ...options })
  }
}

let keys = 0
/** A key that no other test has. */
export function newKey(name = 'key'): string {
  return `${name}-${process.pid}-${keys++}`
}

export type Json = Record<string, unknown>

/** An Action as §3 has it. */
export interface ActionView {
  id: string
  namespace: string
  verb: string
  worker: string
  idempotencyKey: string | null
  status: string
  mode: string
  target: string | null
  input: Json
  output: Json | null
  error: { code: string; message: string; retry: string } | null
  fix: (Json & { code: string }) | null
  on: string | null
  decidedAgainst: Record<string, number>
  decidedAfter: string[]
  waitingFor: string | null
  steps: { step: string; status: string; attempts: number }[]
  event: string | null
  attempts: number
  createdAt: string
  settledAt: string | null
}

export interface Page<Member = Json> {
  data: Member[]
  next: string | null
}

/** An answer, read whole. */
export interface Reply {
  readonly status: number
  readonly text: string
  /** The value of a header; null when it is absent. */
  header(name: string): string | null
  /** The body as JSON, of the shape that the test says. */
  json<Shape = Json>(): Shape
}

export interface CallOptions {
  /** A new one unless given; null sends none. */
  readonly key?: string | null
  readonly mode?: string
  readonly headers?: Readonly<Record<string, string>>
  /** The body as text or bytes, instead of the input. */
  readonly raw?: string | Uint8Array
}

/** Who calls, where: paths are those below the namespace, `orders/place`. */
export interface Caller {
  readonly namespace: string
  readonly token: string
  call(path: string, input?: unknown, options?: CallOptions): Promise<Reply>
  /** A call that must be answered with an Action. */
  action(path: string, input?: unknown, options?: CallOptions): Promise<ActionView>
  get(path?: string, headers?: Readonly<Record<string, string>>): Promise<Reply>
  /** All Actions of a key: what is on record of it. */
  recorded(key: string): Promise<ActionView[]>
  /** Sends field lines and a body as they are. `Authorization` and `Content-Type` are added. */
  raw(path: string, lines: readonly (readonly [string, string])[], body?: string | Uint8Array): Promise<RawResponse>
}

export function caller(server: { readonly url: string }, namespace: string, token: string): Caller {
  const authorization = { authorization: `Bearer ${token}` }
  const self: Caller = {
    namespace,
    token,
    async call(path, input, { key = newKey(), mode, headers = {}, raw } = {}) {
      const body = raw ?? (input === undefined ? undefined : JSON.stringify(input))
      return reply(
        await fetch(`${server.url}/${namespace}/${path}${mode === undefined ? '' : `?mode=${mode}`}`, {
          method: 'POST',
          headers: {
            ...authorization,
            ...(body === undefined ? {} : { 'content-type': 'application/json' }),
            ...(key === null ? {} : { 'idempotency-key': key }),
            ...headers,
          },
          ...(body === undefined ? {} : { body: body as string }),
        }),
      )
    },
    async action(path, input, options) {
      const answer = await self.call(path, input, options)
      expect([200, 202], answer.text).toContain(answer.status)
      return answer.json<ActionView>()
    },
    async get(path, headers = {}) {
      const url = path === undefined ? `${server.url}/${namespace}` : `${server.url}/${namespace}/${path}`
      return reply(await fetch(url, { headers: { ...authorization, ...headers } }))
    },
    async recorded(key) {
      const answer = await self.get(`actions?key=${encodeURIComponent(key)}`)
      expect(answer.status, answer.text).toBe(200)
      return answer.json<Page<ActionView>>().data
    },
    raw(path, lines, body = '{}') {
      const all = [['Authorization', `Bearer ${token}`], ['Content-Type', 'application/json'], ...lines] as const
      return rawRequest(server.url, rawMessage('POST', `/${namespace}/${path}`, all, body))
    },
  }
  return self
}

export async function reply(response: Response): Promise<Reply> {
  const text = await response.text()
  return {
    status: response.status,
    text,
    header: (name) => response.headers.get(name),
    json: <Shape>() => JSON.parse(text) as Shape,
  }
}

/**
 * Checks that an answer is a problem of this code, whole and exact (§11), and gives its members. `type` must be an
 * absolute address that ends with the code's page.
 */
export function expectProblem(answer: Reply | RawResponse, code: ProblemCode): Json {
  const contentType = 'header' in answer ? answer.header('content-type') : (answer.headers['content-type'] ?? null)
  const body = 'header' in answer ? answer.text : answer.body
  expect(`${answer.status} ${contentType} ${body}`).toContain(`"code":"${code}"`)
  const told = JSON.parse(body) as Json
  expect(contentType).toMatch(/^application\/problem\+json\b/)
  expect(answer.status).toBe(problems[code].status)
  expect(told).toMatchObject({ code, status: answer.status, retryable: problems[code].retryable })
  expect(told['type']).toMatch(new RegExp(`^https?://[^/]+/errors/${code}$`))
  for (const member of ['title', 'detail', 'requestId']) expect(told[member]).toEqual(expect.stringMatching(/\S/))
  // Never a stack trace, SQL or a path of this machine (V5).
  expect(body).not.toMatch(/\n\s+at |\bat \S+:\d+:\d+|node_modules|SELECT |INSERT |SQLITE|\.ts:\d|\/srv\/secret/)
  return told
}

/** One page of a list, which must be exactly `{ data, next }` (§3). */
export async function pageOf<Member = Json>(by: Caller, path: string): Promise<Page<Member>> {
  const answer = await by.get(path)
  expect(answer.status, answer.text).toBe(200)
  const list = answer.json<Page<Member>>()
  expect(Object.keys(list)).toEqual(['data', 'next'])
  return list
}

/** All members of a list, page by page from the beginning to the end. `path` has a query already. */
export async function walk<Member = Json>(by: Caller, path: string): Promise<Member[]> {
  const all: Member[] = []
  for (let after: string | null = ''; after !== null;) {
    const from: string = after === '' ? '' : `&after=${encodeURIComponent(after)}`
    const { data, next }: Page<Member> = await pageOf(by, `${path}${from}`)
    all.push(...data)
    if (next !== null) expect(data.length).toBeGreaterThan(0)
    expect(all.length).toBeLessThan(5_000)
    after = next
  }
  return all
}

/** Waits until something is so; throws what the last look threw when it does not become so in time. */
export async function eventually<T>(look: () => Promise<T>, withinMs = 5_000): Promise<T> {
  const deadline = Date.now() + withinMs
  for (;;) {
    try {
      return await look()
    } catch (error) {
      if (Date.now() >= deadline) throw error
      await new Promise((resolve) => setTimeout(resolve, 20))
    }
  }
}
