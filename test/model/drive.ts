import { actionJson, type Action } from '../../src/model/action.ts'
import type { Worker } from '../../src/model/worker.ts'
import { judge, judgeFirst, type Exchange } from './judge.ts'
import { kiln } from './kiln.ts'
import { needsOutcome, Oracle, Space, type Known, type Request } from './oracle.ts'
import { Outside } from './outside.ts'
import type { Crash, Draft, Step } from './plan.ts'
import { pick, printOf, requestsOf } from './requests.ts'
import { Rig } from './rig.ts'
import { Settler } from './settler.ts'
import { workersOf } from './workers.ts'
import type { Reply, World } from './world.ts'

/** Something that is not as the contract has it. */
export class Wrong extends Error {
  override readonly name = 'Wrong'
}

export interface Tally {
  steps: number
  requests: number
  actions: number
  crashes: number
  events: number
}

const namespaces = ['kiln.test', 'forge.test']
const settleMs = 8000
const stepMs = 9000

/** Whom a world serves, and where it tells what is wrong with it. */
export interface Setting {
  readonly outside: Outside
  readonly namespaces: readonly string[]
  readonly seed: number
  readonly say: (sentence: string) => void
}

/** An engine and a store in this process, that dies at a chosen call of the store. */
export function inProcess({ outside, namespaces, seed, say }: Setting): World {
  return new Rig({
    outside,
    define: (port) => namespaces.map((namespace) => kiln(namespace, port)),
    workers: namespaces.flatMap(workersOf),
    seed,
    onError: (facts, message) => say(`${message} ${JSON.stringify(facts)}`),
  })
}

/** Does what a plan says to a world, and compares all that comes of it with the oracle. */
export class Drive {
  readonly tally: Tally = { steps: 0, requests: 0, actions: 0, crashes: 0, events: 0 }
  readonly #outside: Outside
  readonly #oracle: Oracle
  readonly #world: World
  readonly #settler: Settler
  readonly #wrong: string[]

  private constructor(world: World, outside: Outside, workers: readonly Worker[], wrong: string[]) {
    this.#world = world
    this.#outside = outside
    this.#wrong = wrong
    const spaces = namespaces.map(
      (namespace) =>
        new Space(
          namespace,
          workers.filter((worker) => worker.namespace === namespace),
        ),
    )
    this.#oracle = new Oracle(spaces)
    this.#settler = new Settler(this.#oracle, outside, (sentence) => this.#say(sentence))
  }

  static async run(plan: readonly Step[], seed: number, make: (setting: Setting) => World = inProcess): Promise<Tally> {
    const outside = new Outside()
    const wrong: string[] = []
    const world = make({ outside, namespaces, seed, say: (sentence) => void wrong.push(sentence) })
    try {
      const drive = new Drive(world, outside, await world.open(), wrong)
      for (const [index, step] of plan.entries()) {
        await drive.#timed(drive.#step(step, seed + index))
        drive.#check(`at step ${index}, ${step.kind}`)
      }
      await drive.#gates()
      await drive.#audit()
      drive.#check('in the audit at the end')
      return drive.tally
    } finally {
      await world.end()
    }
  }

