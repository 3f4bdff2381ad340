// Draws the rooms of src/ and who imports whom into ARCHITECTURE.md, from the code itself. Run by `npm run picture`.
import { spawnSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

/** What is read of dependency-cruiser's JSON. */
interface Cruise {
  modules: { source: string; dependencies: { resolved: string }[] }[]
}

const root = join(import.meta.dirname, '..')
const start = '<!-- rooms:start -->'
const end = '<!-- rooms:end -->'

/** The page that holds the picture. */
export const architecturePath = join(root, 'ARCHITECTURE.md')

/** The room of a file: its folder in src/, the two stores apart from their seam. Null for what is no part of the product. */
function roomOf(path: string): string | null {
  if (path.endsWith('.test.ts')) return null
  if (path === 'src/index.ts') return 'index'
  return /^src\/(store\/(?:sqlite|postgres)|[^/]+)\//.exec(path)?.[1] ?? null
}

function cruise(): Cruise {
  const tool = join(root, 'node_modules/dependency-cruiser/bin/dependency-cruise.mjs')
  const args = [tool, 'src', '--no-progress', '--output-type', 'json']
  // A broken rule makes the status non-zero and is told by the check of directions; the JSON is whole all the same.
  const run = spawnSync(process.execPath, args, { cwd: root, encoding: 'utf8', maxBuffer: 1 << 28 })
  return JSON.parse(run.stdout) as Cruise
}

/** Each room and each import between two rooms once, as a Mermaid graph. */
function graph({ modules }: Cruise): string {
  const lines = new Set<string>()
  for (const { source, dependencies } of modules) {
    const from = roomOf(source)
    if (from === null) continue
    lines.add(`  ${from}`)
    for (const { resolved } of dependencies) {
      const to = roomOf(resolved)
      if (to !== null && to !== from) lines.add(`  ${from} --> ${to}`)
    }
  }
  return ['```mermaid', 'graph TD', ...[...lines].sort(), '```'].join('\n')
}

/** The page with its picture drawn anew. Throws when the page has no place for it. */
export function withPicture(page: string): string {
  const [before, after] = [page.indexOf(start), page.indexOf(end)]
  if (before < 0 || after < before) throw new Error(`ARCHITECTURE.md lacks the lines ${start} and ${end}`)
  return `${page.slice(0, before + start.length)}\n\n${graph(cruise())}\n\n${page.slice(after)}`
}

if (import.meta.main) writeFileSync(architecturePath, withPicture(readFileSync(architecturePath, 'utf8')))
