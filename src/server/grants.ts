import { isCamelCase, isPascalCase } from '../model/names.ts'

/** Grants that are words of their own (H1). */
const words = ['*', 'actions:own', 'actions:all', 'events', 'usage', 'inbox']

/**
 * What is wrong with a grant's syntax (H1), as a sentence that says how to mend it; null when nothing is. Whether the
 * operation or Noun exists is not asked: a Worker may be added before its Verb is deployed.
 */
export function grantFault(grant: string): string | null {
  if (words.includes(grant)) return null
  const [, before = '', operation = ''] = /^(approve:)?([^:]*)$/.exec(grant) ?? []
  if (isOperation(operation)) return null
  const noun = /^([^:.]*):read$/.exec(grant)?.[1]
  if (noun !== undefined && isPascalCase(noun)) return null
  const likely = suggestion(grant, before, operation, noun)
  const mend =
    likely === null
      ? `A grant is one of ${[...words, 'Noun.verb', 'Noun:read', 'approve:Noun.verb'].join(', ')}.`
      : `Did you mean ${likely}?`
  return `There is no grant ${JSON.stringify(grant)}. ${mend}`
}

function isOperation(text: string): boolean {
  const [noun = '', verb = '', ...more] = text.split('.')
  return isPascalCase(noun) && isCamelCase(verb) && more.length === 0
}

/** What was probably meant: `order.place` → `Order.place`, `Order.read` → `Order:read`, `event` → `events`. */
function suggestion(grant: string, before: string, operation: string, noun: string | undefined): string | null {
  if (noun !== undefined && isPascalCase(capital(noun))) return `${capital(noun)}:read`
  const [first = '', second = '', ...more] = operation.split(/[./ ]/)
  const repaired = `${capital(first)}.${second.charAt(0).toLowerCase()}${second.slice(1)}`
  if (more.length === 0 && isOperation(repaired)) return `${before}${repaired}`
  const bare = grant.toLowerCase().replace(/s$/, '')
  const word = words.find((known) => known === grant.toLowerCase() || known.replace(/s$/, '') === bare)
  if (word !== undefined) return word
  const lastColon = /^([^:]+):([a-z][A-Za-z0-9]*)$/.exec(grant)
  if (lastColon !== null && isOperation(`${capital(lastColon[1] ?? '')}.${lastColon[2]}`)) {
    return lastColon[1] === 'action' ? 'actions:own or actions:all' : `${capital(lastColon[1] ?? '')}.${lastColon[2]}`
  }
  return isPascalCase(capital(grant)) && grant !== '' ? `${capital(grant)}.verb or ${capital(grant)}:read` : null
}

function capital(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1)
}
