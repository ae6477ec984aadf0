// recorder.py in JavaScript: what the handlers of a process have seen.

import { openSync, writeSync } from 'node:fs'

/** Seconds on the clock that all processes of the machine share: that of Python's monotonic(). */
export const monotonic = () => Number(process.hrtime.bigint()) / 1e9

export class Recorder {
  constructor(expect = 0, mark = 0, ledger = null) {
    this.numbers = []
    this.called = []
    this.picked = []
    this.expect = expect
    this.mark = mark
    this.markAt = null
    this.doneAt = null
    this.done = new Promise((resolve) => { this.finish = resolve })
    this.ledger = ledger === null ? null : openSync(ledger, 'a')
    this.record = Buffer.alloc(16)
  }

  take(number, called) {
    const now = monotonic()
    this.numbers.push(number)
    this.called.push(called)
    this.picked.push(now)
    if (this.ledger !== null) {
      this.record.writeBigInt64LE(BigInt(number), 0)
      this.record.writeDoubleLE(now, 8)
      writeSync(this.ledger, this.record)
    }
    const count = this.numbers.length
    if (count === this.mark) this.markAt = now
    if (count === this.expect) {
      this.doneAt = now
      this.finish()
    }
  }

  wait(seconds) {
    return Promise.race([this.done, new Promise((resolve) => setTimeout(resolve, seconds * 1000))])
  }

  report() {
    return {
      handled: this.numbers.length,
      distinct: new Set(this.numbers).size,
      now: monotonic(),
      mark_at: this.markAt,
      done_at: this.doneAt
    }
  }

  latencies(after, before) {
    const late = []
    for (let index = 0; index < this.called.length; index++) {
      const called = this.called[index]
      if (after <= called && called < before) late.push((this.picked[index] - called) * 1000)
    }
    if (late.length === 0) return { count: 0 }
    late.sort((a, b) => a - b)
    const percentile = (share) =>
      Math.round(late[Math.min(late.length - 1, Math.floor(late.length * share))] * 1000) / 1000
    return {
      count: late.length,
      p50: percentile(0.5),
      p95: percentile(0.95),
      p99: percentile(0.99),
      max: percentile(1)
    }
  }
}
