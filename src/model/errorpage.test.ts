import { expect, test } from 'vitest'
import { errorIndex, errorIndexHtml, errorPage, errorPageHtml } from './errorpage.ts'
import { outcomes, problems } from './problem.ts'

const codes = [...Object.keys(problems), ...Object.keys(outcomes)]

test('§11: each code has a page, for people and as data, which says when to retry and how to mend it', () => {
  for (const code of codes) {
    const page = errorPage(code, 'http://127.0.0.1:4000')
    expect(page).toMatchObject({ type: `http://127.0.0.1:4000/errors/${code}`, code })
    const html = errorPageHtml(code) ?? ''
    for (const part of [
      `<h1><code>${code}</code></h1>`,
      'What it means',
      'Whether and when to retry',
      'How to mend it',
    ]) {
      expect(html).toContain(part)
    }
  }
})

test('§11: the index lists every code', () => {
  const html = errorIndexHtml()
  for (const code of codes) expect(html).toContain(`href="/errors/${code}"`)
  expect(errorIndex('').map((page) => page.code)).toEqual(codes)
})

test('§11: a made-up code has no page', () => {
  for (const code of ['', 'nope', '__proto__', 'constructor', 'toString', '<script>']) {
    expect(errorPage(code, '')).toBeNull()
    expect(errorPageHtml(code)).toBeNull()
  }
})

test('§11: a page stands alone, and holds no markup but its own', () => {
  for (const html of [errorIndexHtml(), ...codes.map((code) => errorPageHtml(code) ?? '')]) {
    const tags = new Set([...html.matchAll(/<\/?([^\s>]*)/g)].map(([, tag]) => tag))
    const known = ['!doctype', 'html', 'head', 'meta', 'title', 'style', 'body', 'main', 'p', 'a', 'h1', 'h2', 'code']
    const tables = ['table', 'thead', 'tbody', 'tr', 'th', 'td']
    expect([...tags].filter((tag) => ![...known, ...tables].includes(tag ?? ''))).toEqual([])
    expect(html).not.toMatch(/`|src=|url\(|http:/)
    expect(html.match(/<code>/g)?.length).toBe(html.match(/<\/code>/g)?.length)
  }
  expect(errorPageHtml('unauthorized')).toContain('<code>Bearer &lt;token&gt;</code>')
  expect(errorPageHtml('outcome-required')).toContain('{ &quot;runAgain&quot;: true }')
})

test('§11: the page of a code with which an Action settles says that it is on record', () => {
  expect(errorPage('stale-decision', '')).toMatchObject({ settles: 'refused' })
  expect(errorPage('stale-decision', '')).not.toHaveProperty('status')
  expect(errorPageHtml('verb-threw')).toContain('An Action settles <code>failed</code> with this code.')
  expect(errorPageHtml('throttled')).toContain('HTTP status 429. May succeed later with the same key.')
})
