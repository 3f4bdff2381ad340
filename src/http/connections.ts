import type { Server } from 'node:http'
import type { Socket } from 'node:net'
import { connectionsDroppedMs } from '../model/limits.ts'
import { exchangeOn, type Edge } from './exchange.ts'

/**
 * Bounds what connections can take: how many there are, how long one may be silent. One too many is closed unanswered,
 * before a byte of it was read: to its client the outcome is unknown, and it sends the same key again (R1).
 */
export function guardConnections(server: Server, edge: Edge, connectionsMax: number): void {
  // Node's own bound would drop header lines beyond it unseen; ours refuses them.
  server.maxHeadersCount = 0
  server.maxConnections = connectionsMax
  server.on('drop', dropped(edge, connectionsMax))
  server.on('timeout', cutIdle)
}

/** One line of the log for all that are dropped in a while: a flood must not fill the log as well. */
function dropped({ engine, log }: Edge, connectionsMax: number): () => void {
  let quietUntil = 0
  return () => {
    const now = engine.machine.now()
    if (now < quietUntil) return
    quietUntil = now + connectionsDroppedMs
    log?.warn({ connectionsMax }, 'closed connections unanswered: as many as may be are open')
  }
}

/**
 * A connection on which nothing moved for a while: idle ones end, and those whose client does not take its answer. A
 * request that is under way waits for its Action for as long as its Mode says.
 */
function cutIdle(socket: Socket): void {
  if (exchangeOn(socket)?.ended !== false) socket.destroy()
}
