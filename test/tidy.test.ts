import { describe, expect, test } from 'vitest'
import { functionSizes, readSources, testTitles } from '../scripts/sources.ts'
import { outcomes, problems } from '../src/model/problem.ts'

/** The clauses of the contract that the code covers so far. Whoever builds a further one adds it here, with its test. */
const clausesCovered = [
  ...['K1', 'K2', 'K3', 'K4', 'K5', 'K6'],
  ...['R1', 'R2', 'R3'],
  ...['V1', 'V2', 'V3', 'V4', 'V5', 'V6'],
  ...['A1', 'A2', 'A3'],
  ...['T1', 'E1', 'E2', 'H1', 'H2', 'N1', 'N2'],
  ...['W1', 'W2', 'W3'],
]

/** Codes that are designed in, but that nothing gives yet. Whoever builds what gives one takes it out, with its test. */
const codesOfLater: Record<string, string> = {
  'already-decided': 'deciding inbox items (W4)',
  'version-required': 'deciding inbox items (W4)',
  declined: 'approvals (W5)',
  'declined-after-step': 'approvals (W5)',
  expired: 'approvals (W5)',
  'expired-after-step': 'approvals (W5)',
  'dry-run-incomplete': 'approvals (W5)',
  'script-diverged': 'scripts (§14)',
  'script-timed-out': 'scripts (§14)',
}

interface Ban {
  pattern: RegExp
  in: RegExp
  except?: RegExp
  why: string
}

const code = /\.(ts|js|mjs|cjs)$/
const bans: Ban[] = [
  {
    pattern: /\bDate\.now\b(?!`)|\bnew Date\(\)|\bMath\.random\b(?!`)|\brandomUUID\b|\brandom\w+\b.*'node:crypto'/,
    in: /^src\/(model|engine|http)\/.*\.ts$/,
    except: /\.test\.ts$/,
    why: 'time and chance are handed in, so that a run can be replayed',
  },
  {
    pattern: /\bconsole\.\w/,
    in: /^(src|test)\/.*\.ts$/,
    except: /^src\/cli\/|^test\/tidy\.test\.ts$/,
    why: 'the server logs as JSON; only commands speak to a terminal',
  },
  { pattern: /\bas any\b(?! [a-z])/, in: code, why: 'it switches the types off where they matter most' },
  { pattern: /@ts-(ignore|nocheck)\b/, in: code, why: 'use @ts-expect-error, which fails once it is not needed' },
  { pattern: /\b(TO{1}DO|FIX{1}ME|X{3})\b/, in: code, why: 'an open end belongs into an issue' },
  {
    pattern: /\b(test|it|describe)\.(only|skip|todo)\b/,
    in: /\.test\.ts$/,
    why: 'it hides the other tests, or itself',
  },
  {
    pattern: /(^|[\s'"`(=])\/(home|root|work|Users)\/|\bregistry\.(npm|yarn)|\bunpkg\.com|"resolved"\s*:/,
    in: /./,
    why: 'the repository knows no particular machine and no particular registry',
  },
]

const sources = readSources()

/** Where a ban is broken, as `path:line`. */
function broken({ pattern, in: where, except }: Ban): string[] {
  return sources
    .filter(({ path }) => where.test(path) && !except?.test(path))
    .flatMap(({ path, text }) =>
      text.split('\n').flatMap((line, index) => (pattern.test(line) ? [`${path}:${index + 1}: ${line.trim()}`] : [])),
    )
}

describe('banned words', () => {
  test.each(bans)('$pattern: $why', (ban) => {
    expect(broken(ban)).toEqual([])
  })
})

describe('the contract is tested', () => {
  const tests = sources.filter(({ path }) => /^(src|test)\/.*\.test\.ts$/.test(path))
  const titles = tests.flatMap(testTitles)

  test('every clause that is covered is named in the title of a test', () => {
    const untested = clausesCovered.filter(
      (clause) => !titles.some((title) => new RegExp(`\\b${clause}\\b`).test(title)),
    )
    expect(untested).toEqual([])
  })

  test('every code of the registry is provoked by a test that comes in through the front', () => {
    const front = tests.filter(({ path }) => path.startsWith('test/') && path !== 'test/tidy.test.ts')
    const isProvoked = (one: string) => front.some(({ text }) => new RegExp(`['"\`]${one}['"\`]`).test(text))
    const codes = [...Object.keys(problems), ...Object.keys(outcomes)].filter((one) => !(one in codesOfLater))
    expect(codes.filter((one) => !isProvoked(one))).toEqual([])
  })
})

test('the longest functions and files are told, because a review begins there', () => {
  const product = sources.filter(({ path }) => /^src\/.*\.ts$/.test(path) && !path.endsWith('.test.ts'))
  const byLength = (left: { lines: number }, right: { lines: number }) => right.lines - left.lines
  const functions = product.flatMap(functionSizes).sort(byLength).slice(0, 10)
  const files = product.sort(byLength).slice(0, 10)
  expect(functions.length).toBeGreaterThan(0)
  console.log('The longest functions:')
  for (const { lines, name, at } of functions) console.log(`  ${String(lines).padStart(4)}  ${name}  ${at}`)
  console.log('The longest files:')
  for (const { lines, path } of files) console.log(`  ${String(lines).padStart(4)}  ${path}`)
})
