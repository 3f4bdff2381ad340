import { expect, test } from 'vitest'
import { call, namespace, worker } from '../faults/scenarios.ts'
import { kiln } from '../model/kiln.ts'
import { Outside, type Port } from '../model/outside.ts'
import { Rig } from '../model/rig.ts'

/** A call takes fewer microtasks than this from its beginning to its commit. */
const turnsMax = 120

/**
 * A second request with a call's key comes each time one microtask later than the time before, so that once it falls into
 * each moment between the evaluation and the commit: there it puts the Action on record, or finds that it need not.
 */
test.each([
  ['that does not wait', { mode: 'send' } as const, 1],
  ['with another input', {}, 2],
])(
  'K5, V4: a call is answered and settled, whenever a second request %s names it',
  { timeout: 60_000 },
  async (_, sent, balance) => {
    const define = (port: Port) => [kiln(namespace, port)]
    const rig = new Rig({ define, outside: new Outside(), workers: [worker], seed: 1 })
    await rig.open()
    try {
      const wrong: string[] = []
      for (let turns = 0; turns < turnsMax; turns++) {
        const key = `turn-${turns}`
        const first = rig.call(call('open', 'accounts', key, { owner: key, balance: 1 }))
        for (let turn = 0; turn < turns; turn++) await Promise.resolve()
        const second = rig.call(call('open', 'accounts', key, { owner: key, balance }, sent))
        const late = new Promise<'late'>((resolve) => setTimeout(resolve, 5000, 'late'))
        const answer = await Promise.race([first, late])
        if (answer === 'late') wrong.push(`${turns}: no answer`)
        else if (answer.kind !== 'action' || answer.status !== 'succeeded')
          wrong.push(`${turns}: ${JSON.stringify(answer)}`)
        const recorded = await rig.recorded(worker, key)
        if (recorded.length !== 1 || recorded[0]?.status !== 'succeeded')
          wrong.push(`${turns}: ${recorded.length} on record`)
        await second
        if (wrong.length > 2) break
      }
      expect(wrong).toEqual([])
    } finally {
      await rig.end()
    }
  },
)
