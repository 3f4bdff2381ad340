/**
 * Plans that once found a fault, by fast-check's seed and path: each is run again before any new one. A path names a plan
 * as long as plan.ts stays as it is; what it found has a test of its own besides (test/race, test/faults).
 */
export const regressions: readonly { readonly seed: number; readonly path: string; readonly why: string }[] = [
  { seed: 8, path: '23', why: 'a retry of a declined step ran on what was read before it was declined' },
  { seed: 10, path: '39', why: 'the same, and the till took the fee of an owner who had an Account by then' },
  { seed: 6, path: '10', why: 'a retry of a declined step met a conflict for ever, with what else waited for it' },
  { seed: 11, path: '17', why: 'the same, and a change and a deletion waited with it' },
  { seed: 23, path: '33', why: 'a retry while another is pending that is refused in the end' },
]
