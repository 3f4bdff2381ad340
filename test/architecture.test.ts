import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { architecturePath, withPicture } from '../scripts/picture.ts'

test('the picture of rooms in ARCHITECTURE.md is what the code is (mend with `npm run picture`)', () => {
  const page = readFileSync(architecturePath, 'utf8')
  expect(page).toBe(withPicture(page))
})
