import { clockTickMs } from '../model/limits.ts'
import type { Core } from './core.ts'

/** One clock for all that runs: claims ahead after 50 ms and time-outs (V5) cost no timer of their own per call. */
export function watchClocks(core: Core): () => void {
  const stopListening = core.store.listen((notice) => {
    // Settled by somebody else, a cancel or another node: what runs here writes nothing more (V4).
    if (notice.kind === 'settled') core.runs.get(notice.action.id)?.lose()
  })
  const timer = setInterval(() => {
    if (core.runs.size === 0) return
    const now = core.machine.now()
    for (const run of core.runs.values()) run.tick(now)
  }, clockTickMs)
  return () => {
    clearInterval(timer)
    stopListening()
  }
}
