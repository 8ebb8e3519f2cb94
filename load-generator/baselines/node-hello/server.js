// The smallest HTTP server of Node.js. See README.md.

import { createServer } from 'node:http'
import { parseArgs } from 'node:util'

const { values: options } = parseArgs({
  // `--redis` is taken as by the others, and not used.
  options: { port: { type: 'string', default: '0' }, redis: { type: 'string' } },
})

const BODY = 'hello\n'

const server = createServer((request, response) => {
  response.writeHead(200, { 'Content-Type': 'text/plain', 'Content-Length': BODY.length })
  response.end(BODY)
})

process.once('SIGTERM', () => {
  server.close()
  server.closeAllConnections()
})

server.listen(Number(options.port), '127.0.0.1', 1024, () => {
  console.log(`listening on http://127.0.0.1:${server.address().port}`)
})
