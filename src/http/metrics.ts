import { problem } from '../model/problem.ts'
import type { Exchange } from './exchange.ts'

/**
 * Prometheus text (§3). It holds counts and names of Verbs, of nobody's data, so it takes no token and waits for no sync.
 */
export async function showMetrics(x: Exchange): Promise<void> {
  const { metrics } = x.edge
  if (metrics === null) throw problem('not-found', 'This server was started without metrics.')
  x.send(
    200,
    ['Content-Type', metrics.contentType, 'Cache-Control', 'no-store'],
    await metrics.text(x.edge.streams.size),
  )
}
