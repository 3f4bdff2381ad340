/** The rows of the table: what is sent, on how many connections, and who can answer it. */
import type { Job, Keys } from './load.ts'

export type ScenarioName = 'first-1' | 'first-16' | 'first-64' | 'hot-64' | 'mismatch-64' | 'cold-64'

export interface Scenario {
  readonly name: ScenarioName
  readonly title: string
  readonly connections: number
  /** Needs what was sent before, so that only those who store something take part. */
  readonly again: boolean
  /** Runs on a server that was started just now, on a file full of older keys. */
  readonly restarted: boolean
  readonly changed: boolean
  readonly expect: Job['expect']
  keys(at: { fresh: number; filled: number; round: number }): Keys
}

/** Keys that hot replays and mismatches go round in: far more than one, far fewer than any cache holds. */
export const workingSet = 1000

export const freshPrefix = 'cart'
export const hotPrefix = 'hot'
export const filledPrefix = 'old'

function first(connections: 1 | 16 | 64): Scenario {
  return {
    name: `first-${connections}`,
    title: `first writes, ${connections} connection${connections === 1 ? '' : 's'}`,
    connections,
    again: false,
    restarted: false,
    changed: false,
    expect: { status: 200, replayed: false },
    keys: ({ fresh }) => ({ kind: 'fresh', prefix: freshPrefix, from: fresh }),
  }
}

const replays = { connections: 64, again: true, changed: false, expect: { status: 200, replayed: true } } as const

export const scenarios: readonly Scenario[] = [
  first(1),
  first(16),
  first(64),
  {
    ...replays,
    name: 'hot-64',
    title: 'hot replays, 64 connections',
    restarted: false,
    keys: () => ({ kind: 'any', prefix: hotPrefix, count: workingSet }),
  },
  {
    ...replays,
    name: 'mismatch-64',
    title: 'mismatches, 64 connections',
    restarted: false,
    changed: true,
    expect: { status: 409, replayed: false },
    keys: () => ({ kind: 'any', prefix: hotPrefix, count: workingSet }),
  },
  {
    ...replays,
    name: 'cold-64',
    title: 'cold replays, 64 connections',
    restarted: true,
    keys: ({ filled, round }) => ({ kind: 'once', prefix: filledPrefix, count: filled, seed: 8812 + round }),
  },
]
