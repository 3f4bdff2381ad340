import { StoreUnavailable, type Store } from '../../src/store/store.ts'

/** Thrown out of the store of a process that is dead: nobody is there to catch it. */
export class Dead extends Error {
  override readonly name = 'Dead'
}

export type Moment = 'before' | 'after'
export type Method = keyof Store

/** Methods that write; a process that dies at one of the others dies between two of these. */
export const committing: readonly Method[] = [
  ...(['claim', 'adopt', 'wait', 'release', 'hold', 'startStep', 'endStep', 'settle'] as const),
]

export interface Faults {
  /** The store as the engine gets it. */
  readonly store: Store
  readonly isDead: boolean
  /** Resolves once it is dead. */
  readonly dead: Promise<void>
  /** How often each method was called so far. */
  readonly calls: ReadonlyMap<Method, number>
  /**
   * The `n`-th call from here on of one of `methods` fails. `before`: it does nothing and throws StoreUnavailable. `after`:
   * it is done, its answer is lost, and the process dies. Gives whether that call has come.
   */
  failAt(methods: readonly Method[], moment: Moment, n: number): { readonly reached: boolean }
  /** As `failAt(…, 'before', n)`, and the process dies instead of being told. */
  dieAt(methods: readonly Method[], moment: Moment, n: number): { readonly reached: boolean }
  /** What was set and has not been come to fails no more. */
  disarm(): void
  die(): void
}

interface Trap {
  readonly methods: readonly Method[]
  readonly moment: Moment
  readonly isFatal: boolean
  left: number
  reached: boolean
}

/**
 * Wraps a store so that its calls fail when the test says. The wrapped store is as the real one in all else, its
 * synchronous answers too.
 */
export function faulty(real: Store): Faults {
  const calls = new Map<Method, number>()
  const traps: Trap[] = []
  let isDead = false
  let tellDead: () => void = () => undefined
  const dead = new Promise<void>((resolve) => (tellDead = resolve))
  const die = (): void => {
    isDead = true
    tellDead()
  }

  function sprung(method: Method): Trap | undefined {
    for (const trap of traps) {
      if (trap.reached || !trap.methods.includes(method) || --trap.left > 0) continue
      trap.reached = true
      return trap
    }
    return undefined
  }

  function called(method: Method, args: unknown[]): unknown {
    if (isDead) return method === 'release' ? Promise.resolve() : Promise.reject(new Dead(method))
    calls.set(method, (calls.get(method) ?? 0) + 1)
    const trap = sprung(method)
    if (trap?.moment === 'before') {
      if (!trap.isFatal) return Promise.reject(new StoreUnavailable(`${method} fails, as it should`))
      die()
      return Promise.reject(new Dead(method))
    }
    const answer: unknown = Reflect.apply(Reflect.get(real, method) as (...args: unknown[]) => unknown, real, args)
    if (trap !== undefined) return lost(answer, trap)
    return answer instanceof Promise ? answer.then(unlessDead, unlessDeadThrow) : answer
  }

  /** It is done, and the process dies before it hears of it. */
  async function lost(answer: unknown, trap: Trap): Promise<unknown> {
    const told = await answer
    if (!traps.includes(trap)) return told
    die()
    throw new Dead('the answer is lost')
  }
  function unlessDead(answer: unknown): unknown {
    if (isDead) throw new Dead('the process died meanwhile')
    return answer
  }
  function unlessDeadThrow(error: unknown): never {
    throw isDead ? new Dead('the process died meanwhile') : error
  }

  function trap(methods: readonly Method[], moment: Moment, n: number, isFatal: boolean): Trap {
    const set = { methods, moment, isFatal, left: n, reached: false }
    traps.push(set)
    return set
  }

  const untouched: readonly (string | symbol)[] = ['listen', 'durable', 'close']
  const store = new Proxy(real, {
    get(target, name) {
      const value: unknown = Reflect.get(target, name)
      if (typeof value !== 'function' || untouched.includes(name)) return value
      return (...args: unknown[]) => called(name as Method, args)
    },
  })
  return {
    store,
    dead,
    calls,
    die,
    disarm: () => void traps.splice(0),
    get isDead() {
      return isDead
    },
    failAt: (methods, moment, n) => trap(methods, moment, n, moment === 'after'),
    dieAt: (methods, moment, n) => trap(methods, moment, n, true),
  }
}
