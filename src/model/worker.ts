import type { Throttle } from './startup.ts'

/** Who calls (SPEC §1). Its name is what an Action shows; it is never given to another Worker. */
export interface Worker {
  /** `worker_…` */
  readonly id: string
  readonly namespace: string
  readonly name: string
  readonly kind: WorkerKind
  readonly grants: readonly string[]
  /** Its own limit, which takes the place of the Startup's (§10). */
  readonly throttle?: Throttle
}

export type WorkerKind = 'agent' | 'human' | 'app'

/**
 * Whether a Worker holds a grant (H1): `Order.place`, `Order:read`, `actions:all`, `events`, `usage`, `inbox`,
 * `approve:Order.refund`; `*` is all of them, and every Worker has `actions:own`.
 */
export function may(worker: Worker, grant: string): boolean {
  return grant === 'actions:own' || worker.grants.includes(grant) || worker.grants.includes('*')
}

/** Whether a Worker may see an Action (H1): its own, or with `actions:all` everybody's. */
export function maySee(worker: Worker, { workerId }: { readonly workerId: string }): boolean {
  return workerId === worker.id || may(worker, 'actions:all')
}
