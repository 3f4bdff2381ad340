import fc from 'fast-check'
import { expect, test } from 'vitest'
import { Drive } from './drive.ts'
import { plans } from './plan.ts'
import { ServerProcess } from './process.ts'
import { regressions } from './regressions.ts'

const isLong = process.env['STARTUP_BUILDER_LONG'] === '1'

/** Every run is another one, and can be repeated: the seed is in the test's title. */
const given = process.env['STARTUP_BUILDER_SEED']
const seed = given === undefined ? Date.now() % 2 ** 31 : Number(given)
const path = process.env['STARTUP_BUILDER_PATH']

test(
  `K4, K5, V2, V6, A2, E1, E2: random calls, crashes and retries agree with the model (seed ${seed})`,
  { timeout: isLong ? 3_600_000 : 120_000 },
  async () => {
    let steps = 0
    const all = { requests: 0, actions: 0, crashes: 0 }
    await fc.assert(
      fc.asyncProperty(plans(isLong ? 60 : 25), async (plan) => {
        const tally = await Drive.run(plan, seed)
        steps += tally.steps
        all.requests += tally.requests
        all.actions += tally.actions
        all.crashes += tally.crashes
      }),
      {
        seed,
        ...(path === undefined ? {} : { path }),
        numRuns: isLong ? 500 : 40,
        interruptAfterTimeLimit: isLong ? 3_000_000 : 20_000,
        markInterruptAsFailure: false,
        endOnFailure: process.env['STARTUP_BUILDER_SHRINK'] !== '1',
      },
    )
    process.stdout.write(`${steps} steps, ${JSON.stringify(all)}\n`)
    expect(steps).toBeGreaterThan(isLong ? 10_000 : 50)
  },
)

test.runIf(isLong)(
  `K5, V4, R3: the same against a process that is killed with SIGKILL (seed ${seed})`,
  { timeout: 3_600_000 },
  async () => {
    let steps = 0
    await fc.assert(
      fc.asyncProperty(plans(40), async (plan) => {
        steps += (await Drive.run(plan, seed, (setting) => new ServerProcess(setting))).steps
      }),
      {
        seed,
        ...(path === undefined ? {} : { path }),
        numRuns: 60,
        interruptAfterTimeLimit: 1_200_000,
        endOnFailure: true,
      },
    )
    expect(steps).toBeGreaterThan(100)
  },
)

test.each(regressions)('K5: seed $seed, path $path: $why', async ({ seed: known, path: at }) => {
  const again = fc.asyncProperty(plans(25), async (plan) => void (await Drive.run(plan, known)))
  await fc.assert(again, { seed: known, path: at, numRuns: 1, endOnFailure: true })
})
