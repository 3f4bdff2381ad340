import { spawnSync } from 'node:child_process'

/** Whether Debian's package manager says that a package is installed. */
function isInstalled(name: string): boolean {
  const query = spawnSync('dpkg-query', ['--show', '--showformat=${db:Status-Status}', name], { encoding: 'utf8' })
  return query.status === 0 && query.stdout === 'installed'
}

function apt(...args: string[]): boolean {
  const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive' }
  return spawnSync('apt-get', args, { stdio: ['ignore', process.stderr.fd, process.stderr.fd], env }).status === 0
}

/**
 * Makes sure that the named Debian packages are there, installing them when root.
 * Throws an error that names the missing ones and the command that brings them.
 */
export function ensureDebianPackages(names: readonly string[]): void {
  const missing = names.filter((name) => !isInstalled(name))
  if (missing.length === 0) return
  const install = ['install', '--yes', '--no-install-recommends', ...missing]
  // The package lists of a fresh machine may be absent or name versions that are gone: only then are they fetched.
  const done = process.getuid?.() === 0 && (apt(...install) || (apt('update') && apt(...install)))
  if (!done) throw new Error(`missing Debian packages; as root run: apt-get install ${missing.join(' ')}`)
}
