import { createHash } from 'node:crypto'
import type { Startup } from '../../model/startup.ts'
import { Components } from './components.ts'
import { headers, parameters } from './headers.ts'
import type { Draft } from './operations.ts'
import { addPlatformSchemas } from './platform-schemas.ts'
import { addPlatform } from './platform.ts'
import { ProblemResponses } from './problems.ts'
import { addRecords } from './records.ts'
import { addServer } from './server.ts'
import { addVerb } from './verbs.ts'

/**
 * The OpenAPI document of a namespace, for the server at `origin` (§3). Every Worker of the namespace gets the same one,
 * as it gets the same definition: the grant that an operation takes is told as the role of its bearer.
 */
export function openapiDocument(startup: Startup, origin: string): object {
  const components = new Components()
  addPlatformSchemas(components, startup.namespace)
  const draft: Draft = { components, problems: new ProblemResponses(components), paths: {} }
  // What every namespace has keeps its names, whatever a definition names its own.
  addServer(draft)
  addPlatform(draft, startup.namespace)
  for (const noun of startup.nouns.values()) addRecords(draft, startup, noun)
  for (const verb of startup.verbs.values()) {
    const noun = startup.nouns.get(verb.noun)
    if (noun !== undefined) addVerb(draft, startup, noun, verb)
  }
  return {
    openapi: '3.1.1',
    info: { title: startup.namespace, version: versionOf(draft), description: about },
    servers: [{ url: origin }],
    security: [{ bearer: [] }],
    tags: [...startup.nouns.keys(), 'Action', 'Inbox', 'Namespace', 'Server'].map((name) => ({ name })),
    paths: draft.paths,
    components: {
      schemas: components.schemas,
      responses: components.responses,
      parameters,
      headers,
      securitySchemes: {
        bearer: {
          type: 'http',
          scheme: 'bearer',
          description:
            'A token of one Worker in this namespace. The roles of an operation are the grants that it takes.',
        },
      },
    },
  }
}

const about =
  'Each durable call carries an Idempotency-Key, which binds it to exactly one Action, for ever: the same call sent again with the same key gives the same Action and runs nothing. Any answer other than 2xx means that the request put nothing on record, so that it is safe to send again with the same key.'

/** A definition has no version of its own: what the document says is one. */
function versionOf({ components, paths }: Draft): string {
  const { schemas, responses } = components
  return createHash('sha256').update(JSON.stringify({ paths, schemas, responses })).digest('hex').slice(0, 12)
}
