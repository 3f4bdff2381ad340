import { existsSync } from 'node:fs'
import { openSqlite, StoreOpenError } from '../store/sqlite/store.ts'
import { StoreUnavailable } from '../store/store.ts'
import type { Store, StoreOptions } from '../store/store.ts'
import { LocalError } from './local-error.ts'
import { machine } from './machine.ts'

/** Opens a data file to serve it: this process owns it from here on (V4). Throws a LocalError, and has changed nothing then. */
export async function openServed(
  data: string,
  onDoubt: StoreOptions['onDoubt'],
  onCommit: StoreOptions['onCommit'] | null,
): Promise<Store> {
  const told = onCommit ? { onCommit } : {}
  return locally(() => openSqlite(data, { role: 'server', machine, onDoubt, ...told }))
}

/**
 * Does some work on a data file that may be served at the same time, and closes it. Throws a LocalError when the file
 * can't be opened or written; without `create` also when it isn't there.
 */
export async function withStore<T>(
  data: string,
  { create }: { readonly create: boolean },
  work: (store: Store) => Promise<T>,
): Promise<T> {
  if (!create && !existsSync(data)) throw new LocalError(`There is no data file ${data}: say --data.`)
  const onDoubt = (reason: Error): void => endInDoubt(reason)
  return locally(async () => {
    const store = await openSqlite(data, { role: 'admin', mustExist: !create, machine, onDoubt })
    try {
      return await work(store)
    } finally {
      await store.close()
    }
  })
}

/** The store's own errors, as what they are to the user of a command: something to mend. Any other stays itself. */
export function asLocalError(error: unknown): unknown {
  const isStores = error instanceof StoreOpenError || error instanceof StoreUnavailable
  return isStores ? new LocalError(error.message) : error
}

/** Does some work with the store's own errors as LocalErrors. */
export async function locally<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    throw asLocalError(error)
  }
}

/** A command whose commit is in doubt must not claim that it did its work, nor that it did not. */
function endInDoubt(reason: Error): never {
  process.stderr.write(
    `startup-builder: ${reason.message}: it is not known whether this was done; look before doing it again\n`,
  )
  process.exit(1)
}
