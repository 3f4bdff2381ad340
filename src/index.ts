/** What a Startup's author imports. */
export { noun, startup, type NounOptions, type StartupBuilder, type VerbOptions } from './model/define.ts'
export type {
  InputOf,
  NounDefinition,
  NounsOf,
  OutputOf,
  RecordOf,
  TargetOf,
  TypedStartup,
  VerbDefinition,
  VerbsOf,
} from './model/define-types.ts'
export type {
  Json,
  RecordReader,
  RecordRef,
  RecordWriter,
  Refuse,
  Step,
  StepCall,
  StepOptions,
  VerbContext,
} from './model/context.ts'
export type { Fault, Schema, Startup, Throttle } from './model/startup.ts'
export { DefinitionError } from './model/definitionerror.ts'
export { InvalidRecord, NotUnique, Refusal, StepDiverged, StepRejected, type RecordFault } from './model/verberrors.ts'
