import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { actionJson } from '../../src/model/action.ts'
import type { ActionId } from '../../src/model/ids.ts'
import { machine } from '../../src/server/machine.ts'
import { openSqlite } from '../../src/store/sqlite/store.ts'
import type { Store } from '../../src/store/store.ts'
import { runCli, startServer } from '../support/server.ts'
import type { TestPayments } from '../support/server.ts'
import type { Disclosure } from './disclosures.ts'
import type { KeyOwners, Life } from './life.ts'

const namespace = 'glyphs.store'

/** What is wrong with a disk after a power loss: faults of the store, and what was told and is gone. */
export async function faultsOf(folder: string, told: readonly Disclosure[], actionOfKey: KeyOwners): Promise<string[]> {
  const faults: string[] = []
  const onDoubt = (reason: Error): void => void faults.push(`in doubt: ${reason.message}`)
  let store: Store
  try {
    store = await openSqlite(join(folder, 'startup.db'), { role: 'server', machine, onDoubt })
  } catch (error) {
    return [`it can't be opened: ${String(error)}`]
  }
  try {
    await store.verify((fault) => faults.push(fault))
    for (const one of newest(told)) {
      const fault = await missing(store, one, actionOfKey)
      if (fault !== null) faults.push(fault)
    }
  } finally {
    await store.close()
  }
  return faults
}

/** Many messages tell the same: of each thing only the last that was told of it is looked up. */
function newest(told: readonly Disclosure[]): Disclosure[] {
  const found = new Map<string, Disclosure>()
  for (const one of told) {
    const name = nameOf(one)
    const known = found.get(name)
    if (known?.kind === 'action' && known.settled !== null) continue
    if (known?.kind === 'record' && one.kind === 'record' && known.version >= one.version) continue
    found.set(name, one)
  }
  return [...found.values()]
}

function nameOf(one: Disclosure): string {
  if (one.kind === 'event') return `event ${one.seq}`
  if (one.kind === 'step') return one.key
  return one.kind === 'worker' ? one.name : one.id
}

async function missing(store: Store, told: Disclosure, actionOfKey: KeyOwners): Promise<string | null> {
  switch (told.kind) {
    case 'action': {
      const action = await store.action(namespace, told.id as ActionId)
      if (action === null) return `Action ${told.id} was told and is gone`
      if (told.settled === null) return null
      const text = actionJson(action)
      return text === JSON.stringify(told.settled)
        ? null
        : `Action ${told.id} was told as ${JSON.stringify(told.settled)} and is ${text}`
    }
    case 'record': {
      const record = await store.record(namespace, told.noun, told.id)
      const version = record === null ? 0 : Math.abs(record.version)
      return version >= told.version ? null : `${told.id} was told at Version ${told.version} and is at ${version}`
    }
    case 'event': {
      const [event] = await store.events(namespace, told.seq - 1, 1)
      return event?.id === told.id && event.action === told.action
        ? null
        : `Event ${told.seq} was told as ${told.id} and is ${event?.id}`
    }
    case 'step': {
      const id = actionOfKey.get(told.key)
      if (id === undefined) return null
      const action = await store.action(namespace, id as ActionId)
      return action?.steps.length === 1 ? null : `the provider was asked by ${id}, and no start of its step is on disk`
    }
    case 'worker': {
      const workers = await store.workers(null)
      return workers.some(({ name }) => name === told.name) ? null : `Worker ${told.name} was added and is gone`
    }
    default:
      return told satisfies never
  }
}

/** Serves what a power loss left: what was answered is answered the same, the rest settles, and it can be verified. */
export async function serveAgain(
  folder: string,
  told: readonly Disclosure[],
  life: Life,
  payments: TestPayments,
): Promise<string[]> {
  const faults: string[] = []
  const data = join(folder, 'startup.db')
  const verified = await runCli(['verify', '--data', data])
  if (existsSync(data) && verified.status !== 0) faults.push(`verify: ${verified.stdout}${verified.stderr}`)
  await using server = await startServer({ data, env: { PAYMENTS_URL: payments.url } })
  const settled = new Map<string, string>()
  for (const one of told)
    if (one.kind === 'action' && one.settled !== null) settled.set(one.id, JSON.stringify(one.settled))
  for (const { key, path, body, action } of life.shop.calls) {
    const expected = settled.get(action ?? '')
    if (expected === undefined) continue
    const headers = {
      authorization: `Bearer ${life.token}`,
      'content-type': 'application/json',
      'idempotency-key': key,
    }
    const response = await fetch(server.url + path, { method: 'POST', headers, body })
    const text = await response.text()
    if (text !== expected) faults.push(`${key} was answered ${expected} and is now answered ${response.status} ${text}`)
    if (response.headers.get('idempotent-replayed') !== 'true') faults.push(`${key} was not replayed`)
  }
  const after = await server.cli('verify')
  if (after.status !== 0) faults.push(`verify, served: ${after.stdout}${after.stderr}`)
  return faults
}
