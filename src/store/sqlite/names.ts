import type { Database } from './database.ts'

/** What a row's worker number stands for. */
export interface WorkerName {
  readonly worker: number
  readonly id: string
  readonly name: string
  readonly ns: number
}

export interface NounName {
  readonly noun: number
  readonly name: string
  readonly plural: string
}

export interface IndexField {
  readonly nf: number
  readonly isUnique: boolean
}

/**
 * Words that repeat, by their numbers and back, kept in memory once seen. Rows are never renumbered, so what is known stays
 * true; after a rollback all is forgotten, since a number may have been given in what was rolled back.
 */
export class Names {
  readonly #db: Database
  readonly #namespaces = new Map<string, number>()
  readonly #namespaceNames = new Map<number, string>()
  readonly #workers = new Map<string, WorkerName>()
  readonly #workersByNumber = new Map<number, WorkerName>()
  readonly #verbs = new Map<string, number>()
  readonly #verbNames = new Map<number, string>()
  readonly #eventTypes = new Map<string, number>()
  readonly #eventTypeNames = new Map<number, string>()
  readonly #nouns = new Map<number, Map<string, NounName>>()
  readonly #nounsByNumber = new Map<number, NounName>()
  readonly #indexFields = new Map<number, Map<string, IndexField>>()

  constructor(db: Database) {
    this.#db = db
  }

  forget(): void {
    this.#namespaces.clear()
    this.#namespaceNames.clear()
    this.#workers.clear()
    this.#workersByNumber.clear()
    this.#verbs.clear()
    this.#verbNames.clear()
    this.#eventTypes.clear()
    this.#eventTypeNames.clear()
    this.forgetDefinitions()
  }

  /** A deploy changes plurals and indexes. */
  forgetDefinitions(): void {
    this.#nouns.clear()
    this.#nounsByNumber.clear()
    this.#indexFields.clear()
  }

  namespace(name: string): number | undefined {
    const known = this.#namespaces.get(name)
    if (known !== undefined) return known
    const row = this.#db.get<[number]>('SELECT ns FROM namespaces WHERE name = ?', name)
    if (row !== undefined) this.#namespaces.set(name, row[0])
    return row?.[0]
  }

  /** Within a transaction: gives it a number if it has none. */
  internNamespace(name: string): number {
    const known = this.namespace(name)
    if (known !== undefined) return known
    this.#db.run('INSERT INTO namespaces (name) VALUES (?)', name)
    return present(this.namespace(name), name)
  }

  namespaceName(ns: number): string {
    const known = this.#namespaceNames.get(ns)
    if (known !== undefined) return known
    const [name] = present(this.#db.get<[string]>('SELECT name FROM namespaces WHERE ns = ?', ns), `namespace ${ns}`)
    this.#namespaceNames.set(ns, name)
    return name
  }

  worker(id: string): WorkerName | undefined {
    const known = this.#workers.get(id)
    if (known !== undefined) return known
    const row = this.#db.get<[number, string, number]>('SELECT worker, name, ns FROM workers WHERE id = ?', id)
    if (row === undefined) return undefined
    const name = { worker: row[0], id, name: row[1], ns: row[2] }
    this.#workers.set(id, name)
    this.#workersByNumber.set(name.worker, name)
    return name
  }

  workerByNumber(worker: number): WorkerName {
    const known = this.#workersByNumber.get(worker)
    if (known !== undefined) return known
    const [id] = present(this.#db.get<[string]>('SELECT id FROM workers WHERE worker = ?', worker), `Worker ${worker}`)
    return present(this.worker(id), id)
  }

  verb(name: string): number | undefined {
    const known = this.#verbs.get(name)
    if (known !== undefined) return known
    const row = this.#db.get<[number]>('SELECT verb FROM verbs WHERE name = ?', name)
    if (row !== undefined) this.#verbs.set(name, row[0])
    return row?.[0]
  }

  /** Within a transaction: gives it a number if it has none. */
  internVerb(name: string): number {
    const known = this.verb(name)
    if (known !== undefined) return known
    this.#db.run('INSERT INTO verbs (name) VALUES (?)', name)
    return present(this.verb(name), name)
  }

  verbName(verb: number): string {
    const known = this.#verbNames.get(verb)
    if (known !== undefined) return known
    const [name] = present(this.#db.get<[string]>('SELECT name FROM verbs WHERE verb = ?', verb), `Verb ${verb}`)
    this.#verbNames.set(verb, name)
    return name
  }

  /** Within a transaction: gives it a number if it has none. */
  internEventType(name: string): number {
    const known = this.#eventTypes.get(name)
    if (known !== undefined) return known
    this.#db.run('INSERT OR IGNORE INTO event_types (name) VALUES (?)', name)
    const [type] = present(this.#db.get<[number]>('SELECT type FROM event_types WHERE name = ?', name), name)
    this.#eventTypes.set(name, type)
    return type
  }

  eventTypeName(type: number): string {
    const known = this.#eventTypeNames.get(type)
    if (known !== undefined) return known
    const row = this.#db.get<[string]>('SELECT name FROM event_types WHERE type = ?', type)
    const [name] = present(row, `Event type ${type}`)
    this.#eventTypeNames.set(type, name)
    return name
  }

  noun(ns: number, name: string): NounName | undefined {
    let nouns = this.#nouns.get(ns)
    if (nouns === undefined) this.#nouns.set(ns, (nouns = new Map<string, NounName>()))
    const known = nouns.get(name)
    if (known !== undefined) return known
    const row = this.#db.get<[number, string]>('SELECT noun, plural FROM nouns WHERE ns = ? AND name = ?', ns, name)
    if (row === undefined) return undefined
    const noun = { noun: row[0], name, plural: row[1] }
    nouns.set(name, noun)
    return noun
  }

  nounByNumber(noun: number): NounName {
    const known = this.#nounsByNumber.get(noun)
    if (known !== undefined) return known
    const row = this.#db.get<[string, string]>('SELECT name, plural FROM nouns WHERE noun = ?', noun)
    const [name, plural] = present(row, `Noun ${noun}`)
    const found = { noun, name, plural }
    this.#nounsByNumber.set(noun, found)
    return found
  }

  indexField(noun: number, field: string): IndexField | undefined {
    let fields = this.#indexFields.get(noun)
    if (fields === undefined) this.#indexFields.set(noun, (fields = new Map<string, IndexField>()))
    const known = fields.get(field)
    if (known !== undefined) return known
    const row = this.#db.get<[number, number]>(
      'SELECT nf, is_unique FROM index_fields WHERE noun = ? AND field = ?',
      noun,
      field,
    )
    if (row === undefined) return undefined
    const found = { nf: row[0], isUnique: row[1] === 1 }
    fields.set(field, found)
    return found
  }
}

/** For what must be there: its absence is a fault of the store or of the code, not a case. */
export function present<T>(value: T | undefined, what: string): T {
  if (value === undefined) throw new Error(`the store has no ${what}`)
  return value
}
