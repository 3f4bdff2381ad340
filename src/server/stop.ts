import { constants } from 'node:os'
import type { Log } from './log.ts'
import { messageOf } from './local-error.ts'

/** "Internal software error" of sysexits.h: the process ended itself, and its next start recovers. */
const faultStatus = 70

/** What a stop may take beyond its grace, for the last answers and for closing the store, in milliseconds. */
const closeMs = 5_000

/**
 * The outcome of a commit is unknown, so no answer may leave any more (R3): ends the process at once, and with it every
 * connection, unanswered. The next start finds out what is on disk.
 */
export function endInDoubt(log: Log, reason: Error): never {
  log.error(
    { reason: messageOf(reason) },
    'the outcome of a commit is unknown: closed all connections unanswered and ended; what is on disk is read at the next start',
  )
  log.flush()
  process.exit(faultStatus)
}

/** Has a fault that nobody caught end the process, told in the log: what is on disk is whole, and is resumed (V4). */
export function watchForFaults(log: Log): void {
  process.on('uncaughtException', (error) => {
    log.error({ error }, 'ended by an error that nobody caught')
    log.flush()
    process.exit(faultStatus)
  })
  // A promise that nobody awaited is a Verb author's; it must not end everybody else's calls.
  process.on('unhandledRejection', (reason) => {
    log.error({ error: reason }, 'a promise that nobody awaited was rejected: look for a missing `await` in a Verb')
  })
  process.once('exit', () => log.flush())
}

/**
 * SIGTERM, SIGINT, and where asked for a closed standard input stop the process gracefully: `stop` answers what was
 * accepted and closes the store, and the exit status is 0. A second signal ends it at once; so does a stop that takes
 * longer than its bound.
 */
export function stopOnSignals(
  log: Log,
  { graceMs, stopWithStdin }: { readonly graceMs: number; readonly stopWithStdin: boolean },
  stop: () => Promise<void>,
): void {
  let stopping = false

  function end(why: string): void {
    if (stopping) {
      if (why === 'SIGTERM' || why === 'SIGINT') exit(128 + constants.signals[why], 'ended at once, by a second signal')
      return
    }
    stopping = true
    log.info({ why, graceMs }, 'stopping: answering what was accepted')
    setTimeout(() => exit(1, 'ended: the stop took longer than its bound'), graceMs + closeMs).unref()
    stop().then(
      () => exit(0, 'stopped'),
      (error: unknown) => {
        log.error({ error }, 'the stop failed')
        exit(1, 'ended; what was under way is resumed at the next start')
      },
    )
  }

  function exit(status: number, message: string): never {
    log.info({ status }, message)
    log.flush()
    process.exit(status)
  }

  process.on('SIGTERM', () => end('SIGTERM'))
  process.on('SIGINT', () => end('SIGINT'))
  if (stopWithStdin) process.stdin.resume().once('close', () => end('the end of standard input'))
}
