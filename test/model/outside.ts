/**
 * The world outside the store, as the Verbs of kiln.ts reach it: a till that keeps idempotency keys, and gates that hold a
 * Verb up. It outlives crashes of the engine, and counts what really happened there.
 */
export interface Port {
  /** Takes money under a derived key. Throws `Declined` for a definitive no, an Error when nobody knows the outcome. */
  till(payment: Payment): Promise<{ receipt: string }>
  /** Resolves once the gate is open. */
  gate(name: string): Promise<void>
  /** Whether this Action is the first that ran with the tag: what fails at first and works when retried asks for it. */
  isFirst(tag: string, action: string): boolean | Promise<boolean>
}

export interface Payment {
  readonly key: string
  /** Names the chain: every call that a test makes has a tag of its own. */
  readonly tag: string
  readonly step: string
  /** What the till does with the first, second … call of this step. */
  readonly mood: Mood
  readonly facts: Readonly<Record<string, unknown>>
}

/**
 * One letter a call, the rest are taken as they should be: `D` a definitive no · `L` takes the money, and the answer is
 * lost · `B` breaks before anything is done · `G` takes it once the gate of the tag's name is open.
 */
export type Mood = string

export class Declined extends Error {
  override readonly name = 'Declined'
}

export interface Effect {
  readonly key: string
  readonly tag: string
  readonly step: string
  readonly facts: Readonly<Record<string, unknown>>
  calls: number
}

interface Waiting {
  readonly gate: string
  readonly go: () => void
}

export class Outside {
  /** What the till took, by derived key: a second call with a key finds the first. */
  readonly effects = new Map<string, Effect>()
  /** Every key that came, by tag and step. */
  readonly keys = new Map<string, Set<string>>()
  readonly #declined = new Set<string>()
  readonly #positions = new Map<string, number>()
  readonly #firsts = new Map<string, string>()
  readonly #openGates = new Set<string>()
  readonly #waiting = new Set<Waiting>()

  /** The effects of one step of one chain: never more than one is right. */
  effectsOf(tag: string, step: string): Effect[] {
    return [...(this.keys.get(`${tag} ${step}`) ?? [])].flatMap((key) => this.effects.get(key) ?? [])
  }

  /** How many calls of a step have come. */
  callsOf(tag: string, step: string): number {
    return this.#positions.get(`${tag} ${step}`) ?? 0
  }

  /** The first Action that came to the end of its steps with this tag. */
  firstOf(tag: string): string | undefined {
    return this.#firsts.get(tag)
  }

  open(gate: string): void {
    this.#openGates.add(gate)
    for (const { go } of this.#waiting) if (this.#openGates.has(gate)) go()
  }

  /** Gates that somebody alive stands before. */
  gates(): Set<string> {
    return new Set([...this.#waiting].map(({ gate }) => gate))
  }

  /** The outside as one process sees it: nothing of it gets through any more once that process is dead. */
  port(): Port & { cut(): void } {
    let isCut = false
    const never = new Promise<never>(() => undefined)
    const own = new Set<Waiting>()
    return {
      cut: () => {
        isCut = true
        for (const waiting of own) this.#waiting.delete(waiting)
      },
      till: async (payment) => {
        // What is called takes its time, so that calls of several Actions interleave.
        await new Promise((resolve) => setImmediate(resolve))
        const { tag, step, mood } = payment
        if (!isCut && mood[this.callsOf(tag, step)] === 'G') await this.#pass(tag, own)
        return isCut ? never : this.#take(payment)
      },
      gate: (name) => (isCut ? never : this.#pass(name, own)),
      isFirst: (tag, action) => {
        const first = this.#firsts.get(tag)
        if (first === undefined) this.#firsts.set(tag, action)
        return first === undefined || first === action
      },
    }
  }

  async #pass(gate: string, own: Set<Waiting>): Promise<void> {
    if (this.#openGates.has(gate)) return
    await new Promise<void>((resolve) => {
      const waiting = {
        gate,
        go: (): void => {
          if (!this.#openGates.has(gate)) return
          this.#waiting.delete(waiting)
          own.delete(waiting)
          resolve()
        },
      }
      this.#waiting.add(waiting)
      own.add(waiting)
    })
  }

  #take({ key, tag, step, mood, facts }: Payment): { receipt: string } {
    const name = `${tag} ${step}`
    const position = this.callsOf(tag, step)
    this.#positions.set(name, position + 1)
    const keys = this.keys.get(name) ?? new Set()
    this.keys.set(name, keys.add(key))
    const letter = mood[position]
    const known = this.effects.get(key)
    if (known !== undefined) known.calls++
    if (letter === 'B') throw new Error('the line to the till is down')
    if (known === undefined && (letter === 'D' || this.#declined.has(key))) {
      this.#declined.add(key)
      throw new Declined('the till declined')
    }
    if (known === undefined) this.effects.set(key, { key, tag, step, facts, calls: 1 })
    if (letter === 'L') throw new Error('the answer of the till was lost')
    return { receipt: `receipt-${key}` }
  }
}
