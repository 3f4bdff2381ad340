import { spawnSync } from 'node:child_process'
import { existsSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import type { AddressInfo } from 'node:net'
import { once } from 'node:events'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, test } from 'vitest'
import { startDev, type TestDev } from '../support/dev.ts'
import { newFolder, runCli } from '../support/server.ts'
import { connectRaw } from '../support/raw.ts'

interface Parts {
  readonly imports?: string
  readonly fields?: string
  readonly verbs?: string
  readonly served?: string
  readonly seed?: string
}

/** A definition of one Noun, written as an author would. */
function definition({
  imports = '',
  fields = 'text: z.string()',
  verbs = '',
  served = '',
  seed = '[]',
}: Parts = {}): string {
  return `import { noun, startup } from 'startup-builder'
import { z } from 'zod'
${imports}
const Note = noun({ fields: z.object({ ${fields} }), index: ['text'] })
const notes = startup('notes.test', { nouns: { Note } })
const write = notes.verb('Note.write', {
  input: z.object({ text: z.string() }),
  reads: {},
  run: ({ input, records }) => records.Note.create({ text: input.text }),
})
${verbs}
export default notes.serve({ verbs: [write${served}], seed: ${seed} })
`
}

const jotted = `const jot = notes.verb('Note.jot', {
  input: z.object({ text: z.string() }),
  event: 'Note.jotted',
  reads: {},
  run: ({ input, records }) => records.Note.create({ text: 'jotted ' + input.text }),
})`

async function ready(dev: TestDev): Promise<void> {
  await dev.says(/ready {2}in \d+ ms/)
  await dev.says(/-d '.*'\n\n/)
}

async function outputOf(answer: Response | Promise<Response>): Promise<unknown> {
  const { output } = (await (await answer).json()) as { output: { text?: unknown } }
  return output.text
}

/** Processes that are there and were started for this folder's data file. */
function leftOf(dev: TestDev): string[] {
  const { stdout } = spawnSync('ps', ['-eo', 'pid,args'], { encoding: 'utf8' })
  return stdout.split('\n').filter((line) => line.includes(dev.data))
}

