import { kiln } from '../model/kiln.ts'
import { Declined, type Payment, type Port } from '../model/outside.ts'

// The kiln of the model test as a process of its own serves it: what is outside is behind HTTP, in the test.

async function ask(path: string, body: object): Promise<unknown> {
  const response = await fetch(`${process.env['OUTSIDE_URL']}/${path}`, { method: 'POST', body: JSON.stringify(body) })
  if (response.status === 402) throw new Declined('the till declined')
  if (response.status !== 200) throw new Error(`the outside answered ${response.status}`)
  return response.json()
}

const outside: Port = {
  till: (payment: Payment) => ask('till', payment) as Promise<{ receipt: string }>,
  gate: async (name) => void (await ask('gate', { name })),
  isFirst: (tag, action) => ask('first', { tag, action }) as Promise<boolean>,
}

export default [kiln('kiln.test', outside), kiln('forge.test', outside)]
