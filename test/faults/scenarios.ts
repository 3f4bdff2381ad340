import type { Call } from '../../src/model/call.ts'
import { checkKey } from '../../src/model/key.ts'
import type { Worker } from '../../src/model/worker.ts'
import type { Outside } from '../model/outside.ts'
import type { Rig } from '../model/rig.ts'
import type { Reply } from '../model/world.ts'

export const namespace = 'kiln.test'
export const worker: Worker = {
  id: 'worker_00000000000000000000000001',
  namespace,
  name: 'stoker',
  kind: 'agent',
  grants: ['*'],
}

/** What is done once without a fault and then again and again with one: it ends the same each time. */
export interface Scenario {
  readonly name: string
  /** Makes what the calls are about, without faults. Gives the calls, to be sent one after the other. */
  arrange(rig: Rig): Promise<readonly Call[]>
  /** Whether the calls are sent at once, as by several clients, and not one after the other. */
  readonly atOnce?: boolean
  /** What happens outside while the calls run. */
  meanwhile?(outside: Outside): void
}

const noVersions: Call['versions'] = { records: new Map() }

interface Sent {
  readonly mode?: 'do' | 'send'
  readonly version?: number
  readonly after?: string
  readonly waitMs?: number
}

/** A call: `call('deposit', 'accounts/account_1', 'key', { amount: 1 })`. */
export function call(verb: string, on: string, key: string, input: object, sent: Sent = {}): Call {
  const [nouns = '', id = null] = on.split('/')
  const mode = sent.mode ?? 'do'
  return {
    worker,
    route: { namespace, nouns, id, verb },
    key: checkKey(key),
    mode,
    waitMs: mode === 'send' ? 0 : (sent.waitMs ?? 20_000),
    versions: sent.version === undefined ? noVersions : { records: new Map(), target: sent.version },
    decidedAfter: sent.after === undefined ? null : checkKey(sent.after),
    body: Buffer.from(JSON.stringify(input)),
  }
}

/** A call that must come to a settled Action; gives it. */
export async function done(rig: Rig, made: Call): Promise<{ id: string; output: { $id: string } }> {
  const reply = await rig.call(made)
  if (reply.kind !== 'action') throw new Error(`${made.route.verb} was answered ${JSON.stringify(reply)}`)
  return JSON.parse(reply.body) as { id: string; output: { $id: string } }
}

async function account(rig: Rig, owner = 'olga'): Promise<string> {
  const { output } = await done(rig, call('open', 'accounts', `open ${owner}`, { owner, balance: 100 }))
  return `accounts/${output.$id}`
}

async function order(rig: Rig): Promise<string> {
  const [, id] = (await account(rig)).split('/')
  const { output } = await done(rig, call('place', 'orders', 'placed', { account: id, amount: 7, tag: 'placed' }))
  return `orders/${output.$id}`
}

export function isPending(reply: Reply): boolean {
  return reply.kind === 'action' && reply.status === 'pending'
}

export const scenarios: readonly Scenario[] = [
  {
    name: 'a Verb without steps',
    arrange: async (rig) => [call('deposit', await account(rig), 'subject', { amount: 3 })],
  },
  {
    name: 'a Verb without steps that refuses',
    arrange: async () => [call('deny', 'accounts', 'subject', { why: 'no' })],
  },
  {
    name: 'a Verb with one step',
    arrange: async () => [call('enroll', 'accounts', 'subject', { owner: 'olga', tag: 'subject' })],
  },
  {
    name: 'a Verb whose step loses its first answer',
    arrange: async () => [call('enroll', 'accounts', 'subject', { owner: 'olga', tag: 'subject', mood: 'L' })],
  },
  {
    name: 'a Verb whose step is declined',
    arrange: async () => [call('enroll', 'accounts', 'subject', { owner: 'olga', tag: 'subject', mood: 'D' })],
  },
  {
    name: 'a Verb with two steps',
    async arrange(rig) {
      const [, id] = (await account(rig)).split('/')
      return [call('twice', 'orders', 'subject', { account: id, amount: 9, tag: 'subject' })]
    },
  },
  {
    name: 'Action.retry of one whose step was left unknown',
    async arrange(rig) {
      const { id } = await done(rig, call('enroll', 'accounts', 'first', { owner: 'olga', tag: 'first', mood: 'LLL' }))
      return [call('retry', `actions/${id}`, 'subject', {})]
    },
  },
  {
    name: 'Action.retry of one that threw after its step',
    async arrange(rig) {
      const failed = await done(rig, call('settle', await order(rig), 'first', { tag: 'first', bomb: true }))
      return [call('retry', `actions/${failed.id}`, 'subject', {})]
    },
  },
  {
    name: 'Action.retry of one whose step was declined',
    async arrange(rig) {
      const failed = await done(rig, call('settle', await order(rig), 'first', { tag: 'first', mood: 'D' }))
      return [call('retry', `actions/${failed.id}`, 'subject', {})]
    },
  },
  {
    name: 'Action.cancel',
    async arrange(rig) {
      const pondered = call('ponder', await account(rig), 'first', { amount: 1, gate: 'never' }, { mode: 'send' })
      const { id } = await done(rig, pondered)
      return [call('cancel', `actions/${id}`, 'subject', {})]
    },
  },
  {
    name: 'send, and the same key again',
    async arrange() {
      const input = { owner: 'olga', tag: 'subject' }
      return [
        call('enroll', 'accounts', 'subject', input, { mode: 'send' }),
        call('enroll', 'accounts', 'subject', input),
      ]
    },
  },
  {
    name: 'one key three times at once',
    atOnce: true,
    async arrange() {
      const subject = call('enroll', 'accounts', 'subject', { owner: 'olga', tag: 'subject' })
      return [subject, subject, subject]
    },
  },
  {
    name: 'a Verb without steps, its key three times at once',
    atOnce: true,
    async arrange(rig) {
      const subject = call('deposit', await account(rig), 'subject', { amount: 3 })
      return [subject, subject, subject]
    },
  },
  {
    name: 'a Record-Version that is the present one',
    arrange: async (rig) => [call('deposit', await account(rig), 'subject', { amount: 3 }, { version: 1 })],
  },
  {
    name: 'a Record-Version that is stale',
    async arrange(rig) {
      const on = await account(rig)
      await done(rig, call('deposit', on, 'other', { amount: 1 }))
      return [call('deposit', on, 'subject', { amount: 3 }, { version: 1 })]
    },
  },
  {
    name: 'a write and the one queued behind it',
    async arrange(rig) {
      const on = await account(rig)
      return [
        call('deposit', on, 'first', { amount: 3 }, { version: 1 }),
        call('deposit', on, 'subject', { amount: 4 }, { version: 1, after: 'first' }),
      ]
    },
  },
  {
    name: 'a write queued behind one that is pending',
    async arrange(rig) {
      const on = await account(rig)
      await done(rig, call('ponder', on, 'first', { amount: 3, gate: 'soon' }, { mode: 'send' }))
      return [call('deposit', on, 'subject', { amount: 4 }, { version: 1, after: 'first' })]
    },
    meanwhile: (outside) => outside.open('soon'),
  },
  {
    name: 'a change of a record that another Action holds',
    async arrange(rig) {
      const on = await account(rig)
      const [, id] = on.split('/')
      const slow = { account: id, amount: 9, tag: 'slow', mood: 'G' }
      await done(rig, call('twice', 'orders', 'first', slow, { waitMs: 40 }))
      return [call('deposit', on, 'subject', { amount: 4 })]
    },
    meanwhile: (outside) => outside.open('slow'),
  },
]
