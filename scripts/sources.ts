// Reads the repository's own files, for the checks that look at its text (test/tidy.test.ts).
import { readFileSync, readdirSync } from 'node:fs'
import { join, relative } from 'node:path'
import ts from 'typescript'

const root = join(import.meta.dirname, '..')

/** What is made, not written. */
const notOurs = new Set(['node_modules', 'dist', '.git', 'coverage', '.data'])

export interface Source {
  /** From the root of the repository, with slashes. */
  path: string
  text: string
  lines: number
}

function pathsUnder(folder: string): string[] {
  return readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    if (notOurs.has(entry.name)) return []
    const path = join(folder, entry.name)
    if (entry.isDirectory()) return pathsUnder(path)
    return entry.isFile() ? [path] : []
  })
}

/** Every text file of the repository that people write or read. */
export function readSources(): Source[] {
  return pathsUnder(root)
    .filter((path) => /\.(ts|js|mjs|cjs|json|md|html|sql|c|sh)$|\/\.ci\/run$/.test(path))
    .map((path) => {
      const text = readFileSync(path, 'utf8')
      return { path: relative(root, path).replaceAll('\\', '/'), text, lines: text.split('\n').length - 1 }
    })
}

function parse({ path, text }: Source): ts.SourceFile {
  return ts.createSourceFile(path, text, ts.ScriptTarget.Latest, true)
}

function walk(node: ts.Node, visit: (node: ts.Node) => void): void {
  visit(node)
  node.forEachChild((child) => {
    walk(child, visit)
  })
}

export interface FunctionSize {
  name: string
  /** `src/engine/call.ts:12` */
  at: string
  lines: number
}

function nameOf(node: ts.FunctionLikeDeclaration): string {
  if (node.name) return node.name.getText()
  if (ts.isConstructorDeclaration(node)) return 'constructor'
  const { parent } = node
  return ts.isVariableDeclaration(parent) || ts.isPropertyAssignment(parent) ? parent.name.getText() : '(unnamed)'
}

/** The size of each function of a file, a test's body not counted. */
export function functionSizes(source: Source): FunctionSize[] {
  const file = parse(source)
  const found: FunctionSize[] = []
  const lineOf = (position: number) => file.getLineAndCharacterOfPosition(position).line
  walk(file, (node) => {
    if (!ts.isFunctionLike(node) || !('body' in node) || !node.body) return
    const first = lineOf(node.getStart())
    const name = nameOf(node)
    found.push({ name, at: `${source.path}:${first + 1}`, lines: lineOf(node.getEnd()) - first + 1 })
  })
  return found
}

/** The first word of a call: `test` of `test.each(rows)('…')`. */
function rootOf(node: ts.Expression): string {
  if (ts.isIdentifier(node)) return node.text
  if (ts.isCallExpression(node) || ts.isPropertyAccessExpression(node)) return rootOf(node.expression)
  return ts.isTaggedTemplateExpression(node) ? rootOf(node.tag) : ''
}

/** The titles of a test file's tests and of the groups that hold them. */
export function testTitles(source: Source): string[] {
  const titles: string[] = []
  walk(parse(source), (node) => {
    if (!ts.isCallExpression(node) || !['test', 'it', 'describe'].includes(rootOf(node.expression))) return
    const title = node.arguments[0]
    if (title && (ts.isStringLiteralLike(title) || ts.isTemplateExpression(title))) titles.push(title.getText())
  })
  return titles
}
