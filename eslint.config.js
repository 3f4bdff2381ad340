import { defineConfig } from 'eslint/config'
import tseslint from 'typescript-eslint'

// Formatting is prettier's, import directions are dependency-cruiser's; here is what the types can tell.
export default defineConfig(
  { ignores: ['dist/', 'node_modules/', 'coverage/', '.data/', '**/*.cjs'] },
  { linterOptions: { reportUnusedDisableDirectives: 'error' } },
  {
    files: ['**/*.{ts,js,mjs}'],
    extends: [tseslint.configs.recommendedTypeChecked],
    languageOptions: { parserOptions: { projectService: true, tsconfigRootDir: import.meta.dirname } },
    rules: {
      // An un-awaited settle is a lost Action.
      '@typescript-eslint/no-floating-promises': 'error',
      '@typescript-eslint/no-misused-promises': 'error',
      '@typescript-eslint/return-await': ['error', 'error-handling-correctness-only'],
      // A status that nobody handles is an Action that hangs.
      '@typescript-eslint/switch-exhaustiveness-check': ['error', { considerDefaultExhaustiveForUnions: true }],
      '@typescript-eslint/consistent-type-imports': 'error',
      '@typescript-eslint/no-import-type-side-effects': 'error',
      '@typescript-eslint/no-explicit-any': 'error',
      '@typescript-eslint/no-unused-vars': [
        'error',
        { argsIgnorePattern: '^_', varsIgnorePattern: '^_', ignoreRestSiblings: true },
      ],
      // Many functions are async because the seam that they stand behind is, not because they await today.
      '@typescript-eslint/require-await': 'off',
      eqeqeq: 'error',
      'no-console': 'error',
      'no-empty': 'error', // an empty catch swallows what it did not expect
      'no-var': 'error',
      'prefer-const': 'error',
    },
  },
  {
    // Whoever reads these sits at a terminal.
    files: ['src/cli/**', 'scripts/**', 'bench/**', 'examples/**', 'test/tidy.test.ts'],
    rules: { 'no-console': 'off' },
  },
  {
    // A test looks at answers whose shape is what it tests.
    files: ['**/*.test.ts', 'test/**'],
    rules: {
      '@typescript-eslint/no-unsafe-assignment': 'off',
      '@typescript-eslint/no-unsafe-member-access': 'off',
      '@typescript-eslint/no-unsafe-argument': 'off',
      '@typescript-eslint/no-unsafe-call': 'off',
      '@typescript-eslint/no-unsafe-return': 'off',
    },
  },
)
