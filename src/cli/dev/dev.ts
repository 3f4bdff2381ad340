import { existsSync } from 'node:fs'
import { resolve } from 'node:path'
import { codeOf, LocalError } from '../../server/local-error.ts'
import { ask } from './ask.ts'
import { Follower } from './follow.ts'
import { Front, type Passed } from './front.ts'
import { Gate } from './gate.ts'
import { pasteLines } from './lines.ts'
import type { Definition, Failure } from './messages.ts'
import { errorLines, placeLines } from './place.ts'
import { Run, type LogLine } from './run.ts'
import { actionLine, answeredAction, passedLine, type ActionView } from './shown.ts'
import { clock, plain, print, short, styled } from './text.ts'
import { tokensFor, type Tokens } from './tokens.ts'
import { Watcher } from './watch.ts'

/** A definition that ends sooner than this after it began to serve is started again later and later, in milliseconds. */
const soonMs = 5_000
const restartPauseMsMax = 5_000

/** How many ports above the default are tried when it is taken. */
const portsMax = 20

export interface DevOptions {
  readonly file: string
  readonly data: string
  readonly host: string
  /** Null: 4000, or the next that is free. */
  readonly port: number | null
  /** Origins of browser pages that may call (H2). */
  readonly origins: readonly string[]
  readonly graceMs: number
  /** Shows how to call every Verb, not a few. */
  readonly allLines: boolean
}

const defaultPort = 4000

/** What is served, and how it is called. */
interface Serving {
  readonly run: Run
  readonly definition: Definition
  readonly tokens: Tokens
}

/**
 * `startup-builder dev`: serves a definition while it is written. Each save is loaded and checked by a process of its own; the
 * good ones take over from one another, the others are told and change nothing.
 */
export class Dev {
  readonly #options: DevOptions
  readonly #gate = new Gate<string>()
  readonly #front = new Front({ gate: this.#gate, onPassed: (passed) => this.#show(passed) })
  readonly #watcher = new Watcher()
  readonly #follower = new Follower((action) => print(actionLine(action, sinceMade(action))))
  readonly #runs = new Set<Run>()
  #origin = ''
  #serving: Serving | null = null
  #isStopping = false
  #warnings = ''
  /** The operations of the last definition that served; null before the first. */
  #lastVerbs: ReadonlySet<string> | null = null
  #crashes = 0

  constructor(options: DevOptions) {
    this.#options = options
  }

