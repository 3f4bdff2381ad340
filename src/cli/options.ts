import { isIP } from 'node:net'
import { InvalidArgumentError, Option } from 'commander'
import { burstMax, rateMax } from '../model/limits.ts'
import { isNamespace } from '../model/names.ts'

// Every single-valued option is made by `once`: a repeated one would silently be the last one, and so do something else
// than half of the command line says.

/** An option that is given at most once. `read` throws an InvalidArgumentError for a value that it can't have. */
export function once(flags: string, about: string, read: (value: string) => unknown = (value) => value): Option {
  let given = false
  return new Option(flags, about).argParser((value: string) => {
    if (given) throw new InvalidArgumentError('It is given twice.')
    given = true
    return read(value)
  })
}

/** An option with a value out of a few. */
export function oneOf(flags: string, about: string, values: readonly string[]): Option {
  return once(flags, `${about}: ${values.join(', ')}`, (value) => {
    if (!values.includes(value)) throw new InvalidArgumentError(`Allowed are ${values.join(', ')}.`)
    return value
  })
}

/** Where the data file is, in every command that needs it. */
export function dataOption(): Option {
  return once('--data <path>', 'the data file', notEmpty).default('./data/startup.db')
}

export function namespaceOption(): Option {
  return once('--namespace <namespace>', 'the namespace; not needed when the data file has only one', (value) => {
    if (!isNamespace(value)) throw new InvalidArgumentError('A namespace looks like glyphs.store.')
    return value
  })
}

export function outputOption(): Option {
  return oneOf('--output <format>', 'how results are shown (json unless this is a terminal)', ['json', 'text'])
}

export function expiresOption(): Option {
  return once(
    '--expires <time>',
    'how long the token is good for, such as 30d, 12h or 90m (default: for ever)',
    durationMs,
  )
}

export function notEmpty(value: string): string {
  if (value === '') throw new InvalidArgumentError('It is empty.')
  return value
}

export function port(value: string): number {
  if (!/^\d{1,5}$/.test(value) || Number(value) > 65_535) {
    throw new InvalidArgumentError('A port is a number from 0 (any free one) to 65535.')
  }
  return Number(value)
}

/** How many of something, 1 or more. */
export function count(value: string): number {
  if (!/^[1-9]\d{0,6}$/.test(value)) throw new InvalidArgumentError('It is a whole number, 1 or more.')
  return Number(value)
}

/** `30s`, `90m`, `12h`, `30d` in milliseconds. */
export function durationMs(value: string): number {
  const [, count = '', unit = ''] = /^(\d{1,6})([smhd])$/.exec(value) ?? []
  const unitMs = new Map([
    ['s', 1000],
    ['m', 60_000],
    ['h', 3_600_000],
    ['d', 86_400_000],
  ]).get(unit)
  if (unitMs === undefined || Number(count) === 0) {
    throw new InvalidArgumentError('A time is a whole number and s, m, h or d: 30d.')
  }
  return Number(count) * unitMs
}

/** A bound in seconds, as a whole number of milliseconds. */
export function seconds(value: string): number {
  if (!/^\d{1,5}(\.\d{1,3})?$/.test(value)) throw new InvalidArgumentError('It is a number of seconds, 0 or more.')
  return Math.round(Number(value) * 1000)
}

/** Calls a second (§10): 0.1, 5, 250. */
export function rate(value: string): number {
  const read = /^\d{1,7}(\.\d{1,9})?$/.test(value) ? Number(value) : 0
  if (read > 0 && read <= rateMax) return read
  throw new InvalidArgumentError('A rate is a number of calls a second, above 0 and at most 1000000.')
}

/** Calls at once (§10). */
export function burst(value: string): number {
  const read = /^\d{1,7}$/.test(value) ? Number(value) : 0
  if (read >= 1 && read <= burstMax) return read
  throw new InvalidArgumentError('A burst is a whole number of calls from 1 to 1000000.')
}

/** A proxy whose word is taken for who sent a request. */
export function trustedProxyOption(): Option {
  return new Option(
    '--trusted-proxy <address>',
    'the address or CIDR range of a proxy whose X-Forwarded-For is believed, such as 10.0.0.0/8 (repeatable)',
  )
    .argParser((value: string, all: string[]) => [...all, proxyAddress(value)])
    .default([], 'none')
}

/** `10.0.0.7`, `10.0.0.0/8`, `2001:db8::/32`. */
export function proxyAddress(value: string): string {
  const [, ip = '', bits] = /^([^/]*)(?:\/(\d{1,3}))?$/.exec(value) ?? []
  const version = isIP(ip)
  const isRange = bits === undefined || (Number(bits) >= 1 && Number(bits) <= (version === 4 ? 32 : 128))
  if (version !== 0 && isRange) return value
  throw new InvalidArgumentError('A proxy is an address or a range of them: 10.0.0.7, 10.0.0.0/8, 2001:db8::/32.')
}

/** Whose pages may call (H2). */
export function originOption(): Option {
  return new Option(
    '--origin <origin>',
    "a browser origin that may call, such as https://glyphs.store, or '*' for any (repeatable)",
  )
    .argParser((value: string, all: string[]) => [...all, origin(value)])
    .default([], 'none')
}

/** The origin of a browser's page, exactly as browsers send it, or `*` for any (H2). */
export function origin(value: string): string {
  if (value === '*') return value
  const given = URL.canParse(value) ? new URL(value) : null
  if (given === null || !['http:', 'https:'].includes(given.protocol) || given.origin !== value) {
    const mend = given?.origin.startsWith('http')
      ? `Write it as ${given.origin}.`
      : 'An origin looks like https://glyphs.store.'
    throw new InvalidArgumentError(mend)
  }
  return value
}
