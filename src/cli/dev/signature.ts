import { statSync } from 'node:fs'

/** What tells one state of a file from another. An editor that saves by renaming gives it a new inode. */
export function signatureOf(path: string): string {
  const stat = statSync(path, { throwIfNoEntry: false })
  return stat === undefined ? 'absent' : `${stat.ino} ${stat.size} ${stat.mtimeMs}`
}
