import type { Worker } from '../../src/model/worker.ts'

/** Of every namespace: two who may do all, and one who may not. */
export const rightsOf: readonly { readonly name: string; readonly grants: readonly string[] }[] = [
  { name: 'ann', grants: ['*'] },
  { name: 'bob', grants: ['*'] },
  { name: 'clerk', grants: ['Account.deposit', 'Order.place'] },
]

export function workersOf(namespace: string): Worker[] {
  const digit = namespace.startsWith('kiln') ? '1' : '2'
  return rightsOf.map(({ name, grants }, index) => {
    return { id: `worker_0000000000000000000000${digit}${index + 1}00`, namespace, name, kind: 'agent', grants }
  })
}
