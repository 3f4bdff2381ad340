import { existsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { glyphs, newFolder, runCli, startServer, startupFile } from '../support/server.ts'

// A definition that can't work: a message that names the line to mend, exit status 1, no stack trace, no data file.

const valid = `
import { noun, startup } from 'startup-builder'
import { z } from 'zod'
const Order = noun({ fields: z.object({ total: z.int() }) })
const kiln = startup('kiln.test', { nouns: { Order } })
const place = kiln.verb('Order.place', { input: z.object({ total: z.int() }), reads: {}, async run({ input, records }) { return records.Order.create(input) } })
`
const served = `${valid}export default kiln.serve({ verbs: [place] })\n`

/** Tries to serve a definition; gives what was told, and whether a data file was made. */
async function tryToServe(source: string) {
  const data = join(newFolder('definition'), 'startup.db')
  const file = startupFile({ source }, data)
  const { status, stdout, stderr } = await runCli(['serve', file, '--data', data, '--port', '0'])
  expect(stdout).toBe('')
  expect(stderr).not.toMatch(/^\s+at /m)
  return { status, stderr, hasData: existsSync(data) }
}

describe('a definition that cannot be loaded is told in a line, and exits with 1', () => {
  test.each([
    ['a missing file', null, /^startup-builder: There is no file .*nowhere\.ts\./],
    ['an enum', `enum Size { S }\n`, /startup\.ts:1: SyntaxError: TypeScript enum is not supported in strip-only mode/],
    ['a syntax error', `const a = 1\nconst b = = 2\n`, /startup\.ts:2: SyntaxError: /],
    [
      'an import of a name that is not exported',
      `import { nown } from 'startup-builder'\n`,
      /startup\.ts:1: SyntaxError: .*nown/,
    ],
    [
      'a missing package',
      `import 'left-padding'\n`,
      /startup\.ts imports 'left-padding', which is not there\. Install it: npm install left-padding\n/,
    ],
    ['a missing neighbour', `import './offers.ts'\n`, /startup\.ts imports '.*offers\.ts', which is not there\.\n/],
    ['an error thrown at its top', `\n\nthrow new RangeError('no offers')\n`, /startup\.ts:3: RangeError: no offers\n/],
    [
      'no default export',
      `${valid}export { kiln }\n`,
      /startup\.ts exports kiln, and nothing as its default\. End it with `export default/,
    ],
    ['no export', `export {}\n`, /startup\.ts exports nothing\. End it with/],
    [
      'another default export',
      `export default 8\n`,
      /The default export of .*startup\.ts is a number, not a Startup\./,
    ],
    [
      'a Startup whose Verbs are missing',
      `${valid}export default kiln\n`,
      /is what `startup\(…\)` gives: its Verbs are missing\./,
    ],
    [
      'one namespace twice',
      `${valid}const a = kiln.serve({ verbs: [place] })\nexport default [a, a]\n`,
      /exports kiln\.test twice/,
    ],
    ['an empty array', `export default []\n`, /exports an empty array/],
  ] as const)('%s', async (_what, source, says) => {
    const tried = source === null ? await runCli(['serve', 'nowhere.ts', '--port', '0']) : await tryToServe(source)
    expect(tried.stderr).toMatch(says)
    expect(tried.stderr.trimEnd().split('\n')).toHaveLength(1)
    expect(tried.status).toBe(1)
    if ('hasData' in tried) expect(tried.hasData).toBe(false)
  })

  test('a syntax error in JavaScript, whose place Node does not tell', async () => {
    const folder = newFolder('definition')
    const file = join(folder, 'startup.mjs')
    writeFileSync(file, 'const a = {\n  b: 1\n  c: 2\n}\n')
    const { status, stderr } = await runCli(['serve', file, '--data', join(folder, 'startup.db'), '--port', '0'])
    expect(stderr).toMatch(/startup\.mjs:3: SyntaxError: Unexpected identifier 'c'\n$/)
    expect(status).toBe(1)
  })

  test('a file that is neither TypeScript nor JavaScript', async () => {
    const file = join(newFolder('definition'), 'startup.yaml')
    writeFileSync(file, 'nouns: []\n')
    const { status, stderr } = await runCli(['serve', file, '--port', '0'])
    expect(stderr).toMatch(/startup\.yaml is neither TypeScript nor JavaScript/)
    expect(status).toBe(1)
  })
})

describe('N1: a definition that cannot work is refused when it is loaded, with the line to mend', () => {
  test('N1: one fault is one line, which begins with the place', async () => {
    const { status, stderr, hasData } = await tryToServe(
      served
        .replace(`{ nouns: { Order } }`, `{ nouns: { order: Order } }`)
        .replace(`'Order.place'`, `'order.place'`)
        .replace('records.Order', 'records.order'),
    )
    expect(stderr).toMatch(/startup\.ts:\d+: .*PascalCase/)
    expect(status).toBe(1)
    expect(hasData).toBe(false)
  })

  test('N1: several faults are told at once, each with its line', async () => {
    const { status, stderr } = await tryToServe(
      served.replace(`'kiln.test'`, `'healthz'`).replace(`nouns: { Order }`, `nouns: { Order, Action: Order }`),
    )
    const [heading, ...faults] = stderr.trimEnd().split('\n')
    expect(heading).toMatch(/^startup-builder: .*startup\.ts cannot be served:$/)
    expect(faults.length).toBeGreaterThanOrEqual(2)
    for (const fault of faults) expect(fault).toMatch(/^ {2}startup\.ts:\d+: \S/)
    expect(status).toBe(1)
  })

  test('N2: a deploy that the data cannot follow is refused, and the data stays what it was', async () => {
    const server = await startServer({ startup: { source: served } })
    const token = await server.token()
    const placed = await fetch(`${server.url}/kiln.test/orders/place`, {
      method: 'POST',
      headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json', 'idempotency-key': 'k1' },
      body: '{"total":1}',
    })
    expect(await placed.json()).toMatchObject({ status: 'succeeded' })
    await server.stop()

    // A field without a default, which the record that is there does not have.
    const file = startupFile(
      { source: served.replaceAll('z.object({ total: z.int() })', 'z.object({ total: z.int(), note: z.string() })') },
      server.data,
    )
    const { status, stderr } = await runCli(['serve', file, '--data', server.data, '--port', '0'])
    expect(stderr).toMatch(/kiln\.test cannot be served on this data file:\n {2}.*note/)
    expect(stderr).not.toMatch(/^\s+at /m)
    expect(status).toBe(1)

    await server.start({ startup: { source: served } })
    const list = await fetch(`${server.url}/kiln.test/orders`, { headers: { authorization: `Bearer ${token}` } })
    expect(await list.json()).toMatchObject({ data: [{ total: 1 }] })
  })
})

test('W2: serve warns on standard error of a Verb that declares nothing', async () => {
  const server = await startServer({ startup: { source: served.replace('reads: {}, ', '') } })
  expect(server.stderr()).toMatch(/^startup-builder: warning: .*Order\.place/m)
})

test('a file may export several Startups, which are served side by side', async () => {
  const second = served
    .replaceAll('kiln', 'loom')
    .replaceAll('Order', 'Cloth')
    .replace('place = ', 'weave = ')
    .replace('Cloth.place', 'Cloth.weave')
    .split('\n')
    .filter((line) => !/^(import|export)/.test(line))
    .join('\n')
  const source = `${valid}${second}\nexport default [kiln.serve({ verbs: [place] }), loom.serve({ verbs: [weave] })]\n`
  const server = await startServer({ startup: { source } })
  for (const namespace of ['kiln.test', 'loom.test']) {
    const token = await server.token('robot', ['*'], { namespace })
    const me = await fetch(`${server.url}/me`, { headers: { authorization: `Bearer ${token}` } })
    expect(await me.json()).toMatchObject({ namespace })
  }
  const unsaid = await server.cli('worker', 'add', 'other', '--kind', 'app')
  expect(unsaid.stderr).toMatch(/^startup-builder: Say --namespace: this data file has kiln\.test, loom\.test\./)
  expect(unsaid.status).toBe(1)
})

test('the example is served without a warning', async () => {
  const server = await startServer({ startup: glyphs })
  expect(server.stderr()).toBe('')
})
