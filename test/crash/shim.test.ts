import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { afterAll, describe, expect, test } from 'vitest'
import { endAll, newFolder, root } from '../support/server.ts'
import { chance, Disk, losses } from '../support/shim/disk.ts'
import { sentMessages } from '../support/shim/sends.ts'
import { readDiskLog, shimEnv } from '../support/shim/shim.ts'
import type { DiskRecord } from '../support/shim/shim.ts'

afterAll(endAll)

/** Runs the toy on a watched disk, cuts its power at many moments and tells what an answer had promised and is gone. */
function losesOf(mode: 'full' | 'off' | 'own'): { cuts: number; lost: number; damaged: number; unsynced: number } {
  const folder = newFolder(`toy-${mode}`)
  const data = join(folder, 'data')
  mkdirSync(data)
  const log = join(folder, 'disk.log')
  const disk = new Disk(data)
  execFileSync(process.execPath, [join(root, 'test/support/shim/toy-writer.mjs'), join(data, 'toy.db'), mode, '60'], {
    env: { ...process.env, ...shimEnv({ folder: data, log }) },
  })
  const random = chance(8812)
  const records = readDiskLog(log)
  const answers = sentMessages(records).filter(({ line }) => line.startsWith('HTTP/1.1 200'))
  const found = { cuts: 0, lost: 0, damaged: 0, unsynced: 0 }
  for (const record of records) {
    disk.apply(record)
    if (random() < 0.7) continue
    found.cuts++
    found.unsynced = Math.max(found.unsynced, disk.unsynced('toy.db-wal'))
    const image = join(folder, `cut-${found.cuts}`)
    disk.lose(image, losses[found.cuts % losses.length] ?? 'all', random)
    const promised = answers.filter(({ position }) => position <= record.end).length
    const kept = rowsOf(join(image, 'toy.db'))
    if (kept === null) found.damaged++
    else if (kept < promised) found.lost++
  }
  return found
}

/** How many rows an image holds, null when it is damaged. */
function rowsOf(path: string): number | null {
  if (!existsSync(path)) return 0
  const db = new DatabaseSync(path)
  try {
    if ((db.prepare('PRAGMA integrity_check').get() as { integrity_check: string }).integrity_check !== 'ok')
      return null
    if (db.prepare('SELECT count(*) AS n FROM sqlite_schema').get()?.['n'] === 0) return 0
    return Number(db.prepare('SELECT count(*) AS n FROM kept').get()?.['n'])
  } catch (error) {
    if (error instanceof Error && 'errcode' in error) return null
    throw error
  } finally {
    db.close()
  }
}

describe('the check by power loss can tell a program that syncs from one that does not', () => {
  test('R3: SQLite with synchronous=FULL loses nothing that it promised', () => {
    const { cuts, lost, damaged, unsynced } = losesOf('full')
    expect({ lost, damaged }).toEqual({ lost: 0, damaged: 0 })
    expect(cuts).toBeGreaterThan(50)
    expect(unsynced).toBeGreaterThan(0)
  })

  test('R3: a program that syncs the log by itself before it answers loses nothing', () => {
    const { lost, damaged } = losesOf('own')
    expect({ lost, damaged }).toEqual({ lost: 0, damaged: 0 })
  })

  test('R3: with synchronous=OFF promised rows are lost, and the check finds it', () => {
    const { lost, damaged } = losesOf('off')
    expect(lost + damaged).toBeGreaterThan(5)
  })
})

describe('a disk', () => {
  const record = (kind: DiskRecord['kind'], more: Partial<DiskRecord>): DiskRecord => ({
    end: 0,
    kind,
    pid: 1,
    fd: 3,
    at: 0,
    path: '',
    data: Buffer.alloc(0),
    created: false,
    emptied: false,
    failed: false,
    ...more,
  })

  test('R3: a sync covers what was written before it began, and a failed one is never made up for', () => {
    const folder = newFolder('disk')
    const disk = new Disk(folder)
    const write = (text: string, at: number) => disk.apply(record('write', { at, data: Buffer.from(text) }))
    const left = (): string => {
      const image = newFolder('image')
      disk.lose(image, 'all', chance(1))
      return execFileSync('cat', [join(image, 'file')], { encoding: 'latin1' })
    }
    disk.apply(record('open', { path: join(folder, 'file'), created: true }))
    disk.apply(record('open', { fd: 4, path: folder }))
    disk.apply(record('sync-begin', { fd: 4, at: 1 }))
    disk.apply(record('sync-end', { fd: 4, at: 1 }))
    write('one', 0)
    disk.apply(record('sync-begin', { at: 2 }))
    write('two', 3)
    expect(left()).toBe('')
    disk.apply(record('sync-end', { at: 2 }))
    expect(left()).toBe('one')
    disk.apply(record('sync-begin', { at: 3 }))
    disk.apply(record('sync-end', { at: 3, failed: true }))
    write('!', 0)
    disk.apply(record('sync-begin', { at: 4 }))
    disk.apply(record('sync-end', { at: 4 }))
    expect(left()).toBe('!ne')
  })
})
