// `npm start`: glyphs.store, the example, with its payment provider, ready for a first call. PORT moves it to another
// port and DATA to another folder; PAYMENTS_URL names a provider that runs elsewhere, and then none is started.
import { spawn, spawnSync } from 'node:child_process'
import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { createServer } from 'node:net'
import { join, relative, resolve } from 'node:path'
import { createInterface } from 'node:readline'

const root = join(import.meta.dirname, '..')
const cli = join(root, 'dist/cli/main.js')
const folder = resolve(process.env['DATA'] ?? join(root, '.data'))
const data = join(folder, 'glyphs.db')
const shop = 'examples/glyphs.store'

/** The Worker that the printed call is made as. Its tokens are shown once and stored hashed: each start makes a new one. */
const worker = 'checkout'
const tokenHolds = '24h'

/** Where the provider is looked for by default, and how many ports above are tried when that one is taken. */
const paymentsPort = 4010
const paymentsPortsMax = 20

const children: ChildProcess[] = []

/** What a person has to mend before it can start. */
class StartError extends Error {}

async function isFree(port: number): Promise<boolean> {
  const probe = createServer()
  probe.listen(port, '127.0.0.1')
  try {
    await once(probe, 'listening')
  } catch {
    return false
  }
  probe.close()
  await once(probe, 'close')
  return true
}

async function freePaymentsPort(): Promise<number> {
  for (let port = paymentsPort; port < paymentsPort + paymentsPortsMax; port++) if (await isFree(port)) return port
  return 0
}

function wantedPort(): number {
  const wanted = process.env['PORT'] ?? '4000'
  if (/^\d{1,5}$/.test(wanted) && Number(wanted) <= 65_535) return Number(wanted)
  throw new StartError(`PORT=${wanted} is no port: it is a number up to 65535`)
}

/**
 * Starts a process and waits until it says its URL on standard output. Of the rest of its log a person at the terminal
 * gets what needs looking at.
 */
async function start(name: string, args: readonly string[], env: Record<string, string> = {}): Promise<string> {
  const child = spawn(process.execPath, args, {
    cwd: root,
    env: { ...process.env, ...env },
    // Its end when this process ends, however that happens; and Ctrl-C comes to it from here alone, once.
    stdio: ['pipe', 'pipe', 'inherit'],
    detached: true,
  })
  children.push(child)
  child.stdin.on('error', () => {}) // it may be gone already
  return new Promise((ready, reject) => {
    child.once('exit', (code, signal) => {
      reject(new StartError(`${name} ended (${code ?? signal})`))
      void stop(code ?? 1)
    })
    createInterface(child.stdout).on('line', (line) => {
      const { level, url } = parsed(line)
      if (typeof url === 'string') ready(url)
      else if (level !== 'info') console.error(line)
    })
  })
}

/** A line of a log; what a Verb's author prints is no JSON, and is shown as it is. */
function parsed(line: string): { level?: unknown; url?: unknown } {
  try {
    return JSON.parse(line) as { level?: unknown; url?: unknown }
  } catch {
    return {}
  }
}

let stopping = false

/** Ends what was started, and then this process. Called again, it ends them at once. */
async function stop(status: number): Promise<void> {
  const running = children.filter(({ exitCode, signalCode }) => exitCode === null && signalCode === null)
  for (const child of running) child.kill('SIGTERM')
  if (stopping) return
  stopping = true
  await Promise.all(running.map((child) => once(child, 'exit')))
  process.exit(status)
}

/** Runs a command of the CLI on the data file and gives what it printed, as JSON. */
function admin<T>(...args: readonly string[]): T {
  const run = spawnSync(process.execPath, [cli, ...args, '--data', data], { encoding: 'utf8' })
  if (run.status !== 0) throw new StartError(run.stderr.trim())
  return JSON.parse(run.stdout) as T
}

/** A fresh token for the Worker, which is made by the first start. */
function freshToken(): string {
  const { data: workers } = admin<{ data: readonly { name: string }[] }>('worker', 'list', '--output', 'json')
  const known = workers.some(({ name }) => name === worker)
  const how = known ? ['token', worker] : ['add', worker, '--kind', 'agent', '--grant', '*']
  return admin<{ token: string }>('worker', ...how, '--expires', tokenHolds).token
}

function welcome(url: string, token: string): string {
  return `
glyphs.store is served at ${url}; its data is in ${relative(process.cwd(), data)}. Ctrl-C stops it.

Place an Order:

curl -i -X POST ${url}/glyphs.store/orders/place \\
  -H 'Authorization: Bearer ${token}' \\
  -H 'Content-Type: application/json' \\
  -H 'Idempotency-Key: cart_8812-checkout' \\
  -d '{"offer":"offer_serif_family"}'

Paste it twice: the second answer is the same Action, with \`Idempotent-Replayed: true\`, and no second charge.
The token is the Worker ${worker}'s and holds for ${tokenHolds}; each start prints a new one.
`
}

async function main(): Promise<void> {
  const port = wantedPort()
  if (port !== 0 && !(await isFree(port))) {
    throw new StartError(`port ${port} is in use: stop what listens there, or run PORT=${port + 1} npm start`)
  }
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => void stop(0))
  const paymentsUrl = process.env['PAYMENTS_URL'] ?? (await startPayments())
  const serve = [cli, 'serve', `${shop}/startup.ts`, '--data', data, '--port', String(port), '--parent-stdin']
  const url = await start('the server', serve, { PAYMENTS_URL: paymentsUrl })
  console.log(welcome(url, freshToken()))
}

async function startPayments(): Promise<string> {
  const args = ['--port', String(await freePaymentsPort()), '--data', join(folder, 'payments.db'), '--parent-stdin']
  return start('the payment provider', [`${shop}/payments/main.ts`, ...args])
}

main().catch((error: unknown) => {
  const message = error instanceof StartError ? error.message : error
  // While stopping, a child that ended is what was asked for.
  if (!stopping || !(error instanceof StartError)) console.error('npm start:', message)
  void stop(1)
})