  #say(sentence: string): void {
    this.#wrong.push(sentence)
  }

  #check(when: string): void {
    if (this.#wrong.length > 0) throw new Wrong(`${when}:\n  ${this.#wrong.slice(0, 8).join('\n  ')}`)
  }

  /** No step takes long: what waits for more than a while waits for nothing. */
  async #timed(step: Promise<void>): Promise<void> {
    let timer: NodeJS.Timeout | undefined
    const late = new Promise<void>((resolve) => {
      timer = setTimeout(() => {
        const pending = this.#pending().map(({ verb, id, input }) => `${verb} ${id} ${JSON.stringify(input)}`)
        this.#say(`it takes more than ${stepMs} ms; pending are ${pending.join('\n  ')}`)
        resolve()
      }, stepMs)
    })
    await Promise.race([step, late])
    clearTimeout(timer)
  }

  async #step(step: Step, chance: number): Promise<void> {
    this.tally.steps++
    switch (step.kind) {
      case 'batch':
        return this.#batch(step.drafts, step.crash)
      case 'gates':
        return this.#gates()
      case 'jump':
        // What is pending would be timed out: that is another test's.
        if (this.#pending().length === 0) this.#world.jump(step.ms)
        return
      case 'restart':
        return this.#restart(step.how, chance)
      default:
        return step satisfies never
    }
  }

  #pending(): Known[] {
    return [...this.#oracle.actions.values()].filter(({ status }) => status === 'pending')
  }

  async #gates(): Promise<void> {
    for (const gate of this.#outside.gates()) this.#outside.open(gate)
    await this.#absorb([])
    // What was held up by the first may stand before gates of its own.
    if (this.#outside.gates().size > 0) await this.#gates()
  }

  async #restart(how: 'kill' | 'stop', chance: number): Promise<void> {
    await this.#spareSuspects()
    this.tally.crashes++
    if (how === 'kill') await this.#kill()
    else await this.#world.stop()
    if (chance % 2 === 0) for (const gate of this.#oracle.closedGates) this.#outside.open(gate)
    await this.#world.start()
    await this.#absorb([])
  }

  async #kill(): Promise<void> {
    for (const known of this.#pending()) known.shaken = true
    await this.#world.kill()
  }

  /** Who meets a second crash becomes a suspect, and runs alone and late (V4): that is another test's. */
  async #spareSuspects(): Promise<void> {
    if (this.#pending().some(({ shaken }) => shaken)) await this.#gates()
  }

  async #batch(drafts: readonly Draft[], crash: Crash | null): Promise<void> {
    if (crash !== null) await this.#spareSuspects()
    const requests = drafts.flatMap((draft) => requestsOf(this.#oracle, draft))
    if (requests.length === 0) return
    this.tally.requests += requests.length
    if (crash !== null) this.#world.arm(crash)
    const exchanges = await this.#send(requests)
    if (this.#world.isDead) {
      this.tally.crashes++
      await this.#kill()
      await this.#world.start()
      // Who got no answer sends the same request again.
      const unanswered = exchanges.filter(({ reply }) => reply.kind === 'lost').map(({ request }) => request)
      exchanges.push(...(await this.#send(unanswered)))
      await this.#absorb(exchanges, true)
    } else {
      this.#world.disarm()
      await this.#absorb(exchanges)
    }
  }

  async #send(requests: readonly Request[]): Promise<Exchange[]> {
    return Promise.all(
      requests.map(async (request) => {
        const known = this.#oracle.bound(request.worker.id, request.key)
        const before = known && { known, status: known.status }
        const target = request.target === null ? undefined : this.#oracle.actions.get(request.target)
        const targetBefore = target && {
          known: target,
          status: target.status,
          isLatest: this.#oracle.latestOf(target) === target,
          chained: this.#oracle.chainOf(target).members.length,
          needsOutcome: needsOutcome(this.#oracle.chainOf(target), this.#world.now()),
        }
        const reply = await this.#sent(request)
        return { request, before, targetBefore, reply }
      }),
    )
  }

  async #sent(request: Request): Promise<Reply> {
    try {
      return await this.#world.call(request.call)
    } catch (error) {
      this.#say(`${request.operation} threw ${error instanceof Error ? (error.stack ?? error.message) : String(error)}`)
      return { kind: 'lost' }
    }
  }

  /** Takes in what came of some requests, and of what was pending before. */
  async #absorb(exchanges: Exchange[], isShaken = false): Promise<void> {
    const requests = exchanges.map(({ request }) => request)
    const before = new Set(this.#oracle.actions.keys())
    await this.#learn(requests, isShaken)
    await this.#quiet()
    // A retry may have been let in while the others were waited for.
    await this.#learn(requests, isShaken)
    const isAlone = requests.length === 1 && this.#pending().every(({ id }) => !before.has(id))
    for (const space of this.#oracle.spaces) {
      space.stuckLately.clear()
      this.tally.events += await this.#settler.follow(this.#world.store, space, isAlone)
    }
    for (const exchange of exchanges) judge(this.#oracle, exchange, (sentence) => this.#say(sentence))
    if (!isShaken) judgeFirst(exchanges, (sentence) => this.#say(sentence))
    for (const request of requests) if (request.call.mode !== 'try') this.#oracle.requests.push(request)
    this.#oracle.closedGates.clear()
    for (const gate of this.#outside.gates()) this.#oracle.closedGates.add(gate)
    this.tally.actions = this.#oracle.actions.size
  }

  /** Actions that came on record under the keys of these requests. */
  async #learn(requests: readonly Request[], isShaken: boolean): Promise<void> {
    const found = new Map<string, Action>()
    for (const { worker, key, call } of requests) {
      if (call.mode === 'try' || this.#oracle.bound(worker.id, key) !== undefined) continue
      for (const action of await this.#world.recorded(worker, key)) found.set(action.id, action)
    }
    for (const action of [...found.values()].sort((left, right) => (left.id < right.id ? -1 : 1)))
      this.#add(action, requests, isShaken)
  }

  #add(action: Action, requests: readonly Request[], shaken: boolean): void {
    const space = this.#oracle.spaces.find(({ namespace }) => namespace === action.namespace)
    const worker = space?.workers.find(({ id }) => id === action.workerId)
    if (space === undefined || worker === undefined || action.key === null)
      return this.#say(`${action.id} is of an unknown Worker`)
    const input = JSON.parse(action.input) as Record<string, unknown>
    const isBuiltin = action.bound.operation.startsWith('Action.')
    const bound = {
      operation: action.bound.operation,
      target: action.bound.target,
      print: isBuiltin ? '[]' : printOf(input),
    }
    const { id, key, verb, target, decidedAgainst, decidedAfter, on } = action
    const first = on === null ? undefined : this.#oracle.actions.get(on)
    const asked = requests.filter(
      (request) => request.worker === worker && request.key === key && request.door.length === 0,
    )
    if (
      !asked.some(
        (request) =>
          request.operation === bound.operation && request.target === bound.target && request.print === bound.print,
      )
    ) {
      this.#say(`${id} (${bound.operation} on ${bound.target}) was asked for by nobody who may`)
    }
    if (bound.operation === 'Action.retry') this.#checkRetry(action, first)
    else if (bound.operation !== verb || on !== null)
      this.#say(`${id} is ${verb} on ${on}, and was asked for as ${bound.operation}`)
    this.#oracle.add({
      id, space, worker, key, bound, verb, target, input, versions: decidedAgainst, after: decidedAfter[0] ?? null, on,
      root: first?.root ?? id, status: 'pending', body: null, shaken,
    }) // prettier-ignore
  }

  /** A1, A2: the same operation, target and input, on the latest of the chain. */
  #checkRetry({ id, on, bound, verb, target, input }: Action, first: Known | undefined): void {
    if (first === undefined || on !== bound.target) return this.#say(`${id} is a retry of ${bound.target} on ${on}`)
    if (
      verb !== first.verb ||
      target !== first.target ||
      printOf(JSON.parse(input) as object as never) !== printOf(first.input)
    ) {
      this.#say(`${id} retries ${first.verb} of ${first.id} as ${verb} ${input}`)
    }
    const others = this.#oracle
      .chainOf(first)
      .members.filter(({ on: other, status }) => other === on && status !== 'refused')
    if (others.length > 0) this.#say(`${on} was retried by ${others.map((other) => other.id).join()} and by ${id}`)
    if (needsOutcome(this.#oracle.chainOf(first), this.#world.now()) === 'yes') {
      this.#say(`${id} asks the till again under a key that it may not know any more (V3)`)
    }
    for (const item of first.space.items) if (item.action === on && item.decision === null) item.decision = 'retry'
  }

  /** Waits until nothing more comes of itself: what is pending stands before a gate, or waits for what does. */
  async #quiet(): Promise<void> {
    const until = performance.now() + settleMs
    for (;;) {
      const moving: Action[] = []
      const gates = this.#outside.gates()
      for (const { namespace } of this.#oracle.spaces) {
        const { data } = await this.#world.store.actions(namespace, { status: 'pending' }, { after: 0, limit: 1000 })
        moving.push(...data.filter((action) => !isHeldUp(action, gates)))
      }
      if (moving.length === 0) {
        // What was seen may not be on disk yet, and its run not be told.
        return this.#world.told()
      }
      if (performance.now() > until)
        return this.#say(`nothing settles ${moving.map((action) => actionJson(action)).join('\n  ')}`)
      await new Promise((resolve) => setTimeout(resolve, 2))
    }
  }

  async #audit(): Promise<void> {
    const { store } = this.#world
    await store.verify((fault) => this.#say(`verify: ${fault}`))
    for (const space of this.#oracle.spaces) await this.#settler.audit(store, space)
    if (this.#pending().length > 0) this.#say(`${this.#pending().length} are pending in the end`)
    const [request] = this.#oracle.requests
    if (request === undefined) return
    // Years later, of every hundredth.
    this.#world.jump(3 * 365 * 86_400_000)
    const some = this.#oracle.requests.filter((_, index) => index % 7 === 0).slice(0, 50)
    const replays = [...some, pick(this.#oracle.requests, 1) ?? request].filter(({ worker, key }) =>
      this.#oracle.bound(worker.id, key),
    )
    for (const exchange of await this.#send(replays)) judge(this.#oracle, exchange, (sentence) => this.#say(sentence))
  }
}

function isHeldUp(action: Action, gates: ReadonlySet<string>): boolean {
  if (action.status !== 'pending' || gates.size === 0) return false
  if (action.waitingFor !== null) return true
  const input = JSON.parse(action.input) as { gate?: string; tag?: string }
  return gates.has(input.gate ?? '') || gates.has(input.tag ?? '')
}
