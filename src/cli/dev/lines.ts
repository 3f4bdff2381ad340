import type { Definition, VerbView } from './messages.ts'
import { exampleOf } from './example.ts'
import { styled } from './text.ts'

/** How many Verbs are shown unless all are asked for. */
const fewVerbs = 3

/** Finds the id of a record of a Noun, if there is one: `('glyphs.store', 'orders')`. */
export type RecordIds = (namespace: string, plural: string) => Promise<string | null>

export interface LinesOptions {
  readonly origin: string
  readonly tokens: Readonly<Record<string, string>>
  readonly all: boolean
  readonly recordId: RecordIds
}

/**
 * Lines to paste into a shell, one call for each Verb. The key is new each second, so that a line pasted again is a new call;
 * with a key of one's own it is a replay.
 */
export async function pasteLines(definition: Definition, options: LinesOptions): Promise<string[]> {
  const chosen = options.all ? definition.verbs : few(definition.verbs)
  const told: string[] = []
  for (const verb of chosen) told.push(...(await lineOf(verb, definition, options)), '')
  const left = definition.verbs.length - chosen.length
  if (left > 0) told.push(styled('dim', `${left} more: press l, or start with --lines.`), '')
  return told
}

/** Those that need no record first. */
function few(verbs: readonly VerbView[]): readonly VerbView[] {
  const onCollection = verbs.filter(({ target }) => target === 'collection')
  return [...onCollection, ...verbs.filter((verb) => !onCollection.includes(verb))].slice(0, fewVerbs)
}

async function lineOf(verb: VerbView, definition: Definition, options: LinesOptions): Promise<string[]> {
  const { namespace, operation, nouns, target } = verb
  const { origin, tokens, recordId } = options
  const found = target === 'record' ? await recordId(namespace, nouns) : null
  const id = found ?? 'ID'
  const path = target === 'record' ? `${nouns}/${id}/${verb.verb}` : `${nouns}/${verb.verb}`
  const input = JSON.stringify(await inputFor(verb, definition, recordId))
  const note = target === 'record' && found === null ? ` (no such record exists yet: put its id for ID)` : ''
  return [
    styled('dim', `# ${operation}${note}`),
    `curl -X POST ${quoted(`${origin}/${namespace}/${path}`)} \\`,
    `  -H ${quoted(`Authorization: Bearer ${tokens[namespace] ?? ''}`)} \\`,
    `  -H "Idempotency-Key: ${verb.verb}-$(date +%s)" \\`,
    `  -H 'Content-Type: application/json' \\`,
    `  -d ${quoted(input)}`,
  ]
}

/** Members that are named as a Noun is get the id of a record of it: `"offer": "offer_serif_family"`. */
async function inputFor(
  { namespace, inputSchema, seed }: VerbView,
  definition: Definition,
  recordId: RecordIds,
): Promise<unknown> {
  const ids = new Map<string, string>()
  for (const { noun, plural } of definition.nouns.filter((one) => one.namespace === namespace)) {
    const member = noun.charAt(0).toLowerCase() + noun.slice(1)
    const id = mentions(inputSchema, member) ? await recordId(namespace, plural) : null
    if (id !== null) for (const name of [member, `${member}Id`]) ids.set(name, id)
  }
  return exampleOf(inputSchema, (member) => ids.get(member) ?? seed?.[member])
}

function mentions(schema: object, member: string): boolean {
  const text = JSON.stringify(schema)
  return text.includes(`"${member}"`) || text.includes(`"${member}Id"`)
}

/** One word for a shell, whatever is in it. */
function quoted(text: string): string {
  return /^[\w:/.-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`
}
