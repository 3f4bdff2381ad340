import { describe, expect, test } from 'vitest'
import type { Outcome } from '../../../src/model/action.ts'
import { actionJson } from '../../../src/model/action.ts'
import type { ActionId } from '../../../src/model/ids.ts'
import { benchForEach, failed, mustSettle, namespace, placed, refused, type StoreUnderTest } from './harness.ts'

const cancelled: Outcome & { status: 'refused' } = { status: 'refused', fix: { code: 'cancelled' } }

export function describeChains(under: StoreUnderTest): void {
  describe(`${under.name}: leases, steps, retries and cancelling`, () => {
    const at = benchForEach(under)

    async function retried(on: ActionId, steps: Parameters<typeof at.bench.retry>[2] = null) {
      const answer = await at.bench.retry(at.worker, on, steps)
      if (answer.kind !== 'claimed') throw new Error(`claimed expected, got ${JSON.stringify(answer)}`)
      return answer
    }

    test('V4: a taken-over Action has a fresh fencing token, and the old one writes nothing', async () => {
      const { bench, worker } = at
      const { lease } = await bench.claimed(worker)
      const adopted = await bench.store.adopt(lease.action)
      expect(adopted).toMatchObject({
        kind: 'adopted',
        action: { status: 'pending', attempts: 2 },
        run: { crashes: 0 },
      })
      expect(await bench.end(lease)).toEqual({ kind: 'lost' })
      expect(await bench.startStep(lease)).toEqual({ kind: 'lost' })
      expect(await bench.store.endStep(lease, bench.entry(lease.action), 1)).toBe('lost')
      expect(await bench.store.wait(lease, 'record', 1)).toBe('lost')
      expect(await bench.store.hold(lease, ['Order/a'])).toEqual({ kind: 'lost' })
      await bench.store.release([lease])
      if (adopted.kind !== 'adopted') return
      expect(await bench.end(adopted.lease)).toMatchObject({ kind: 'settled', action: { attempts: 2 } })
      expect(await bench.store.adopt(lease.action)).toEqual({ kind: 'settled' })
    })

    test('V4: Actions of an earlier process are listed oldest first, each crash under them counted once', async () => {
      const { bench, worker } = at
      const leases = [
        (await bench.claimed(worker)).lease,
        (await bench.claimed(worker, { running: false, waitingFor: 'predecessor' })).lease,
      ]
      expect(await bench.store.pending(0, 10)).toEqual([])
      await bench.reopen()
      const listed = await bench.store.pending(0, 10)
      expect(listed).toMatchObject([
        { action: leases[0]?.action, crashes: 1, waitingFor: null, namespace, verb: 'Order.place' },
        { action: leases[1]?.action, crashes: 0, waitingFor: 'predecessor' },
      ])
      expect((await bench.store.pending(0, 1)).map(({ action }) => action)).toEqual([leases[0]?.action])
      expect((await bench.store.pending(listed[0]!.position, 10)).map(({ action }) => action)).toEqual([
        leases[1]?.action,
      ])
      expect(await bench.end(leases[0]!)).toMatchObject({ kind: 'settled' })
      expect(await bench.store.adopt(leases[1]!.action)).toMatchObject({
        run: { crashes: 0 },
        action: { waitingFor: null },
      })
      expect(await bench.store.pending(0, 10)).toEqual([])
      await bench.reopen()
      expect(await bench.store.adopt(leases[1]!.action)).toMatchObject({ run: { crashes: 1 } })
      await bench.reopen()
      expect(await bench.store.adopt(leases[1]!.action)).toMatchObject({ run: { crashes: 2 }, action: { attempts: 4 } })
    })

    test('V4: an Action that was given back, or waits, did not crash; progress begins the count anew', async () => {
      const { bench, worker } = at
      const [a, b, c] = [
        (await bench.claimed(worker)).lease,
        (await bench.claimed(worker)).lease,
        (await bench.claimed(worker)).lease,
      ]
      await bench.store.release([a])
      expect((await bench.store.pending(0, 10)).map(({ action }) => action)).toEqual([a.action])
      expect(await bench.end(a)).toEqual({ kind: 'lost' })
      await bench.store.wait(b, 'record', 250)
      expect(await bench.store.action(namespace, b.action)).toMatchObject({ waitingFor: 'record' })
      await bench.reopen()
      expect((await bench.store.pending(0, 10)).map(({ crashes }) => crashes)).toEqual([0, 0, 1])
      const adopted = await bench.store.adopt(b.action)
      expect(adopted).toMatchObject({ run: { crashes: 0, ranMs: 250 } })
      const third = await bench.store.adopt(c.action)
      if (third.kind !== 'adopted' || adopted.kind !== 'adopted') throw new Error('not adopted')
      expect(third.run.crashes).toBe(1)
      // A step that only looks something up is run again each time: it is no progress. One that is done is.
      const [looks, charges] = [
        { status: 'done', outcome: '1', effect: false },
        { status: 'done', outcome: '1', step: 'charge#2' },
      ] as const
      await bench.startStep(third.lease, { effect: false })
      await bench.store.endStep(third.lease, bench.entry(c.action, looks), 700)
      await bench.reopen()
      expect((await bench.store.pending(0, 10)).map(({ crashes }) => crashes)).toEqual([0, 1, 2])
      const fourth = await bench.store.adopt(c.action)
      if (fourth.kind !== 'adopted') throw new Error('not adopted')
      await bench.startStep(fourth.lease, { step: 'charge#2' })
      await bench.store.endStep(fourth.lease, bench.entry(c.action, charges), 700)
      expect(await bench.store.wait(adopted.lease, 'approval', 300)).toBe('ok')
      expect(await bench.store.wait(adopted.lease, null, 300)).toBe('ok')
      await bench.reopen()
      expect((await bench.store.pending(0, 10)).map(({ crashes }) => crashes)).toEqual([0, 1, 1])
      expect(await bench.store.adopt(c.action)).toMatchObject({ run: { ranMs: 700, crashes: 1 } })
    })

    test('V2: the journal keeps what started and how it ended, in order, over a restart', async () => {
      const { bench, worker } = at
      const { lease } = await bench.claimed(worker)
      const first = bench.entry(lease.action, {
        step: 'look#1',
        effect: false,
        status: 'done',
        outcome: '{"a":1}',
        input: null,
        attempts: 2,
      })
      await bench.startStep(lease, { step: 'look#1', effect: false, input: null })
      await bench.store.endStep(lease, first, 5)
      await bench.startStep(lease, {}, ['Order/x'])
      await bench.store.endStep(lease, bench.entry(lease.action, { status: 'unknown', attempts: 1 }), 5)
      const charged = bench.entry(lease.action, { status: 'done', outcome: '{"id":"ch_1"}', attempts: 2 })
      await bench.startStep(lease, { attempts: 2 }, ['Order/x'])
      await bench.store.endStep(lease, charged, 9)
      expect(await bench.store.action(namespace, lease.action)).toMatchObject({
        steps: [
          { step: 'look#1', status: 'done', attempts: 2 },
          { step: 'charge#1', status: 'done', attempts: 2 },
        ],
      })
      await bench.reopen()
      expect(await bench.store.journal(lease.action)).toEqual([first, charged])
      const adopted = await bench.store.adopt(lease.action)
      if (adopted.kind !== 'adopted') throw new Error('not adopted')
      expect(adopted.run).toMatchObject({
        journal: [first, charged],
        ranMs: 9,
        fixed: { holds: ['Order/x'], seed: { now: bench.nowMs } },
      })
    })

    test('V2: the first step with an effect drops the steps that this run did not reach', async () => {
      const { bench, worker } = at
      const { lease } = await bench.claimed(worker)
      for (const step of ['look#1', 'look#2']) await bench.startStep(lease, { step, effect: false })
      await bench.startStep(lease, {}, [], undefined, ['look#2'])
      expect((await bench.store.journal(lease.action)).map(({ step }) => step)).toEqual(['look#2', 'charge#1'])
      await bench.end(lease)
    })

    test('A2: only a failed Action can be retried', async () => {
      const { bench, worker } = at
      const { lease } = await bench.claimed(worker)
      expect(await bench.retry(worker, lease.action)).toEqual({ kind: 'not-retryable', status: 'pending' })
      for (const outcome of [placed, refused]) {
        const { id, status } = await bench.settled(worker, { outcome })
        expect(await bench.retry(worker, id)).toEqual({ kind: 'not-retryable', status })
      }
      expect((await bench.store.actions(namespace, {}, { after: 0, limit: 10 })).data).toHaveLength(3)
    })

    test('A2: of a chain only the latest is retried, and a refused retry does not count', async () => {
      const { bench, worker } = at
      const first = await bench.settled(worker, { outcome: failed })
      const second = await retried(first.id)
      expect(await bench.retry(worker, first.id)).toEqual({ kind: 'already-retried', latest: second.lease.action })
      await bench.end(second.lease, { outcome: refused })
      const third = await retried(first.id)
      await bench.end(third.lease, { outcome: failed })
      expect(await bench.retry(worker, first.id)).toEqual({ kind: 'already-retried', latest: third.lease.action })
      const fourth = await retried(third.lease.action)
      await bench.end(fourth.lease)
      expect(await bench.retry(worker, third.lease.action)).toEqual({
        kind: 'already-retried',
        latest: fourth.lease.action,
      })
      const chain = await bench.store.chain(first.id)
      expect(chain.map(({ id, on, root }) => [id, on, root])).toEqual([
        [first.id, null, first.id],
        [second.lease.action, first.id, first.id],
        [third.lease.action, first.id, first.id],
        [fourth.lease.action, third.lease.action, first.id],
      ])
    })

    test('A2: of two retries at once one is on record, and the other is told of it', async () => {
      const { bench, worker } = at
      const other = await bench.worker('other')
      const first = await bench.settled(worker, { outcome: failed })
      const answers = await Promise.all([bench.retry(worker, first.id), bench.retry(other, first.id)])
      expect(answers.map(({ kind }) => kind)).toEqual(['claimed', 'already-retried'])
    })

    test('K3: a retry’s key is bound to that retry', async () => {
      const { bench, worker } = at
      const first = await bench.settled(worker, { outcome: failed })
      const { lease } = await retried(first.id)
      await bench.end(lease)
      const bound = (await bench.store.action(namespace, lease.action))?.bound
      expect(bound).toMatchObject({ operation: 'Action.retry', target: first.id })
      const key = (await bench.store.action(namespace, lease.action))?.key ?? null
      // Found before it is asked whether a retry is possible: a replay answers for ever.
      expect(await bench.retry(worker, first.id, null, { key })).toMatchObject({
        kind: 'found',
        action: { id: lease.action },
      })
    })

    test('A1: a retry inherits the journal and what was fixed; the inbox item is decided by it', async () => {
      const { bench, worker } = at
      const action = await bench.failAfterEffect(worker, ['Order/a'])
      const { lease, run } = await retried(action.id)
      expect(run.journal).toMatchObject([{ step: 'charge#1', status: 'unknown', generation: 0, action: action.id }])
      expect(run.fixed?.holds).toEqual(['Order/a'])
      const items = await bench.store.inbox(namespace, { workerId: worker.id, all: false }, { after: 0, limit: 10 })
      expect(items.data).toMatchObject([
        {
          kind: 'failed',
          status: 'decided',
          decision: { decision: 'retry', by: 'checkout', action: lease.action },
          action: { id: action.id },
        },
      ])
      await bench.end(lease)
    })

    test.each([
      ['that runs at most once', { atMostOnce: true }, 0],
      ['whose key is no longer trusted', { keyHoldsMs: 1000 }, 1000],
    ])('V3: an unknown outcome of a step %s is never repeated blindly', async (_, wish, laterMs) => {
      const { bench, worker } = at
      const action = await bench.failAfterEffect(worker, [], wish)
      bench.nowMs += laterMs
      expect(await bench.retry(worker, action.id)).toEqual({ kind: 'outcome-required', step: 'charge#1' })
      expect(await bench.retry(worker, action.id, { 'other#1': { runAgain: true } })).toEqual({
        kind: 'outcome-required',
        step: 'charge#1',
      })
      const again = await retried(action.id, { 'charge#1': { runAgain: true } })
      // Still unknown, left so by an earlier Action, and trusted from now on: the run starts it anew under the same key.
      expect(again.run.journal).toMatchObject([
        { status: 'unknown', generation: 0, action: action.id, startedAt: bench.nowMs },
      ])
      await bench.end(again.lease, { outcome: failed, holds: 'keep' })
      const told = await bench.retry(worker, again.lease.action, { 'charge#1': { outcome: '{"id":"ch_1"}' } })
      expect(told).toMatchObject({ run: { journal: [{ status: 'done', outcome: '{"id":"ch_1"}', generation: 0 }] } })
      if (told.kind === 'claimed') await bench.end(told.lease)
    })

    test('V2: a fresh unknown outcome under a key that holds, and one that was rejected, need nobody’s word', async () => {
      const { bench, worker } = at
      for (const status of ['unknown', 'rejected', 'done'] as const) {
        const action = await bench.failAfterEffect(worker, [], { status, atMostOnce: status !== 'unknown' })
        const { run, lease } = await retried(action.id)
        expect(run.journal).toMatchObject([{ status, action: action.id }])
        await bench.end(lease)
      }
    })

    function cancelling(action: ActionId) {
      const { bench, worker } = at
      const claim = bench.claim(worker, { verb: 'Action.cancel', target: action })
      const cancels = { action, fix: cancelled, eventType: 'Order.place.refused' }
      return bench.store.settle(bench.settlement({ claim }, { cancels, units: 0, eventType: 'Action.cancelled' }))
    }

    test('A3: cancelling settles a pending Action, with its own Event just before the cancelling one', async () => {
      const { bench, worker } = at
      const { lease } = await bench.claimed(worker)
      await bench.startStep(lease, { step: 'look#1', effect: false })
      await bench.store.hold(lease, ['Order/a'])
      const by = mustSettle(await cancelling(lease.action))
      const target = await bench.store.action(namespace, lease.action)
      if (target === null || target.status === 'pending') throw new Error('still pending')
      expect(target).toMatchObject({
        status: 'refused',
        outcome: cancelled,
        seq: 1,
        steps: [{ step: 'look#1', status: 'started' }],
      })
      expect(by).toMatchObject({
        status: 'succeeded',
        seq: 2,
        verb: 'Action.cancel',
        outcome: { output: actionJson(target) },
      })
      expect(await bench.store.action(namespace, by.id)).toEqual(by)
      expect(await bench.end(lease)).toEqual({ kind: 'lost' })
      expect(await bench.store.blocker(namespace, ['Order/a'], null)).toBeNull()
      expect((await bench.store.events(namespace, 0, 9)).map(({ type }) => type)).toEqual([
        'Order.place.refused',
        'Action.cancelled',
      ])
      expect(await bench.store.usage(namespace, '2026-01-01', '2027-01-01')).toEqual([])
    })

    test('A3: what is settled, or may have had an effect, can not be cancelled, and the try leaves nothing', async () => {
      const { bench, worker } = at
      const done = await bench.settled(worker)
      expect(await cancelling(done.id)).toMatchObject({ kind: 'not-cancellable' })
      const { lease } = await bench.claimed(worker)
      await bench.startStep(lease)
      expect(await cancelling(lease.action)).toMatchObject({ kind: 'not-cancellable' })
      await bench.store.endStep(lease, bench.entry(lease.action, { status: 'unknown' }), 1)
      expect(await cancelling(lease.action)).toMatchObject({ kind: 'not-cancellable' })
      expect(await cancelling(`act_${bench.id()}`)).toMatchObject({ kind: 'not-cancellable' })
      expect(await bench.store.events(namespace, 0, 9)).toHaveLength(1)
      await bench.store.endStep(
        lease,
        bench.entry(lease.action, { status: 'rejected', outcome: '{"code":"declined","message":""}' }),
        1,
      )
      expect(await cancelling(lease.action)).toMatchObject({ kind: 'settled' })
    })

    test('A3: a settlement and a cancelling at once end in one of the two', async () => {
      const { bench, worker } = at
      const { lease } = await bench.claimed(worker)
      const [settled, cancel] = await Promise.all([bench.end(lease), cancelling(lease.action)])
      expect([settled.kind, cancel.kind]).toEqual(['settled', 'not-cancellable'])
      const second = (await bench.claimed(worker)).lease
      const [by, late] = await Promise.all([cancelling(second.action), bench.end(second)])
      expect([by.kind, late.kind]).toEqual(['settled', 'lost'])
    })
  })
}
