import { spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { ensureDebianPackages } from '../../../scripts/debian.ts'

/** What the shim is asked to do; see disk.c. Paths are absolute. */
export interface ShimOptions {
  /** The folder that is watched. */
  readonly folder: string
  readonly log?: string
  /** Microseconds added to each sync. */
  readonly syncUs?: number
  /** While the file exists, syncs fail. */
  readonly syncFails?: string
  /** Only of files whose names end so. */
  readonly syncFailsOn?: string
  /** Syncs do nothing and say that all is well: a disk on which every promise is broken. */
  readonly syncLies?: boolean
  /** While the file exists, the disk is full. */
  readonly full?: string
  /** While the file exists, the disk takes no writes. */
  readonly readOnly?: string
}

let built: { readonly folder: string; readonly library: string } | null = null

/** Builds the shim, once for a test file, and gives its path. */
export function shimLibrary(): string {
  if (built !== null) return built.library
  ensureDebianPackages(['gcc', 'libc6-dev'])
  const folder = mkdtempSync(join(tmpdir(), 'disk-shim-'))
  const library = join(folder, 'disk.so')
  const source = join(import.meta.dirname, 'disk.c')
  const options = ['-O2', '-Wall', '-Wextra', '-Werror', '-shared', '-fPIC']
  const ran = spawnSync('cc', [...options, '-o', library, source, '-ldl'], { encoding: 'utf8' })
  if (ran.status !== 0) throw new Error(`the shim could not be built: ${ran.error?.message ?? ran.stderr}`)
  process.once('exit', () => rmSync(folder, { recursive: true, force: true }))
  built = { folder, library }
  return library
}

/** The environment of a process that is to run on this disk. */
export function shimEnv(options: ShimOptions): Record<string, string> {
  const env: Record<string, string> = { LD_PRELOAD: shimLibrary(), DISK_FOLDER: options.folder }
  if (options.log !== undefined) env['DISK_LOG'] = options.log
  if (options.syncUs !== undefined) env['DISK_SYNC_US'] = String(options.syncUs)
  if (options.syncFails !== undefined) env['DISK_SYNC_FAILS'] = options.syncFails
  if (options.syncFailsOn !== undefined) env['DISK_SYNC_FAILS_ON'] = options.syncFailsOn
  if (options.syncLies === true) env['DISK_SYNC_LIES'] = '1'
  if (options.full !== undefined) env['DISK_FULL'] = options.full
  if (options.readOnly !== undefined) env['DISK_READ_ONLY'] = options.readOnly
  return env
}

/** A fault of the disk that a test turns on and off: a file that is there or isn't. */
export interface Fault {
  readonly path: string
  on(): void
  off(): void
}

export function fault(path: string): Fault {
  return { path, on: () => writeFileSync(path, ''), off: () => rmSync(path, { force: true }) }
}

/** In the order of disk.c. */
const kinds = [
  'open',
  'close',
  'write',
  'truncate',
  'sync-begin',
  'sync-end',
  'unlink',
  'rename',
  'socket',
  'send',
  'sent',
] as const

const headerBytes = 32
const created = 1
const emptied = 2
const failed = 4

/** One thing that a process asked the kernel to do. */
export interface DiskRecord {
  /** Where the record ends in the log, in bytes: a log cut there holds it and all before it. */
  readonly end: number
  readonly kind: (typeof kinds)[number]
  readonly pid: number
  readonly fd: number
  /** Offset of a write, length of a truncation, serial number of a sync, bytes taken of a send. */
  readonly at: number
  readonly path: string
  readonly data: Buffer
  /** An `open` that made the file, or emptied it. */
  readonly created: boolean
  readonly emptied: boolean
  /** A sync that failed. */
  readonly failed: boolean
}

/** Reads a shim's log. The bytes of a record are a view of the log's. */
export function readDiskLog(path: string): DiskRecord[] {
  const log = readFileSync(path)
  const records: DiskRecord[] = []
  for (let at = 0; at < log.length;) {
    const bytes = log.readUInt32LE(at)
    const kind = kinds[log.readUInt32LE(at + 4) - 1]
    if (kind === undefined || bytes < headerBytes) throw new Error(`no record at byte ${at} of ${path}`)
    const flags = log.readUInt32LE(at + 8)
    const pathEnd = at + headerBytes + log.readUInt32LE(at + 20)
    const end = at + bytes
    records.push({
      end,
      kind,
      pid: log.readUInt32LE(at + 12),
      fd: log.readInt32LE(at + 16),
      at: Number(log.readBigUInt64LE(at + 24)),
      path: log.toString('utf8', at + headerBytes, pathEnd),
      data: log.subarray(pathEnd, end),
      created: (flags & created) !== 0,
      emptied: (flags & emptied) !== 0,
      failed: (flags & failed) !== 0,
    })
    at = end
  }
  return records
}
