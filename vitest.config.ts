import { fileURLToPath } from 'node:url'
import { configDefaults, defineConfig } from 'vitest/config'

const long = process.env['STARTUP_BUILDER_LONG'] === '1'

export default defineConfig({
  resolve: {
    // The example imports the package by its name: in a test that must be the same module that the test imports.
    alias: [{ find: /^startup-builder$/, replacement: fileURLToPath(new URL('./src/index.ts', import.meta.url)) }],
  },
  test: {
    include: ['src/**/*.test.ts', 'test/**/*.test.ts'],
    exclude: long ? configDefaults.exclude : [...configDefaults.exclude, 'test/long/**'],
    globalSetup: ['test/global-setup.ts'],
    pool: 'forks',
    maxWorkers: 2,
    testTimeout: long ? 3_600_000 : 30_000,
    hookTimeout: 60_000,
  },
})
