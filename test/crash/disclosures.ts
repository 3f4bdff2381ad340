import type { SentMessage } from '../support/shim/sends.ts'

/** What a message that left the server told somebody: from then on it must be on disk (R3). */
export type Disclosure = { readonly position: number } & (
  | {
      readonly kind: 'action'
      readonly id: string
      /** As it was shown, if it was shown settled. */ readonly settled: object | null
    }
  | { readonly kind: 'record'; readonly noun: string; readonly id: string; readonly version: number }
  | { readonly kind: 'event'; readonly seq: number; readonly id: string; readonly action: string }
  /** A request to the payment provider left, under this derived key: the step's start is on disk (V2). */
  | { readonly kind: 'step'; readonly key: string }
  /** A command said that it has added a Worker. */
  | { readonly kind: 'worker'; readonly name: string }
)

/** Everything that a message tells of what is on record. */
export function disclosures(message: SentMessage): Disclosure[] {
  const { position, line, headers, body } = message
  const found: Disclosure[] = []
  if (!line.startsWith('HTTP/1.1 ')) {
    const key = headers['idempotency-key']
    return key === undefined ? [] : [{ position, kind: 'step', key }]
  }
  if (headers['content-type']?.startsWith('text/event-stream') === true) {
    for (const [, data = ''] of body.matchAll(/^data: (.*)$/gm)) collect(JSON.parse(data), position, found)
    return found
  }
  if (headers['content-type']?.includes('json') !== true || body === '') return []
  collect(JSON.parse(body), position, found)
  return found
}

function collect(value: unknown, position: number, found: Disclosure[]): void {
  if (typeof value !== 'object' || value === null) return
  if (Array.isArray(value)) {
    for (const one of value) collect(one, position, found)
    return
  }
  const members = value as Record<string, unknown>
  // A dry run's output would be; what it read is.
  if (members['mode'] === 'try') return collectReads(members['reads'], position, found)
  const { id, status, seq, action, firstAction } = members
  if (isActionId(id) && typeof status === 'string') {
    found.push({ position, kind: 'action', id, settled: status === 'pending' ? null : members })
  }
  if (typeof id === 'string' && typeof seq === 'number' && typeof action === 'string') {
    found.push({ position, kind: 'event', seq, id, action })
  }
  if (isActionId(firstAction)) found.push({ position, kind: 'action', id: firstAction, settled: null })
  const { $id, $noun, $version } = members
  if (typeof $id === 'string' && typeof $noun === 'string' && typeof $version === 'number') {
    found.push({ position, kind: 'record', noun: $noun, id: $id, version: $version })
  }
  // An input is the caller's: it tells nothing.
  for (const [name, member] of Object.entries(members)) if (name !== 'input') collect(member, position, found)
}

function collectReads(reads: unknown, position: number, found: Disclosure[]): void {
  const nouns: Record<string, string> = { offers: 'Offer', customers: 'Customer', orders: 'Order', licenses: 'License' }
  for (const [path, version] of Object.entries((reads ?? {}) as Record<string, number>)) {
    const [plural = '', id = ''] = path.split('/')
    const noun = nouns[plural]
    if (noun !== undefined && version > 0) found.push({ position, kind: 'record', noun, id, version })
  }
}

function isActionId(value: unknown): value is string {
  return typeof value === 'string' && value.startsWith('act_')
}
