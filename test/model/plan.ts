import fc from 'fast-check'
import { committing, type Method, type Moment } from './faulty.ts'

/** What may be sent, before it is known what there is to send it about: numbers pick from what is there then. */
export interface Draft {
  readonly kind: 'call' | 'again' | 'mismatch' | 'retry' | 'cancel' | 'try' | 'wrong'
  readonly verb: string
  readonly space: number
  readonly worker: number
  readonly pick: number
  readonly other: number
  readonly amount: number
  readonly owner: number
  readonly note: number
  readonly mood: string
  readonly moodB: string
  readonly bomb: boolean
  readonly mode: 'do' | 'send'
  readonly version: 'none' | 'current' | 'older' | 'unknown'
  readonly after: 'none' | 'own' | 'ghost'
  /** How often it is sent at once under its key, and whether one of these is another call. */
  readonly copies: number
  readonly twisted: boolean
}

export interface Crash {
  readonly methods: readonly Method[]
  readonly moment: Moment
  readonly n: number
}

export type Step =
  | { readonly kind: 'batch'; readonly drafts: readonly Draft[]; readonly crash: Crash | null }
  | { readonly kind: 'gates' }
  | { readonly kind: 'jump'; readonly ms: number }
  | { readonly kind: 'restart'; readonly how: 'kill' | 'stop' }

const verbs = [
  ...['open', 'open', 'deposit', 'deposit', 'deposit', 'annotate', 'ponder', 'transfer', 'close', 'explode', 'deny'],
  ...['adopt', 'tally', 'enroll', 'place', 'place', 'settle', 'settle', 'twice'],
]

/** As outside.ts reads them; most steps go well. */
const moods = ['', '', '', 'L', 'B', 'D', 'LLL', 'BBB', 'BD', 'DD', 'LBLL', 'G', 'DLLL', 'BLB']

const draft = fc.record({
  kind: fc.constantFrom<Draft['kind'][]>(
    ...(['call', 'call', 'call', 'call', 'call', 'call', 'call', 'call'] as const),
    ...(['again', 'mismatch', 'retry', 'retry', 'cancel', 'try', 'wrong'] as const),
  ),
  verb: fc.constantFrom(...verbs),
  space: fc.nat({ max: 1 }),
  worker: fc.constantFrom(0, 0, 0, 1, 1, 2),
  pick: fc.nat({ max: 999 }),
  other: fc.nat({ max: 999 }),
  amount: fc.nat({ max: 6 }),
  owner: fc.nat({ max: 5 }),
  note: fc.nat({ max: 2 }),
  mood: fc.constantFrom(...moods),
  moodB: fc.constantFrom(...moods),
  bomb: fc.boolean(),
  mode: fc.constantFrom<('do' | 'send')[]>('do', 'do', 'do', 'send'),
  version: fc.constantFrom<Draft['version'][]>('none', 'none', 'none', 'current', 'older', 'unknown'),
  after: fc.constantFrom<Draft['after'][]>('none', 'none', 'none', 'none', 'own', 'own', 'ghost'),
  copies: fc.constantFrom(1, 1, 1, 1, 2, 4),
  twisted: fc.constantFrom(false, false, true),
})

const crash = fc.record({
  methods: fc.constantFrom<(readonly Method[])[]>(
    committing,
    committing,
    ['settle'],
    ['claim'],
    ['startStep'],
    ['endStep'],
  ),
  moment: fc.constantFrom<Moment[]>('before', 'after'),
  n: fc.integer({ min: 1, max: 12 }),
})

const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 20,
    arbitrary: fc.record({
      kind: fc.constant('batch' as const),
      drafts: fc.array(draft, { minLength: 1, maxLength: 5 }),
      crash: fc.option(crash, { freq: 8 }),
    }),
  },
  { weight: 3, arbitrary: fc.constant({ kind: 'gates' as const }) },
  // Back too: clocks do that. And over midnight, since usage is by day.
  {
    weight: 1,
    arbitrary: fc.record({ kind: fc.constant('jump' as const), ms: fc.constantFrom(-5000, 3_600_000, 43_200_000) }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      kind: fc.constant('restart' as const),
      how: fc.constantFrom('kill' as const, 'stop' as const),
    }),
  },
)

/** A plan: what is done to a new store, from its first call to the audit at the end. */
export function plans(stepsMax: number): fc.Arbitrary<readonly Step[]> {
  return fc.array(step, { minLength: Math.min(5, stepsMax), maxLength: stepsMax, size: 'max' })
}
