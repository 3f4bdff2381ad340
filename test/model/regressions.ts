/** Plans that once found a fault: each is run again before any new one. */
export const regressions: readonly { readonly seed: number; readonly path: string; readonly why: string }[] = []
