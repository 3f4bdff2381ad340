import { join } from 'node:path'
import { root, startServer } from '../support/server.ts'
import { startTill, type Till } from '../support/till.ts'
import { caller, type ActionView, type Caller, type CallOptions, type StoreName } from './wire.ts'

/** The server with test/startups/verbs.ts on an empty store, a till, and a Worker who may all. */
export interface Bench {
  readonly server: Awaited<ReturnType<typeof startServer>>
  readonly till: Till
  readonly agent: Caller
  /** Another Worker of the namespace. */
  as(name: string, grants?: readonly string[]): Promise<Caller>
  close(): Promise<void>
}

export async function startBench(store: StoreName): Promise<Bench> {
  const till = await startTill()
  switch (store) {
    case 'sqlite': {
      const server = await startServer({ startup: join(root, 'test/startups/verbs.ts'), env: { TILL_URL: till.url } })
      return {
        server,
        till,
        agent: caller(server, 'kiln.test', await server.token('agent')),
        as: async (name, grants = ['*']) => caller(server, 'kiln.test', await server.token(name, grants)),
        async close() {
          await server[Symbol.asyncDispose]()
          await till.close()
        },
      }
    }
  }
}

/** A new Order with these fields; gives its id. */
export async function newOrder(agent: Caller, fields: Record<string, unknown> = {}): Promise<string> {
  const action = await agent.action('orders/open', fields)
  return String(action.output?.['$id'])
}

export async function record(agent: Caller, path: string): Promise<Record<string, unknown>> {
  return (await agent.get(path)).json()
}

/** Retries an Action; gives the new one. */
export function retry(
  agent: Caller,
  action: ActionView | string,
  input: unknown = {},
  options?: CallOptions,
): Promise<ActionView> {
  return agent.action(`actions/${typeof action === 'string' ? action : action.id}/retry`, input, options)
}

/** How often the till was called with this body member. */
export function callsWith(till: Till, member: string, value: unknown): number {
  return till.calls.filter(({ body }) => body[member] === value).length
}
