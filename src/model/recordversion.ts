import type { RecordVersions } from './call.ts'
import { parseRecordKey } from './names.ts'
import { problem, type Problem } from './problem.ts'

/**
 * Reads `Record-Version` (W1), all its field lines: `3` is the target's Version, `offers/offer_x=7` another record's; the
 * two may stand together, separated by commas: `3, offers/offer_x=7`. Throws `invalid-record-version`, naming the part,
 * for what is malformed or named twice: it is never ignored.
 */
export function parseRecordVersion(values: readonly string[]): RecordVersions {
  let target: number | undefined
  const records = new Map<string, number>()
  for (const value of values) {
    for (const untrimmed of value.split(',')) {
      const part = untrimmed.replace(/^[ \t]+|[ \t]+$/g, '')
      const equals = part.indexOf('=')
      const version = parseVersion(part.slice(equals + 1), part)
      if (equals < 0) {
        if (target !== undefined) throw invalid(part, 'names the Version of the target a second time')
        target = version
        continue
      }
      const record = part.slice(0, equals)
      if (parseRecordKey(record) === null) throw invalid(part, 'does not name a record as offers/offer_x does')
      if (records.has(record)) throw invalid(part, 'names a record a second time')
      records.set(record, version)
    }
  }
  return target === undefined ? { records } : { target, records }
}

/** A positive whole number in its one form: `07` and `+7` are refused, so that no two texts mean one Version. */
function parseVersion(text: string, part: string): number {
  const version = /^[1-9]\d{0,15}$/.test(text) ? Number(text) : 0
  if (version > 0 && version <= Number.MAX_SAFE_INTEGER) return version
  throw invalid(part, part === '' ? 'is empty' : 'has no positive whole number as its Version')
}

function invalid(part: string, fault: string): Problem {
  return problem('invalid-record-version', `In Record-Version the part ${JSON.stringify(part.slice(0, 100))} ${fault}.`)
}
