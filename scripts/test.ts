// Runs every check and every test, and prints `N passed, N failed` as its last line.
//   node scripts/test.ts           all of it
//   node scripts/test.ts --check   the quick checks alone: format, types, lint, directions, dead code, package
//   node scripts/test.ts --long    the long forms of the crash, model and race tests, and test/long
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { delimiter, join } from 'node:path'
import { ensureDebianPackages } from './debian.ts'

interface Tally {
  passed: number
  failed: number
  skipped: number
}

/** What is read of vitest's JSON report. */
interface VitestReport {
  numPassedTests: number
  numFailedTests: number
  numPendingTests: number
  numTodoTests: number
  testResults: { name: string; status: string; message?: string; assertionResults: { status: string }[] }[]
}

const root = join(import.meta.dirname, '..')
const long = process.argv.includes('--long')
const checksOnly = process.argv.includes('--check')

// A test that hangs must end as a failure that is told, within the bound of the short run (25 minutes in all).
const vitestMinutesMax = long ? 24 * 60 : 20

// What has a long form. STARTUP_BUILDER_LONG=1 tells the tests; a name is matched against the file's path.
const longTests = ['test/long', 'test/contract/e1-stream', 'test/crash', 'test/model', 'test/power', 'test/race']

/** Runs one command line as npm would, its output shown as it comes. Gives whether it succeeded within its bound. */
async function succeeds(command: string, minutesMax: number, extra: NodeJS.ProcessEnv = {}): Promise<boolean> {
  const path = [join(root, 'node_modules/.bin'), process.env['PATH']].join(delimiter)
  const env = { ...process.env, ...extra, PATH: path }
  // A process group of its own, so that what hangs ends with all that it started.
  const child = spawn(command, { cwd: root, env, shell: true, stdio: 'inherit', detached: true })
  const end = () => child.pid !== undefined && process.kill(-child.pid, 'SIGKILL')
  const bound = setTimeout(() => {
    console.log(`ended: it took longer than ${minutesMax} minutes`)
    end()
  }, minutesMax * 60_000)
  const interrupted = () => {
    end()
    process.exit(130)
  }
  process.once('SIGINT', interrupted).once('SIGTERM', interrupted)
  const [status] = (await once(child, 'exit')) as [number | null]
  clearTimeout(bound)
  process.off('SIGINT', interrupted).off('SIGTERM', interrupted)
  return status === 0
}

function heading(text: string): void {
  console.log(`\n=== ${text} ===`)
}

/** The `check:…` scripts of package.json, in their order; each counts as one test. */
async function runChecks(): Promise<Tally> {
  const { scripts } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as {
    scripts: Record<string, string>
  }
  const tally = { passed: 0, failed: 0, skipped: 0 }
  for (const [name, command] of Object.entries(scripts)) {
    if (!name.startsWith('check:')) continue
    heading(`${name.slice('check:'.length)} (npm run ${name})`)
    const ok = await succeeds(command, 5)
    console.log(ok ? 'passed' : 'FAILED')
    if (ok) tally.passed += 1
    else tally.failed += 1
  }
  return tally
}

/** Counts a report. A file that failed as a whole (it could not be loaded, a hook threw) is one failed test. */
function countReport(report: VitestReport): Tally {
  const brokenFiles = report.testResults.filter(
    (file) => file.status === 'failed' && !file.assertionResults.some((one) => one.status === 'failed'),
  )
  return {
    passed: report.numPassedTests,
    failed: report.numFailedTests + brokenFiles.length,
    skipped: report.numPendingTests + report.numTodoTests,
  }
}

async function runVitest(): Promise<Tally> {
  heading(long ? 'vitest, long forms' : 'vitest')
  const folder = mkdtempSync(join(tmpdir(), 'startup-builder-test-'))
  const reportPath = join(folder, 'report.json')
  const command = `vitest run ${long ? longTests.join(' ') : ''} --reporter=default --reporter=json --outputFile.json="${reportPath}"`
  try {
    const ok = await succeeds(command, vitestMinutesMax, long ? { STARTUP_BUILDER_LONG: '1' } : {})
    const tally = countReport(JSON.parse(readFileSync(reportPath, 'utf8')) as VitestReport)
    // An error outside any test (an unhandled rejection, say) is in no count, and must not pass.
    return ok || tally.failed > 0 ? tally : { ...tally, failed: 1 }
  } catch (error) {
    console.log(`vitest left no report: ${String(error)}`)
    return { passed: 0, failed: 1, skipped: 0 }
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

/** The benchmark's smoke form, after all else is quiet. A second try: the machine may do something else meanwhile. */
async function runBenchmark(): Promise<Tally> {
  heading('benchmark, smoke form (npm run bench -- --smoke)')
  const command = 'node bench/run.ts --smoke'
  const ok = (await succeeds(command, 3)) || (await succeeds(command, 3))
  console.log(ok ? 'passed' : 'FAILED')
  return { passed: ok ? 1 : 0, failed: ok ? 0 : 1, skipped: 0 }
}

function add(left: Tally, right: Tally): Tally {
  return {
    passed: left.passed + right.passed,
    failed: left.failed + right.failed,
    skipped: left.skipped + right.skipped,
  }
}

/** The long tests compile a shim that stands between SQLite and the disk. */
function runLong(): Promise<Tally> {
  ensureDebianPackages(['gcc', 'libc6-dev'])
  return runVitest()
}

async function runAll(): Promise<Tally> {
  return add(add(await runChecks(), await runVitest()), await runBenchmark())
}

const total = long ? await runLong() : checksOnly ? await runChecks() : await runAll()
const skipped = total.skipped > 0 ? `, ${total.skipped} skipped` : ''
console.log(`\n${total.passed} passed, ${total.failed} failed${skipped}`)
process.exitCode = total.failed > 0 ? 1 : 0
