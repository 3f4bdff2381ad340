import { Agent, request } from 'node:http'

/** An answer, read whole. */
export interface Answer {
  readonly status: number
  readonly replayed: boolean
  readonly body: ActionBody
}

/** An Action or a problem: the members that the races look at. */
export interface ActionBody {
  readonly id: string
  readonly status: string
  readonly code?: string
  readonly output: { readonly $id: string; readonly $version: number; readonly [field: string]: unknown } | null
  readonly error: { readonly code: string } | null
  readonly fix: { readonly code: string } | null
  readonly event: string | null
  readonly waitingFor: string | null
  readonly latest?: string
  readonly firstAction?: string
  readonly on: string | null
}

export interface Client {
  call(path: string, key: string, input?: object, headers?: Readonly<Record<string, string>>): Promise<Answer>
  get<Shape>(path: string): Promise<Shape>
  close(): void
}

/** A Worker with as many connections as it likes, up to `connections`: calls that are sent at once go out at once. */
export function clientOf(url: string, namespace: string, token: string, connections = 64): Client {
  const agent = new Agent({ keepAlive: true, maxSockets: connections })
  const send = (method: string, path: string, headers: Readonly<Record<string, string>>, body: string) =>
    new Promise<{ status: number; headers: NodeJS.Dict<string | string[]>; text: string }>((resolve, reject) => {
      const sent = request(
        `${url}/${namespace}/${path}`,
        {
          method,
          agent,
          headers: { authorization: `Bearer ${token}`, 'content-length': Buffer.byteLength(body), ...headers },
        },
        (response) => {
          let text = ''
          response.setEncoding('utf8').on('data', (chunk: string) => (text += chunk))
          response.on('end', () => resolve({ status: response.statusCode ?? 0, headers: response.headers, text }))
          response.on('error', reject)
        },
      )
      sent.on('error', reject)
      sent.end(body)
    })
  return {
    async call(path, key, input = {}, headers = {}) {
      const own = { 'content-type': 'application/json', 'idempotency-key': key, ...headers }
      const { status, headers: told, text } = await send('POST', path, own, JSON.stringify(input))
      return { status, replayed: told['idempotent-replayed'] === 'true', body: JSON.parse(text) as ActionBody }
    },
    async get<Shape>(path: string) {
      const { status, text } = await send('GET', path, {}, '')
      if (status !== 200 && status !== 202) throw new Error(`GET ${path} was answered ${status} ${text}`)
      return JSON.parse(text) as Shape
    },
    close: () => agent.destroy(),
  }
}

/** All members of a list, page by page. */
export async function all<Member>(client: Client, path: string): Promise<Member[]> {
  const members: Member[] = []
  let after = ''
  for (;;) {
    const sign = path.includes('?') ? '&' : '?'
    const page = await client.get<{ data: Member[]; next: string | number | null }>(`${path}${sign}limit=1000${after}`)
    members.push(...page.data)
    if (page.next === null) return members
    after = `&after=${encodeURIComponent(String(page.next))}`
  }
}

export function times<T>(count: number, work: (index: number) => Promise<T>): Promise<T[]> {
  return Promise.all(Array.from({ length: count }, (_, index) => work(index)))
}
