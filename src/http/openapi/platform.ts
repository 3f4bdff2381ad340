import type { JsonSchema } from '../../model/jsonschema.ts'
import type { ProblemCode } from '../../model/problem.ts'
import { refTo } from './components.ts'
import { parameterRefs, type parameters } from './headers.ts'
import { actionAnswers, addOperation, answer, type Draft, type Responses } from './operations.ts'
import { ofCalls, ofLists, ofReads } from './problems.ts'
import { page, text } from './schemas.ts'

/** Adds what every namespace has (§3): Actions, Events, usage, the inbox. */
export function addPlatform(draft: Draft, namespace: string): void {
  addActions(draft, `/${namespace}/actions`)
  addActionCalls(draft, `/${namespace}/actions`)
  addInbox(draft, `/${namespace}/inbox`)
  addReads(draft, `/${namespace}`)
  addDefinition(draft, `/${namespace}`)
}

type ParameterName = keyof typeof parameters

function query(name: string, schema: JsonSchema, description: string): JsonSchema {
  return { name, in: 'query', description, schema }
}

function addActions(draft: Draft, path: string): void {
  const action = refTo('Action')
  const common = { method: 'get', tag: 'Action', grants: ['actions:own'] } as const
  addOperation(draft, {
    ...common,
    path,
    ids: ['ActionList'],
    summary: 'List Actions',
    description:
      'Actions in the order in which they became visible; filtered to a settled status, in the order of settlement. A Worker sees its own, and all of them with the grant `actions:all`.',
    parameters: [
      query(
        'status',
        { type: 'string', enum: ['pending', 'succeeded', 'failed', 'refused'] },
        'Only with this status.',
      ),
      query('verb', text, 'Only of this operation, such as `Order.place`.'),
      query('worker', text, 'Only of the Worker with this name.'),
      query('key', { type: 'string', minLength: 1 }, 'Only with this idempotency key.'),
      query('on', text, 'Only those made from this Action, by its id.'),
      ...parameterRefs('Limit', 'After'),
    ],
    answers: { 200: answer('A page of Actions.', page(action)) },
    problems: [...ofLists, 'forbidden', 'invalid-filter'],
    group: 'ActionList',
  })
  addOperation(draft, {
    ...common,
    path: `${path}/{id}`,
    ids: ['ActionGet'],
    summary: 'Get one Action',
    description: 'The Action as it is now, or with `wait` once it is settled.',
    parameters: parameterRefs('ActionId', 'Wait'),
    answers: actionAnswers(action, action, false),
    problems: [...ofReads, 'invalid-wait', 'action-not-found'],
    group: 'Action',
  })
}

function addActionCalls(draft: Draft, path: string): void {
  const action = refTo('Action')
  addCall(draft, {
    path: `${path}/{id}/retry`,
    tag: 'Action',
    id: 'ActionRetry',
    operation: 'Action.retry',
    description:
      'Runs the operation of a failed Action again, as a new Action that is linked to it by `on`. Steps that were done are not repeated. Whoever may call the operation may retry it.',
    parameters: ['ActionId', 'RecordVersion'],
    input: refTo('ActionRetryInput'),
    answers: actionAnswers(action, action, true),
    problems: ['action-not-found', 'not-retryable', 'already-retried', 'outcome-required', 'already-decided'],
  })
  addCall(draft, {
    path: `${path}/{id}/cancel`,
    tag: 'Action',
    id: 'ActionCancel',
    operation: 'Action.cancel',
    description:
      'Settles a pending Action that has started no step with an effect as refused. The answer is the Action of the cancellation; its output is the cancelled one.',
    parameters: ['ActionId'],
    input: refTo('NoInput'),
    answers: actionAnswers(action, action, true),
    problems: ['action-not-found', 'not-cancellable'],
  })
}

interface BuiltinCall {
  readonly path: string
  readonly tag: string
  readonly id: string
  readonly operation: string
  readonly description: string
  readonly parameters: readonly ParameterName[]
  readonly input: JsonSchema
  readonly answers: Responses
  readonly problems: readonly ProblemCode[]
}

/** A built-in durable call (§6, W4): its key binds it as any other's does; it has no dry run. */
function addCall(draft: Draft, { path, tag, id, operation, description, parameters, ...rest }: BuiltinCall): void {
  addOperation(draft, {
    method: 'post',
    path,
    ids: [id],
    tag,
    summary: operation,
    description,
    grants: [],
    parameters: parameterRefs(...parameters, 'DurableMode', 'IdempotencyKey', 'IdempotencyKeyEncoded', 'Prefer'),
    input: { schema: rest.input, required: false },
    answers: rest.answers,
    problems: [...ofCalls, ...rest.problems],
    group: 'Call',
  })
}

