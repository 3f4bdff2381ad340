/**
 * Every bound of the platform, with its unit in its name and its reason beside it. Nothing that a caller can send, hold
 * or ask for is without one: a queue, a wait, a loop, a body.
 */

/** Largest body of a request, in bytes (K3). An input is read whole into memory, and kept for ever. */
export const bodyBytesMax = 1_048_576

/** Longest idempotency key, in Unicode code points (K1). At most 1020 bytes of UTF-8, 3060 percent-encoded. */
export const keyCodePointsMax = 255

/** Most faults of one input that an answer lists: a body of 1 MiB can have a hundred thousand, and ten times its size. */
export const faultsMax = 100

/** Longest name or sentence about a fault that an answer repeats, in characters: the rest is the client's own text. */
export const faultTextMax = 200

/** Deepest nesting of an input, in levels; the outermost object is level 1 (K3). Keeps every walk off the stack's end. */
export const inputDepthMax = 64

/** Largest output of a Verb or outcome of a step, in bytes of JSON (V5). It is kept for ever and sent with each replay. */
export const outputBytesMax = 1_048_576

/** How long a `do` waits for its Action before it answers 202, in seconds (§3). Below the 60 s after which proxies cut. */
export const waitSecondsDefault = 30

/** Longest wait that `Prefer: wait=N` or `?wait=N` can ask for, in seconds (§3). A longer one is shortened to this. */
export const waitSecondsMax = 300

/** Steps of one Action, counting each occurrence. A loop that never ends stops here instead of filling the disk. */
export const stepsPerActionMax = 1000

/** Records one Action may create, change or delete: they are one transaction, and it holds up all others. */
export const recordsPerActionMax = 1000

/** Members of one page of a list when `limit` is not given (§3). */
export const listLimitDefault = 100

/** Most members of one page of a list (§3): one answer stays well under a second's work. */
export const listLimitMax = 1000

/** Most records that one `find` inside a Verb may return: all of them are validated at the settlement (V6). */
export const findLimitMax = 1000

/** How often a step with an unknown outcome is tried under one derived key, unless it declares `attempts` (V2). */
export const stepAttemptsDefault = 5

/** How long a Verb may run since its claim, in milliseconds, unless it declares `timeout` (V5). */
export const timeoutMsDefault = 60_000

/** Longest `timeout` that a Verb may declare, in milliseconds: a day. What takes longer is several Actions. */
export const timeoutMsMax = 24 * 60 * 60 * 1000

/** How long a downstream is trusted to know a step's key, in milliseconds, unless the step declares `keyHolds` (V2). */
export const keyHoldsMsDefault = 24 * 60 * 60 * 1000

/** How long an Action waits for held records, in all, in milliseconds, before it settles `record-busy` (V6). */
export const recordBusyMs = 60_000

/** Crashes of the process under an Action, without progress, after which it settles `resume-limit` (V4). */
export const crashesMax = 20

/** Crashes after which an Action is a suspect, and runs alone, so that it can't condemn the others (V4). */
export const crashesSuspect = 2

/** How long a Verb without steps may run before its claim is written ahead of its settlement, in milliseconds. */
export const claimAheadMs = 50

/** Conflicts after which an Action takes its turn on the records it reads, instead of running freely again (V6). */
export const conflictsBeforeTurn = 3

/** How often a waiting Action looks again although no notice came, in milliseconds: a lost notice costs no more. */
export const waitPollMs = 1000

/** How long an Action on record waits before it tries a commit again that the store could not take, in milliseconds. */
export const storeRetryMs = 250

/** Memory for settled answers that replays are served from, in bytes: about 30 000 Actions of a kilobyte (K4). */
export const hotReplaysBytesMax = 64 * 1024 * 1024

/** How long a graceful stop waits for what runs, in milliseconds; what is left then is resumed at the next start (V4). */
export const drainMs = 10_000

/** How often the engine looks for Actions to claim ahead or to time out, in milliseconds. */
export const clockTickMs = 25

/** Pending Actions that a start takes over at once; the rest follow as these settle, or have run for a while (V4). */
export const resumesAtOnceMax = 64

/** How long one that was taken over keeps the next from its place, in milliseconds: some wait for a person, or for ever (V4). */
export const resumePlaceMs = 2000

/** Actions taken over that may run, or wait, at the same time: a quarter of all that may, so that new calls have room (V4). */
export const resumesMax = 5000

/** How long a start lets other Actions go ahead of the suspects, in milliseconds (V4). */
export const suspectsAfterMs = 2000

/** First and greatest pause between two attempts of a step, in milliseconds; doubled each time, with full jitter (V2). */
export const stepBackoffMs = 100
export const stepBackoffMsMax = 10_000

