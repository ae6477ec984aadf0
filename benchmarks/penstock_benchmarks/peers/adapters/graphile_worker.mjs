// graphile-worker, with the batching that its page on performance recommends.

import { createRequire } from 'node:module'
import { setTimeout as sleep } from 'node:timers/promises'
import { Logger, makeWorkerUtils, run } from 'graphile-worker'
import pg from 'pg'

const TASK = 'bench'
const quiet = new Logger(() => () => {})
const require = createRequire(import.meta.url)
const { version } = require('../node_modules/graphile-worker/package.json')

export class Adapter {
  kind = 'worker'
  version = version
  relations = ['graphile_worker.%']
  settings = 'localQueue.size 500, completeJobBatchDelay 0, failJobBatchDelay 0, add_jobs for many'

  constructor(dsn) {
    this.dsn = dsn
  }

  async install() {
    const utils = await makeWorkerUtils({ connectionString: this.dsn, logger: quiet })
    await utils.migrate()
    await utils.release()
  }

  async open() {
    this.pool = new pg.Pool({ connectionString: this.dsn, max: 32 })
    this.pool.on('error', () => {})
    this.utils = await makeWorkerUtils({ pgPool: this.pool, logger: quiet })
  }

  async enqueue(payload) {
    await this.utils.addJob(TASK, payload)
  }

  async enqueueMany(payloads, delaySeconds) {
    const runAt = delaySeconds ? new Date(Date.now() + delaySeconds * 1000) : undefined
    await this.utils.addJobs(payloads.map((payload) => ({ identifier: TASK, payload, runAt })))
  }

  async unfinished() {
    const query = 'select exists (select from graphile_worker.jobs where run_at <= now())'
    return (await this.pool.query(query)).rows[0].exists
  }

  async purge() {
    await this.pool.query('truncate graphile_worker._private_jobs')
  }

  async start(concurrency, handle) {
    this.stopping = false
    await this.run(concurrency, handle)
  }

  async run(concurrency, handle) {
    this.runner = await run({
      connectionString: this.dsn,
      maxPoolSize: Math.min(25, concurrency + 2),
      concurrency,
      noHandleSignals: true,
      logger: quiet,
      taskList: { [TASK]: handle },
      preset: {
        worker: {
          localQueue: { size: 500 },
          completeJobBatchDelay: 0,
          failJobBatchDelay: 0
        }
      }
    })
    // It ends when it loses the database, and expects a supervisor to restart it.
    const again = () => this.stopping || this.supervise(concurrency, handle)
    this.runner.promise.then(again, again)
  }

  async supervise(concurrency, handle) {
    while (!this.stopping) {
      await sleep(500)
      try {
        return await this.run(concurrency, handle)
      } catch (error) {
        console.error(error)
      }
    }
  }

  async stop() {
    this.stopping = true
    await this.runner.stop()
  }
}
