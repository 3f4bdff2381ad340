/** Where requests may go: to a definition that serves, nowhere for now, or nowhere until the definition is mended. */
export class Gate<Target> {
  #target: Target | null = null
  #isDown = false
  #change = Promise.withResolvers<void>()

  /** The one that serves; waits while one is taken over by the next. Null: there is none to wait for. */
  async pass(): Promise<Target | null> {
    while (this.#target === null && !this.#isDown) await this.#change.promise
    return this.#target
  }

  open(target: Target): void {
    this.#set(target, false)
  }

  /** Who comes now waits for the next. */
  hold(): void {
    this.#set(null, false)
  }

  /** Who waits, and who comes, is turned away. */
  down(): void {
    this.#set(null, true)
  }

  #set(target: Target | null, isDown: boolean): void {
    this.#target = target
    this.#isDown = isDown
    this.#change.resolve()
    this.#change = Promise.withResolvers<void>()
  }
}
