import { expect, test } from 'vitest'
import type { Method, Moment } from '../model/faulty.ts'
import { play, type Fault } from './round.ts'
import { scenarios, type Scenario } from './scenarios.ts'

/** How many rounds run beside each other: most of a round is waiting. */
const atOnce = 8

/**
 * Every call that the engine makes of the store fails, one further each round, until a round passes without coming to the
 * fault: before it is done (the store can't take it now) and after (the process dies and nobody hears of it).
 */
async function everyFault(scenario: Scenario, moment: Moment): Promise<{ rounds: number; wrong: string[] }> {
  const plain = await play(scenario, null)
  const wrong = plain.wrong.map((sentence) => `without a fault: ${sentence}`)
  let rounds = 0
  const queue = [...plain.calls.keys()].map((method) => ({ method, moment }))
  async function work(): Promise<void> {
    for (let next = queue.pop(); next !== undefined; next = queue.pop()) {
      for (let n = 1; await isReached({ ...next, n }); n++) rounds++
    }
  }
  async function isReached(fault: Fault): Promise<boolean> {
    const round = await play(scenario, fault)
    const name = `${fault.method} ${fault.n} fails ${fault.moment}`
    wrong.push(...round.wrong.map((sentence) => `${name}: ${sentence}`))
    for (const part of Object.keys(plain.outcome) as (keyof typeof plain.outcome)[]) {
      const [expected, found] = [plain.outcome[part], round.outcome[part]].map((one) => JSON.stringify(one))
      if (expected !== found) wrong.push(`${name}: ${part} are ${found}, not ${expected}`)
    }
    return round.reached && fault.n < 50
  }
  await Promise.all(Array.from({ length: atOnce }, work))
  return { rounds, wrong }
}

/** What every call but a built-in one passes through: without a fault in it a scenario has not been tried. */
const expected: readonly Method[] = ['settle']

test.each(scenarios)(
  'R1, K5: the store fails before any of its calls: $name',
  { timeout: 120_000 },
  async (scenario) => {
    const { rounds, wrong } = await everyFault(scenario, 'before')
    expect(wrong).toEqual([])
    expect(rounds).toBeGreaterThanOrEqual(expected.length)
  },
)

test.each(scenarios)(
  'K5, V4: the process dies after any call of the store: $name',
  { timeout: 120_000 },
  async (scenario) => {
    const { rounds, wrong } = await everyFault(scenario, 'after')
    expect(wrong).toEqual([])
    expect(rounds).toBeGreaterThanOrEqual(expected.length)
  },
)
