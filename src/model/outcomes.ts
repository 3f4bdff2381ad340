/**
 * The codes with which the platform itself settles an Action `failed` or `refused`, or throws into a Verb (V2–V6, W2–W5,
 * §14). They are not answers of the door: the Action is on record, and a replay of its key returns it as it is. Codes
 * that a Verb gives to `refuse` and `reject` are its author's own, and are not listed here.
 */

/** What the registry says of one code. The texts are plain words; `back ticks` mark code in them. */
export interface OutcomeEntry {
  /** How the Action settles with it. `refused` always means that nothing happened (V5). */
  readonly settles: 'failed' | 'refused'
  readonly title: string
  /** What happened, and what did not. */
  readonly meaning: string
  /** Whether to retry, and how: `Action.retry`, the inbox, or a new call. */
  readonly retry: string
  /** What to do about it. */
  readonly mend: string
}

const nothingHappened = 'Nothing happened: no record was changed and no step with an effect was done.'
const stepStands =
  'What the step did outside stands, and the records it concerns stay held until a retry succeeds or the inbox item is dismissed.'

export const outcomes = {
  'verb-threw': {
    settles: 'failed',
    title: 'The Verb threw an error',
    meaning:
      'The code of the Verb ended with an error that it did not expect. No record was changed. Steps that were done before it stand, and are listed in `steps`.',
    retry:
      '`Action.retry` runs the Verb again; steps that are done are not repeated. It fails again until its cause is gone.',
    mend: 'The message of the error is in the log of the server, under the id of the Action. Mend the Verb, then retry.',
  },
  'verb-timed-out': {
    settles: 'failed',
    title: 'The Verb ran for too long',
    meaning:
      'The Verb ran longer than its `timeout` (60 seconds unless it declares another) and was stopped. No record was changed. A step that was under way counts as unknown: it may have happened.',
    retry:
      '`error.retry` says it: `advised` means that a retry is safe, since the step is repeated under the same key; `unsafe` means to look first.',
    mend: 'Find out what was slow, most often a service outside, or declare a longer `timeout` on the Verb.',
  },
  'step-interrupted': {
    settles: 'failed',
    title: 'A step was cut off, and nobody knows whether it happened',
    meaning:
      'The process died, or the answer was lost, in a step that can not be repeated safely: it is declared `atMostOnce`, or it began longer ago than the downstream service remembers its key. It is never repeated blindly. No record was changed.',
    retry:
      'Only after somebody has looked, and says what happened in the body of the retry (409 `outcome-required` until then).',
    mend: 'Look at the downstream service whether the step happened there, then retry with its outcome, or with `runAgain` if it certainly did not. The Action is in the inbox.',
  },
  'step-unresolved': {
    settles: 'failed',
    title: 'A step got no clear answer, however often it was tried',
    meaning:
      'Each attempt of the step ended with a broken connection, a time-out or an unexpected error. It may have happened outside or not. No record was changed.',
    retry:
      '`Action.retry` is advised while the downstream service knows the key: the step is repeated under the same derived key, so it happens once.',
    mend: 'See whether the downstream service is up again, then retry. After `keyHolds` (24 hours unless declared) look there first. The Action is in the inbox.',
  },
  'step-diverged': {
    settles: 'failed',
    title: 'The Verb took another way than before',
    meaning:
      'A step that was already done, or may have been, was reached again with another input, or was not reached any more. Its outcome was not reused for something else. No record was changed.',
    retry: 'Only once the Verb takes the same way again; until then it diverges again.',
    mend: 'Something the Verb depends on is not the same in every run: a clock or a random value that is not the one of the context, a file, or code that was changed while the Action was pending. Compare `steps` with the Verb. The Action is in the inbox.',
  },
  'refused-after-step': {
    settles: 'failed',
    title: 'The Verb refused after a step had been done',
    meaning:
      'The Verb refused, but a step with an effect had been done or may have been. `refused` would say that nothing happened, so the Action is `failed`. No record was changed.',
    retry:
      '`Action.retry` runs the Verb again with the steps that are done; it most likely refuses again unless something changed.',
    mend: `${stepStands} Undo the effect by hand, or mend the cause and retry. Better: let the Verb refuse before its first step.`,
  },
  'stale-after-step': {
    settles: 'failed',
    title: 'A record changed, but a step had been done already',
    meaning:
      'A record was no longer what the caller had decided against, and this came to light when a step with an effect had been done or may have been. No record was changed.',
    retry: '`Action.retry`, with the `Record-Version`s that you have looked at now.',
    mend: `${stepStands} Compare the records with what the step did, then retry with current Versions, or undo the effect by hand.`,
  },
  'declined-after-step': {
    settles: 'failed',
    title: 'The call was declined, but a step had been done already',
    meaning:
      'A retry needed an approval and was declined, while a step with an effect had been done, or may have been, in an earlier Action of the chain. No record was changed.',
    retry: '`Action.retry` asks for an approval again.',
    mend: `${stepStands} Undo the effect by hand if it should not stand, then dismiss the item.`,
  },
  'expired-after-step': {
    settles: 'failed',
    title: 'The approval came too late, and a step had been done already',
    meaning:
      'A retry waited for an approval until it expired, while a step with an effect had been done, or may have been, in an earlier Action of the chain. No record was changed.',
    retry: '`Action.retry` asks for an approval again.',
    mend: `${stepStands} Ask the approvers, then retry; or undo the effect by hand and dismiss the item.`,
  },
  'record-busy': {
    settles: 'failed',
    title: 'A record was held by another Action for too long',
    meaning:
      'The Action waited 60 seconds in all for a record that another Action holds, or met one whose holder has failed with an effect in doubt. It started no step with an effect and changed no record.',
    retry: '`Action.retry` is advised, once the holder has settled.',
    mend: 'The message names the Action that holds the record. If it failed, deal with it first: retry it, or dismiss its inbox item. Then retry this one.',
  },
  'resume-limit': {
    settles: 'failed',
    title: 'The process crashed under this Action again and again',
    meaning:
      'The server crashed 20 times while it ran this Action, without any progress, and gave it up so that it can not hold up others. No record was changed; a step that was under way may have happened.',
    retry: '`Action.retry` only after the cause is mended, or it crashes the server again.',
    mend: 'Look in the log for what ended the process: `process.exit`, memory that ran out, or a fault in native code. The Action is in the inbox.',
  },
  'not-held': {
    settles: 'failed',
    title: 'The Verb changed a record that it does not hold',
    meaning:
      'After its first step with an effect a Verb may change only records that it held from then on, or creates. This one changed another, which somebody else might have changed meanwhile. No record was changed.',
    retry: 'Only once the Verb is mended.',
    mend: 'Let the Verb read every record that it will change before its first step, and name the Nouns in its `writes`.',
  },
  'not-unique': {
    settles: 'failed',
    title: 'A value that must be unique is taken',
    meaning:
      'The Verb created or changed a record so that a field declared `unique` would have had the value of another record. It may catch this; here it did not. No record was changed.',
    retry: 'It fails again while the other record has the value.',
    mend: 'Call again with another value and a new key, or change the other record first. The message names the field.',
  },
  'output-not-storable': {
    settles: 'failed',
    title: 'The output of the Verb cannot be kept',
    meaning:
      'What the Verb, or a step, returned is not JSON (a function, `NaN`, a `Map`, a promise that was not awaited, a cycle …) or is over 1 MiB. It would not come back from the store as it was. No record was changed.',
    retry: 'Only once the Verb is mended. Steps that are done are not repeated.',
    mend: 'Return plain data: objects, arrays, strings, finite numbers, booleans and null. The message says what was found and where.',
  },
  'record-deleted': {
    settles: 'refused',
    title: 'The record was deleted',
    meaning: `The call names a record that existed once and was deleted. Its id is never used again. ${nothingHappened}`,
    retry: 'No: it stays deleted. A replay of the key returns this Action.',
    mend: "Look at the record's Versions for when it was deleted and by which Action, and call again for another record, with a new key.",
  },
  cancelled: {
    settles: 'refused',
    title: 'The Action was cancelled',
    meaning: `Somebody who may call the operation cancelled the Action while it was pending. ${nothingHappened}`,
    retry: 'If it should happen after all, send the call again with a new key.',
    mend: 'The Action of the cancellation says who cancelled it.',
  },
  'stale-decision': {
    settles: 'refused',
    title: 'The record is no longer what the decision was made on',
    meaning: `A record that the caller decided against has changed since, in something the Verb depends on. \`fix.records\` shows each change: field, before, after, and by which Action. ${nothingHappened}`,
    retry: 'Not blindly: decide again first. A replay of the key returns this Action.',
    mend: 'Look at the changes. If the call is still right, apply the inbox item with the Versions it shows, or send what `fix.retryWith` holds with a new key.',
  },
  'predecessor-not-applied': {
    settles: 'refused',
    title: 'The call before this one did not succeed',
    meaning: `The call was queued behind another of the same Worker (\`Decided-After\`), and that one failed or was refused. ${nothingHappened}`,
    retry: 'After the call before it was applied or retried with success; then apply the inbox item.',
    mend: 'Deal with the earlier call first. If this one stands without it, send it again with a new key and without `Decided-After`.',
  },
  declined: {
    settles: 'refused',
    title: 'The call was declined',
    meaning: `The Verb needs an approval, and a Worker who may give it said no. ${nothingHappened}`,
    retry: 'Only as a new call with a new key, if something has changed that may change the answer.',
    mend: 'The inbox item says who declined. Ask why before you send it again.',
  },
  expired: {
    settles: 'refused',
    title: 'Nobody approved the call in time',
    meaning: `The Verb needs an approval, and none was given before it expired. ${nothingHappened}`,
    retry: 'As a new call with a new key.',
    mend: 'Ask the approvers to look at their inbox, then send it again.',
  },
  'dry-run-incomplete': {
    settles: 'failed',
    title: 'The approvers could not be shown what would happen',
    meaning:
      'The Verb needs an approval, and its dry run ended at a step that has no stand-in for `try`. Nobody was asked to approve what could not be shown. No step was run and no record was changed.',
    retry: 'Only once the Verb is mended.',
    mend: 'Give the step that the message names a `try` stand-in.',
  },
  'script-diverged': {
    settles: 'failed',
    title: 'The script took another way than before',
    meaning:
      'A script that was resumed or retried reached a call with another target or input than the first time. Calls that were made before stand; nothing was run in place of one.',
    retry: 'Only if the script takes the same way as before.',
    mend: 'Let the script depend on nothing that changes between runs, or give each call an idempotency key of its own. To do something else, send a new script under a new key.',
  },
  'script-timed-out': {
    settles: 'failed',
    title: 'The script ran for too long',
    meaning:
      'The script, with all it waited for, took longer than it may and was stopped. Calls that were made before stand, and may settle after it.',
    retry: '`Action.retry` is advised: calls that were made are found again and not repeated.',
    mend: 'Retry it, or divide the script into shorter ones. Use `$.send` for what needs no waiting.',
  },
} as const satisfies Readonly<Record<string, OutcomeEntry>>
