/** Where and on what a result was measured: a number without them means nothing. */
import { execFileSync } from 'node:child_process'
import { mkdirSync } from 'node:fs'
import { arch, cpus, release, totalmem, type } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

export interface Facts {
  readonly command: string
  readonly date: string
  readonly commit: string
  readonly cpu: string
  readonly cores: number
  readonly memoryGb: number
  readonly system: string
  readonly node: string
  readonly sqlite: string
}

export function machineFacts(args: readonly string[]): Facts {
  return {
    command: ['npm run bench', ...(args.length > 0 ? ['--', ...args] : [])].join(' '),
    date: new Date().toISOString(),
    commit: commit(),
    cpu: cpus()[0]?.model ?? 'unknown',
    cores: cpus().length,
    memoryGb: Math.round(totalmem() / 2 ** 30),
    system: `${type()} ${release()} ${arch()}`,
    node: process.version,
    sqlite: process.versions['sqlite'] ?? 'unknown',
  }
}

function commit(): string {
  try {
    const git = (...args: string[]): string =>
      execFileSync('git', args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }).trim()
    return git('rev-parse', '--short', 'HEAD') + (git('status', '--porcelain') === '' ? '' : ', changed')
  } catch {
    return 'none' // no repository, no commit yet, or no git
  }
}

/** Builds the library that makes fsync and fdatasync slower; gives the environment of processes that are to feel it. */
export function slowDisk(folder: string, ms: number): NodeJS.ProcessEnv {
  if (ms === 0) return {}
  mkdirSync(folder, { recursive: true })
  const library = join(folder, 'delay.so')
  const source = fileURLToPath(new URL('shim/delay.c', import.meta.url))
  execFileSync('cc', ['-shared', '-fPIC', '-O2', '-Wall', '-o', library, source, '-ldl'], { stdio: 'inherit' })
  return { LD_PRELOAD: library, FSYNC_DELAY_US: String(Math.round(ms * 1000)) }
}
