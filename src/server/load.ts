import { execFileSync } from 'node:child_process'
import { existsSync, statSync } from 'node:fs'
import { relative, resolve } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import type { Startup } from '../model/startup.ts'
import { codeOf, LocalError, messageOf } from './local-error.ts'

/**
 * Loads the definition that a `.ts` or `.js` file exports as its default: a Startup, or an array of them, each of a
 * namespace of its own. Throws a LocalError that names what to mend, and where.
 */
export async function loadStartups(file: string): Promise<ReadonlyMap<string, Startup>> {
  const path = resolve(file)
  if (!existsSync(path)) throw new LocalError(`There is no file ${file}. Give the file that exports your definition.`)
  if (statSync(path).isDirectory())
    throw new LocalError(`${file} is a folder: give the file in it that exports your definition.`)
  let loaded: Record<string, unknown>
  try {
    loaded = (await import(pathToFileURL(path).href)) as Record<string, unknown>
  } catch (error) {
    throw loadError(file, path, error)
  }
  const exported = loaded['default']
  const startups: readonly unknown[] = Array.isArray(exported) ? exported : [exported]
  const byNamespace = new Map<string, Startup>()
  for (const startup of startups) {
    if (!isStartup(startup)) throw new LocalError(wrongExport(file, loaded, startup))
    if (byNamespace.has(startup.namespace)) {
      throw new LocalError(`${file} exports ${startup.namespace} twice: each Startup needs a namespace of its own.`)
    }
    byNamespace.set(startup.namespace, startup)
  }
  if (byNamespace.size === 0) throw new LocalError(`${file} exports an empty array: put a Startup in it.`)
  return byNamespace
}

/** Told by its shape, not its class: the file's own copy of the package may be another one than ours. */
function isStartup(value: unknown): value is Startup {
  if (typeof value !== 'object' || value === null) return false
  const { namespace, verbs, manifest } = value as Partial<Record<keyof Startup, unknown>>
  return typeof namespace === 'string' && verbs instanceof Map && typeof manifest === 'object'
}

function wrongExport(file: string, loaded: Record<string, unknown>, found: unknown): string {
  const mend = 'End it with `export default yours.serve({ verbs: […] })`.'
  if (!('default' in loaded)) {
    const names = Object.keys(loaded)
    const named = names.length === 0 ? 'exports nothing' : `exports ${names.join(', ')}, and nothing as its default`
    return `${file} ${named}. ${mend}`
  }
  if (typeof found === 'object' && found !== null && 'serve' in found && typeof found.serve === 'function') {
    return `The default export of ${file} is what \`startup(…)\` gives: its Verbs are missing. ${mend}`
  }
  return `The default export of ${file} is ${kindOf(found)}, not a Startup. ${mend}`
}

function kindOf(value: unknown): string {
  if (value === undefined || value === null) return String(value)
  if (value instanceof Promise) return 'a Promise'
  if (typeof value === 'object') return 'an object'
  return `a ${typeof value}`
}

/** What went wrong in the file, in words that lead to the line to mend. */
function loadError(file: string, path: string, error: unknown): LocalError {
  const faults = faultsOf(error)
  // Each names its own line (N1); a single one needs no heading.
  if (faults?.length === 1) return new LocalError(...faults)
  if (faults !== null) return new LocalError(`${file} cannot be served:`, ...faults.map((fault) => `  ${fault}`))
  const message = messageOf(error)
  const code = codeOf(error)
  const where = placeOf(error) ?? (error instanceof SyntaxError ? placeOfSyntaxError(path) : null) ?? file
  if (code === 'ERR_MODULE_NOT_FOUND' || code === 'ERR_PACKAGE_PATH_NOT_EXPORTED') {
    const importer = / imported from (.+)$/.exec(message)?.[1]
    const missing = message.replace(/ imported from .+$/, '').replace(/^Cannot find (package|module) /, '')
    const hint = missing.includes('/') ? '' : ` Install it: npm install ${missing.replaceAll("'", '')}`
    return new LocalError(
      `${importer === undefined ? file : short(importer)} imports ${missing}, which is not there.${hint}`,
    )
  }
  if (code === 'ERR_UNKNOWN_FILE_EXTENSION') {
    return new LocalError(`${file} is neither TypeScript nor JavaScript: give a .ts, .mts, .js or .mjs file.`)
  }
  const kind = error instanceof Error ? error.name : 'Thrown'
  return new LocalError(`${where}: ${kind}: ${message}`)
}

/** The sentences of a definition that can't work (N1): its own error, of whichever copy of the package. */
function faultsOf(error: unknown): readonly string[] | null {
  if (!(error instanceof Error) || error.name !== 'DefinitionError') return null
  if ('faults' in error && Array.isArray(error.faults) && error.faults.length > 0) return error.faults.map(String)
  return error.message.split('\n')
}

/** The first line of the author's own code that the error's stack names: `startup.ts:12`. */
function placeOf(error: unknown): string | null {
  const stack = error instanceof Error ? (error.stack ?? '') : ''
  for (const [, url = '', line = ''] of stack.matchAll(/(file:\/\/[^\s)]+?):(\d+)/g)) {
    const path = fileURLToPath(url)
    if (!path.includes('/node_modules/') && !path.startsWith(ownFolder)) return `${short(path)}:${line}`
  }
  return null
}

/** A fault in JavaScript's syntax has no place in its stack; a check of the file alone tells it. */
function placeOfSyntaxError(path: string): string | null {
  try {
    execFileSync(process.execPath, ['--check', path], { encoding: 'utf8', stdio: ['ignore', 'ignore', 'pipe'] })
    return null
  } catch (error) {
    const told = error instanceof Error && 'stderr' in error ? String(error.stderr) : ''
    const line = /^(?:file:\/\/)?\/.+:(\d+)$/m.exec(told)?.[1]
    return line === undefined ? null : `${short(path)}:${line}`
  }
}

/** Our own files, which are not where an author has something to mend. */
const ownFolder = fileURLToPath(new URL('..', import.meta.url))

/** A path as a person at this terminal would say it. */
function short(path: string): string {
  const near = relative(process.cwd(), path)
  return near.startsWith('..') ? path : near
}
