import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

/** A downstream that counts what it did per derived key, as the fake that V2's tests look into. */
export interface Till {
  readonly url: string
  /** Calls that arrived, by derived key, oldest first. */
  readonly calls: readonly { readonly key: string; readonly body: Record<string, unknown> }[]
  /** What it did: each derived key once, however often it was called. */
  readonly done: ReadonlyMap<string, Record<string, unknown>>
  /** Ends connections that hang, so that nothing waits on them. */
  close(): Promise<void>
}

/**
 * `how` in a call's body steers it: `ok`; `lost` does it and cuts the connection the first time; `down` answers 503 twice;
 * `no` is a definitive no (402); `broken` always answers 500; `hang` never answers; `slow` answers after `ms`.
 */
export async function startTill(): Promise<Till> {
  const calls: { key: string; body: Record<string, unknown> }[] = []
  const done = new Map<string, Record<string, unknown>>()
  const server = createServer((request, response) => {
    void serve(request, response, calls, done)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  return {
    url: `http://127.0.0.1:${port}`,
    calls,
    done,
    close: () =>
      new Promise((resolve) => {
        server.close(() => {
          resolve()
        })
        server.closeAllConnections()
      }),
  }
}

async function serve(
  request: IncomingMessage,
  response: ServerResponse,
  calls: { key: string; body: Record<string, unknown> }[],
  done: Map<string, Record<string, unknown>>,
): Promise<void> {
  let text = ''
  for await (const chunk of request) text += String(chunk)
  const body = JSON.parse(text) as Record<string, unknown>
  const key = String(request.headers['idempotency-key'])
  calls.push({ key, body })
  const times = calls.filter((call) => call.key === key).length
  const how = typeof body['how'] === 'string' ? body['how'] : 'ok'
  if (how === 'hang') return
  if (how === 'no') return answer(response, 402, { error: 'no' })
  if (how === 'broken' || (how === 'down' && times <= 2)) return answer(response, 503, { error: 'down' })
  if (how === 'slow') await new Promise((resolve) => setTimeout(resolve, Number(body['ms'])))
  if (!done.has(key)) done.set(key, { id: `till_${done.size + 1}`, ...body })
  if (how === 'lost' && times === 1) {
    request.socket.destroy()
    return
  }
  answer(response, 200, done.get(key) ?? {})
}

function answer(response: ServerResponse, status: number, body: Record<string, unknown>): void {
  response.writeHead(status, { 'Content-Type': 'application/json' })
  response.end(JSON.stringify(body))
}
