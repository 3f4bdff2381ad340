import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { afterAll, expect, test } from 'vitest'
import { recovered, withBacklog } from '../support/backlog.ts'
import { endAll, newFolder } from '../support/server.ts'

afterAll(endAll)

test('V4: 2,000 pending Actions settle once each beside 100 that hang, while fresh calls are answered', async () => {
  const data = join(newFolder('recovery'), 'startup.db')
  const { server, recovery } = await recovered(data, { pending: 2_100, hanging: 100, deadlineMs: 25_000 })
  // All at once would be some hundred megabytes more.
  expect(recovery.peakBytes).toBeLessThan(600 * 2 ** 20)
  expect(recovery.freshMs.length).toBeGreaterThan(10)
  expect(recovery.freshMs.at(-1)).toBeLessThan(5_000)
  const audit = await server.cli('verify')
  expect(JSON.parse(audit.stdout)).toMatchObject({
    ok: true,
    counts: { pending: 100, records: 2_000 + recovery.freshMs.length },
  })
  await server.kill9()
})

test('V4: a stop in the midst of taking over gives all of it back, so that none counts as crashed', async () => {
  const data = join(newFolder('recovery'), 'startup.db')
  const { server } = await withBacklog(data, { pending: 3_000, hanging: 1_500 }, ['--grace', '0'])
  for (let round = 0; round < 4; round++) {
    await server.start()
    expect(await server.stop()).toBe(0)
    const db = new DatabaseSync(data)
    const [left, mistaken] = ['1', `running = (SELECT value FROM meta WHERE name = 'epoch')`].map(
      (where) => db.prepare(`SELECT count(*) AS count FROM pending WHERE ${where}`).get()?.['count'],
    )
    db.close()
    expect(left).toBeGreaterThanOrEqual(1_500)
    expect(mistaken).toBe(0)
  }
})
