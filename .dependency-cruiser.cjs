// Which room may know which (ARCHITECTURE.md, "The rooms"). Imports of types count too.

/** What each room may import besides itself: rooms, or single files of them. */
const mayImport = {
  model: [],
  store: ['model/'],
  client: ['model/'],
  engine: ['model/', 'store/store\\.ts$'],
  http: ['model/', 'engine/'],
  offline: ['model/', 'client/'],
  mcp: ['model/', 'client/'],
  console: ['model/', 'client/'],
  server: ['model/', 'store/', 'engine/', 'http/', 'client/', 'offline/', 'mcp/', 'console/'],
  cli: ['model/', 'client/', 'server/'],
}

const isTest = '\\.test\\.ts$'

const directions = Object.entries(mayImport).map(([room, others]) => ({
  name: `${room}-knows-too-much`,
  comment: `${room} may import ${others.length === 0 ? 'no other room' : others.join(', ')}`,
  severity: 'error',
  from: { path: `^src/${room}/`, pathNot: isTest },
  to: { path: '^src/', pathNot: `^src/(${[`${room}/`, ...others].join('|')})` },
}))

/** A package or a module of Node that only one part of the code may know. */
const only = (name, comment, room, module) => ({
  name,
  comment,
  severity: 'error',
  from: { path: '^src/', pathNot: [room, isTest] },
  to: { path: module },
})

/** @type {import('dependency-cruiser').IConfiguration} */
module.exports = {
  forbidden: [
    ...directions,
    {
      name: 'unknown-room',
      comment: 'a new folder of src/ needs a line in the table above',
      severity: 'error',
      from: { path: '^src/', pathNot: `^src/((${Object.keys(mayImport).join('|')})/|index\\.ts$)` },
      to: {},
    },
    {
      name: 'index-is-the-model',
      comment: "what a Startup's author imports is the model's words, nothing that runs",
      severity: 'error',
      from: { path: '^src/index\\.ts$' },
      to: { pathNot: '^src/model/' },
    },
    {
      name: 'no-cycles',
      comment: 'a knot of files can only be understood, tested and changed as one',
      severity: 'error',
      from: {},
      to: { circular: true, viaOnly: { dependencyTypesNot: ['type-only'] } },
    },
    {
      name: 'no-cycles-of-types',
      comment: 'a type lives with what makes it, so that files that need each other through types alone do not either',
      severity: 'error',
      from: {},
      to: { circular: true, via: { dependencyTypes: ['type-only'] } },
    },
    {
      name: 'model-is-pure',
      comment: 'the model does no I/O and knows no clock and no chance: of packages these, of Node hashing only',
      severity: 'error',
      from: { path: '^src/model/', pathNot: isTest },
      to: {
        pathNot: [
          '^src/',
          '^(node:)?(assert|crypto|buffer)$',
          '^node_modules/(canonicalize|pluralize|@types/pluralize|@standard-schema/spec)/',
        ],
      },
    },
    {
      name: 'stores-are-strangers',
      comment: 'sqlite and postgres keep the same promises apart from each other',
      severity: 'error',
      from: { path: '^src/store/(sqlite|postgres)/' },
      to: { path: '^src/store/(sqlite|postgres)/', pathNot: '^src/store/$1/' },
    },
    {
      name: 'seam-knows-no-store',
      comment: 'the interface does not know who implements it',
      severity: 'error',
      from: { path: '^src/store/[^/]+\\.ts$', pathNot: isTest },
      to: { path: '^src/store/(sqlite|postgres)/' },
    },
    {
      name: 'call-is-the-parent',
      comment: 'call.ts has the branches of the flow: engine.ts opens it, and only builtin.ts enters through it again',
      severity: 'error',
      from: { path: '^src/engine/', pathNot: ['^src/engine/(builtin|engine)\\.ts$', isTest] },
      to: { path: '^src/engine/call\\.ts$' },
    },
    only(
      'sql-is-the-stores',
      'nothing above the store seam knows SQL',
      '^src/store/',
      '^(node:)?sqlite$|^node_modules/(pg|@types/pg)/',
    ),
    only(
      'fastify-is-the-edges',
      'the framework is known where bytes become Calls',
      '^src/(http|server)/',
      '^node_modules/fastify/',
    ),
    only(
      'commander-is-the-clis',
      'the option parser is known to the command line only',
      '^src/cli/',
      '^node_modules/commander/',
    ),
    only(
      'signals-are-handed-in',
      'what counts and traces is known where the server is put together; the engine knows its own interfaces',
      '^src/server/',
      '^node_modules/(prom-client|@opentelemetry)/',
    ),
    {
      name: 'product-stands-alone',
      comment: 'src/ does not reach out of itself',
      severity: 'error',
      from: { path: '^src/', pathNot: isTest },
      to: { path: '^(test|bench|examples|scripts|docs|dist)/' },
    },
    {
      name: 'examples-are-users',
      comment: 'an example has what every user has: the package',
      severity: 'error',
      from: { path: '^examples/' },
      to: { path: '^(src|dist|test|bench|scripts)/', pathNot: '^src/index\\.ts$' },
    },
    {
      name: 'no-dev-package-in-the-product',
      comment: 'who installs the package does not get these',
      severity: 'error',
      from: { path: '^src/', pathNot: isTest },
      to: { dependencyTypes: ['npm-dev', 'npm-no-pkg', 'npm-unknown'], pathNot: '^node_modules/@types/' },
    },
    {
      name: 'resolvable',
      comment: 'an import that leads nowhere',
      severity: 'error',
      from: {},
      to: { couldNotResolve: true },
    },
  ],
  options: {
    doNotFollow: { path: ['^node_modules/', '^dist/'] },
    exclude: { path: ['^\\.ci/'] },
    tsPreCompilationDeps: true,
    tsConfig: { fileName: 'tsconfig.json' },
    enhancedResolveOptions: {
      exportsFields: ['exports'],
      conditionNames: ['import', 'require', 'node', 'default', 'types'],
      mainFields: ['module', 'main', 'types'],
    },
  },
}
