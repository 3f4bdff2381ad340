import { createHash } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { root } from './processes.ts'

/** What a kept data file answers, as the version that wrote it did. */
export interface Kept {
  readonly version: string
  /** Of the migrations as they were: a file's format is what they made. */
  readonly schema: string
  /** Of the data file, before it was compressed. */
  readonly sha256: string
  readonly calls: readonly KeptCall[]
}

export interface KeptCall {
  readonly namespace: string
  readonly worker: string
  readonly key: string
  readonly path: string
  readonly input: object
  readonly headers: Readonly<Record<string, string>>
  /** The Action, byte for byte; null while it was pending. */
  readonly answer: string | null
}

const migrations = join(root, 'src/store/sqlite/migrations')

/** A hash of what the first `count` migrations do to a file, their comments and layout apart; of all unless told. */
export function schemaHash(count = Infinity): string {
  const hash = createHash('sha256')
  for (const name of readdirSync(migrations).sort().slice(0, count)) {
    const text = readFileSync(join(migrations, name), 'utf8')
    hash.update(
      text
        .slice(text.indexOf('`'))
        .replace(/^\s*--.*$/gm, '')
        .replace(/\s+/g, ' '),
    )
  }
  return hash.digest('hex')
}
