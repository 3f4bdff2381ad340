import { parseArgs } from 'node:util'

const { values } = parseArgs({
  options: {
    port: { type: 'string', default: '0' },
    data: { type: 'string', default: '' },
    group: { type: 'boolean', default: false },
    seconds: { type: 'string', default: '1' },
  },
})

export const port = Number(values.port)
export const data = values.data
/** Commits what came in one turn of the event loop as one transaction. */
export const group = values.group
export const seconds = Number(values.seconds)
