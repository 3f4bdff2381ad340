// Builds dist/ from src/ when it is missing or older. Runs on Node >= 18 with Node's own modules only, because
// it is part of the set-up that happens before Node 24 is there; the compiler itself runs on the Node that has it.
// Types are not checked here: `npm test` does that, and a type error must not keep the tests from running.
import { spawnSync } from 'node:child_process'
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'

export const root = join(dirname(fileURLToPath(import.meta.url)), '..')
const bin = join(root, 'node_modules/.bin')
const cli = join(root, 'dist/cli/main.js')
const stamp = join(root, 'node_modules/.cache/startup-builder/built')

/** The compiler's exit status when it found mistakes and wrote its output all the same. */
const emittedWithErrors = 2

/** The Node that runs the product: the installed Node 24, else the one that runs this. */
export function productNode() {
  const installed = join(bin, process.platform === 'win32' ? 'node.cmd' : 'node')
  return existsSync(installed) ? installed : process.execPath
}

/**
 * Every file under a folder, by its path from there.
 * @param {string} folder
 * @returns {string[]}
 */
function filesUnder(folder) {
  if (!existsSync(folder)) return []
  return readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    const path = join(folder, entry.name)
    if (!entry.isDirectory()) return [entry.name]
    return filesUnder(path).map((inner) => join(entry.name, inner))
  })
}

/** What dist/ is made from, as one comparable text: paths, sizes and times, so that a deletion counts too. */
function sourcesNow() {
  const sources = filesUnder(join(root, 'src')).map((path) => join('src', path))
  return [...sources, 'tsconfig.json', 'tsconfig.build.json']
    .sort()
    .map((path) => {
      const { size, mtimeMs } = statSync(join(root, path))
      return `${path} ${size} ${mtimeMs}`
    })
    .join('\n')
}

/** Removes what an earlier build left of a source that is gone. */
function removeOrphans() {
  for (const built of filesUnder(join(root, 'dist'))) {
    const source = join(root, 'src', built.replace(/(\.d\.ts|\.js)$/, '.ts'))
    if (!existsSync(source)) rmSync(join(root, 'dist', built))
  }
}

/** `npx startup-builder` in the checkout finds the built command line here, as it would in a project that installed it. */
function linkCli() {
  if (!existsSync(cli)) return
  chmodSync(cli, 0o755)
  const link = join(bin, 'startup-builder')
  if (existsSync(link)) return
  rmSync(link, { force: true }) // one that points at nothing
  symlinkSync(relative(bin, cli), link)
}

/**
 * Puts what was compiled in its place, file by file and each in one move: what runs from dist/ meanwhile never reads half
 * a file, and what did not change stays as it is.
 * @param {string} compiled
 */
function moveIntoPlace(compiled) {
  for (const path of filesUnder(compiled)) {
    const [from, to] = [join(compiled, path), join(root, 'dist', path)]
    if (existsSync(to) && readFileSync(to).equals(readFileSync(from))) continue
    mkdirSync(dirname(to), { recursive: true })
    renameSync(from, to)
  }
}

/** Compiles src/ into dist/. Throws when nothing could be written. */
export function build() {
  const sources = sourcesNow()
  mkdirSync(dirname(stamp), { recursive: true })
  const compiled = mkdtempSync(join(dirname(stamp), 'compiled-'))
  const args = ['-p', 'tsconfig.build.json', '--noCheck', '--outDir', compiled]
  const tsc = join(root, 'node_modules/typescript/bin/tsc')
  const run = spawnSync(productNode(), [tsc, ...args], { cwd: root, stdio: 'inherit' })
  const written = run.status === 0 || run.status === emittedWithErrors
  if (written) moveIntoPlace(compiled)
  rmSync(compiled, { recursive: true, force: true })
  if (!written) throw new Error('src/ could not be compiled; see above')
  removeOrphans()
  linkCli()
  // What has a mistake is built again next time: no stamp.
  if (run.status === emittedWithErrors) return console.error('startup-builder: src/ was compiled with the errors above')
  writeFileSync(stamp, sources)
}

/** Compiles src/ into dist/ if anything there changed since the last time. */
export function buildWhenStale() {
  const fresh = existsSync(stamp) && existsSync(cli) && existsSync(join(bin, 'startup-builder'))
  if (!fresh || readFileSync(stamp, 'utf8') !== sourcesNow()) build()
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) build()
