// What `npm start`, `npm test` and the other commands run first: installs and builds what is missing or out of date.
// Runs on Node >= 18 with Node's own modules only, because on a fresh clone there is nothing else.
import { spawnSync } from 'node:child_process'
import { existsSync, readFileSync, symlinkSync } from 'node:fs'
import { delimiter, dirname, join, relative } from 'node:path'
import { buildWhenStale, productNode, root } from './build.mjs'

/** @typedef {{ version?: string, integrity?: string, optional?: boolean, devOptional?: boolean, link?: boolean }} LockedPackage */

/** The least Node that runs the product (package.json, engines). */
const nodeWanted = { major: 22, minor: 18 }

/** PATH without this checkout's node_modules: npm must not run on the Node that `npm ci` is about to replace. */
function outerPath() {
  const own = join(root, 'node_modules', '.bin')
  return (process.env['PATH'] ?? '')
    .split(delimiter)
    .filter((entry) => entry !== own)
    .join(delimiter)
}

/**
 * Runs a command in a folder, shown to the user.
 * @param {string} command
 * @param {string[]} args
 * @param {string} cwd
 */
function run(command, args, cwd) {
  const env = { ...process.env, PATH: outerPath() }
  return spawnSync(command, args, { cwd, env, stdio: 'inherit', shell: process.platform === 'win32' }).status === 0
}

/**
 * The packages that a lock file names.
 * @param {string} path
 * @returns {Record<string, LockedPackage>}
 */
function packagesIn(path) {
  /** @type {unknown} */
  const lock = JSON.parse(readFileSync(path, 'utf8'))
  return /** @type {{ packages: Record<string, LockedPackage> }} */ (lock).packages
}

/** Whether node_modules holds what the lock says. Compared by content: a clone or a checkout makes file times mean nothing. */
function installed() {
  const hidden = join(root, 'node_modules/.package-lock.json')
  if (!existsSync(hidden)) return false
  const there = packagesIn(hidden)
  return Object.entries(packagesIn(join(root, 'package-lock.json'))).every(([path, wanted]) => {
    if (path === '' || wanted.link) return true
    const found = there[path]
    if (!found) return Boolean(wanted.optional || wanted.devOptional) // of another platform
    return found.version === wanted.version && found.integrity === wanted.integrity
  })
}

/**
 * Whether a Node is new enough to run the product.
 * @param {string} path
 */
function isNewEnough(path) {
  const run = spawnSync(path, ['--version'], { encoding: 'utf8' })
  const [major = 0, minor = 0] = (run.stdout ?? '').replace('v', '').split('.').map(Number)
  return major > nodeWanted.major || (major === nodeWanted.major && minor >= nodeWanted.minor)
}

/** Makes sure of a Node that runs the product: npm may have been told not to run the install script that brings it. */
function ensureNode() {
  if (isNewEnough(productNode())) return
  console.error('startup-builder: the install script of the package "node" did not run; running it now')
  const brought = join(root, 'node_modules/node/bin/node')
  const link = join(root, 'node_modules/.bin/node')
  run(process.execPath, ['installArchSpecificPackage.js'], join(root, 'node_modules/node'))
  if (existsSync(brought) && !existsSync(link)) symlinkSync(relative(dirname(link), brought), link)
  if (isNewEnough(productNode())) return
  throw new Error(
    `Node >= ${nodeWanted.major}.${nodeWanted.minor} is needed; this is ${process.version}, and the package "node" could not be installed`,
  )
}

try {
  if (!installed()) {
    console.error('startup-builder: installing packages (npm ci)')
    if (!run('npm', ['ci', '--no-audit', '--no-fund'], root)) throw new Error('npm ci failed; the lines above say why')
  }
  ensureNode()
  buildWhenStale()
} catch (error) {
  console.error(`startup-builder: ${error instanceof Error ? error.message : String(error)}`)
  process.exitCode = 1
}
