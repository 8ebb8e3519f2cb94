// Socket.IO as its documentation shows it: rooms, binary payloads, and the Redis adapter that lets several such servers
// be one. See README.md.

import { createServer } from 'node:http'
import { parseArgs } from 'node:util'
import { createAdapter } from '@socket.io/redis-adapter'
import { createClient } from 'redis'
import { Server } from 'socket.io'

const ROOM = /^[\w.-]{1,64}$/

const { values: options } = parseArgs({
  options: { port: { type: 'string', default: '0' }, redis: { type: 'string', default: 'redis://127.0.0.1:6379' } },
})

const publisher = createClient({ url: options.redis })
const subscriber = publisher.duplicate()
for (const client of [publisher, subscriber]) client.on('error', error => console.error('redis:', error.message))
await Promise.all([publisher.connect(), subscriber.connect()])

const server = createServer()
const io = new Server(server, { adapter: createAdapter(publisher, subscriber), serveClient: false })

io.on('connection', socket => {
  socket.on('join', async (room, done) => {
    if (typeof done !== 'function') return
    if (!ROOM.test(room)) return done('no such room')
    await socket.join(room)
    done()
  })

  // To everyone in the room, also to the author, as a relay with one order for all has to.
  socket.on('draw', (room, bytes, done) => {
    if (typeof done !== 'function') return
    if (!socket.rooms.has(room) || !Buffer.isBuffer(bytes)) return done('join first, and send bytes')
    io.to(room).emit('draw', bytes)
    done()
  })
})

process.once('SIGTERM', async () => {
  await io.close()
  // The adapter still waits for an answer of Redis, and would complain of a connection that ends before it.
  process.exit()
})

server.listen(Number(options.port), '127.0.0.1', 1024, () => {
  console.log(`listening on http://127.0.0.1:${server.address().port}`)
})