  /** Serves until `stop`. Throws a LocalError for what no save can mend, such as a port or a store in use. */
  async run(): Promise<void> {
    const { file, host, port } = this.#options
    if (!existsSync(file)) throw new LocalError(`There is no file ${file}. Give the file that exports your definition.`)
    this.#origin = await listen(this.#front, host, port)
    const at = styled('cyan', this.#origin)
    print(`startup-builder dev: ${at} serves ${short(resolve(file))}; data in ${short(resolve(this.#options.data))}`)
    while (!this.#isStopping) await this.#cycle()
  }

  /** Stops what was started, gracefully; called again, at once. */
  async stop(): Promise<void> {
    if (this.#isStopping) return this.killNow()
    this.#isStopping = true
    this.#watcher.poke()
    this.#front.close()
    this.#gate.hold()
    await Promise.all([...this.#runs].map((run) => (run === this.#serving?.run ? run.stop() : run.kill())))
    this.#watcher.close()
  }

  killNow(): void {
    for (const run of this.#runs) run.killNow()
  }

  /** Loads the definition again, as if it had been saved. */
  reload(): void {
    this.#watcher.poke()
  }

  /** Shows how to call the Verbs. */
  async showLines(all: boolean): Promise<void> {
    if (this.#serving === null) return print('Nothing is served yet.')
    const { run, definition, tokens } = this.#serving
    const recordId = async (namespace: string, plural: string): Promise<string | null> => {
      const token = tokens[namespace] ?? ''
      const list = await ask(run.url ?? '', `/${namespace}/${plural}?limit=1`, token, run.over.signal)
      const [record] = (list?.body as { data?: readonly { $id?: string }[] } | null)?.data ?? []
      return record?.$id ?? null
    }
    print('', ...(await pasteLines(definition, { origin: this.#origin, tokens, all, recordId })))
  }

  /** One definition: from what is on disk now until a file of it changes, or until what serves ends by itself. */
  async #cycle(): Promise<void> {
    const startedAt = performance.now()
    // A broken definition may not get as far as to import what the good one does: those files are watched on.
    const stale = this.#watcher.begin(new Set([resolve(this.#options.file), ...this.#watcher.paths]))
    const run = this.#start()
    const loaded = await Promise.race([run.loaded, stale])
    if (this.#isStopping || loaded === undefined) return run.kill()
    if (loaded.kind === 'loaded' && (await this.#changeOver(run, loaded.definition, startedAt))) {
      return this.#watchOver(stale)
    }
    if (loaded.kind === 'failed') this.#tellFailure(loaded)
    await run.kill()
    if (this.#serving === null) this.#gate.down()
    await this.#watchOver(stale)
  }

  #start(): Run {
    const { file, data, origins, graceMs } = this.#options
    const run: Run = new Run({
      ...{ file, data, origins, graceMs, origin: this.#origin },
      onFiles: (files) => {
        if (!run.over.signal.aborted) for (const [path, read] of Object.entries(files)) this.#watcher.add(path, read)
      },
      onLog: (line) => showLog(line),
    })
    this.#runs.add(run)
    void run.ended.then(() => this.#runs.delete(run))
    return run
  }

  /** Has a good definition take over. Requests wait meanwhile; what runs is resumed by it (V4). False: it could not. */
  async #changeOver(run: Run, definition: Definition, startedAt: number): Promise<boolean> {
    const last = this.#serving
    this.#gate.hold()
    this.#serving = null
    if (last !== null) await this.#retire(last.run)
    if (this.#isStopping) return false
    const failure = await run.serve()
    if (this.#isStopping) return false
    if (failure !== null) {
      // What no save can mend keeps the first start from being one.
      if (failure.cause === 'data' && this.#lastVerbs === null) throw new LocalError(...failure.lines)
      this.#tellFailure(failure)
      return false
    }
    this.#serving = { run, definition, tokens: {} }
    this.#gate.open(run.url ?? '')
    const tookMs = Math.round(performance.now() - startedAt)
    await this.#tellServing(this.#serving, tookMs)
    return true
  }

  /**
   * Stops what serves. What was sent to it just now may wait in its queue of connections, which its stop would cut off:
   * those are taken in order, so once a later one is answered, all are in its hands.
   */
  async #retire(run: Run): Promise<void> {
    const signal = AbortSignal.any([run.over.signal, AbortSignal.timeout(this.#options.graceMs)])
    const answered = await ask(run.url ?? '', '/healthz', '', signal)
    if (answered !== null || run.over.signal.aborted) return run.stop()
    print(`${clock()}  ${styled('yellow', 'ended')}  the last definition did not answer: a Verb of it never awaits`)
    await run.kill()
  }

  async #tellServing({ run, definition }: Serving, tookMs: number): Promise<void> {
    const warnings = definition.warnings.join('\n')
    const verbs = new Set(definition.verbs.map(({ namespace, operation }) => `${namespace}/${operation}`))
    const isFirst = this.#lastVerbs === null
    const changes = isFirst ? [] : changed(this.#lastVerbs ?? verbs, verbs)
    print(
      `${clock()}  ${styled('green', isFirst ? 'ready' : 'reloaded')}  in ${tookMs} ms${changes.map((one) => `  ${one}`).join('')}`,
    )
    if (warnings !== this.#warnings)
      for (const one of definition.warnings) print(styled('yellow', `warning: ${plain(one)}`))
    this.#warnings = warnings
    this.#lastVerbs = verbs
    const { url, over } = run
    const tokens = await tokensFor(this.#options.data, definition.namespaces, async (namespace, token) => {
      const me = await ask(url ?? '', '/me', token, over.signal)
      return me?.status === 200 && (me.body as { namespace?: unknown }).namespace === namespace
    })
    if (run === this.#serving?.run) this.#serving = { run, definition, tokens }
    if (isFirst) await this.showLines(this.#options.allLines)
    await this.#follower.begin({ url: url ?? '', signal: over.signal, tokens })
  }

  /** Until a file changes; what ends by itself is started again. */
  async #watchOver(stale: Promise<void>): Promise<void> {
    if (this.#serving === null) return stale
    const since = performance.now()
    const how = await Promise.race([stale, this.#serving.run.ended])
    if (this.#isStopping || how === undefined) return
    this.#serving = null
    this.#gate.hold()
    this.#crashes = performance.now() - since < soonMs ? this.#crashes + 1 : 1
    const pauseMs = Math.min(100 * 2 ** (this.#crashes - 1), restartPauseMsMax)
    print(
      `${clock()}  ${styled('red', 'crashed')}  the server ended (${how}); it is started again, and resumes what was pending`,
    )
    await Promise.race([stale, new Promise((soon) => setTimeout(soon, pauseMs))])
  }

  #tellFailure({ lines }: Failure): void {
    const after =
      this.#serving === null ? 'nothing is served until it is mended' : 'the last good definition is served on'
    print(`${clock()}  ${styled('red', 'broken')}  ${after}`)
    for (const line of lines) {
      print(...(/^\s+at /.test(line) ? [line] : [`  ${styled('red', plain(line))}`]), ...placeLines(line))
    }
  }

  #show(passed: Passed): void {
    const action = answeredAction(passed)
    const isReplay = passed.headers['idempotent-replayed'] !== undefined
    if (action !== null && !isReplay) {
      if (action.status === 'pending') this.#follower.add(action.namespace, action.id)
      // A second request that waited for it to settle, or the one that was followed.
      else if (!this.#follower.isNew(action.id)) return
    }
    const line = passedLine(passed)
    if (line !== null) print(line)
  }
}

async function listen(front: Front, host: string, wanted: number | null): Promise<string> {
  for (let port = wanted ?? defaultPort; ; port++) {
    try {
      return await front.listen(host, port)
    } catch (error) {
      if (codeOf(error) === 'EADDRINUSE' && wanted === null && port < defaultPort + portsMax) continue
      const { listenError } = await import('../../server/serve.ts')
      throw listenError(host, port, error)
    }
  }
}

/** What of the server's log is for its author: what a Verb threw, and what needs looking at. */
function showLog({ level, msg, time: _time, ...facts }: LogLine): void {
  if (msg === 'a Verb threw') {
    const [message = '', ...frames] = errorLines(String(facts['err']))
    const what = `${String(facts['verb'])} threw ${message}`
    return print(`${clock()}  ${styled('red', plain(what))}  ${styled('dim', String(facts['action']))}`, ...frames)
  }
  if (level !== 'warn' && level !== 'error') return
  const { error, ...rest } = facts as { error?: { name?: string; message?: string; stack?: string } }
  print(
    `${clock()}  ${styled(level === 'error' ? 'red' : 'yellow', plain(String(msg)))}  ${plain(JSON.stringify(rest))}`,
  )
  if (error?.stack === undefined) return
  // Some have their message in their stack, some beside it.
  const head = /^\s+at /.test(error.stack) ? `${error.name ?? 'Error'}: ${error.message ?? ''}\n` : ''
  print(...errorLines(head + error.stack).map((line) => `  ${line}`))
}

function changed(before: ReadonlySet<string>, now: ReadonlySet<string>): string[] {
  const name = (verb: string): string => verb.slice(verb.indexOf('/') + 1)
  const added = [...now.difference(before)].map((verb) => styled('green', `+${name(verb)}`))
  const removed = [...before.difference(now)].map((verb) => styled('red', `-${name(verb)}`))
  return [...added, ...removed]
}

/** From when it was made until it settled, in milliseconds. */
function sinceMade({ createdAt, settledAt }: ActionView): number | null {
  return settledAt === null ? null : Date.parse(settledAt) - Date.parse(createdAt)
}
