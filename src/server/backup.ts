import { mkdirSync } from 'node:fs'
import { dirname, resolve } from 'node:path'
import {
  copyStore,
  destinationOf,
  ownDestination,
  publish,
  seal,
  takeDestination,
  type Progress,
} from '../store/sqlite/backup.ts'
import { LocalError } from './local-error.ts'
import { locally } from './open.ts'
import { verifyStore, type VerifyCounts } from './verify.ts'

/** What a finished copy holds, and what it took. */
export interface BackedUp {
  readonly file: string
  readonly bytes: number
  /** What had to be written, the log included: little when an earlier attempt was gone on with. */
  readonly writtenBytes: number
  /** The source's log at the end of the copy, which could not begin anew meanwhile. */
  readonly logBytes: number
  readonly counts: VerifyCounts
  /** The last seq of each namespace (E1): where readers of Events stand after a restore. */
  readonly seqs: Readonly<Record<string, number>>
  readonly ms: number
}

export interface BackupOptions {
  readonly replace: boolean
  readonly progress: Progress
}

/**
 * Copies a data file, which may be served meanwhile, to `file`: audited, on disk and whole, or not there at all. One that
 * was cut off goes on. Throws a LocalError for all that a person can mend.
 */
export async function backupStore(data: string, file: string, options: BackupOptions): Promise<BackedUp> {
  return locally(() => copied(data, file, options))
}

/**
 * Puts a backup where a server will look for it, when no store is there: a mere copy would have SQLite take an old log that
 * lies beside it for its own. Throws a LocalError for all that a person can mend.
 */
export async function restoreStore(file: string, data: string, progress: Progress): Promise<BackedUp> {
  return locally(async () => {
    mkdirSync(dirname(resolve(data)), { recursive: true })
    const end = await ownDestination(destinationOf(data, file, false, 'move it away first'))
    try {
      return await copied(file, data, { replace: false, progress })
    } finally {
      end()
    }
  })
}

/** A copy that is not whole is no backup: better to know it now than on the day when it is needed. */
async function audited(partial: string, file: string): Promise<VerifyCounts> {
  const faults: string[] = []
  const counts = await verifyStore(partial, (fault) => faults.push(fault))
  const [first] = faults
  if (first === undefined) return counts
  throw new LocalError(
    `The copy has ${faults.length} ${faults.length === 1 ? 'fault' : 'faults'}, the first: ${first}`,
    `${file} was not made; ${file}.partial is kept. Ask \`startup-builder verify\` about the data file.`,
  )
}

async function copied(data: string, file: string, { replace, progress }: BackupOptions): Promise<BackedUp> {
  const began = performance.now()
  const to = destinationOf(file, data, replace, 'give another name, or say --replace')
  const release = await takeDestination(to)
  try {
    const { writtenBytes, logBytes } = await copyStore(data, to, progress)
    const seqs = Object.fromEntries(seal(to))
    const counts = await audited(to.partial, file)
    const bytes = publish(to)
    return { file, bytes, writtenBytes, logBytes, counts, seqs, ms: Math.round(performance.now() - began) }
  } finally {
    release()
  }
}
