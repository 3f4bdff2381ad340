import { expect } from 'vitest'

/** One line of a sample. */
export interface Sample {
  readonly name: string
  readonly labels: Readonly<Record<string, string>>
  readonly value: number
}

/** What a scrape gave. */
export interface Scraped {
  readonly text: string
  /** Type and help by the metric's name. */
  readonly metrics: ReadonlyMap<string, { readonly type: string; readonly help: string }>
  readonly samples: readonly Sample[]
  /** The sum of all samples of a name with these labels; 0 when there is none. */
  value(name: string, labels?: Readonly<Record<string, string>>): number
}

/** Reads Prometheus text, every line of it: one that is no HELP, TYPE or sample, or of no metric told before, fails. */
export function readPrometheus(text: string): Scraped {
  expect(text.endsWith('\n')).toBe(true)
  const metrics = new Map<string, { type: string; help: string }>()
  const helps = new Map<string, string>()
  const samples: Sample[] = []
  for (const line of text.split('\n').filter((one) => one !== '')) {
    const help = /^# HELP ([a-zA-Z_:][a-zA-Z0-9_:]*) (\S.*)$/.exec(line)
    const type = /^# TYPE ([a-zA-Z_:][a-zA-Z0-9_:]*) (counter|gauge|histogram|summary)$/.exec(line)
    const sample = /^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (\S+)$/.exec(line)
    if (help?.[1] !== undefined) helps.set(help[1], help[2] ?? '')
    else if (type?.[1] !== undefined) metrics.set(type[1], { type: type[2] ?? '', help: helps.get(type[1]) ?? '' })
    else if (sample?.[1] !== undefined) samples.push(sampleOf(sample[1], sample[2] ?? '', sample[3] ?? ''))
    else expect.fail(`not Prometheus text: ${line}`)
  }
  for (const { name } of samples) expect(metricOf(metrics, name), `TYPE of ${name}`).toBeDefined()
  const value = (name: string, labels: Readonly<Record<string, string>> = {}): number =>
    samples
      .filter((one) => one.name === name && Object.entries(labels).every(([label, is]) => one.labels[label] === is))
      .reduce((sum, one) => sum + one.value, 0)
  return { text, metrics, samples, value }
}

function sampleOf(name: string, labelText: string, valueText: string): Sample {
  const labels: Record<string, string> = {}
  let rest = labelText
  while (rest !== '') {
    const [whole, label = '', is = ''] = /^([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"(?:,|$)/.exec(rest) ?? []
    if (whole === undefined) expect.fail(`not labels: ${labelText}`)
    labels[label] = is
    rest = rest.slice(whole.length)
  }
  const value = Number(valueText.replace(/^([+-]?)Inf$/, '$1Infinity'))
  expect(valueText === 'NaN' || valueText === 'Nan' || !Number.isNaN(value), `${name} ${valueText}`).toBe(true)
  return { name, labels, value }
}

/** The metric that a sample belongs to: a histogram's samples have names of their own. */
function metricOf(metrics: ReadonlyMap<string, unknown>, name: string): unknown {
  return metrics.get(name) ?? metrics.get(name.replace(/_(bucket|sum|count)$/, ''))
}
