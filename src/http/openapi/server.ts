import type { JsonSchema } from '../../model/jsonschema.ts'
import { refTo } from './components.ts'
import { addOperation, answer, type Draft } from './operations.ts'
import { ofAny, ofWorkers } from './problems.ts'
import { object, page, text } from './schemas.ts'

/** Adds what the server has besides its namespaces (§3). */
export function addServer(draft: Draft): void {
  addMe(draft)
  addErrors(draft)
  addHealth(draft)
}

/** What needs no token. */
const common = { method: 'get', tag: 'Server', grants: null } as const

function addMe(draft: Draft): void {
  addOperation(draft, {
    ...common,
    path: '/me',
    ids: ['MeGet'],
    summary: 'The calling Worker',
    description: 'The Worker of the token, its namespace, its grants and the limits that hold for it.',
    grants: [],
    answers: { 200: answer('The Worker.', refTo('Worker')) },
    problems: ofWorkers,
    group: 'Me',
  })
}

function addErrors(draft: Draft): void {
  addOperation(draft, {
    ...common,
    path: '/errors',
    ids: ['ErrorList'],
    summary: 'Every error code',
    description: 'Every code with what it means; a page for browsers, by `Accept`.',
    answers: { 200: withHtml(answer('The codes.', page(refTo('ErrorPage')))) },
    problems: [...ofAny, 'invalid-query'],
    group: 'Errors',
  })
  addOperation(draft, {
    ...common,
    path: '/errors/{code}',
    ids: ['ErrorGet'],
    summary: 'One error code',
    description:
      'What the code means, whether and when to retry, and how to mend it; a page for browsers, by `Accept`.',
    parameters: [{ name: 'code', in: 'path', required: true, description: 'The code.', schema: text }],
    answers: {
      200: withHtml({
        description: 'The page of the code.',
        content: { 'application/problem+json': { schema: refTo('ErrorPage') } },
      }),
    },
    problems: [...ofAny, 'invalid-query', 'not-found'],
    group: 'Errors',
  })
}

function addHealth(draft: Draft): void {
  const status = (value: string): JsonSchema => ({ type: 'string', const: value })
  addOperation(draft, {
    ...common,
    path: '/healthz',
    ids: ['HealthGet'],
    summary: 'Liveness',
    description: 'Whether the process answers.',
    answers: { 200: answer('It does.', object({ status: status('ok') })) },
    problems: ofAny,
    group: 'Health',
  })
  const facts = { store: { type: 'boolean' }, leases: { type: 'boolean' }, stopping: { type: 'boolean' } }
  addOperation(draft, {
    ...common,
    path: '/readyz',
    ids: ['ReadinessGet'],
    summary: 'Readiness',
    description: 'Whether the store is reachable, leases are taken over and no stop has begun.',
    answers: {
      200: answer('It is ready.', object({ status: status('ready'), ...facts })),
      503: answer('It is not.', object({ status: status('not-ready'), ...facts }), 'Retry-After'),
    },
    problems: ofAny.filter((code) => code !== 'shutting-down'),
    group: 'Readiness',
  })
}

function withHtml(json: object): object {
  const { content } = json as { content: object }
  return { ...json, content: { ...content, 'text/html': { schema: text } } }
}
