// Tests that start the server as a process run dist/: it must never be older than src/.
export { buildWhenStale as setup } from '../scripts/build.mjs'
