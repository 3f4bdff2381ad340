import { errorPageUrl, outcomes, problems, type OutcomeEntry, type ProblemEntry } from './problem.ts'

/** What the page of a code says, as data: the answer of `/errors/{code}` to who doesn't ask for HTML (§3). */
export interface ErrorPage {
  /** The page's own absolute address: the `type` of every problem with this code. */
  type: string
  code: string
  title: string
  /** The HTTP status of an answer with this code; absent for a code that an Action settles with. */
  status?: number
  retryable?: boolean
  /** How an Action settles with this code; absent for a code of the door. */
  settles?: 'failed' | 'refused'
  meaning: string
  retry: string
  mend: string
}

/** The page of a code as data, or null when there is no such code. `origin` is the server's, without a slash at the end. */
export function errorPage(code: string, origin: string): ErrorPage | null {
  const type = errorPageUrl(origin, code)
  const door = entryOf<ProblemEntry>(problems, code)
  if (door) {
    const { title, status, retryable, meaning, retry, mend } = door
    return { type, code, title, status, retryable, meaning, retry, mend }
  }
  const outcome = entryOf<OutcomeEntry>(outcomes, code)
  if (!outcome) return null
  const { title, settles, meaning, retry, mend } = outcome
  return { type, code, title, settles, meaning, retry, mend }
}

/** The page of a code for a browser, or null when there is no such code. One file: no script, nothing loaded. */
export function errorPageHtml(code: string): string | null {
  const page = errorPage(code, '')
  if (page === null) return null
  const { status, retryable, settles } = page
  const facts =
    settles === undefined
      ? `HTTP status ${status}. ${retryable ? 'May succeed later with the same key.' : 'The same request fails again.'} Nothing was put on record.`
      : `An Action settles <code>${settles}</code> with this code. It is on record: a replay of its key returns it as it is.`
  return html(
    `${page.title} (${code})`,
    `<p><a href="/errors">All codes</a></p>
<h1><code>${escapeHtml(code)}</code></h1>
<p class="title">${rich(page.title)}</p>
<p class="facts">${facts}</p>
<h2>What it means</h2>
<p>${rich(page.meaning)}</p>
<h2>Whether and when to retry</h2>
<p>${rich(page.retry)}</p>
<h2>How to mend it</h2>
<p>${rich(page.mend)}</p>`,
  )
}

/** The list of all codes for a browser. */
export function errorIndexHtml(): string {
  const door = Object.entries<ProblemEntry>(problems).map(([code, entry]) =>
    row(code, String(entry.status), entry.title),
  )
  const settled = Object.entries<OutcomeEntry>(outcomes).map(([code, entry]) => row(code, entry.settles, entry.title))
  return html(
    'Error codes',
    `<h1>Error codes</h1>
<h2>A request was turned away</h2>
<p>Nothing was put on record, so the key is still free: a request that is mended, or that may be sent again, keeps its key. Only <a href="/errors/idempotency-mismatch"><code>idempotency-mismatch</code></a> means that the key belongs to another call.</p>
${table('Status', door)}
<h2>An Action settled</h2>
<p>The Action is on record for good, and a replay of its key returns it. Codes that a Verb chose itself are explained by its author.</p>
${table('Settles', settled)}`,
  )
}

/** The list of all codes as data. */
export function errorIndex(origin: string): ErrorPage[] {
  return [...Object.keys(problems), ...Object.keys(outcomes)].flatMap((code) => errorPage(code, origin) ?? [])
}

function entryOf<Entry>(registry: Readonly<Record<string, Entry>>, code: string): Entry | undefined {
  return Object.hasOwn(registry, code) ? registry[code] : undefined
}

function table(second: string, rows: readonly string[]): string {
  return `<table>
<thead><tr><th scope="col">Code</th><th scope="col">${second}</th><th scope="col">Meaning</th></tr></thead>
<tbody>
${rows.join('\n')}
</tbody>
</table>`
}

function row(code: string, second: string, title: string): string {
  const name = escapeHtml(code)
  return `<tr><td><a href="/errors/${name}"><code>${name}</code></a></td><td>${escapeHtml(second)}</td><td>${rich(title)}</td></tr>`
}

/** A text of the registry: escaped, with what stands in back ticks as code. */
function rich(text: string): string {
  return escapeHtml(text).replace(/`([^`]*)`/g, '<code>$1</code>')
}

function escapeHtml(text: string): string {
  const entities: Readonly<Record<string, string>> = {
    '&': '&amp;',
    '<': '&lt;',
    '>': '&gt;',
    '"': '&quot;',
    "'": '&#39;',
  }
  return text.replace(/[&<>"']/g, (character) => entities[character] ?? '')
}

/** The style of every page, as it stands between its tags: what a browser may use is this very text, by its hash. */
export const pageStyle = `
:root { color-scheme: light dark }
body { font: 1.0625rem/1.6 system-ui, sans-serif; max-width: 44rem; margin: 0 auto; padding: 1.5rem 1rem 4rem }
h1 { font-size: 1.6rem; margin: 1rem 0 0.25rem; overflow-wrap: anywhere }
h2 { font-size: 1.1rem; margin: 2rem 0 0.25rem }
p { margin: 0.25rem 0 0.75rem }
.title { font-size: 1.2rem }
.facts { border-left: 0.25rem solid; padding-left: 0.75rem }
code { font-family: ui-monospace, monospace; font-size: 0.92em; overflow-wrap: anywhere }
table { border-collapse: collapse; width: 100% }
th, td { text-align: left; vertical-align: top; padding: 0.3rem 0.75rem 0.3rem 0; border-bottom: 1px solid #8886 }
`

function html(title: string, body: string): string {
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${escapeHtml(title)}</title>
<style>${pageStyle}</style>
</head>
<body>
<main>
${body}
</main>
</body>
</html>
`
}
