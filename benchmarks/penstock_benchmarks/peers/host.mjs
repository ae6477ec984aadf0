// host.py in JavaScript: runs one adapter of adapters/*.mjs in its own process.
//
//     node host.mjs ADAPTER ROLE DSN

import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import { Recorder, monotonic } from './recorder.mjs'

const PAYLOAD_BYTES = 200
const LOAD_BATCH = 1000
// While the database writes the one batch, the producer makes the next.
const LOAD_TASKS = 2
// Enqueues of a paced run that may be under way at once: a slow one does not hold up the next.
const PACE_TASKS = 32

/** 200 bytes of JSON: its number, when its enqueue was called, and padding. */
function message(number, at) {
  const bare = { n: number, at: Math.round(at * 1e6) / 1e6, pad: '' }
  // Python writes a space after each of the two separators of three pairs.
  bare.pad = 'x'.repeat(PAYLOAD_BYTES - JSON.stringify(bare).length - 5)
  return bare
}

class Host {
  constructor(adapter, role) {
    this.adapter = adapter
    this.role = role
    this.recorder = new Recorder()
  }

  describe() {
    const { kind, version, relations, settings } = this.adapter
    return { kind, version, relations, settings }
  }

  install() {
    return this.adapter.install()
  }

  open() {
    return this.adapter.open(this.role)
  }

  /** Enqueue so many with the call for many, or as many as the time allows. */
  async load({ first, count, delay_seconds, seconds }) {
    const until = monotonic() + seconds
    const last = first + count
    let number = first
    let loaded = 0
    const batches = async () => {
      while (number < last && monotonic() < until) {
        const start = number
        const size = Math.min(LOAD_BATCH, last - start)
        number += size
        await this.adapter.enqueueMany(some(start, size), delay_seconds)
        loaded += size
      }
    }
    await Promise.all(Array.from({ length: LOAD_TASKS }, batches))
    return loaded
  }

  /** One by one, at a fixed rate. `unsure`: those that may or may not have been stored. */
  async pace({ first, rate, seconds }) {
    const start = monotonic() + 0.05
    const count = Math.round(rate * seconds)
    const unsure = []
    let underWay = 0
    let freed = null
    const one = async (number) => {
      try {
        await this.adapter.enqueue(message(number, monotonic()))
      } catch {
        unsure.push(number)
        await sleep(50)
      } finally {
        underWay -= 1
        freed?.()
      }
    }
    const tasks = []
    // Who cannot keep up enqueues fewer, and not for longer.
    while (tasks.length < count && monotonic() < start + seconds) {
      const pause = start + tasks.length / rate - monotonic()
      if (pause > 0) await sleep(pause * 1000)
      while (underWay >= PACE_TASKS) await new Promise((resolve) => { freed = resolve })
      underWay += 1
      tasks.push(one(first + tasks.length))
    }
    await Promise.all(tasks)
    return { count: tasks.length, unsure, offered: tasks.length / seconds }
  }

  /** Many at a time, 25 times a second, at a fixed rate on the whole. */
  async pour({ first, rate, seconds }) {
    const start = monotonic()
    let sent = 0
    let batches = 0
    let elapsed
    while ((elapsed = monotonic() - start) < seconds) {
      let due = Math.round(rate * elapsed) - sent
      while (due > 0) {
        const size = Math.min(LOAD_BATCH, due)
        await this.adapter.enqueueMany(some(first + sent, size), 0)
        sent += size
        due -= size
      }
      batches += 1
      await sleep(Math.max(0, (start + batches * 0.04 - monotonic()) * 1000))
    }
    return { count: sent, offered: sent / (monotonic() - start) }
  }

  unfinished() {
    return this.adapter.unfinished()
  }

  purge() {
    return this.adapter.purge()
  }

  async start({ concurrency, handler_ms, expect, mark, ledger, rescue_seconds }) {
    const recorder = (this.recorder = new Recorder(expect, mark, ledger))
    const nothing = async (payload) => recorder.take(payload.n, payload.at)
    const aMoment = async (payload) => {
      recorder.take(payload.n, payload.at)
      await sleep(handler_ms)
    }
    const toTheEnd = async (payload) => {
      await sleep(handler_ms)
      recorder.take(payload.n, payload.at)
    }
    const handle = !handler_ms ? nothing : ledger === null ? aMoment : toTheEnd
    await this.adapter.start(concurrency, handle, rescue_seconds)
  }

  async wait({ seconds }) {
    await this.recorder.wait(seconds)
    return this.recorder.report()
  }

  progress() {
    return this.recorder.report()
  }

  latencies({ after, before }) {
    return this.recorder.latencies(after, before)
  }

  cpu() {
    const { user, system } = process.cpuUsage()
    return (user + system) / 1e6
  }

  stop() {
    return this.adapter.stop()
  }
}

function some(first, size) {
  const at = monotonic()
  return Array.from({ length: size }, (_, index) => message(first + index, at))
}

async function answer(host, { id, do: verb, ...options }) {
  let reply
  try {
    reply = { id, ok: (await host[verb](options)) ?? null }
  } catch (error) {
    console.error(error)
    reply = { id, error: `${error.name}: ${error.message}` }
  }
  process.stdout.write(JSON.stringify(reply) + '\n')
}

const [name, role, dsn] = process.argv.slice(2)
// Answers have stdout to themselves: what a peer prints goes to stderr.
console.log = console.info = console.debug = console.error
const { Adapter } = await import(`./adapters/${name}.mjs`)
const host = new Host(new Adapter(dsn), role)
const lines = createInterface({ input: process.stdin })
lines.on('line', (line) => answer(host, JSON.parse(line)))
lines.on('close', () => process.exit(0))
// A peer with an uncaught error (a broken connection) keeps running, as under a supervisor.
process.on('uncaughtException', (error) => console.error(error))
