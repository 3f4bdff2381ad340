import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import * as limits from '../src/model/limits.ts'
import { problems } from '../src/model/problem.ts'
import { root } from './support/server.ts'

const page = readFileSync(join(root, 'docs/security.md'), 'utf8')
const rows = [...page.matchAll(/^\| `(\w+)` +\| ([\d,.]+) +\| ([^|]+)\| ([^|]+)\|$/gm)].map(
  ([, name = '', value = '', , beyond = '']) => ({ name, value, beyond }),
)

/** Bounds of the HTTP room that are no client's to meet: how often the server speaks, and what it proposes. */
const ownPace = new Set([
  ...['connectionsDroppedMs', 'heartbeatMs', 'streamRetryMs', 'streamRetryMsMax'],
  ...['listLimitDefault', 'waitSecondsDefault', 'preflightSecondsMax'],
])

test('§11: the table of limits in docs/security.md says what the server keeps', () => {
  const kept = new Map<string, number>(Object.entries(limits))
  expect(rows.length).toBeGreaterThan(20)
  expect(rows.map(({ name, value }) => [name, value])).toEqual(
    rows.map(({ name }) => [name, kept.get(name)?.toLocaleString('en-US')]),
  )
  for (const { beyond } of rows) {
    const [, status, code] = /^(\d{3}) `([\w-]+)`/.exec(beyond) ?? []
    if (status !== undefined)
      expect([code, problems[code as keyof typeof problems].status]).toEqual([code, Number(status)])
  }
})

test('§11: every limit that a client can meet at the HTTP interface is in the table', () => {
  const files = readdirSync(join(root, 'src/http')).filter((name) => /(?<!\.test)\.ts$/.test(name))
  const used = files.flatMap((file) => {
    const text = readFileSync(join(root, 'src/http', file), 'utf8')
    const [, names = ''] = /import \{([^}]*)\} from '\.\.\/model\/limits\.ts'/.exec(text) ?? []
    return names.split(',').map((name) => name.trim().split(' ')[0] ?? '')
  })
  const told = new Set(rows.map(({ name }) => name))
  const missing = used.filter((name) => name !== '' && !told.has(name) && !ownPace.has(name))
  expect(missing).toEqual([])
})
