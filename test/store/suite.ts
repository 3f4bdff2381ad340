import { describeActions } from './suite/actions.ts'
import { describeCensus } from './suite/census.ts'
import { describeChains } from './suite/chains.ts'
import { describeDefinitions } from './suite/definitions.ts'
import type { StoreUnderTest } from './suite/harness.ts'
import { describeIsolation } from './suite/isolation.ts'
import { describeReads } from './suite/reads.ts'
import { describeThrottle } from './suite/throttle.ts'

/** Every promise of the seam (src/store/store.ts), kept by a store over real files: the one suite that each store passes. */
export function describeStore(under: StoreUnderTest): void {
  describeActions(under)
  describeIsolation(under)
  describeChains(under)
  describeReads(under)
  describeCensus(under)
  describeDefinitions(under)
  describeThrottle(under)
}
