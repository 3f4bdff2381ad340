import { request } from 'node:http'

/** What a definition's server answered. */
export interface Asked {
  readonly status: number
  readonly body: unknown
}

/** Reads from a definition's server as `dev` itself. Null: it is gone, or was told to stop. */
export function ask(url: string, path: string, token: string, signal: AbortSignal): Promise<Asked | null> {
  return new Promise((resolve) => {
    const headers = { authorization: `Bearer ${token}` }
    const asked = request(new URL(path, url), { headers, agent: false, signal })
    asked.on('error', () => resolve(null))
    asked.on('response', (answer) => {
      const chunks: Buffer[] = []
      answer.on('error', () => resolve(null))
      answer.on('data', (chunk: Buffer) => chunks.push(chunk))
      answer.on('end', () => resolve({ status: answer.statusCode ?? 0, body: parsed(Buffer.concat(chunks)) }))
    })
    asked.end()
  })
}

function parsed(bytes: Buffer): unknown {
  try {
    return JSON.parse(bytes.toString('utf8'))
  } catch {
    return null
  }
}
