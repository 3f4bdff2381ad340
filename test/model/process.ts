import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import type { Action } from '../../src/model/action.ts'
import type { Call } from '../../src/model/call.ts'
import type { ActionId } from '../../src/model/ids.ts'
import type { Worker } from '../../src/model/worker.ts'
import { machine } from '../../src/server/machine.ts'
import { openSqlite } from '../../src/store/sqlite/store.ts'
import type { Store } from '../../src/store/store.ts'
import { root, startServer, type TestServer } from '../support/server.ts'
import type { Setting } from './drive.ts'
import { Declined, type Outside, type Payment, type Port } from './outside.ts'
import type { Crash } from './plan.ts'
import { rightsOf } from './workers.ts'
import type { Reply, World } from './world.ts'

/** The built server as a process, called over HTTP, and killed with SIGKILL while calls are on their way. */
export class ServerProcess implements World {
  readonly #setting: Setting
  readonly #tokens = new Map<string, string>()
  #server: TestServer | null = null
  #store: Store | null = null
  #outside: Server | null = null
  #isDead = false
  #timer: NodeJS.Timeout | undefined

  constructor(setting: Setting) {
    this.#setting = setting
  }

  get store(): Store {
    if (this.#store === null) throw new Error('the server is not started')
    return this.#store
  }
  get isDead(): boolean {
    return this.#isDead
  }
  get #alive(): TestServer {
    if (this.#server === null) throw new Error('the server is not started')
    return this.#server
  }

  async open(): Promise<readonly Worker[]> {
    const { outside, namespaces } = this.#setting
    this.#outside = await serveOutside(outside)
    const { port } = this.#outside.address() as AddressInfo
    this.#server = await startServer({
      startup: join(root, 'test/startups/model.ts'),
      env: { OUTSIDE_URL: `http://127.0.0.1:${port}` },
      args: ['--grace', '0'],
    })
    const onDoubt = (reason: Error): void => this.#setting.say(reason.message)
    this.#store = patient(await openSqlite(this.#server.data, { role: 'admin', machine, onDoubt }))
    for (const namespace of namespaces) {
      for (const { name, grants } of rightsOf) {
        this.#tokens.set(`${namespace} ${name}`, await this.#server.token(name, grants, { namespace }))
      }
    }
    const listed = await Promise.all(namespaces.map((namespace) => this.store.workers(namespace)))
    return listed.flat().map(({ id, namespace, name, kind, grants }) => ({ id, namespace, name, kind, grants }))
  }

  async call(call: Call): Promise<Reply> {
    try {
      const { namespace, nouns, id, verb } = call.route
      const mode = call.mode === 'do' ? '' : `?mode=${call.mode}`
      const path = [namespace, nouns, ...(id === null ? [] : [id]), verb].join('/')
      const response = await fetch(`${this.#alive.url}/${path}${mode}`, {
        method: 'POST',
        headers: this.#headers(call),
        body: Buffer.from(call.body).toString('utf8'),
      })
      return await replyOf(response, call)
    } catch {
      // The connection broke: the process is dead or dies.
      return { kind: 'lost' }
    }
  }

  #headers({ worker, key, mode, waitMs, versions, decidedAfter }: Call): Record<string, string> {
    const headers: Record<string, string> = {
      authorization: `Bearer ${this.#tokens.get(`${worker.namespace} ${worker.name}`) ?? ''}`,
      'content-type': 'application/json',
    }
    if (key !== null) headers['idempotency-key-encoded'] = encodeURIComponent(key)
    if (decidedAfter !== null) headers['decided-after'] = encodeURIComponent(decidedAfter)
    if (versions.target !== undefined) headers['record-version'] = String(versions.target)
    const named = [...versions.records].map(([record, version]) => `${record}=${version}`)
    if (named.length > 0) headers['record-version'] = named.join(', ')
    // Over HTTP a wait is whole seconds: one that is not to be waited for is not waited for at all.
    if (mode === 'do') headers['prefer'] = `wait=${Math.floor(waitMs / 1000)}`
    return headers
  }

  async recorded({ namespace, name }: Worker, key: string): Promise<readonly Action[]> {
    const query = `key=${encodeURIComponent(key)}&worker=${name}`
    const headers = { authorization: `Bearer ${this.#tokens.get(`${namespace} ann`) ?? ''}` }
    const response = await fetch(`${this.#alive.url}/${namespace}/actions?${query}`, { headers })
    const { data } = (await response.json()) as { data: { id: ActionId }[] }
    const actions = await Promise.all(data.map(({ id }) => this.store.action(namespace, id)))
    return actions.filter((action) => action !== null)
  }

  async told(): Promise<void> {
    await new Promise((resolve) => setTimeout(resolve, 10))
  }

  /** Killed some milliseconds from now, whatever it does then. */
  arm({ n }: Crash): void {
    this.#timer = setTimeout(() => {
      this.#isDead = true
      this.#alive.child.kill('SIGKILL')
    }, n * 2)
  }
  disarm(): void {
    clearTimeout(this.#timer)
  }
  async kill(): Promise<void> {
    this.disarm()
    this.#isDead = true
    await this.#alive.kill9()
  }
  async stop(): Promise<void> {
    const status = await this.#alive.stop()
    if (status !== 0) this.#setting.say(`a graceful stop ended with ${status}: ${this.#alive.stderr()}`)
  }
  async start(): Promise<void> {
    await this.#alive.start()
    this.#isDead = false
  }
  now(): number {
    return machine.now()
  }
  jump(): void {
    // Its clock is the machine's.
  }

  async end(): Promise<void> {
    this.disarm()
    await this.#store?.close()
    await this.#server?.kill9()
    this.#outside?.closeAllConnections()
    this.#outside?.close()
  }
}

