import type { Server } from 'node:net'
import { createServer } from 'node:net'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import type { Engine } from '../engine/engine.ts'
import { createEngine } from '../engine/engine.ts'
import { createHttp } from '../http/http.ts'
import type { Http } from '../http/http.ts'
import type { Startup } from '../model/startup.ts'
import type { DeployAnswer, Store } from '../store/store.ts'
import { codeOf, LocalError, messageOf } from './local-error.ts'
import type { Log, LogLevel } from './log.ts'
import { createLog } from './log.ts'
import { machine } from './machine.ts'
import { createMetrics } from './metrics.ts'
import { asLocalError, openServed, withStore } from './open.ts'
import { endInDoubt, stopOnSignals, watchForFaults } from './stop.ts'
import { flushSpans, registeredSpans } from './traces.ts'

/** How long a stop waits for answers to leave once nothing runs any more, in milliseconds. */
const answerMs = 2_000

export interface ServeOptions {
  /** By namespace. */
  readonly startups: ReadonlyMap<string, Startup>
  readonly data: string
  /** 0 takes a free one. */
  readonly port: number
  readonly host: string
  /** Origins of browser pages that may call (H2). */
  readonly origins: readonly string[]
  /** Addresses and CIDR ranges of proxies whose `X-Forwarded-For` is believed (§10); none unless given. */
  readonly trustedProxies?: readonly string[]
  readonly logLevel: LogLevel
  /** How long a stop waits for what runs, in milliseconds. */
  readonly graceMs: number
  /** A closed standard input is a signal to stop too. */
  readonly stopWithStdin: boolean
  /** Whether there is a `/metrics`; there is unless it is false. */
  readonly metrics?: boolean
  /** Most connections open at once; one more is closed unanswered. */
  readonly connectionsMax?: number
  /** The address under which clients know the server, for absolute links; unless given, the one it listens on. */
  readonly origin?: string
  /** The file descriptor that the log is written to; standard output unless given. */
  readonly logDescriptor?: number
}

/**
 * The composition root: the data file, the engine on it and HTTP before it. Resolves when it listens, which the log says
 * with `"msg":"listening"` and the `url` that it gives; from then on it serves until a signal stops it, and ends the
 * process itself. Throws a LocalError when it can't begin, and leaves nothing half done.
 */
export async function serve(options: ServeOptions): Promise<string> {
  const log = createLog(options.logLevel, machine.now, options.logDescriptor)
  watchForFaults(log)
  await checkPort(options.host, options.port)
  const metrics = options.metrics === false ? null : createMetrics(options.startups)
  const store = await openServed(options.data, (reason) => endInDoubt(log, reason), metrics?.committed ?? null)
  try {
    const deployed = await deployAll(store, options.startups)
    const watching = { log, signals: metrics?.signals ?? null, spans: registeredSpans() }
    const engine = await createEngine({ store, startups: options.startups, deployed, machine, ...watching })
    const shown = metrics && {
      contentType: metrics.contentType,
      text: (streams: number) => metrics.text({ store, engine, streams, log, now: machine.now }),
    }
    const logger = options.logLevel === 'silent' ? {} : { logger: log }
    const origin = options.origin === undefined ? {} : { origin: options.origin }
    const bounds = options.connectionsMax === undefined ? {} : { connectionsMax: options.connectionsMax }
    const http = createHttp(engine, {
      ...logger,
      ...origin,
      ...bounds,
      metrics: shown,
      allowedOrigins: options.origins,
      trustedProxies: options.trustedProxies ?? [],
    })
    return await begin(options, store, engine, http, log)
  } catch (error) {
    await store.close()
    throw asLocalError(error)
  }
}

/** Listens, then takes over what an earlier process left, while `/readyz` says that it isn't ready yet. */
async function begin(options: ServeOptions, store: Store, engine: Engine, http: Http, log: Log): Promise<string> {
  let url: string
  try {
    url = await http.listen({ host: options.host, port: options.port })
  } catch (error) {
    throw listenError(options.host, options.port, error)
  }
  stopOnSignals(log, options, async () => {
    http.refuseNew()
    // Calls that run may take the grace; their answers, and clients that never finish a request, a little more.
    const closed = http.close(options.graceMs + answerMs)
    await engine.stop(options.graceMs)
    await http.close(answerMs)
    await closed
    await store.close()
    await flushSpans()
  })
  await engine.start()
  log.info({ url, namespaces: [...options.startups.keys()], pid: process.pid }, 'listening')
  return url
}

/** Records every definition (N2), or tells what keeps one from being served. */
async function deployAll(
  store: Store,
  startups: ReadonlyMap<string, Startup>,
): Promise<ReadonlyMap<string, DeployAnswer>> {
  const deployed = new Map<string, DeployAnswer>()
  for (const [namespace, { manifest }] of startups) {
    const answer = await store.deploy(manifest)
    if (answer.faults.length > 0) throw unfit(namespace, answer.faults)
    deployed.set(namespace, answer)
  }
  return deployed
}

/**
 * Finds out whether definitions could be served on a data file (N2), while another process may be serving it: nothing is
 * recorded. Throws the LocalError that `serve` would.
 */
export async function checkOnData(data: string, startups: ReadonlyMap<string, Startup>): Promise<void> {
  if (!existsSync(data)) return
  await withStore(data, { create: false }, async (store) => {
    for (const [namespace, { manifest }] of startups) {
      const faults = await store.deployFaults(manifest)
      if (faults.length > 0) throw unfit(namespace, faults)
    }
  })
}

function unfit(namespace: string, faults: readonly string[]): LocalError {
  return new LocalError(`${namespace} cannot be served on this data file:`, ...faults.map((fault) => `  ${fault}`))
}

/** Finds out early that a port is taken: before the data file is touched, and before anything is resumed. */
async function checkPort(host: string, port: number): Promise<void> {
  if (port === 0) return
  const probe: Server = createServer()
  try {
    probe.listen({ host, port })
    await once(probe, 'listening')
  } catch (error) {
    throw listenError(host, port, error)
  } finally {
    if (probe.listening) {
      probe.close()
      await once(probe, 'close')
    }
  }
}

/** Why it can't listen, and what to say instead. */
export function listenError(host: string, port: number, error: unknown): LocalError {
  const at = `${host.includes(':') ? `[${host}]` : host}:${port}`
  switch (codeOf(error)) {
    case 'EADDRINUSE':
      return new LocalError(`Port ${port} is in use on ${host}: stop what listens there, or say --port.`)
    case 'EACCES':
      return new LocalError(`Listening on ${at} is not allowed: ports below 1024 need rights; say --port.`)
    case 'EADDRNOTAVAIL':
    case 'ENOTFOUND':
    case 'EAI_AGAIN':
      return new LocalError(`${host} is no address of this machine: say --host 127.0.0.1, or 0.0.0.0 for all.`)
    default:
      return new LocalError(`It can't listen on ${at}: ${messageOf(error)}`)
  }
}
