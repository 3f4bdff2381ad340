import { existsSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { addToken, addWorker, listWorkers, type WorkerListing } from '../../server/workers.ts'

/** The Worker as which pasted lines call. */
const devName = 'dev'

/** How many names are tried where the first ones are taken by Workers with other rights. */
const namesMax = 20

/** Tokens by namespace. */
export type Tokens = Readonly<Record<string, string>>

/** The file beside the data file in which the tokens are kept, readable by its owner alone. */
export function tokensPath(data: string): string {
  return `${data}.dev-tokens.json`
}

/**
 * A token for each namespace: the one that was kept, as long as it is good, so that lines that were pasted somewhere survive
 * restarts; else a new one of the `dev` Worker, which is made when there is none. Writes to the data file while it is served.
 */
export async function tokensFor(
  data: string,
  namespaces: readonly string[],
  isGood: (namespace: string, token: string) => Promise<boolean>,
): Promise<Tokens> {
  const kept = readTokens(data)
  const tokens: Record<string, string> = { ...kept }
  for (const namespace of namespaces) {
    const token = kept[namespace]
    if (token !== undefined && (await isGood(namespace, token))) continue
    tokens[namespace] = await newToken(data, namespace)
  }
  if (JSON.stringify(tokens) !== JSON.stringify(kept)) writeTokens(data, tokens)
  return tokens
}

async function newToken(data: string, namespace: string): Promise<string> {
  const workers = await listWorkers(data, namespace)
  for (let count = 1; count <= namesMax; count++) {
    const name = count === 1 ? devName : `${devName}-${count}`
    const known = workers.find((worker) => worker.name === name)
    if (known === undefined) {
      const wanted = { name, kind: 'human', grants: ['*'], namespace, expiresMs: null } as const
      return (await addWorker(data, wanted, () => {})).token
    }
    if (isOurs(known)) return (await addToken(data, name, namespace, null)).token
  }
  throw new Error(`no name is free for the Worker ${devName} of ${namespace}`)
}

/** A Worker of that name may be somebody else's: with fewer grants, lines that are shown would be rejected. */
function isOurs({ kind, grants, removed }: WorkerListing): boolean {
  return !removed && kind === 'human' && grants.includes('*')
}

function readTokens(data: string): Tokens {
  if (!existsSync(tokensPath(data))) return {}
  try {
    const kept: unknown = JSON.parse(readFileSync(tokensPath(data), 'utf8'))
    if (typeof kept !== 'object' || kept === null) return {}
    return Object.fromEntries(Object.entries(kept).filter(([, token]) => typeof token === 'string'))
  } catch {
    // Cut off or edited: a new one is made.
    return {}
  }
}

function writeTokens(data: string, tokens: Tokens): void {
  const next = `${tokensPath(data)}.new`
  writeFileSync(next, `${JSON.stringify(tokens, null, 2)}\n`, { mode: 0o600 })
  renameSync(next, tokensPath(data))
}
