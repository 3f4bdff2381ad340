import { randomUUID } from 'node:crypto'
import { mkdirSync } from 'node:fs'
import { dirname } from 'node:path'
import { DatabaseSync } from 'node:sqlite'

/** What is asked for, already checked. Amounts are in minor units (cents). */
export type PaymentRequest =
  | { path: '/charges'; amount: number; currency: string; card: string }
  | { path: '/refunds'; charge: string; amount: number | null; reason: string | null }

/** An answer, as it is sent and as it is kept with its key: the status and the text of the body. */
export type Answer = { status: number; body: string }

/** A successful charge. `refunded` says that nothing of it is left; `amountRefunded` how much went back. */
export type Charge = {
  id: string
  amount: number
  currency: string
  card: string
  key: string
  refunded: boolean
  amountRefunded: number
  createdAt: string
}

/** A successful refund, of a whole charge or of a part of it. */
export type Refund = {
  id: string
  charge: string
  amount: number
  reason: string | null
  key: string
  createdAt: string
}

type ChargeRow = Omit<Charge, 'refunded'>

const schema = `
  CREATE TABLE IF NOT EXISTS charges (
    id TEXT PRIMARY KEY, amount INTEGER NOT NULL CHECK (amount > 0), currency TEXT NOT NULL, card TEXT NOT NULL,
    key TEXT NOT NULL UNIQUE, amountRefunded INTEGER NOT NULL DEFAULT 0, createdAt TEXT NOT NULL,
    CHECK (amountRefunded BETWEEN 0 AND amount)) STRICT;
  CREATE TABLE IF NOT EXISTS refunds (
    id TEXT PRIMARY KEY, charge TEXT NOT NULL REFERENCES charges (id), amount INTEGER NOT NULL CHECK (amount > 0),
    reason TEXT, key TEXT NOT NULL UNIQUE, createdAt TEXT NOT NULL) STRICT;
  CREATE TABLE IF NOT EXISTS keys (
    key TEXT PRIMARY KEY, request TEXT NOT NULL, status INTEGER NOT NULL, body TEXT NOT NULL) STRICT;
  CREATE TABLE IF NOT EXISTS calls (
    key TEXT NOT NULL, path TEXT NOT NULL, count INTEGER NOT NULL, PRIMARY KEY (key, path)) STRICT;`

/** The cards that can be charged. `tok_declined` and unknown ones are told no; the others differ in how they answer. */
const workingCards = new Set(['tok_ok', 'tok_slow', 'tok_lost', 'tok_down'])

/** An error body in the one form that this provider has. */
export function refusal(status: number, code: string, message: string): Answer {
  return { status, body: JSON.stringify({ error: { code, message } }) }
}

export type Ledger = ReturnType<typeof openLedger>

