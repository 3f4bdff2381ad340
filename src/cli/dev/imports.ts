import { registerHooks } from 'node:module'
import { fileURLToPath } from 'node:url'
import { signatureOf } from './signature.ts'

/** The package's own files: the author has nothing to save there. */
const ownFolder = fileURLToPath(new URL('../..', import.meta.url))

/**
 * From here on tells of each file of the project that is imported, just before it is read, so that a save in between is
 * seen as one; and of each that is imported and isn't there, so that its making is seen.
 */
export function watchImports(found: (path: string, signature: string) => void): void {
  function note(url: string): void {
    if (!url.startsWith('file:')) return
    const path = fileURLToPath(url)
    if (path.includes('/node_modules/') || path.includes('\\node_modules\\') || path.startsWith(ownFolder)) return
    found(path, signatureOf(path))
  }

  registerHooks({
    resolve(specifier, context, next) {
      try {
        return next(specifier, context)
      } catch (error) {
        const isPath = /^(\.{0,2}\/|file:)/.test(specifier)
        if (isPath && URL.canParse(specifier, context.parentURL)) note(new URL(specifier, context.parentURL).href)
        throw error
      }
    },
    load(url, context, next) {
      note(url)
      return next(url, context)
    },
  })
}