/**
 * Reads beside a server that writes: a read of several statements may find that an Action settled between two of them,
 * which within the server's own process can't be. It is read again.
 */
function patient(store: Store): Store {
  return new Proxy(store, {
    get(target, name) {
      const value: unknown = Reflect.get(target, name)
      if (typeof value !== 'function' || name === 'close') return value
      const read = value as (...args: unknown[]) => unknown
      return async (...args: unknown[]) => {
        for (let tries = 1; ; tries++) {
          try {
            return await read.apply(target, args)
          } catch (error) {
            if (tries === 5) throw error
          }
        }
      }
    },
  })
}

async function replyOf(response: Response, { mode }: Call): Promise<Reply> {
  const body = await response.text()
  const told = JSON.parse(body) as Record<string, unknown>
  if (response.status >= 300) {
    return { kind: 'problem', status: response.status, code: String(told['code']), extra: told }
  }
  if (mode === 'try') return { kind: 'try', body }
  const replayed = response.headers.get('idempotent-replayed') === 'true'
  return { kind: 'action', id: String(told['id']), status: String(told['status']), body, replayed }
}

/** The outside behind HTTP: what a process asked for and did not live to hear is not done for it. */
async function serveOutside(outside: Outside): Promise<Server> {
  const server = createServer((request, response) => {
    const port = outside.port()
    response.on('close', () => port.cut())
    answer(port, request, response).catch((error: unknown) => {
      response.writeHead(error instanceof Declined ? 402 : 500).end()
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return server
}

async function answer(port: Port, request: IncomingMessage, response: ServerResponse): Promise<void> {
  let text = ''
  for await (const chunk of request) text += String(chunk)
  const asked = JSON.parse(text) as Payment & { name: string; action: string }
  const told = await resultOf(port, request.url ?? '', asked)
  response.end(JSON.stringify(told ?? null))
}

function resultOf(port: Port, path: string, asked: Payment & { name: string; action: string }): unknown {
  if (path === '/till') return port.till(asked)
  if (path === '/gate') return port.gate(asked.name)
  return port.isFirst(asked.tag, asked.action)
}
