import { existsSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { noun, startup } from 'startup-builder'
import { z } from 'zod'

// What crash tests need and no shop would have: Verbs that hang, and one that takes the process down.

const Note = noun({ fields: z.object({ text: z.string() }), index: ['text'] })

const notes = startup('notes.test', { nouns: { Note } })

/** Without steps: one commit. */
const write = notes.verb('Note.write', {
  input: z.object({ text: z.string() }),
  async run({ input, records }) {
    return records.Note.create({ text: input.text })
  },
})

/** Writes after a step that takes a while. */
const ponder = notes.verb('Note.ponder', {
  input: z.object({ text: z.string(), ms: z.int() }),
  event: 'Note.pondered',
  async run({ input, records, step }) {
    await step('pause', { ms: input.ms }, ({ signal }) => sleep(input.ms, null, { signal }))
    return records.Note.create({ text: input.text })
  },
})

/** Writes once these files are there; each is waited for in a step of its own. */
const wait = notes.verb('Note.wait', {
  input: z.object({ text: z.string(), files: z.array(z.string()) }),
  event: 'Note.waited',
  timeout: 600_000,
  async run({ input, records, step }) {
    for (const file of input.files) {
      await step('wait', { file }, async ({ signal }) => {
        while (!existsSync(file)) await sleep(20, null, { signal })
      })
    }
    return records.Note.create({ text: input.text })
  },
})

/** Ends the process, each time that it runs, once its claim is on disk. */
const die = notes.verb('Note.die', {
  input: z.object({}),
  event: 'Note.died',
  async run() {
    await sleep(100)
    process.exit(9)
  },
})

export default notes.serve({ verbs: [write, ponder, wait, die] })
