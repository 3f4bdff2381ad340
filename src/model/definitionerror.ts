/** A definition that can't work (N1): every fault at once, each with the line to mend. `serve` throws it when it is loaded. */
export class DefinitionError extends Error {
  override readonly name = 'DefinitionError'
  /** `startup.ts:12: Noun "order" must be in PascalCase: "Order"` */
  readonly faults: readonly string[]

  constructor(faults: readonly string[]) {
    super(faults.join('\n'))
    this.faults = faults
  }
}

/** Collects the faults of a definition. */
export class Faults {
  readonly all: string[] = []

  /** Notes a fault of what stands at a line. */
  add(line: string | null, sentence: string): void {
    this.all.push(line === null ? sentence : `${line}: ${sentence}`)
  }

  throwIfAny(): void {
    if (this.all.length > 0) throw new DefinitionError(this.all)
  }
}

/** `"a", "b" and "c"`, for messages. */
export function list(names: readonly string[]): string {
  const quoted = names.map((name) => `"${name}"`)
  return quoted.length < 2 ? quoted.join('') : `${quoted.slice(0, -1).join(', ')} and ${quoted.at(-1)}`
}
