import { expect, test } from 'vitest'
import { Problem } from './problem.ts'
import { parseRecordVersion } from './recordversion.ts'

test.each([
  [[], undefined, {}],
  [['3'], 3, {}],
  [['offers/offer_x=7'], undefined, { 'offers/offer_x': 7 }],
  [
    ['offers/offer_serif_family=7, orders/order_1=3'],
    undefined,
    { 'offers/offer_serif_family': 7, 'orders/order_1': 3 },
  ],
  [['offers/x=7,\torders/y=3 '], undefined, { 'offers/x': 7, 'orders/y': 3 }],
  [['offers/x=7', 'orders/x=3'], undefined, { 'offers/x': 7, 'orders/x': 3 }],
  [['3, offers/x=7'], 3, { 'offers/x': 7 }],
  [['offers/x=7', '3'], 3, { 'offers/x': 7 }],
  [['offers/x=9007199254740991'], undefined, { 'offers/x': 9007199254740991 }],
  [['offers/x=1, offers/X=2'], undefined, { 'offers/x': 1, 'offers/X': 2 }],
])('W1: Record-Version %j', (lines, target, records) => {
  const versions = parseRecordVersion(lines)
  expect(versions.target).toBe(target)
  expect(Object.fromEntries(versions.records)).toEqual(records)
})

test.each([
  [[''], '""', 'is empty'],
  [['3,'], '""', 'is empty'],
  [['offers/x=7,,orders/y=3'], '""', 'is empty'],
  [['0'], '"0"', 'no positive whole number'],
  [['-3'], '"-3"', 'no positive whole number'],
  [['+3'], '"+3"', 'no positive whole number'],
  [['03'], '"03"', 'no positive whole number'],
  [['1.0'], '"1.0"', 'no positive whole number'],
  [['"3"'], '"\\"3\\""', 'no positive whole number'],
  [['W/"3"'], '"W/\\"3\\""', 'no positive whole number'],
  [['1e3'], '"1e3"', 'no positive whole number'],
  [['9007199254740992'], '"9007199254740992"', 'no positive whole number'],
  [['99999999999999999999'], '"99999999999999999999"', 'no positive whole number'],
  [['\u00ff'], '"\u00ff"', 'no positive whole number'],
  [['offers/x=latest'], '"offers/x=latest"', 'no positive whole number'],
  [['offers/x='], '"offers/x="', 'no positive whole number'],
  [['offers/x = 7'], '"offers/x = 7"', 'no positive whole number'],
  [['offers/x'], '"offers/x"', 'no positive whole number'],
  [['offers=7'], '"offers=7"', 'does not name a record'],
  [['=7'], '"=7"', 'does not name a record'],
  [['offers/x=1=2'], '"offers/x=1=2"', 'no positive whole number'],
  [['Offers/x=7'], '"Offers/x=7"', 'does not name a record'],
  [['offers/\u00ff=7'], '"offers/\u00ff=7"', 'does not name a record'],
  [['3, 3'], '"3"', 'a second time'],
  [['3', '4'], '"4"', 'a second time'],
  [['offers/x=7, offers/x=7'], '"offers/x=7"', 'a second time'],
  [['offers/x=7', 'orders/y=1, offers/x=8'], '"offers/x=8"', 'a second time'],
])('W1: Record-Version %j is refused, naming the part', (lines, part, fault) => {
  let refusal: unknown
  try {
    parseRecordVersion(lines)
  } catch (error) {
    refusal = error
  }
  expect(refusal).toBeInstanceOf(Problem)
  expect(refusal).toMatchObject({ code: 'invalid-record-version', status: 400 })
  expect((refusal as Problem).detail).toContain(`the part ${part} `)
  expect((refusal as Problem).detail).toContain(fault)
})
