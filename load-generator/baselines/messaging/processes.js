// Two Node.js processes over IPC: each message comes back, and at most WINDOW are on their way.
//
//   node processes.js COUNT WINDOW
//
// Prints how many seconds the passing took, without the start of the processes.

import { fork } from 'node:child_process'
import { fileURLToPath } from 'node:url'

const [count, window] = process.argv.slice(2).map(Number)

if (process.send) {
  process.on('message', message => process.send(message))
} else {
  const other = fork(fileURLToPath(import.meta.url))
  let sent = 0
  let received = 0
  let began
  const send = () => other.send({ n: sent++ })

  const finish = () => {
    console.log(Number(process.hrtime.bigint() - began) / 1e9)
    other.disconnect()
  }

  const take = ({ n }) => {
    if (n !== received) throw new Error(`message ${received} was due, and ${n} came`)
    received += 1
    if (sent < count) send()
    else if (received === count) finish()
  }

  // The first one comes back when the other process is up.
  other.once('message', () => {
    other.on('message', take)
    began = process.hrtime.bigint()
    if (count === 0) finish()
    while (sent < Math.min(count, window)) send()
  })
  other.send({ n: -1 })
}
