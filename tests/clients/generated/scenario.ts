// What each generated client does: enqueue, long poll, extend, settle, retry, dead letter, redrive.
import assert from "node:assert/strict";

export interface Lease {
  id: string;
  token: string;
  json: unknown;
  attempt: number;
  lastError: string | null;
  leaseUntil: Date;
}

/** The calls of the scenario. An adapter makes each with the functions of one generated client. */
export interface Api {
  createTopic(topic: string, maxRetries: number): Promise<void>;
  enqueue(topic: string, json: unknown, idempotencyKey?: string): Promise<string>;
  dequeue(topic: string, waitSeconds: number): Promise<Lease[]>;
  extend(lease: Lease, seconds: number): Promise<Date>;
  nack(lease: Lease, error: string): Promise<string>;
  settle(leases: Lease[], action: "ack" | "nack", error?: string): Promise<(string | undefined)[]>;
  redrive(topic: string): Promise<number>;
  dead(topic: string): Promise<number>;
}

export async function run(connect: (url: string, key: string) => Api): Promise<void> {
  const [url, key, topic] = process.argv.slice(2);
  assert.ok(url && key && topic);
  const api = connect(url, key);
  await api.createTopic(topic, 1);
  const waiting = api.dequeue(topic, 20);
  const id = await api.enqueue(topic, { order: 1001 }, `${topic}-1`);
  assert.equal(await api.enqueue(topic, { order: 1001 }, `${topic}-1`), id);
  const first = only(await waiting);
  assert.deepEqual([first.id, first.json, first.attempt], [id, { order: 1001 }, 1]);
  assert.ok((await api.extend(first, 600)) > first.leaseUntil);
  assert.equal(await api.nack(first, "no route"), "ready");
  const second = only(await api.dequeue(topic, 5));
  assert.deepEqual([second.id, second.attempt, second.lastError], [id, 2, "no route"]);
  assert.deepEqual(await api.settle([second], "nack", "no route"), ["dead"]);
  assert.equal(await api.dead(topic), 1);
  assert.equal(await api.redrive(topic), 1);
  const third = only(await api.dequeue(topic, 5));
  assert.deepEqual(await api.settle([third], "ack"), ["done"]);
  assert.deepEqual([await api.dead(topic), await api.dequeue(topic, 0)], [0, []]);
  console.log("passed");
}

function only(leases: Lease[]): Lease {
  const [lease] = leases;
  assert.ok(lease && leases.length === 1);
  return lease;
}
