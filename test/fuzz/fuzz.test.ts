import { DatabaseSync } from 'node:sqlite'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { problems } from '../../src/model/problem.ts'
import { addWorker } from '../../src/server/workers.ts'
import { verifyStore } from '../../src/server/verify.ts'
import { join } from 'node:path'
import { caller } from '../contract/wire.ts'
import type { Page } from '../contract/wire.ts'
import { root, startPayments, startServer } from '../support/server.ts'
import type { TestServer } from '../support/server.ts'
import { requests } from './requests.ts'
import type { Known, Sent } from './requests.ts'
import { exchange } from './wire.ts'
import type { Got } from './wire.ts'

const isLong = process.env['STARTUP_BUILDER_LONG'] === '1'

/** Every run is another one, and can be repeated: the seed is in the test's title. */
const given = process.env['STARTUP_BUILDER_SEED']
const seed = given === undefined ? Date.now() % 2 ** 31 : Number(given)

const limitMs = isLong ? 600_000 : 12_000
const batch = 150

/** What no client may ever be told: where and how the server lives. */
const inside =
  /\n\s+at |\bat \S+:\d+:\d+|node_modules|\bSELECT |\bINSERT INTO|\bSQLITE_|sqlite3?_|\.[tj]s:\d|\/srv\/secret|TypeError|RangeError|ERR_[A-Z]{3}/

test(
  `§11, R1: whatever bytes are sent to whatever route: never a 500, never a leak, never a crash (seed ${seed})`,
  { timeout: isLong ? 3_600_000 : 120_000 },
  async () => {
    await using payments = await startPayments()
    await using server = await startServer({
      startup: join(root, 'test/fixtures/both.ts'),
      env: { PAYMENTS_URL: payments.url },
      args: ['--origin', 'https://glyphs.store'],
    })
    const known = await knownOf(server)
    const secrets = [...Object.values(known.tokens), server.data, root]
    const file = new DatabaseSync(server.data, { readOnly: true })
    const counting = file.prepare('SELECT count(*) AS n FROM actions')
    const onRecord = () => Number(counting.get()?.['n'])
    const before = onRecord()
    const actions = new Set<string>()
    const tally = { requests: 0, unanswered: 0, answers: {} as Record<string, number> }

    const until = Date.now() + limitMs
    for (let round = 0; Date.now() < until; round++) {
      const sent = fc.sample(requests(known), { seed: seed + round, numRuns: batch })
      await concurrently(sent, 8, async (request) => {
        const got = await exchange(server.url, request)
        tally.requests++
        if (got === null) {
          if (!request.isBroken) throw new Error(`closed unanswered: ${shown(request)}`)
          tally.unanswered++
          return
        }
        check(request, got, secrets)
        const told = actionOf(request, got)
        if (told !== null) actions.add(told)
        const code = codeOf(got)
        tally.answers[code] = (tally.answers[code] ?? 0) + 1
      })
      expect(server.child.exitCode, server.stderr()).toBeNull()
      // What was turned away left nothing; what was answered with an Action left that one (R1).
      const made = onRecord() - before
      expect(made).toBeGreaterThanOrEqual(actions.size)
      expect(made).toBeLessThanOrEqual(actions.size + tally.unanswered)
      expect(server.logs.filter(isFault)).toEqual([])
    }

    const faults: string[] = []
    await verifyStore(server.data, (fault) => faults.push(fault))
    file.close()
    expect(faults).toEqual([])
    const log = server.logs.map((line) => JSON.stringify(line)).join('\n') + server.stderr()
    for (const token of Object.values(known.tokens)) expect(log).not.toContain(token)
    expect(await server.stop()).toBe(0)
    process.stdout.write(`${JSON.stringify({ ...tally, actions: actions.size })}\n`)
    expect(tally.requests).toBeGreaterThan(batch)
    expect(actions.size).toBeGreaterThan(10)
  },
)

/** Workers with every right, and ids of what they have made. */
async function knownOf(server: TestServer): Promise<Known> {
  const tokens: Record<string, string> = {}
  const ids: string[] = ['offer_serif_family']
  for (const namespace of ['glyphs.store', 'kiln.test', 'forge.test']) {
    const wanted = { name: 'fuzz', kind: 'agent', grants: ['*'], namespace, expiresMs: null } as const
    const { token } = await addWorker(server.data, wanted, () => undefined)
    tokens[namespace] = token
  }
  const kiln = caller(server, 'kiln.test', tokens['kiln.test'] ?? '')
  const placed = await kiln.action('orders/place', { total: 1 })
  const thrown = await kiln.action('orders/bake', { then: 'throw' })
  const smelted = await kiln.action('orders/smelt', {})
  const items = (await kiln.get('inbox')).json<Page<{ id: string }>>().data
  ids.push(String(placed.output?.['$id']), placed.id, thrown.id, smelted.id, ...items.map(({ id }) => id))
  return { tokens, ids }
}

function check(request: Sent, { status, head, headers, body }: Got, secrets: readonly string[]): void {
  const where = `${shown(request)}\n→ ${head}\n\n${body.slice(0, 2_000)}`
  if (!(status >= 200 && status < 500)) throw new Error(`a status that nobody may see: ${where}`)
  if (headers.get('x-content-type-options') !== 'nosniff') throw new Error(`could be sniffed: ${where}`)
  if (headers.has('x-injected') || headers.has('set-cookie')) throw new Error(`a header that is not ours: ${where}`)
  // What an author's Verb or a record says is the author's; an error is the server's own words.
  const leaked = secrets.find((secret) => head.includes(secret) || body.includes(secret))
  if (leaked !== undefined) throw new Error(`told ${leaked}: ${where}`)
  if (status < 400) return
  if (inside.test(body)) throw new Error(`tells of the inside: ${where}`)
  expect(headers.get('content-type'), where).toBe('application/problem+json; charset=utf-8')
  if (request.method === 'HEAD' || body === '') return
  const told = JSON.parse(body) as { code: keyof typeof problems; status: number; type: string }
  expect(Object.keys(problems), where).toContain(told.code)
  expect([told.status, problems[told.code].status], where).toEqual([status, status])
  expect(told.type, where).toMatch(new RegExp(`/errors/${told.code}$`))
}

/** The id of the Action that a durable call was answered with; null for reads, tries and errors. */
function actionOf({ method }: Sent, { status, body }: Got): string | null {
  if (method !== 'POST' || (status !== 200 && status !== 202)) return null
  try {
    const { id, mode } = JSON.parse(body) as { id?: unknown; mode?: unknown }
    return mode === 'try' || typeof id !== 'string' ? null : id
  } catch {
    return null
  }
}

/** The code of an error, the status of what is none. */
function codeOf({ status, body }: Got): string {
  return status < 400 ? String(status) : (/"code":"([a-z-]+)"/.exec(body)?.[1] ?? String(status))
}

/** Lines of the log that tell of a fault of the server's own. */
function isFault({ level, msg }: Readonly<Record<string, unknown>>): boolean {
  return level === 'error' && msg !== 'a Verb threw'
}

function shown({ bytes }: Sent): string {
  return JSON.stringify(bytes.toString('latin1').slice(0, 1_500))
}

async function concurrently<T>(all: readonly T[], atOnce: number, run: (one: T) => Promise<void>): Promise<void> {
  const left = all.values()
  await Promise.all(
    Array.from({ length: atOnce }, async () => {
      for (const one of left) await run(one)
    }),
  )
}