describe('startup-builder dev', () => {
  test('§13: a save serves the new definition; while one has errors the last good one serves, and the error has its line', async () => {
    const dev = startDev(definition())
    await ready(dev)
    expect((await dev.call('/notes.test/notes/jot', 'j1', { text: 'a' })).status).toBe(404)

    dev.save('startup.ts', definition({ verbs: jotted, served: ', jot' }))
    expect(await dev.says(/reloaded.*/)).toContain('+Note.jot')
    expect(await outputOf(dev.call('/notes.test/notes/jot', 'j1', { text: 'a' }))).toBe('jotted a')

    dev.save('startup.ts', definition({ verbs: 'const = 1' }))
    await dev.says('broken  the last good definition is served on')
    await dev.says(/startup\.ts:11.*SyntaxError/)
    await dev.says('11 | const = 1')
    expect(await outputOf(dev.call('/notes.test/notes/jot', 'j2', { text: 'b' }))).toBe('jotted b')

    // N1: faults of the definition.
    dev.save('startup.ts', definition({ verbs: jotted.replaceAll('Note.jot', 'Note.get'), served: ', jot' }))
    await dev.says(/startup\.ts:11: .*named get/)
    // What it throws while it is imported.
    dev.save('startup.ts', definition({ verbs: `throw new RangeError('no stock')` }))
    await dev.says('startup.ts:11: RangeError: no stock')
    // N2: what the records that exist don't fit.
    dev.save('startup.ts', definition({ fields: 'text: z.string(), colour: z.string()' }))
    await dev.says('Note.colour is required and has no plain default')
    expect(await outputOf(dev.call('/notes.test/notes/jot', 'j3', { text: 'c' }))).toBe('jotted c')
    expect((await fetch(`${dev.url}/readyz`)).status).toBe(200)

    dev.save('startup.ts', definition())
    expect(await dev.says(/reloaded.*/)).toContain('-Note.jot')
    expect((await dev.call('/notes.test/notes/jot', 'j4', { text: 'd' })).status).toBe(404)
    expect(await outputOf(dev.call('/notes.test/notes/write', 'w', { text: 'as before' }))).toBe('as before')
    expect(await dev.stop()).toBe(0)
  })

  test('§13: it reloads for a file that is imported, saved in place, put in its place, broken, gone and back', async () => {
    const text = (value: string) => `export const text: string = ${value}\n`
    const verbs = jotted.replace(`'jotted ' + input.text`, 'text + input.text')
    const source = definition({ imports: `import { text } from './text.ts'`, verbs, served: ', jot' })
    const dev = startDev(source, { files: { 'text.ts': text(`'first '`) } })
    await ready(dev)
    const jot = async (key: string) => outputOf(dev.call('/notes.test/notes/jot', key, { text: 'x' }))
    expect(await jot('1')).toBe('first x')

    dev.save('text.ts', text(`'second '`))
    await dev.says('reloaded')
    expect(await jot('2')).toBe('second x')

    const beside = join(dev.folder, 'any/definition/text.ts')
    writeFileSync(`${beside}.tmp`, text(`'third '`))
    renameSync(`${beside}.tmp`, beside)
    await dev.says('reloaded')
    expect(await jot('3')).toBe('third x')

    dev.save('text.ts', text('+'))
    await dev.says(/text\.ts:1.*SyntaxError/)
    rmSync(beside)
    await dev.says(/imports .*text\.ts.*, which is not there/)
    expect(await jot('4')).toBe('third x')
    dev.save('text.ts', text(`'fourth '`))
    await dev.says('reloaded')
    expect(await jot('5')).toBe('fourth x')
  })

  test('N1: a first start with a broken file tells why, turns requests away with no-definition, and serves once it is mended', async () => {
    const dev = startDev(definition({ verbs: 'const = 1' }))
    await dev.says('broken  nothing is served until it is mended')
    const answer = await fetch(`${dev.url}/notes.test/notes`)
    expect([answer.status, answer.headers.get('retry-after')]).toEqual([503, '1'])
    const told = (await answer.json()) as { type: string }
    expect(told).toMatchObject({ code: 'no-definition', retryable: true, type: `${dev.url}/errors/no-definition` })
    expect(existsSync(dev.data)).toBe(false)

    // A seed that fails is told too, and mended by a save.
    dev.save('startup.ts', definition({ seed: `[['Note.write', { text: 1 }]]` }))
    await dev.says('broken  nothing is served until it is mended')
    dev.save('startup.ts', definition({ seed: `[['Note.write', { text: 'sown' }]]` }))
    await ready(dev)
    const list = await fetch(`${dev.url}/notes.test/notes`, { headers: { authorization: `Bearer ${dev.token}` } })
    expect(await list.json()).toMatchObject({ data: [{ text: 'sown' }] })
    expect((await fetch(told.type)).status).toBe(200)
  })

  test('K5, V4: requests sent all through five reloads are all answered, each Action once', async () => {
    const dev = startDev(definition())
    await ready(dev)
    let isReloading = true
    let sent = 0
    const statuses = new Set<number>()
    async function client(name: string): Promise<void> {
      while (isReloading) {
        const key = `${name}-${sent++}`
        const answer = await dev.call('/notes.test/notes/write', key, { text: key })
        statuses.add(answer.status)
        expect(await outputOf(answer)).toBe(key)
        expect(answer.headers.get('idempotent-replayed')).toBeNull()
      }
    }
    const clients = ['a', 'b', 'c', 'd'].map(client)
    for (let reload = 0; reload < 5; reload++) {
      dev.save('startup.ts', definition({ verbs: `// ${reload}` }))
      await dev.says('reloaded')
    }
    isReloading = false
    await Promise.all(clients)
    expect([...statuses]).toEqual([200])
    const listed = new Set<unknown>()
    for (let next: string | null = ''; next !== null;) {
      const url = `${dev.url}/notes.test/notes?limit=1000${next === '' ? '' : `&after=${encodeURIComponent(next)}`}`
      const list = await fetch(url, { headers: { authorization: `Bearer ${dev.token}` } })
      const page = (await list.json()) as { data: { text: string }[]; next: string | null }
      for (const { text } of page.data) {
        expect(listed).not.toContain(text)
        listed.add(text)
      }
      next = page.next
    }
    expect(listed.size).toBe(sent)
  })

  test('V4: an Action under way across a reload settles once, and its settlement is shown', async () => {
    const waiting = (more: string) => `const wait = notes.verb('Note.wait', {
  input: z.object({ file: z.string() }),
  event: 'Note.waited',
  reads: {},
  async run({ input, records, step }) {
    await step('look', { file: input.file }, async ({ key }) => {
      appendFileSync(input.file + '.calls', key + '\\n')
      while (!existsSync(input.file)) await new Promise((soon) => setTimeout(soon, 20))
    })
    return records.Note.create({ text: 'waited${more}' })
  },
})`
    const imports = `import { appendFileSync, existsSync } from 'node:fs'`
    const part = (more: string) => definition({ imports, verbs: waiting(more), served: ', wait' })
    const dev = startDev(part(''), { args: ['--grace', '0.2'] })
    await ready(dev)
    const file = join(dev.folder, 'go')
    const answer = dev.call('/notes.test/notes/wait', 'slow', { file })
    await expect.poll(() => existsSync(`${file}.calls`), { timeout: 10_000 }).toBe(true)
    dev.save('startup.ts', part(' on'))
    await dev.says(/pending .*Note\.wait .*slow/)
    await dev.says('reloaded')
    expect((await answer).status).toBe(202)
    writeFileSync(file, '')
    await dev.says(/succeeded .*Note\.wait .*slow/)
    const again = await dev.call('/notes.test/notes/wait', 'slow', { file })
    expect(again.headers.get('idempotent-replayed')).toBe('true')
    expect(await outputOf(again)).toBe('waited on')
    // Asked again under the same derived key (V2).
    expect(new Set(readFileSync(`${file}.calls`, 'utf8').trim().split('\n')).size).toBe(1)
    expect(dev.said().match(/succeeded .*Note\.wait/g)).toHaveLength(1)
  })

  test('V5: verb-threw shows its real message and the author’s own lines, which an answer never has', async () => {
    const files = {
      'deep.ts': `type Deep = { stock?: { left: number } }\nexport const left = (deep: Deep): number => deep.stock!.left\n`,
    }
    const verbs = jotted.replace(`text: 'jotted ' + input.text`, `text: String(left({}))`)
    const dev = startDev(definition({ imports: `import { left } from './deep.ts'`, verbs, served: ', jot' }), { files })
    await ready(dev)
    const answer = await dev.call('/notes.test/notes/jot', 'thrown', { text: 'x' })
    const body = await answer.text()
    expect(JSON.parse(body)).toMatchObject({ status: 'failed', error: { code: 'verb-threw' } })
    expect(body).not.toMatch(/undefined|deep\.ts/)
    await dev.says(/Note\.jot threw TypeError: Cannot read properties of undefined \(reading 'left'\)/)
    const told = dev.said().slice(dev.said().indexOf('threw'))
    expect(told).toMatch(
      /^ {2}at deep\.ts:2:\d+ \(left\)\n {4}2 \| export const left.*\n +\^\n {2}at startup\.ts:\d+:\d+ /m,
    )
    expect(told).not.toMatch(/node_modules|dist|node:internal/)
    await dev.says(/failed .*Note\.jot .*thrown .*verb-threw/)

    const calling = `const call = notes.verb('Note.call', {
  input: z.object({}),
  event: 'Note.called',
  reads: {},
  run: () => fetch('http://127.0.0.1:1/'),
})`
    dev.save('startup.ts', definition({ verbs: calling, served: ', call' }))
    await dev.says('reloaded')
    await dev.call('/notes.test/notes/call', 'cause', {})
    await dev.says(/Note\.call threw TypeError: fetch failed/)
    await dev.says(/caused by .*bad port|caused by .*ECONNREFUSED/)
  })

  test('K4, R2: what happens is shown: Actions, replays, mismatches and what is rejected at the door, without control characters', async () => {
    const dev = startDev(definition())
    await ready(dev)
    await dev.call('/notes.test/notes/write', 'shown', { text: 'a' })
    await dev.says(/\d\d:\d\d:\d\d {2}succeeded {2}Note\.write +dev {2}shown {2}act_\w+ {2}\d+ ms {2}→ note_\w+/)
    await dev.call('/notes.test/notes/write', 'shown', { text: 'a' })
    await dev.says(/replayed {3}Note\.write +dev {2}shown/)
    await dev.call('/notes.test/notes/write', 'shown', { text: 'b' })
    await dev.says(/409 +POST \/notes\.test\/notes\/write {2}idempotency-mismatch .*first act_\w+, differs: input/)
    await dev.call('/notes.test/notes/write', 'wrong', { txt: 'b' })
    await dev.says(/400 +POST \/notes\.test\/notes\/write {2}invalid-input/)
    await dev.call('/notes.test/notes/write', 'wrong', { text: 'b' }, { authorization: 'Bearer nonsense' })
    await dev.says(/401 .*unauthorized/)
    await dev.call('/notes.test/notes/write?mode=try', 'tried', { text: 'b' })
    await dev.says(/tried +\/notes\.test\/notes\/write {2}succeeded/)
    const { 'idempotency-key': _none, ...encoded } = { 'idempotency-key': '', 'idempotency-key-encoded': '%1B%5B2Jx' }
    await fetch(`${dev.url}/notes.test/notes/write`, {
      method: 'POST',
      headers: { authorization: `Bearer ${dev.token}`, 'content-type': 'application/json', ...encoded },
      body: '{"text":"c"}',
    })
    await dev.says('\\u001b[2Jx')

    expect(dev.said()).not.toMatch(/\u001b/)
  })

  test('§13: pasted lines work, for each Verb with --lines, and after a restart too', async () => {
    const renamed = `const rename = notes.verb('Note.rename', {
  target: 'record',
  input: z.object({ text: z.string().min(20), note: z.string(), how: z.enum(["it's", 'other']), at: z.iso.date() }),
  reads: [],
  writes: ['text'],
  run: ({ input, target, records }) => records.Note.update(target, { text: input.note + input.how }),
})`
    const source = definition({ verbs: renamed, served: ', rename', seed: `[['Note.write', { text: 'sown' }]]` })
    const first = startDev(source, { args: ['--lines'] })
    await ready(first)
    const commands = first.said().match(/^curl (?:.*\\\n)*.*$/gm) ?? []
    expect(commands).toHaveLength(2)
    expect(commands[0]).toContain(`-d '{"text":"sown"}'`)
    const paste = (command: string) =>
      JSON.parse(spawnSync('sh', ['-c', `${command} -s`], { encoding: 'utf8' }).stdout) as object
    for (const command of commands) expect(paste(command)).toMatchObject({ status: 'succeeded', worker: 'dev' })
    const kept = `${first.data}.dev-tokens.json`
    expect(statSync(kept).mode & 0o777).toBe(0o600)
    expect(await first.stop('SIGINT')).toBe(0)

    const second = startDev(source, { folder: first.folder })
    await ready(second)
    expect(second.token).toBe(first.token)
    expect(second.said()).not.toContain('--lines')
    const { token } = second
    await second.stop()

    // H1: one that was revoked is made anew.
    await runCli(['worker', 'revoke', 'dev', '--data', first.data])
    const third = startDev(source, { folder: first.folder })
    await ready(third)
    expect(third.token).not.toBe(token)
    expect((await third.call('/notes.test/notes/write', 'third', { text: 'x' })).status).toBe(200)
  })

  test.each(['SIGINT', 'SIGTERM', 'SIGHUP', 'stdin', 'SIGKILL'] as const)(
    '§13: %s leaves nothing running, not even what is being loaded',
    async (how) => {
      const dev = startDev(definition())
      await ready(dev)
      dev.save(
        'startup.ts',
        definition({
          verbs: `process.stdout.write('author: loading\\n')\nawait new Promise(() => setInterval(() => {}, 1000))`,
        }),
      )
      await dev.says('author: loading')
      expect(leftOf(dev).length).toBeGreaterThanOrEqual(3)
      const ended = once(dev.child, 'exit')
      if (how === 'stdin') dev.child.stdin?.end()
      else dev.child.kill(how)
      await ended
      if (how !== 'SIGKILL') expect(dev.child.exitCode).toBe(0)
      await expect.poll(() => leftOf(dev), { timeout: 15_000 }).toEqual([])
      await expect(fetch(dev.url)).rejects.toThrow(TypeError)
    },
  )

  test('V4: a Verb that never awaits holds up no reload, and its process outlives neither it nor its parent', async () => {
    const spinning = (test: string) => `const spin = notes.verb('Note.spin', {
  input: z.object({}),
  event: 'Note.spun',
  reads: {},
  run({ records }) {
    process.stdout.write('author: spins\\n')
    while (${test}) continue
    return records.Note.create({ text: 'spun' })
  },
})`
    const dev = startDev(definition({ verbs: spinning('true'), served: ', spin' }), { args: ['--grace', '0.3'] })
    await ready(dev)
    const cut = dev.call('/notes.test/notes/spin', 'spin', {}).catch((error: unknown) => error)
    await dev.says('author: spins')
    dev.save('startup.ts', definition({ verbs: spinning('false'), served: ', spin' }))
    await dev.says('the last definition did not answer')
    await dev.says('reloaded')
    expect(await cut).toBeInstanceOf(TypeError)
    // It never came on record, and so the same key runs it (R1).
    expect(await outputOf(dev.call('/notes.test/notes/spin', 'spin', {}))).toBe('spun')

    dev.save('startup.ts', definition({ verbs: `process.stdout.write('author: loops\\n')\nfor (;;) {}` }))
    await dev.says('author: loops')
    dev.child.kill('SIGKILL')
    await expect.poll(() => leftOf(dev), { timeout: 20_000 }).toEqual([])
  })

  test('§13: a save during a reload is not lost, and a burst of saves is one reload', async () => {
    const dev = startDev(definition())
    await ready(dev)
    dev.save(
      'startup.ts',
      definition({
        verbs: `process.stdout.write('author: slow\\n')\nawait new Promise((soon) => setTimeout(soon, 60_000))`,
      }),
    )
    await dev.says('author: slow')
    for (let burst = 0; burst < 5; burst++) {
      dev.save(
        'startup.ts',
        definition({ verbs: `process.stdout.write('author: ${burst}\\n')\n${jotted}`, served: ', jot' }),
      )
      await sleep(5)
    }
    expect(await dev.says(/reloaded.*/)).toContain('+Note.jot')
    expect(await outputOf(dev.call('/notes.test/notes/jot', 'j', { text: 'a' }))).toBe('jotted a')
    expect(dev.said().match(/reloaded/g)).toHaveLength(1)
    expect(
      dev
        .said()
        .match(/author: \d/g)
        ?.at(-1),
    ).toBe('author: 4')
  })

  test('V4: a server that ends by itself is started again, and what was pending is resumed', async () => {
    const verbs = `const die = notes.verb('Note.die', {
  input: z.object({ file: z.string() }),
  event: 'Note.died',
  reads: {},
  async run({ input, records, step }) {
    await step('once', async () => {
      if (existsSync(input.file)) return
      appendFileSync(input.file, 'x')
      process.exit(9)
    })
    return records.Note.create({ text: 'lived' })
  },
})`
    const imports = `import { appendFileSync, existsSync } from 'node:fs'`
    const dev = startDev(definition({ imports, verbs, served: ', die' }))
    await ready(dev)
    // R1: its connection is closed unanswered, for nobody knows.
    await expect(dev.call('/notes.test/notes/die', 'k', { file: join(dev.folder, 'died') })).rejects.toThrow(TypeError)
    await dev.says('crashed  the server ended (status 9)')
    await dev.says(/succeeded .*Note\.die/)
    const again = await dev.call('/notes.test/notes/die', 'k', { file: join(dev.folder, 'died') })
    expect(await outputOf(again)).toBe('lived')
  })

  test('what keeps it from starting is one clear line: no file, a port in use, a store in use', async () => {
    const other = createServer().listen(0, '127.0.0.1')
    await once(other, 'listening')
    const { port } = other.address() as AddressInfo
    const dev = startDev(definition())
    await ready(dev)
    const file = join(dev.folder, 'any/definition/startup.ts')
    const started = (...args: string[]) => runCli(['dev', ...args, '--data', join(newFolder('dev'), 'x.db')])
    expect(await started('nowhere.ts')).toMatchObject({
      status: 1,
      stderr: expect.stringMatching(/^startup-builder: There is no file nowhere\.ts.*\n$/) as string,
    })
    expect(await started(file, '--port', String(port))).toMatchObject({
      status: 1,
      stderr: expect.stringContaining(`Port ${port} is in use`) as string,
    })
    const same = await runCli(['dev', file, '--data', dev.data, '--port', '0'])
    expect([same.status, same.stderr]).toEqual([1, expect.stringMatching(/^startup-builder: .*another server.*\n$/)])
    expect((await fetch(`${dev.url}/readyz`)).status).toBe(200)
    other.close()
  })

  test('K1, R2: requests come through as they were sent: field lines, expectations, early answers, pipelining', async () => {
    const dev = startDev(definition())
    await ready(dev)
    const head = (more: string) =>
      `POST /notes.test/notes/write HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${dev.token}\r\nContent-Type: application/json\r\n${more}`
    const body = '{"text":"raw"}'
    const length = `Content-Length: ${body.length}\r\n\r\n`

    const twice = await connectRaw(dev.url)
    twice.send(`${head('Idempotency-Key: a\r\nIdempotency-Key: a\r\n')}${length}${body}`)
    expect((await twice.response()).json()).toMatchObject({ code: 'invalid-idempotency-key' })

    const latin = await connectRaw(dev.url)
    latin.send(Buffer.from(`${head('Idempotency-Key: größe\r\n')}${length}${body}`, 'utf8'))
    expect((await latin.response()).json()).toMatchObject({ idempotencyKey: 'größe' })

    const expecting = await connectRaw(dev.url)
    expecting.send(`${head('Idempotency-Key: b\r\nExpect: 100-continue\r\n')}${length}`)
    expecting.send(body)
    expect((await expecting.response()).json()).toMatchObject({ status: 'succeeded', idempotencyKey: 'b' })

    const early = await connectRaw(dev.url)
    early.send(
      `POST /notes.test/notes/write HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer no\r\nContent-Length: 500\r\n\r\n{`,
    )
    expect((await early.response()).status).toBe(401)

    const none = await connectRaw(dev.url)
    none.send(`${head('Idempotency-Key: c\r\n').replace('Content-Type: application/json\r\n', '')}\r\n`)
    expect((await none.response()).json()).toMatchObject({ code: 'invalid-input' })
  })
})
