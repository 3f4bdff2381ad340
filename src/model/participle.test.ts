import { expect, test } from 'vitest'
import { pastParticiple } from './participle.ts'

const participles = `
  place placed, publish published, reprice repriced, retire retired, refund refunded, cancel cancelled, register registered,
  transfer transferred, edit edited, pay paid, sell sold, send sent, buy bought, begin begun, write written, take taken,
  give given, hold held, ship shipped, refer referred, set set, put put, make made, apply applied, approve approved,
  deny denied, play played, plan planned, stop stopped, fix fixed, load loaded, open opened, visit visited, submit submitted,
  permit permitted, commit committed, offer offered, deliver delivered, order ordered, reset reset, resend resent,
  rewrite rewritten, undo undone, redo redone, override overridden, withdraw withdrawn, withhold withheld, repay repaid,
  relay relayed, reply replied, release released, renew renewed, rent rented, render rendered, review reviewed,
  quiz quizzed, quit quit, sync synced, panic panicked, tie tied, agree agreed, free freed, ban banned, unban unbanned,
  label labelled, model modelled, total totalled, reveal revealed, format formatted, focus focused, forward forwarded,
  oversell oversold, underwrite underwritten, mislay mislaid, forgive forgiven, forget forgotten, forecast forecast,
  broadcast broadcast, run run, split split, log logged, tag tagged, retag retagged, claim claimed, return returned,
  lock locked, unlock unlocked, archive archived, restore restored, split split, mail mailed, box boxed, show shown,
  do done, go gone, see seen, meet met, accept accepted, reject rejected, expire expired, assign assigned, bid bid,
  outbid outbid, reship reshipped, prefer preferred, defer deferred, recur recurred, occur occurred, admit admitted,
  verify verified, certify certified, invoice invoiced, bill billed, credit credited, debit debited, audit audited,
  constructor constructored
`

test.each(participles.split(',').map((pair) => pair.trim().split(' ')))(
  'E1: %s is named %s in its Event',
  (verb, past) => {
    expect(pastParticiple(verb ?? '')).toBe(past)
  },
)

test('E1: of a name of several words the first is the verb', () => {
  expect(pastParticiple('markPaid')).toBe('markedPaid')
  expect(pastParticiple('sendReminder')).toBe('sentReminder')
  expect(pastParticiple('setUp')).toBe('setUp')
  expect(pastParticiple('shipItem2')).toBe('shippedItem2')
})
