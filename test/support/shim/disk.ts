import { mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import type { DiskRecord } from './shim.ts'

/** What a disk writes at once: a power loss tears a write at these bounds. */
const sectorBytes = 512

/** What may have reached the disk of what was not synced. */
export type Loss =
  /** Nothing: all that was promised, and no more. */
  | 'all'
  /** Everything: as after a crash of the process alone. */
  | 'nothing'
  /** Each write by itself is there, is not, or is torn. */
  | 'some'
  /** All up to some write, which is torn. */
  | 'tail'

export const losses: readonly Loss[] = ['all', 'nothing', 'some', 'tail']

/** Chance with a seed, so that a failure can be run again (mulberry32). */
export type Chance = () => number

export function chance(seed: number): Chance {
  let state = seed >>> 0
  return () => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}

type Change = { readonly serial: number } & (
  | { readonly kind: 'write'; readonly at: number; readonly data: Buffer }
  | { readonly kind: 'truncate'; readonly bytes: number }
)
type Renaming = { readonly serial: number; readonly name: string; readonly file: WatchedFile | null }

/** Bytes that grow and shrink; what was never written is zero. */
class Content {
  #bytes: Buffer
  size: number

  constructor(bytes: Buffer) {
    this.#bytes = bytes
    this.size = bytes.length
  }

  copy(): Content {
    return new Content(Buffer.from(this.read()))
  }

  read(): Buffer {
    return this.#bytes.subarray(0, this.size)
  }

  apply(change: Change): void {
    if (change.kind === 'truncate') return this.#resize(change.bytes)
    if (change.at + change.data.length > this.size) this.#resize(change.at + change.data.length)
    change.data.copy(this.#bytes, change.at)
  }

  #resize(size: number): void {
    if (size > this.#bytes.length) {
      const grown = Buffer.alloc(Math.max(size, this.#bytes.length * 2))
      this.read().copy(grown)
      this.#bytes = grown
    } else if (size < this.size) this.#bytes.fill(0, size, this.size)
    this.size = size
  }
}

/** A file: what is surely on disk, and what was done to it since. */
class WatchedFile {
  readonly synced: Content
  pending: Change[] = []
  /** Up to here the disk failed to take it: a later sync promises nothing about it, though the process can read it. */
  forsaken = 0

  constructor(bytes: Buffer) {
    this.synced = new Content(bytes)
  }

  sync(upTo: number): void {
    for (const change of this.pending) {
      if (change.serial <= upTo && change.serial > this.forsaken) this.synced.apply(change)
    }
    this.pending = this.pending.filter(({ serial }) => serial > upTo)
  }
}

/**
 * One folder of a disk, as the records of the shim make it. At any moment it can say what a power loss would leave: all
 * that was written before a sync began that has ended well, of the rest what chance keeps. Names too are kept for sure
 * only once their folder was synced, and in their order, as every journalling file system does.
 */
export class Disk {
  readonly #folder: string
  /** By name: what a process sees, and what is on disk for sure. */
  readonly #names = new Map<string, WatchedFile>()
  readonly #syncedNames = new Map<string, WatchedFile>()
  #renamings: Renaming[] = []
  /** Open files by process and descriptor; the folder itself is null. */
  readonly #open = new Map<string, WatchedFile | null>()
  readonly #syncs = new Map<string, number>()
  #serial = 0

  /** The disk of `folder`, which the records name. It holds what `from` holds, all of it synced. */
  constructor(folder: string, from = folder) {
    this.#folder = folder
    for (const name of readdirSync(from)) {
      const path = join(from, name)
      if (!statSync(path).isFile()) continue
      const file = new WatchedFile(readFileSync(path))
      this.#names.set(name, file)
      this.#syncedNames.set(name, file)
    }
  }

  /** What a process did next. */
  apply(record: DiskRecord): void {
    const handle = `${record.pid} ${record.fd}`
    switch (record.kind) {
      case 'open':
        return this.#opened(handle, record)
      case 'close':
        return void this.#open.delete(handle)
      case 'write':
        return this.#change(handle, { serial: ++this.#serial, kind: 'write', at: record.at, data: record.data })
      case 'truncate':
        return this.#change(handle, { serial: ++this.#serial, kind: 'truncate', bytes: record.at })
      case 'sync-begin':
        return void this.#syncs.set(`${record.pid} ${record.at}`, this.#serial)
      case 'sync-end':
        return this.#syncEnded(handle, record)
      case 'unlink':
        return this.#rename(basename(record.path), null)
      case 'rename': {
        const file = this.#names.get(basename(record.path)) ?? null
        this.#rename(basename(record.path), null)
        return this.#rename(basename(record.data.toString('utf8')), file)
      }
      case 'socket':
      case 'send':
      case 'sent':
        return
      default:
        return record.kind satisfies never
    }
  }

  #opened(handle: string, record: DiskRecord): void {
    if (record.path === this.#folder) return void this.#open.set(handle, null)
    if (dirname(record.path) !== this.#folder) return
    const name = basename(record.path)
    let file = this.#names.get(name)
    if (file === undefined) {
      file = new WatchedFile(Buffer.alloc(0))
      this.#rename(name, file)
    }
    this.#open.set(handle, file)
    if (record.emptied) this.#change(handle, { serial: ++this.#serial, kind: 'truncate', bytes: 0 })
  }

  #change(handle: string, change: Change): void {
    this.#open.get(handle)?.pending.push(change)
  }

  #rename(name: string, file: WatchedFile | null): void {
    if (file === null) this.#names.delete(name)
    else this.#names.set(name, file)
    this.#renamings.push({ serial: ++this.#serial, name, file })
  }

  #syncEnded(handle: string, record: DiskRecord): void {
    const upTo = this.#syncs.get(`${record.pid} ${record.at}`)
    this.#syncs.delete(`${record.pid} ${record.at}`)
    const file = this.#open.get(handle)
    if (upTo === undefined || file === undefined) return
    if (file === null) {
      if (record.failed) return
      for (const { serial, name, file: named } of this.#renamings) {
        if (serial > upTo) continue
        if (named === null) this.#syncedNames.delete(name)
        else this.#syncedNames.set(name, named)
      }
      this.#renamings = this.#renamings.filter(({ serial }) => serial > upTo)
    } else if (record.failed) file.forsaken = Math.max(file.forsaken, upTo)
    else file.sync(upTo)
  }

  /** How many writes to a file are not on disk for sure: 0 means that a power loss loses nothing of it now. */
  unsynced(name: string): number {
    return this.#names.get(name)?.pending.length ?? 0
  }

  /** Writes to `folder` what a power loss at this moment leaves. */
  lose(folder: string, loss: Loss, chance: Chance): void {
    mkdirSync(folder, { recursive: true })
    const names = new Map(this.#syncedNames)
    const kept = loss === 'all' ? 0 : loss === 'nothing' ? 1 : chance()
    for (const { name, file } of this.#renamings.slice(0, Math.round(kept * this.#renamings.length))) {
      if (file === null) names.delete(name)
      else names.set(name, file)
    }
    for (const [name, file] of names) {
      if (!isMemory(name)) writeFileSync(join(folder, name), remains(file, loss, chance))
    }
  }
}

/** SQLite's wal-index is shared memory with a name: it is never read after a power loss. */
function isMemory(name: string): boolean {
  return name.endsWith('-shm')
}

function remains(file: WatchedFile, loss: Loss, chance: Chance): Buffer {
  if (loss === 'all' || file.pending.length === 0) return file.synced.read()
  const content = file.synced.copy()
  const tail = Math.floor(chance() * file.pending.length)
  file.pending.forEach((change, index) => {
    const luck = chance()
    if (loss === 'nothing' || (loss === 'some' && luck < 0.4) || (loss === 'tail' && index < tail))
      content.apply(change)
    else if (change.kind === 'write' && ((loss === 'some' && luck < 0.7) || (loss === 'tail' && index === tail))) {
      for (const sector of sectors(change, chance)) content.apply(sector)
    }
  })
  return content.read()
}

/** The sectors of a torn write that reached the disk: any of them, in no order. */
function* sectors(change: Change & { kind: 'write' }, chance: Chance): Generator<Change> {
  const { serial, at, data } = change
  for (let from = 0; from < data.length;) {
    const to = Math.min(data.length, from + sectorBytes - ((at + from) % sectorBytes))
    if (chance() < 0.5) yield { serial, kind: 'write', at: at + from, data: data.subarray(from, to) }
    from = to
  }
}
