import { expect, test } from 'vitest'
import { prefersHtml } from './pages.ts'

test('§11: browsers get HTML, programs the same as JSON', () => {
  expect(prefersHtml('text/html,application/xhtml+xml,application/xml;q=0.9,image/webp,*/*;q=0.8')).toBe(true)
  expect(prefersHtml('application/json, text/html;q=0.5')).toBe(false)
  expect(prefersHtml('text/html;q=0.9, application/problem+json;q=0.5')).toBe(true)
  expect(prefersHtml('*/*')).toBe(false)
  expect(prefersHtml('application/json')).toBe(false)
  expect(prefersHtml('text/html;q=0')).toBe(false)
  expect(prefersHtml('text/html;q=nonsense')).toBe(false)
  expect(prefersHtml('')).toBe(false)
  expect(prefersHtml(undefined)).toBe(false)
})
