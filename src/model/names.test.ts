import { describe, expect, test } from 'vitest'
import {
  idPrefix,
  isCamelCase,
  isKebabCase,
  isNamespace,
  isPascalCase,
  isRecordId,
  kebabPlural,
  parseRecordKey,
  recordKey,
  reservedNamespaces,
  reservedNouns,
  reservedPlurals,
  reservedVerbs,
} from './names.ts'

describe('names', () => {
  test.each([
    ['Order', 'orders', 'order_'],
    ['Offer', 'offers', 'offer_'],
    ['FontLicense', 'font-licenses', 'font_license_'],
    ['Company', 'companies', 'company_'],
    ['Person', 'people', 'person_'],
    ['Box', 'boxes', 'box_'],
    ['SalesPerson', 'sales-people', 'sales_person_'],
    ['APIKey', 'api-keys', 'api_key_'],
    ['Order2', 'order2s', 'order2_'],
  ])('§3: the plural of %s is %s, and its ids begin with %s', (noun, plural, prefix) => {
    expect(kebabPlural(noun)).toBe(plural)
    expect(idPrefix(noun)).toBe(prefix)
    expect(isKebabCase(plural)).toBe(true)
    expect(isRecordId(`${prefix}01k9zzzzzzzzzzzzzzzzzzz000`)).toBe(true)
  })

  test('§3: a plural that the Noun declares is taken as it is', () => {
    expect(kebabPlural('Staff', 'staff-members')).toBe('staff-members')
  })

  test('N1: a Noun is in PascalCase, a Verb in camelCase', () => {
    expect(['Order', 'FontLicense', 'A', 'X9'].every(isPascalCase)).toBe(true)
    expect(['order', 'Font_License', '', 'Ordér', '$Order', '9A', 'A B'].some(isPascalCase)).toBe(false)
    expect(['place', 'markPaid', 'a'].every(isCamelCase)).toBe(true)
    expect(['Place', 'mark-paid', '', '$place', '__proto__', '1st', 'a.b'].some(isCamelCase)).toBe(false)
  })

  test('N1: what can be a plural in a path', () => {
    expect(['orders', 'font-licenses', 'x2'].every(isKebabCase)).toBe(true)
    expect(['Orders', 'a--b', '-a', 'a-', '', 'a/b', 'openapi.json', 'a_b'].some(isKebabCase)).toBe(false)
  })

  test('§1: a namespace is like a domain', () => {
    const label = 'a'.repeat(63)
    for (const name of ['glyphs.store', 'kiln.test', 'a', '9', 'a-b.c', 'xn--bcher-kva.example', `${label}.${label}`]) {
      expect([name, isNamespace(name)]).toEqual([name, true])
    }
    const long = [label, label, label, label].join('.')
    for (const name of [
      '',
      'Glyphs.store',
      '.a',
      'a.',
      'a..b',
      '-a',
      'a-',
      'a_b',
      'a b',
      'ä',
      'a/b',
      `a${label}`,
      long,
    ]) {
      expect([name, isNamespace(name)]).toEqual([name, false])
    }
  })

  test('N1: what is taken', () => {
    expect([...reservedPlurals].sort()).toEqual(['actions', 'events', 'inbox', 'mcp', 'me', 'openapi.json', 'usage'])
    expect([...reservedVerbs].sort()).toEqual(
      ['catch', 'constructor', 'finally', 'find', 'get', 'list', 'then', 'toJSON', 'versions'].sort(),
    )
    expect([...reservedNamespaces].sort()).toEqual(['console', 'errors', 'healthz', 'me', 'metrics', 'readyz'])
    expect([...reservedNouns].sort()).toEqual(['Action', 'Inbox', 'Script', 'Worker'])
  })

  test('§1: the id of a record', () => {
    expect(['offer_serif_family', 'A-9_', 'x'.repeat(64)].every(isRecordId)).toBe(true)
    expect(['', 'x'.repeat(65), 'a b', 'a/b', 'a.b', 'ä', 'a\n'].some(isRecordId)).toBe(false)
  })

  test('W1: a record is named by its plural and its id', () => {
    expect(recordKey('offers', 'offer_x')).toBe('offers/offer_x')
    expect(parseRecordKey('font-licenses/a-B_1')).toEqual({ plural: 'font-licenses', id: 'a-B_1' })
    for (const text of ['', 'offers', 'offers/', '/x', 'offers/x/y', 'Offers/x', 'offers/x y', 'offers /x', '//']) {
      expect([text, parseRecordKey(text)]).toEqual([text, null])
    }
  })
})
