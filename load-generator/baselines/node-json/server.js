// The relay that one writes first: draws are objects, kept as JSON in a Redis list, decoded, touched and encoded again
// for each consumer. See README.md.

import { createServer } from 'node:http'
import { parseArgs } from 'node:util'
import { createClient } from 'redis'

const BODY_BYTES = 1 << 20
const DRAWS_PER_ANSWER = 1000
const WAIT_SECONDS = 25
const LONGEST_WAIT_SECONDS = 55
const PATH = /^\/rooms\/([\w.-]{1,64})\/draws$/

const { values: options } = parseArgs({
  options: { port: { type: 'string', default: '0' }, redis: { type: 'string', default: 'redis://127.0.0.1:6379' } },
})

const redis = createClient({ url: options.redis })
redis.on('error', error => console.error('redis:', error.message))
await redis.connect()

/** Who waits for the next draw of a room: room → functions that end a wait. */
const waiting = new Map()

/**
 * Begins to wait before the list is read, so that a draw which comes in between is not missed.
 *
 * @returns `drawn`, which resolves with the next draw, after `seconds`, or with `end()`
 */
function startWaiting(room, seconds) {
  let end
  const drawn = new Promise(resolve => {
    const timer = setTimeout(() => end(), seconds * 1000)
    end = () => {
      clearTimeout(timer)
      const others = waiting.get(room)
      if (others?.delete(end) && others.size === 0) waiting.delete(room)
      resolve()
    }
  })
  if (!waiting.has(room)) waiting.set(room, new Set())
  waiting.get(room).add(end)
  return { drawn, end }
}

const keyOf = room => `draws:${room}`

async function readBody(request) {
  const chunks = []
  let length = 0
  for await (const chunk of request) {
    length += chunk.length
    if (length > BODY_BYTES) throw Object.assign(new Error('the body is too long'), { status: 413 })
    chunks.push(chunk)
  }
  return Buffer.concat(chunks).toString()
}

function parseDraw(text) {
  try {
    return JSON.parse(text)
  } catch {
    throw Object.assign(new Error('the body is no JSON'), { status: 400 })
  }
}

async function addDraw(room, request) {
  const draw = parseDraw(await readBody(request))
  const seq = await redis.rPush(keyOf(room), JSON.stringify({ at: Date.now(), draw }))
  for (const wake of [...(waiting.get(room) ?? [])]) wake()
  return { seq }
}

/** The draws after one, as this consumer gets them: with their number, and with how old they are by now. */
async function readDraws(room, after) {
  const stored = await redis.lRange(keyOf(room), after, after + DRAWS_PER_ANSWER - 1)
  const now = Date.now()
  return stored.map((text, index) => {
    const record = JSON.parse(text)
    return { seq: after + 1 + index, age: now - record.at, ...record }
  })
}

async function pollDraws(room, query, response) {
  const after = Math.max(0, Math.trunc(Number(query.get('after'))) || 0)
  const asked = query.has('wait') ? Number(query.get('wait')) || 0 : WAIT_SECONDS
  const wait = startWaiting(room, Math.min(Math.max(asked, 0), LONGEST_WAIT_SECONDS))
  response.once('close', wait.end)
  try {
    let draws = await readDraws(room, after)
    if (draws.length === 0) {
      await wait.drawn
      draws = await readDraws(room, after)
    }
    return [after + 1, draws]
  } finally {
    wait.end()
  }
}

function answer(response, status, value) {
  const body = JSON.stringify(value)
  response.writeHead(status, {
    'Content-Type': 'application/json',
    'Content-Length': Buffer.byteLength(body),
    'Cache-Control': 'no-store',
  })
  response.end(body)
}

const server = createServer(async (request, response) => {
  try {
    const url = new URL(request.url, 'http://localhost')
    const room = PATH.exec(url.pathname)?.[1]
    if (!room) answer(response, 404, { error: 'no such page' })
    else if (request.method === 'POST') answer(response, 200, await addDraw(room, request))
    else if (request.method === 'GET') answer(response, 200, await pollDraws(room, url.searchParams, response))
    else answer(response, 405, { error: 'GET or POST' })
  } catch (error) {
    // Whoever left in the middle of a request gets no answer, and needs none.
    if (response.destroyed) return
    answer(response, error.status ?? 500, { error: error.message })
  }
})
// Longer than a poll: a connection is not to end between two polls of a reader that keeps it.
server.keepAliveTimeout = 65_000

process.once('SIGTERM', () => {
  server.close(() => redis.destroy())
  server.closeAllConnections()
})

server.listen(Number(options.port), '127.0.0.1', 1024, () => {
  console.log(`listening on http://127.0.0.1:${server.address().port}`)
})
