import { isKebabCase, isNamespace, isRecordId, reservedNamespaces, reservedPlurals } from '../model/names.ts'
import { serveCall } from './calls.ts'
import type { Edge, Exchange, Params } from './exchange.ts'
import { showMetrics } from './metrics.ts'
import { showError, showErrors } from './pages.ts'
import * as reads from './reads.ts'

export type Handler = (x: Exchange) => void | Promise<void>

/** A form of path, and what each of its methods does. `HEAD` goes with `GET`. */
export interface Path {
  readonly path: string
  readonly get?: Handler
  readonly post?: Handler
}

/** Every path of the server (§3), named ones before general ones. */
export const paths: readonly Path[] = [
  { path: '/healthz', get: reads.showHealth },
  { path: '/readyz', get: reads.showReadiness },
  { path: '/metrics', get: showMetrics },
  { path: '/errors', get: showErrors },
  { path: '/errors/:code', get: showError },
  { path: '/me', get: reads.showMe },
  { path: '/:namespace', get: reads.showDefinition },
  { path: '/:namespace/openapi.json', get: reads.showOpenapi },
  { path: '/:namespace/actions', get: reads.showActions },
  { path: '/:namespace/actions/:id', get: reads.showAction },
  ...['retry', 'cancel'].map((verb) => ({ path: `/:namespace/actions/:id/${verb}`, post: builtin('actions', verb) })),
  { path: '/:namespace/events', get: reads.showEvents },
  { path: '/:namespace/usage', get: reads.showUsage },
  { path: '/:namespace/inbox', get: reads.showInbox },
  { path: '/:namespace/inbox/:id', get: reads.showItem },
  ...['apply', 'dismiss', 'approve', 'decline'].map((verb) => ({
    path: `/:namespace/inbox/:id/${verb}`,
    post: builtin('inbox', verb),
  })),
  { path: '/:namespace/:nouns', get: reads.showRecords },
  { path: '/:namespace/:nouns/:id', get: reads.showRecord, post: callOnCollection },
  { path: '/:namespace/:nouns/:id/versions', get: reads.showVersions },
  { path: '/:namespace/:nouns/:id/:verb', post: callOnRecord },
]

/** `POST /{ns}/{nouns}/{verb}`: the last part of the path is the Verb. */
function callOnCollection(x: Exchange): Promise<void> {
  const { nouns = '', id: verb = '' } = x.params
  x.route = '/:namespace/:nouns/:verb'
  return serveCall(x, { nouns, id: null, verb })
}

function callOnRecord(x: Exchange): Promise<void> {
  const { nouns = '', id = '', verb = '' } = x.params
  return serveCall(x, { nouns, id, verb })
}

function builtin(nouns: string, verb: string): Handler {
  return (x) => serveCall(x, { nouns, id: x.params.id ?? '', verb })
}

/** Whether the parts of a path can be what they stand for: what can't is 404 before anything else is looked at (R2). */
export function isPath({ engine }: Edge, { namespace, nouns, id, verb }: Params): boolean {
  const startup = namespace === undefined ? undefined : engine.startups.get(namespace)
  if (namespace !== undefined && startup === undefined) {
    if (reservedNamespaces.has(namespace) || !isNamespace(namespace)) return false
  }
  if (nouns !== undefined && startup?.nounsByPlural.has(nouns) !== true) {
    if (reservedPlurals.has(nouns) || !isKebabCase(nouns)) return false
  }
  if (id !== undefined && !isRecordId(id)) return false
  return verb === undefined || /^[A-Za-z][A-Za-z0-9]*$/.test(verb)
}