function addInbox(draft: Draft, path: string): void {
  const item = refTo('InboxItem')
  const common = { method: 'get', tag: 'Inbox', grants: ['inbox'] } as const
  addOperation(draft, {
    ...common,
    path,
    ids: ['InboxList'],
    summary: 'List what waits for the Worker',
    description: 'The own items of a Worker, which need no grant; with the grant `inbox` every failed one too.',
    grants: [],
    parameters: [
      query('status', { type: 'string', enum: ['open', 'decided'] }, 'Only with this status.'),
      ...parameterRefs('Limit', 'After'),
    ],
    answers: { 200: answer('A page of items.', page(item)) },
    problems: [...ofLists, 'invalid-filter'],
    group: 'InboxList',
  })
  addOperation(draft, {
    ...common,
    path: `${path}/{id}`,
    ids: ['InboxGet'],
    summary: 'Get one inbox item',
    description: 'The item, with the Versions that a decision is bound to.',
    grants: [],
    parameters: parameterRefs('ItemId'),
    answers: { 200: answer('The item.', item) },
    problems: [...ofReads, 'item-not-found'],
    group: 'Inbox',
  })
  addDecisions(draft, path)
}

/** Deciding what waits (W4): durable calls with keys of their own. */
function addDecisions(draft: Draft, path: string): void {
  const action = refTo('Action')
  addCall(draft, {
    path: `${path}/{id}/apply`,
    tag: 'Inbox',
    id: 'InboxApply',
    operation: 'Inbox.apply',
    description:
      'Sends again what was refused or failed, against the Versions that the item showed, as a new Action that is linked to the old one by `on`. What was refused may be sent with another input.',
    parameters: ['ItemId', 'ShownVersions'],
    input: refTo('InboxApplyInput'),
    answers: actionAnswers(action, action, true),
    problems: [
      ...(['item-not-found', 'version-required', 'already-decided'] as const),
      ...(['not-retryable', 'already-retried', 'outcome-required', 'operation-not-found'] as const),
    ],
  })
  addCall(draft, {
    path: `${path}/{id}/dismiss`,
    tag: 'Inbox',
    id: 'InboxDismiss',
    operation: 'Inbox.dismiss',
    description: 'Closes the item. The answer is the Action of the dismissal; its output is the item.',
    parameters: ['ItemId'],
    input: refTo('NoInput'),
    answers: actionAnswers(action, action, true),
    problems: ['item-not-found', 'already-decided'],
  })
}

function addReads(draft: Draft, path: string): void {
  const common = { method: 'get', tag: 'Namespace' } as const
  addOperation(draft, {
    ...common,
    path: `${path}/events`,
    ids: ['EventList'],
    summary: 'List or follow Events',
    description:
      'Events in their order. With `Accept: text/event-stream` a live stream, whose `id` is the `seq` and which resumes from `Last-Event-ID`.',
    grants: ['events'],
    parameters: parameterRefs('Limit', 'AfterSeq', 'LastEventId'),
    answers: { 200: withStream(answer('A page of Events, or a stream of them.', page(refTo('Event')))) },
    problems: [...ofLists, 'forbidden', 'too-many-streams'],
    group: 'Events',
  })
  addOperation(draft, {
    ...common,
    path: `${path}/usage`,
    ids: ['UsageList'],
    summary: 'Usage by Verb, Worker and day',
    description: 'Units by UTC day of settlement.',
    grants: ['usage'],
    parameters: [
      query('from', { type: 'string', format: 'date' }, 'The first day.'),
      query('to', { type: 'string', format: 'date' }, 'The day after the last one.'),
    ],
    answers: { 200: answer('The usage.', page(refTo('Usage'))) },
    problems: [...ofReads, 'forbidden', 'invalid-filter'],
    group: 'Usage',
  })
}

function addDefinition(draft: Draft, path: string): void {
  const common = { method: 'get', tag: 'Namespace', grants: [] } as const
  addOperation(draft, {
    ...common,
    path,
    ids: ['DefinitionGet'],
    summary: 'The Nouns and Verbs of the namespace',
    description: 'Every Noun and Verb with its route and its JSON Schema.',
    parameters: parameterRefs('IfNoneMatch'),
    answers: { 200: answer('The definition.', refTo('Definition'), 'ETag'), 304: draft.components.notModified },
    problems: [...ofReads, 'not-found'],
    group: 'Definition',
  })
  addOperation(draft, {
    ...common,
    path: `${path}/openapi.json`,
    ids: ['OpenapiGet'],
    summary: 'This document',
    description: 'The OpenAPI document of the namespace.',
    parameters: parameterRefs('IfNoneMatch'),
    answers: {
      200: answer('The document.', { type: 'object', additionalProperties: true }, 'ETag'),
      304: draft.components.notModified,
    },
    problems: [...ofReads, 'not-found'],
    group: 'Definition',
  })
}

/** A stream is told beside the list, since one path answers both, by `Accept` (E1). */
function withStream(json: object): object {
  const { content } = json as { content: object }
  const stream: JsonSchema = {
    type: 'string',
    description:
      'Server-sent events: the `data` of each is an Event as JSON, its `id` the `seq`. Comments are heartbeats.',
  }
  return { ...json, content: { ...content, 'text/event-stream': { schema: stream } } }
}
