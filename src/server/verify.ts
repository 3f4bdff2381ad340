import type { VerifyCounts } from '../store/store.ts'
import { withStore } from './open.ts'

export type { VerifyCounts } from '../store/store.ts'

/** Audits every invariant of a data file, served or not; `report` gets what is wrong, a sentence each. */
export async function verifyStore(data: string, report: (fault: string) => void): Promise<VerifyCounts> {
  return withStore(data, { create: false }, (store) => store.verify(report))
}
