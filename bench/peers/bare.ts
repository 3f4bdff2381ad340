/** Bare `node:http`: reads the body, answers a small JSON. No routes, no parsing, no promise of any kind. */
import { createServer } from 'node:http'
import { port } from './options.ts'

const body = Buffer.from('{"ok":true}')
const headers = { 'Content-Type': 'application/json', 'Content-Length': body.length }

const server = createServer((request, response) => {
  request.resume()
  request.on('end', () => {
    response.writeHead(200, headers)
    response.end(body)
  })
})
server.listen(port, '127.0.0.1')
