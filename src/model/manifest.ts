/** A definition as data: what the store must know of it, and what the next deploy is compared with (N2). */
export interface Manifest {
  readonly namespace: string
  readonly nouns: readonly ManifestNoun[]
  readonly verbs: readonly ManifestVerb[]
}

export interface ManifestNoun {
  readonly noun: string
  /** The route: `font-licenses`. */
  readonly plural: string
  readonly fields: readonly ManifestField[]
  readonly index: readonly string[]
  readonly unique: readonly string[]
}

export interface ManifestField {
  readonly field: string
  readonly required: boolean
  /** JSON text of its default, null without one that is a plain value. */
  readonly default: string | null
}

export interface ManifestVerb {
  readonly operation: string
  readonly noun: string
  readonly verb: string
  readonly target: 'record' | 'collection'
}
