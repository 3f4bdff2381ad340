/** A Verb as `dev` shows how to call it. */
export interface VerbView {
  readonly namespace: string
  /** `Order.place` */
  readonly operation: string
  readonly verb: string
  readonly target: 'record' | 'collection'
  /** The plural of its Noun, as in its path. */
  readonly nouns: string
  readonly inputSchema: Readonly<Record<string, unknown>>
  /** What the definition's seed calls it with, if it does. */
  readonly seed: Readonly<Record<string, unknown>> | null
}

/** A Noun, so that an example can name a record of it that exists. */
export interface NounView {
  readonly namespace: string
  readonly noun: string
  readonly plural: string
}

export interface Definition {
  readonly namespaces: readonly string[]
  readonly verbs: readonly VerbView[]
  readonly nouns: readonly NounView[]
  readonly warnings: readonly string[]
}

/** Why a definition is not served. `data`: what is to be mended is not in the definition, such as a store in use. */
export interface Failure {
  readonly kind: 'failed'
  readonly cause: 'definition' | 'data'
  readonly lines: readonly string[]
}

/** What a definition's process tells its parent. */
export type ToParent =
  /** Files that it has begun to read, each with what it was then (`signatureOf`). */
  | { readonly kind: 'files'; readonly files: Readonly<Record<string, string>> }
  | { readonly kind: 'loaded'; readonly definition: Definition }
  | { readonly kind: 'serving'; readonly url: string }
  | Failure

/** What the parent tells it, once: to open the store and serve. */
export interface ToChild {
  readonly kind: 'serve'
}
