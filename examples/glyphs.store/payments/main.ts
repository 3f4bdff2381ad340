// The payment provider of the example: a process of its own with a file of its own, as a real one would be.
//   node examples/glyphs.store/payments/main.ts --port 4010 --data ./payments.sqlite
import type { AddressInfo } from 'node:net'
import { parseArgs } from 'node:util'
import { openLedger } from './ledger.ts'
import { paymentServer } from './server.ts'

/** How long a stop waits for the calls that are being answered: longer than the slowest card. */
const stopWaitMs = 3_000

function settings() {
  const { values } = parseArgs({
    options: {
      port: { type: 'string', default: '4010' },
      host: { type: 'string', default: '127.0.0.1' },
      data: { type: 'string' },
      // For a parent that starts this process with a pipe as its stdin: when the parent dies, so does this.
      'parent-stdin': { type: 'boolean', default: false },
    },
  })
  if (!/^\d{1,5}$/.test(values.port) || Number(values.port) > 65_535) throw new Error('--port is a number up to 65535')
  if (!values.data) throw new Error('--data PATH is needed: the file that keeps charges and keys')
  return { port: Number(values.port), host: values.host, data: values.data, parentStdin: values['parent-stdin'] }
}

function start(): void {
  const { port, host, data, parentStdin } = settings()
  const ledger = openLedger(data)
  const server = paymentServer(ledger)

  // Nothing is torn down under a charge that is under way: the process ends when there is nothing left to do.
  function stop(): void {
    server.close()
    if (parentStdin) process.stdin.destroy()
    setTimeout(() => server.closeAllConnections(), stopWaitMs).unref()
  }
  process.on('SIGTERM', stop)
  process.on('SIGINT', stop)
  process.once('exit', () => ledger.close())
  if (parentStdin) process.stdin.resume().once('close', stop)

  server.once('error', fail)
  server.listen(port, host, () => {
    const { address, family, port: bound } = server.address() as AddressInfo
    const url = `http://${family === 'IPv6' ? `[${address}]` : address}:${bound}`
    process.stdout.write(`${JSON.stringify({ url })}\n`)
  })
}

function fail(error: unknown): void {
  process.stderr.write(`payments: ${error instanceof Error ? error.message : String(error)}\n`)
  process.exitCode = 1
  if (process.argv.includes('--parent-stdin')) process.stdin.destroy()
}

try {
  start()
} catch (error) {
  fail(error)
}
