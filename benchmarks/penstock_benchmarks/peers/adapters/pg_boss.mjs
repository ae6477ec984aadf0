// pg-boss, woken by NOTIFY, in batches, in its own partition.

import { createRequire } from 'node:module'
import { PgBoss } from 'pg-boss'
import pg from 'pg'

const QUEUE = 'bench'
const LOOPS = 4
const { version } = createRequire(import.meta.url)('../node_modules/pg-boss/package.json')

export class Adapter {
  kind = 'worker'
  version = version
  relations = ['pgboss.%']
  settings =
    'partition, notify, burstWhenBatchFull, 4 local workers with batches of a quarter of the ' +
    'concurrency, one with a batch of 4, insert for many'

  constructor(dsn) {
    this.dsn = dsn
  }

  async install() {
    const boss = await this.boss({})
    await boss.createQueue(QUEUE, { partition: true, notify: true })
    await boss.stop()
  }

  async boss(options) {
    const boss = new PgBoss({
      connectionString: this.dsn,
      schedule: false,
      supervise: false,
      ...options
    })
    boss.on('error', () => {})
    return boss.start()
  }

  async open() {
    this.producer = await this.boss({ max: 32 })
    this.pool = new pg.Pool({ connectionString: this.dsn, max: 2 })
    this.pool.on('error', () => {})
  }

  async enqueue(payload) {
    await this.producer.send(QUEUE, payload)
  }

  async enqueueMany(payloads, delaySeconds) {
    const startAfter = delaySeconds || undefined
    await this.producer.insert(QUEUE, payloads.map((data) => ({ data, startAfter })))
  }

  async unfinished() {
    const query =
      "select exists (select from pgboss.job where name = $1 and state < 'completed' " +
      'and start_after <= now())'
    return (await this.pool.query(query, [QUEUE])).rows[0].exists
  }

  async purge() {
    await this.producer.deleteAllJobs(QUEUE)
  }

  async start(concurrency, handle, rescueSeconds) {
    const rescue = rescueSeconds ? { superviseIntervalSeconds: 1, monitorIntervalSeconds: 1 } : {}
    this.worker = await this.boss({ max: 10, supervise: true, useListenNotify: true, ...rescue })
    // It allows no heartbeat shorter than 10 seconds.
    if (rescueSeconds) await this.worker.updateQueue(QUEUE, { heartbeatSeconds: 10 })
    // A batch of one is never full, so it would poll twice a second instead of fetching the next message.
    const loops = concurrency < 4 * LOOPS ? 1 : LOOPS
    const batchSize = Math.max(1, Math.floor(concurrency / loops))
    const options = {
      batchSize,
      localConcurrency: loops,
      pollingIntervalSeconds: 0.5,
      notifyPollingIntervalSeconds: 0.5,
      burstWhenBatchFull: true
    }
    await this.worker.work(QUEUE, options, (jobs) => Promise.all(jobs.map((job) => handle(job.data))))
  }

  async stop() {
    await this.worker.stop({ graceful: true, close: true, timeout: 10000 })
  }
}
