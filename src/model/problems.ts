/**
 * The one registry of the codes with which a request is turned away at the door (§11). The answers, the pages under
 * `/errors/{code}` and the SDK's error classes come from here. Behind each of these codes stands R1: the request that
 * got it put nothing on record.
 */

/** What the registry says of one code. The texts are plain words; `back ticks` mark code in them. */
export interface ProblemEntry {
  /** The HTTP status of the answer. */
  readonly status: number
  /** A short name for people, the same for every occurrence (RFC 9457 `title`). */
  readonly title: string
  /** Whether the same request with the same key may succeed later (§11). */
  readonly retryable: boolean
  /** What happened, and what did not. */
  readonly meaning: string
  /** Whether and when to send it again. */
  readonly retry: string
  /** What to change so that it works. */
  readonly mend: string
  /** Headers that every answer with this code carries. */
  readonly headers?: Readonly<Record<string, string>>
}

const sameFails = 'Not as it is: the same request fails again.'
const mendFirst = 'Once it is mended, send it with the same key: nothing was recorded, so the key is still free.'

/** Every code of the door, in the order in which the door checks (R2), then what reads, queues and the server add. */
export const problems = {
  'not-found': {
    status: 404,
    title: 'There is nothing at this path',
    retryable: false,
    meaning: 'The path has none of the forms that this server knows. Nothing ran and nothing was recorded.',
    retry: sameFails,
    mend: 'Compare the path with `GET /{namespace}`, which lists every Noun and Verb with its route. The plural of a Noun is in kebab case: `/glyphs.store/font-licenses`.',
  },
  'method-not-allowed': {
    status: 405,
    title: 'The path exists, but not with this method',
    retryable: false,
    meaning:
      'The path is known, and the header `Allow` lists the methods it takes. Nothing ran and nothing was recorded.',
    retry: sameFails,
    mend: 'Use a method that `Allow` lists. Verbs are called with `POST`; everything that only reads is a `GET`.',
  },
  unauthorized: {
    status: 401,
    title: 'No valid token',
    retryable: false,
    meaning:
      'The `Authorization` header is missing, is not of the form `Bearer <token>`, or its token is unknown, expired or revoked. Nothing ran and nothing was recorded.',
    retry:
      'With another token of the same Worker: yes, with the same key. A key belongs to the Worker, not to the token, so a new token finds what the old one began.',
    mend: 'Send `Authorization: Bearer <token>`. An operator makes a new token with `startup-builder worker token NAME`.',
    headers: { 'WWW-Authenticate': 'Bearer' },
  },
  'wrong-namespace': {
    status: 403,
    title: 'The token is for another namespace',
    retryable: false,
    meaning:
      'A token identifies one Worker in one namespace, and the path names a different one, which may or may not exist. Nothing ran and nothing was recorded.',
    retry: sameFails,
    mend: 'Ask `GET /me` which namespace the token belongs to, and use that in the path; or use a token of the namespace you meant.',
  },
  'idempotency-key-required': {
    status: 400,
    title: 'A durable call needs an Idempotency-Key',
    retryable: false,
    meaning:
      'The call would change something and carries no key. Without one, a retry after a lost answer could do it twice, so it was not run at all.',
    retry: 'Yes, with a key. Nothing was recorded.',
    mend: 'Send `Idempotency-Key`, derived from the business event, such as the cart id, so that every process that retries sends the same key. To see what a call would do, use `?mode=try`, which needs none.',
  },
  'invalid-idempotency-key': {
    status: 400,
    title: 'The idempotency key is not acceptable',
    retryable: false,
    meaning:
      'The key is empty, longer than 255 characters, not well-formed UTF-8, sent twice, or its percent-encoding is broken; the detail says which. A key is never guessed or repaired, because two different keys could become one. Nothing was recorded.',
    retry: sameFails,
    mend: 'Send exactly one of `Idempotency-Key` and `Idempotency-Key-Encoded`, once. Keys with control characters, commas, spaces at an end, or anything outside printable ASCII go into `Idempotency-Key-Encoded`, as percent-encoded UTF-8.',
  },
  'invalid-mode': {
    status: 400,
    title: 'There is no such Mode',
    retryable: false,
    meaning:
      '`?mode=` is none of `do`, `send` and `try`. It was not taken for `do`, because you may have meant a dry run. Nothing ran and nothing was recorded.',
    retry: sameFails,
    mend: 'Leave `mode` out for `do` (wait until settled), or use `send` (return once on record) or `try` (store nothing).',
  },
  'invalid-record-version': {
    status: 400,
    title: 'The Record-Version header does not read',
    retryable: false,
    meaning:
      'The header `Record-Version` is malformed, a Version in it is not a positive whole number, or it names one record twice; the detail names the part. It is never ignored, since the call would then run on what you have not seen. Nothing was recorded.',
    retry: sameFails,
    mend: 'Send `Record-Version: 3` for the target record, or `Record-Version: offers/offer_serif_family=7, orders/order_1=3` for records by name, each once.',
  },
  'use-record-version': {
    status: 400,
    title: 'Use Record-Version instead of If-Match',
    retryable: false,
    meaning:
      '`If-Match` was sent with a durable call. It is not what this platform checks against, and ignoring it would run the call on a record you have not seen. Nothing ran and nothing was recorded.',
    retry: sameFails,
    mend: 'Take the number out of the `ETag` and send it as `Record-Version`: `ETag: "3"` becomes `Record-Version: 3`.',
  },
  'invalid-decided-after': {
    status: 400,
    title: 'The Decided-After header does not read',
    retryable: false,
    meaning:
      '`Decided-After` must hold the percent-encoded key of the one call before this one in your queue. It is empty, sent twice, or not such a key. Nothing ran and nothing was recorded.',
    retry: sameFails,
    mend: 'Send the key of the call just before this one, percent-encoded, in one `Decided-After` header; or leave the header out when the call follows none.',
  },
  throttled: {
    status: 429,
    title: 'Too many calls',
    retryable: true,
    meaning:
      'This Worker has used up its rate, or that of the Verb; replays and dry runs count too. Or so many tokens that nobody has came from your address that they are told to wait; a good token is let in at any time. Nothing ran and nothing was recorded.',
    retry:
      'Yes, with the same key, after the seconds in `Retry-After`. A client that waits as long as it is told gets in.',
    mend: 'Slow down: `RateLimit` and `RateLimit-Policy` say what is left. If the rate is too low for honest work, an operator can raise it for this Worker.',
  },
  'body-too-large': {
    status: 413,
    title: 'The body is too large',
    retryable: false,
    meaning: 'An input may have at most 1 MiB (1,048,576 bytes). Nothing ran and nothing was recorded.',
    retry: sameFails,
    mend: 'Send less: keep files and long texts elsewhere and pass their address or id.',
  },
  'unsupported-media-type': {
    status: 415,
    title: 'The body is not declared as JSON',
    retryable: false,
    meaning:
      'A body was sent whose `Content-Type` is not `application/json`, or in a character set other than UTF-8, or compressed. Nothing ran and nothing was recorded.',
    retry: sameFails,
    mend: 'Send `Content-Type: application/json` and the JSON as plain UTF-8, without a `Content-Encoding`.',
  },
  'invalid-json': {
    status: 400,
    title: 'The body is not acceptable JSON',
    retryable: false,
    meaning:
      'The body is not JSON, not UTF-8, begins with a byte order mark, holds half of a surrogate pair, or names a member twice. Different readers would take such a text for different inputs, so it is refused rather than guessed. Nothing was recorded.',
    retry: sameFails,
    mend: `Send JSON as RFC 8259 has it, each member once. The detail says what was found. ${mendFirst}`,
  },
  'unsafe-number': {
    status: 400,
    title: 'A number cannot be kept exactly',
    retryable: false,
    meaning:
      'A number in the body is a whole number beyond ±9,007,199,254,740,991, or too large to be a number at all. It would be rounded, and two different inputs would look the same. Nothing was recorded.',
    retry: sameFails,
    mend: `Send large numbers and long ids as strings. ${mendFirst}`,
  },
  'input-too-deep': {
    status: 400,
    title: 'The input is nested too deeply',
    retryable: false,
    meaning: 'Objects and arrays may be nested 64 levels deep. Nothing ran and nothing was recorded.',
    retry: sameFails,
    mend: `Flatten the input. ${mendFirst}`,
  },
  'input-not-object': {
    status: 400,
    title: 'The input is not an object',
    retryable: false,
    meaning:
      'The body is JSON, but an array, a string, a number, `true`, `false` or `null`. An input is always an object. Nothing ran and nothing was recorded.',
    retry: sameFails,
    mend: `Wrap it in an object, as the Verb's schema says. No body at all means \`{}\`. ${mendFirst}`,
  },
  'malformed-request': {
    status: 400,
    title: 'The request is not valid HTTP',
    retryable: false,
    meaning:
      'The request could not be read as HTTP: a broken request line, a control character in a header, or a body whose length contradicts itself. Nothing ran and nothing was recorded.',
    retry: sameFails,
    mend: 'Use an HTTP client instead of building the request by hand, and percent-encode what does not belong in a header.',
  },
  'headers-too-large': {
    status: 431,
    title: 'The headers are too large',
    retryable: false,
    meaning:
      'The request line and headers together are larger, or the header lines more, than the server reads. Nothing ran and nothing was recorded.',
    retry: sameFails,
    mend: 'Send fewer and shorter headers. Cookies are not used here and need not be sent.',
  },
  'request-timeout': {
    status: 408,
    title: 'The request arrived too slowly',
    retryable: true,
    meaning: 'The whole request did not arrive in time, so it was not begun. Nothing ran and nothing was recorded.',
    retry: 'Yes, at once, with the same key.',
    mend: 'Usually nothing: the connection was slow or was cut. If it happens again and again, look for a proxy that holds bodies back.',
  },
  'operation-not-found': {
    status: 404,
    title: 'There is no such operation',
    retryable: false,
    meaning:
      'The path has the form of a call, but this Startup has no such Noun or Verb, or the Verb takes a record where none was named, or the reverse. Nothing ran and nothing was recorded.',
    retry: 'Not as it is, unless a version of the Startup that has the Verb is deployed.',
    mend: '`GET /{namespace}` lists every Noun and Verb with its route. Look for a spelling mistake and for a missing record id.',
  },
  forbidden: {
    status: 403,
    title: 'The Worker may not do this',
    retryable: false,
    meaning: 'The token is valid, but its Worker was not granted this. Nothing ran and nothing was recorded.',
    retry: 'Only after the Worker was granted it; then with the same key.',
    mend: '`GET /me` shows what the Worker is granted; the detail names what is missing. An operator grants it with `startup-builder worker add … --grant`.',
  },
  'record-not-found': {
    status: 404,
    title: 'There is no such record',
    retryable: false,
    meaning:
      'The record that the path names has never existed. (A call on a record that was deleted goes on record and settles `refused`, `record-deleted`.) Nothing ran and nothing was recorded. As the code of an Action it means that the Verb asked for a record that does not exist.',
    retry: sameFails,
    mend: 'Check the id and the Noun in the path. An id is never used again, so a correct one stays correct.',
  },
  'invalid-input': {
    status: 400,
    title: 'The input does not fit the Verb',
    retryable: false,
    meaning:
      'The input breaks the schema of the Verb: a member is missing, has the wrong type or is out of range, or is not known at all. `errors` lists them with their paths, the first 100 of them. Unknown members are refused, since a mistyped name would otherwise be ignored silently. Nothing ran and nothing was recorded.',
    retry: sameFails,
    mend: `Mend what \`errors\` lists. The schema is in \`GET /{namespace}\`. ${mendFirst}`,
  },
  'idempotency-mismatch': {
    status: 409,
    title: 'The key is already bound to another call',
    retryable: false,
    meaning:
      'This Worker used the key before, for a different operation, target record or input. A key binds one call for ever. This request ran nothing; the first Action, named by `firstAction`, stands as it is, and `differs` says what is not the same.',
    retry:
      'Never as it is. Do not simply try again with a new key before you know what the first Action did: it may have charged already.',
    mend: 'Read `GET /{namespace}/actions/{firstAction}`. If it is what you wanted, you are done. If this is a new intent (another purchase, another refund), give it a key of its own. If the input was changed by accident (a time stamp, a random value), send the first input again.',
  },
  'predecessor-unknown': {
    status: 409,
    title: 'The call before this one is not on record yet',
    retryable: true,
    meaning:
      '`Decided-After` names a key with which this Worker has put no Action on record. This call was decided after that one and does not run before it. Nothing ran and nothing was recorded.',
    retry: 'Yes, with the same key, once the call before it has been answered.',
    mend: 'Send the queue in order. If the call before it was turned away for good, decide again without it: leave `Decided-After` out, or name the last call that did go on record.',
    headers: { 'Retry-After': '1' },
  },
  'not-retryable': {
    status: 409,
    title: 'Only a failed Action can be retried',
    retryable: false,
    meaning:
      'The Action is pending, succeeded or refused. A pending one may still succeed, a succeeded one is done, and a refused one did nothing. No retry was put on record.',
    retry: 'Only if the Action is pending now and later settles `failed`.',
    mend: 'Wait for a pending Action with `GET /{namespace}/actions/{id}?wait=30`. To try again what was refused, send the call anew with a new key, or apply its inbox item.',
  },
  'already-retried': {
    status: 409,
    title: 'The Action was retried already',
    retryable: false,
    meaning:
      'Of an Action and its retries only the latest can be retried, so that at most one of them ever succeeds. `latest` names it. No retry was put on record.',
    retry: 'Not this Action.',
    mend: 'Read the Action that `latest` names. If it failed as well, retry that one; if it succeeded, nothing is left to do.',
  },
  'outcome-required': {
    status: 409,
    title: 'Somebody must say what the step did',
    retryable: false,
    meaning:
      'A step of the failed Action was interrupted, and nobody can tell whether it happened outside: a card may have been charged. It is not repeated blindly. No retry was put on record.',
    retry: 'Only with the answer in the body, by a Worker with the grant `inbox`.',
    mend: 'Look at the downstream service. If the step happened there, send `{ "steps": { "charge#1": { "outcome": … } } }` with what it returned. If it certainly did not, send `{ "steps": { "charge#1": { "runAgain": true } } }`.',
  },
  'not-cancellable': {
    status: 409,
    title: 'The Action cannot be cancelled any more',
    retryable: false,
    meaning: 'The Action is settled, or has started a step that has effects outside. It was left as it is.',
    retry: 'No: what has started an effect never becomes cancellable again.',
    mend: 'Wait until it settles, then undo it with a Verb made for that, such as a refund.',
  },
  'already-decided': {
    status: 409,
    title: 'The inbox item was decided already',
    retryable: false,
    meaning:
      'An item is decided once. `decision` says how, `decidedBy` by whom, and `action` which Action came of it. Your decision was not recorded.',
    retry: 'No.',
    mend: 'Read the item and its Action. If you disagree with the decision, make a new call of your own.',
  },
  'version-required': {
    status: 428,
    title: 'Say which Versions you were shown',
    retryable: false,
    meaning:
      'To apply or approve an item binds you to the Versions of the records that it showed, and the request names none, or others. `shown` has them. Nothing was decided and nothing was recorded.',
    retry: 'Yes, with the Versions.',
    mend: "Send the item's `records` as `Record-Version: offers/offer_serif_family=8, …`, after having looked at them.",
  },
  'action-not-found': {
    status: 404,
    title: 'There is no such Action',
    retryable: false,
    meaning: 'No Action of this namespace has this id, or this Worker may not see it. Nothing was recorded.',
    retry: sameFails,
    mend: 'Check the id. A Worker sees its own Actions, and all of them with the grant `actions:all`. To look for a key, use `GET /{namespace}/actions?key=…`.',
  },
  'item-not-found': {
    status: 404,
    title: 'There is no such inbox item',
    retryable: false,
    meaning: 'No item with this id is in an inbox of this Worker. Nothing was recorded.',
    retry: sameFails,
    mend: 'List the items with `GET /{namespace}/inbox`. Items of other Workers need the grant `inbox`.',
  },
  'invalid-cursor': {
    status: 400,
    title: 'The cursor is not one of ours',
    retryable: false,
    meaning:
      '`after` (or `Last-Event-ID`) is not a position that this list gave. Guessing would skip or repeat members.',
    retry: sameFails,
    mend: 'Use the `next` of the page before, unchanged and with the same filters, or leave `after` out to begin at the beginning. For Events the cursor is a `seq`: a whole number, 0 or more.',
  },
  'invalid-limit': {
    status: 400,
    title: 'The limit is out of range',
    retryable: false,
    meaning: '`limit` must be a whole number from 1 to 1000.',
    retry: sameFails,
    mend: 'Leave it out for 100 members a page, or send a number in range and follow `next`.',
  },
  'invalid-filter': {
    status: 400,
    title: 'The list cannot be filtered like this',
    retryable: false,
    meaning:
      'A filter has a value it can not have, or names a field without an index. An unknown filter is never ignored: you would take all for the few you asked for.',
    retry: sameFails,
    mend: 'Filter records by fields that the Noun declares as `index` or `unique`, and Actions by `status`, `verb`, `worker`, `key` and `on`. The detail names the filter.',
  },
  'invalid-wait': {
    status: 400,
    title: 'The wait does not read',
    retryable: false,
    meaning: '`?wait=` must be a whole number of seconds, 0 or more. Above 300 it counts as 300.',
    retry: sameFails,
    mend: 'Send `?wait=30`, or leave it out to be answered at once.',
  },
  'invalid-query': {
    status: 400,
    title: 'The query has a member that is not known',
    retryable: false,
    meaning:
      'The part of the address after `?` names something unknown here, names something twice, or is badly encoded. It is refused, because a mistyped `mdoe=try` would otherwise run for real. Nothing ran and nothing was recorded.',
    retry: sameFails,
    mend: 'Correct or remove the member that the detail names.',
  },
  'too-many-streams': {
    status: 429,
    title: 'This Worker has too many streams open',
    retryable: true,
    meaning: 'As many streams of Events are open for this Worker as one Worker may have at once. No stream was begun.',
    retry: 'Yes, once another stream of the Worker has ended.',
    mend: 'Close streams that nobody reads. One stream can serve many readers behind it; for many programs, use a Worker for each.',
    headers: { 'Retry-After': '5' },
  },
  busy: {
    status: 503,
    title: 'The server has too much to do right now',
    retryable: true,
    meaning: 'A queue of the server is full. This request was turned away before it put anything on record.',
    retry: 'Yes, with the same key, after the seconds in `Retry-After`, and with growing pauses.',
    mend: 'Nothing in the request. If it lasts, the server needs fewer calls at once or more machine.',
    headers: { 'Retry-After': '1' },
  },
  'store-unavailable': {
    status: 503,
    title: 'The store cannot be written or read right now',
    retryable: true,
    meaning:
      'The store refused, for instance because its disk is full. The server made sure that this request put nothing on record; when it cannot tell, it answers nothing at all.',
    retry: 'Yes, with the same key, after the seconds in `Retry-After`, and with growing pauses.',
    mend: 'Nothing in the request. The operator finds the cause in the log: most often disk space or a lost connection.',
    headers: { 'Retry-After': '1' },
  },
  'shutting-down': {
    status: 503,
    title: 'The server is shutting down',
    retryable: true,
    meaning: 'The server was told to stop and begins nothing new. This request put nothing on record.',
    retry: 'Yes, with the same key, after the seconds in `Retry-After`, when the server or another one is up.',
    mend: 'Nothing in the request.',
    headers: { 'Retry-After': '1' },
  },
  'no-definition': {
    status: 503,
    title: 'There is no definition to serve',
    retryable: true,
    meaning:
      'The definition that `startup-builder dev` was given has errors, and it has not served a good one yet. This request put nothing on record.',
    retry: 'Yes, with the same key, once the definition is mended and saved.',
    mend: 'Nothing in the request. The terminal in which `startup-builder dev` runs shows what is wrong, and where.',
    headers: { 'Retry-After': '1' },
  },
  internal: {
    status: 500,
    title: 'The server made a mistake',
    retryable: true,
    meaning:
      'A fault of the server, which is in its log under the `requestId`. It happened before anything was put on record.',
    retry: 'Yes, with the same key: it runs at most once, however often you send it.',
    mend: 'Nothing in the request. If it happens again, give the operator the `requestId`.',
  },
} as const satisfies Readonly<Record<string, ProblemEntry>>

/** A code of the door: `idempotency-mismatch`, `throttled`, … */
export type ProblemCode = keyof typeof problems