/** Longest name of a step, in characters; it is part of the journal's key and of the derived key. */
export const stepNameMax = 64

/** Largest request line and headers, in bytes. A key of 255 four-byte characters is 3,060 of them percent-encoded. */
export const headerBytesMax = 32 * 1024

/** Most field lines of a request: Node would drop what is beyond its own bound unseen, a `Record-Version` too (W1). */
export const headerLinesMax = 256

/** Most connections open at once, unless the operator says otherwise; about 20 kB each. One more is closed unanswered. */
export const connectionsMax = 10_000

/** How often the log says that connections were closed because too many are open, in milliseconds. */
export const connectionsDroppedMs = 10_000

/** Most requests under way on one connection (pipelining): who sends more than this ahead is told 503 `busy`. */
export const pipelinedMax = 100

/** How long a client may take nothing of an answer that is its own to read, in milliseconds; then it is cut off. */
export const answerStalledMs = 60_000

/** How long a client may take to send its headers, in milliseconds: an idle flood of connections ends here. */
export const headersTimeoutMs = 20_000

/** How long a client may take to send a whole request, in milliseconds: 1 MiB at 70 kbit/s. */
export const requestTimeoutMs = 120_000

/** How long a connection stays open between requests, in milliseconds: above the 60 s of most proxies, so they end it first. */
export const keepAliveTimeoutMs = 72_000

/** How much of a body is read and dropped after an early answer, in bytes, so that the answer is read (R2). */
export const drainBytesMax = 32 * 1024 * 1024

/** How long the rest of a body is read and dropped after an early answer, in milliseconds (R2). */
export const drainBodyMs = 10_000

/** How long a browser may remember what the preflight allowed, in seconds (H2). */
export const preflightSecondsMax = 600

/** Versions read at once when a decision is compared with what a record has become since (W2). */
export const versionsPageMax = 500

/** How often a `try` runs anew because what it read had changed meanwhile, before it answers `busy` (T1). */
export const dryRunsMax = 20

/** Tokens whose hash is remembered, so that it is not computed for each call; about 100 bytes each. */
export const tokensRememberedMax = 10_000

/** How long an Action on record waits before it is run again after a fault of the engine's own, in milliseconds. */
export const faultRetryMs = 5000

/** Most records that one Action may read: each is validated by its settlement, which others wait for (V6). */
export const readsPerActionMax = 10_000

/** Most Actions that run in one process at once; beyond that a call is 503 `busy`, with nothing recorded. */
export const runsMax = 20_000

/** Most units of one Action (E2): sums stay exact in JSON up to nine million such Actions of a Worker and Verb a day. */
export const unitsPerActionMax = 1_000_000_000

/** How often a stream of Events carries a heartbeat, in milliseconds (E1): below the 60 s after which proxies cut. */
export const heartbeatMs = 15_000

/** Heartbeats in a row that find a reader not having taken what was written before, after which it is cut: a minute's. */
export const heartbeatsUntakenMax = 4

/** Of the connections that may be open at once, the share that may be streams of Events, so that calls still get in (E1). */
export const streamsShareMax = 0.8

/** The share that may be streams of one Worker, so that it leaves some to the others: 2,500 unless the operator says. */
export const streamsPerWorkerShareMax = 0.25

/** How much of a stream is written before its reader must take it, in bytes; a larger Event goes alone. */
export const streamWriteBytesMax = 64 * 1024

/** Memory for the newest Events of a namespace that somebody follows, in bytes; who is behind them reads the store. */
export const recentEventsBytesMax = 8 * 1024 * 1024

/** Most Events that are read from the store at once for a stream: their read holds up whoever waits for the same turn. */
export const streamPageMax = 128

/** Readers of a stream that are served in one turn of the event loop, between which calls have theirs. */
export const readersPerTurn = 32

/** How long a client waits before it comes back after a stream ended, in milliseconds, at least and at most. */
export const streamRetryMs = 1_000
export const streamRetryMsMax = 4_000

/** Greatest `rate`, in calls a second, and greatest `burst`, in calls, of a limit (§10): far above what a server answers. */
export const rateMax = 1_000_000
export const burstMax = 1_000_000

/**
 * Failed tokens of one address, a second and at once, that are told 401; more are told 429 (§10). A fleet whose Worker was
 * revoked sees the honest 401 once for each of its processes; who guesses gets 86,400 guesses a day at 256 bits.
 */
export const failedTokensRate = 1
export const failedTokensBurst = 250

/** Addresses whose failed tokens are counted one by one, at about 150 bytes each; beyond that all new ones are one. */
export const failedAddressesMax = 50_000