/** Opens the provider's file, or makes it. Throws when it is not a database or can't be written. */
export function openLedger(path: string) {
  mkdirSync(dirname(path), { recursive: true })
  const db = new DatabaseSync(path, { timeout: 5_000 })
  // In WAL only FULL syncs at each commit: what was answered must survive a power cut, not just a crash.
  db.exec('PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON')
  db.exec(schema)

  const keyGet = db.prepare('SELECT request, status, body FROM keys WHERE key = ?')
  const keyAdd = db.prepare('INSERT INTO keys (key, request, status, body) VALUES (?, ?, ?, ?)')
  const chargeGet = db.prepare('SELECT amount, amountRefunded FROM charges WHERE id = ?')
  const chargeAdd = db.prepare(
    'INSERT INTO charges (id, amount, currency, card, key, createdAt) VALUES (?, ?, ?, ?, ?, ?)',
  )
  const chargeGiveBack = db.prepare('UPDATE charges SET amountRefunded = amountRefunded + ? WHERE id = ?')
  const refundAdd = db.prepare(
    'INSERT INTO refunds (id, charge, amount, reason, key, createdAt) VALUES (?, ?, ?, ?, ?, ?)',
  )
  const callCount = db.prepare(
    `INSERT INTO calls (key, path, count) VALUES (?, ?, 1)
     ON CONFLICT (key, path) DO UPDATE SET count = count + 1 RETURNING count`,
  )
  const chargesAll = db.prepare('SELECT * FROM charges ORDER BY rowid')
  const refundsAll = db.prepare('SELECT * FROM refunds ORDER BY rowid')
  const callsAll = db.prepare('SELECT key, path, count FROM calls ORDER BY rowid')

  function transaction<T>(work: () => T): T {
    db.exec('BEGIN IMMEDIATE')
    try {
      const result = work()
      db.exec('COMMIT')
      return result
    } catch (error) {
      if (db.isTransaction) db.exec('ROLLBACK')
      throw error
    }
  }

  function charge(key: string, { amount, currency, card }: PaymentRequest & { path: '/charges' }): Answer {
    if (card === 'tok_declined') return refusal(402, 'card_declined', 'The card was declined')
    if (!workingCards.has(card)) return refusal(402, 'invalid_card', `No such card: ${card}`)
    const id = `ch_${randomUUID().replaceAll('-', '')}`
    const createdAt = new Date().toISOString()
    chargeAdd.run(id, amount, currency, card, key, createdAt)
    const made: Charge = { id, amount, currency, card, key, refunded: false, amountRefunded: 0, createdAt }
    return { status: 200, body: JSON.stringify(made) }
  }

  function refund(key: string, request: PaymentRequest & { path: '/refunds' }): Answer {
    const { charge, reason } = request
    const of = chargeGet.get(charge) as Pick<ChargeRow, 'amount' | 'amountRefunded'> | undefined
    if (!of) return refusal(404, 'charge_not_found', `No such charge: ${charge}`)
    const left = of.amount - of.amountRefunded
    if (left === 0) return refusal(400, 'charge_already_refunded', `Charge ${charge} has already been refunded`)
    const amount = request.amount ?? left
    if (amount > left) return refusal(400, 'amount_too_large', `Only ${left} of charge ${charge} is left to refund`)
    if (asksFor('declined', reason)) return refusal(402, 'refund_declined', 'The refund was declined')
    const made: Refund = {
      id: `re_${randomUUID().replaceAll('-', '')}`,
      charge,
      amount,
      reason,
      key,
      createdAt: new Date().toISOString(),
    }
    chargeGiveBack.run(amount, charge)
    refundAdd.run(made.id, charge, amount, reason, key, made.createdAt)
    return { status: 200, body: JSON.stringify(made) }
  }

  return {
    /**
     * The heart of a good downstream: the look-up of the key, what it pays for and the answer are one transaction,
     * so that a key has one effect and one answer, whoever asks at the same moment and wherever the process dies.
     * A definitive no is kept like a yes. Another request under a known key is 409 and does nothing.
     */
    answer(key: string, request: PaymentRequest): Answer & { replayed: boolean } {
      const text = JSON.stringify(request)
      return transaction(() => {
        const first = keyGet.get(key) as (Answer & { request: string }) | undefined
        if (first?.request === text) return { status: first.status, body: first.body, replayed: true }
        if (first) {
          const mismatch = refusal(409, 'idempotency_mismatch', 'This Idempotency-Key was used for another request')
          return { ...mismatch, replayed: false }
        }
        const answer = request.path === '/charges' ? charge(key, request) : refund(key, request)
        keyAdd.run(key, text, answer.status, answer.body)
        return { ...answer, replayed: false }
      })
    },

    /** Whether this key has its answer already. */
    knows: (key: string): boolean => keyGet.get(key) !== undefined,

    /** Counts one more HTTP call with this key; gives how many there were on this path, this one included. */
    countCall: (key: string, path: string): number => Number(callCount.get(key, path)?.['count']),

    charges: (): Charge[] =>
      (chargesAll.all() as ChargeRow[]).map((row) => ({ ...row, refunded: row.amountRefunded === row.amount })),
    refunds: (): Refund[] => refundsAll.all() as Refund[],
    calls: () => callsAll.all() as { key: string; path: string; count: number }[],
    close: () => db.close(),
  }
}

/** Whether a refund's reason holds a fault's name as a word: `download` does not ask for `down`. */
export function asksFor(fault: string, reason: string | null): boolean {
  return new RegExp(`(?<![a-z])${fault}(?![a-z])`).test(reason ?? '')
}
