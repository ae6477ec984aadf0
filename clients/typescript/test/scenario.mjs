// Runs the scenario of the documentation against a server, and prints what it saw as JSON.
import assert from "node:assert/strict";
import { Penstock, PenstockError, payloadOf, Reject, Worker } from "../dist/index.js";

const [url, key] = process.argv.slice(2);
const client = new Penstock({ url, key });
const seen = {};
/** Reports a part of the scenario that has passed. */
const passed = (step) => console.error(`passed: ${step}`);

// Enqueue, long poll, extend, settle, retry, dead letter, redrive.
await client.createTopic("scene", { max_retries: 1, keep_history: 7 });
const waiting = client.dequeue("scene", { wait_seconds: 20 });
const id = await client.enqueue("scene", { order: 1001 }, { priority: 3, metadata: { tenant: "a" } });
const [message] = await waiting;
assert.equal(message.id, id);
assert.deepEqual([message.json, message.metadata], [{ order: 1001 }, { tenant: "a" }]);
assert.ok(new Date(await client.extend(message, 600)) > new Date(message.visibility_timeout));
assert.equal((await client.nack(message, { error: "no route", delay_seconds: 0 })).state, "ready");
const [again] = await client.dequeue("scene", { wait_seconds: 5 });
assert.deepEqual([again.attempt, again.last_error], [2, "no route"]);
const [dead] = await client.settle([
  { id: again.id, lease_token: again.lease_token, action: "nack", error: "no route" },
]);
assert.deepEqual([dead.settled, dead.state], [true, "dead"]);
assert.equal(await client.redrive("scene"), 1);
const [back] = await client.dequeue("scene");
await client.ack(back);
await assert.rejects(client.ack(back), (error) => error instanceof PenstockError && error.code === "LeaseLostError");
const [repeated] = await client.settle([{ id: back.id, lease_token: back.lease_token }]);
assert.deepEqual([repeated.settled, repeated.reason], [false, "finished"]);
passed("enqueue, long poll, extend, settle, retry, dead letter, redrive");

// Bytes come back as they were sent, and a repeated call is done once.
const bytes = Uint8Array.from({ length: 70_000 }, (_, n) => n % 256);
await client.enqueueBytes("bytes", bytes);
assert.deepEqual(payloadOf((await client.dequeue("bytes"))[0]), bytes);
const key1 = await client.enqueue("once", 1, { idempotencyKey: "k-1" });
assert.equal(await client.enqueue("once", 1, { idempotencyKey: "k-1" }), key1);
passed("bytes, and a repeated call");

// Wrong arguments are errors of the caller, not of the connection. Empty lists need no request.
const isNotStorable = (error) => error instanceof PenstockError && error.code === "PayloadNotStorableError";
for (const json of [Number.NaN, { a: [1, -Infinity] }]) await assert.rejects(client.enqueue("wrong", json), isNotStorable);
for (const json of [1n, new Uint8Array(2)]) await assert.rejects(client.enqueue("wrong", json), TypeError);
await assert.rejects(client.message(""), TypeError);
assert.deepEqual([await client.settle([]), await client.enqueueMany("wrong", []), await client.cancel([])], [[], [], 0]);
passed("wrong arguments");

// A dequeue has no key, because the server would keep its messages for a repetition.
const keys = [];
const watched = new Penstock({
  url,
  key,
  fetch: (address, init) => {
    keys.push(init.headers["Idempotency-Key"]);
    return fetch(address, init);
  },
});
await watched.dequeue("once", { worker: "w" });
await watched.dequeue("once", { idempotencyKey: "k-2" });
await watched.enqueue("once", 2);
assert.deepEqual(keys.slice(0, 2), [undefined, "k-2"]);
assert.match(keys[2], /^[0-9a-f-]{36}$/);
passed("keys of calls");

// A stream has no more unsettled messages than its credit.
await client.enqueueMany("stream", [1, 2, 3].map((json) => ({ json })));
const streamed = [];
for await (const each of client.stream("stream", { credit: 1 })) {
  streamed.push(each.json);
  await client.ack(each);
  if (streamed.length === 3) break;
}
assert.deepEqual(streamed, [1, 2, 3]);
passed("a stream with credit");

// It ends when its signal aborts, and throws when the server reports an error or the connection breaks.
const stopping = new AbortController();
setTimeout(() => stopping.abort(), 200);
for await (const _ of client.stream("stream", { signal: stopping.signal })) assert.fail("no message is left");
const problem = '{"status": 503, "code": "DatabaseUnavailableError", "detail": "the database is not available"}';
const answers = [
  () => new Response(`retry: 1000\n\nevent: error\ndata: ${problem}\n\n`),
  () => new Response(new ReadableStream({ pull: (controller) => controller.error(new TypeError("reset")) })),
  () => Promise.reject(new TypeError("refused")),
];
for (const code of ["DatabaseUnavailableError", "ServerUnavailableError", "ServerUnavailableError"]) {
  const broken = new Penstock({ url, key, fetch: async () => answers.shift()() });
  await assert.rejects(broken.stream("stream").next(), (error) => error instanceof PenstockError && error.code === code);
}
passed("the ends of streams");

// A worker: every message is handled, failures are retried, rejected ones are dead letters.
await client.createTopic("work", { backoff: { base_seconds: 0 }, keep_history: 7 });
const count = 300;
await client.enqueueMany("work", Array.from({ length: count }, (_, n) => ({ json: n })));
const attempts = new Map();
let finish;
const finished = new Promise((resolve) => (finish = resolve));
const worker = new Worker(
  client,
  "work",
  async (each) => {
    const tries = (attempts.get(each.json) ?? 0) + 1;
    attempts.set(each.json, tries);
    const total = [...attempts.values()].reduce((sum, n) => sum + n, 0);
    if (total === count + 10) finish();
    if (each.json === 7) throw new Reject("never");
    if (each.json % 30 === 0 && tries === 1) throw new Error("once");
  },
  { concurrency: 50, leaseSeconds: 30, waitSeconds: 5 },
);
const running = worker.run();
await finished;
await worker.stop();
await running;
const stats = await client.stats("work");
assert.deepEqual([stats.pending, stats.processing, stats.dead], [0, 0, 1]);
seen.handled = attempts.size;
passed(`a worker: ${attempts.size} messages, ${[...attempts.values()].reduce((sum, n) => sum + n, 0)} attempts`);

// An error that is not valid text, or too long, keeps no message of the same batch from being settled.
await client.createTopic("texts", { backoff: { base_seconds: 0 }, max_retries: 0, dlq_enabled: true, keep_history: 7 });
await client.enqueueMany("texts", [0, 1, 2, 3].map((json) => ({ json })));
let left = 4;
let settled;
const allSettled = new Promise((resolve) => (settled = resolve));
const texts = ["half \ud800", `${"x".repeat(99_999)}\u{1f600}`, "y".repeat(200_000)];
const strict = new Worker(client, "texts", (each) => {
  if (--left === 0) settled();
  if (each.json === 3) return;
  throw each.json === 2 ? new Reject(texts[2]) : new Error(texts[each.json]);
}, { onError: (error) => assert.fail(error) });
const strictly = strict.run();
await allSettled;
await strict.stop();
await strictly;
const after = await client.stats("texts");
assert.deepEqual([after.pending, after.processing, after.dead], [0, 0, 3]);
passed("errors that are not valid text");

// A message whose lease is lost when it is settled is reported, and so is one whose lease cannot be extended in time.
const reported = async (options, handler) => {
  await client.createTopic("leases", { keep_history: 7 }).catch(() => undefined);
  await client.enqueue("leases", 1);
  let report;
  const found = new Promise((resolve) => (report = resolve));
  const onError = (error) => error.code === "LeaseLostError" && report(error);
  const leasing = new Worker(options.client ?? client, "leases", handler, { ...options, onError });
  const works = leasing.run();
  const error = await found;
  await leasing.stop();
  await works;
  return error.detail;
};
assert.match(await reported({}, (each) => client.ack(each)), /lost: reason finished/);
const mute = async (address, init) => {
  if (String(address).endsWith("/settle")) throw new TypeError("refused");
  return fetch(address, init);
};
const cut = new Penstock({ url, key, fetch: mute, retries: 0 });
let aborted;
const detail = await reported({ client: cut, leaseSeconds: 1 }, (_, { signal }) => {
  return new Promise((resolve) => signal.addEventListener("abort", () => resolve((aborted = true))));
});
assert.deepEqual([aborted, detail.endsWith("it was not extended in time")], [true, true]);
passed("lost leases");

// The client waits as long as the server's Retry-After says, and at most as long as setTimeout can.
const longest = 2 ** 31 - 1;
const inAMonth = new Date(Date.now() + 31 * 86_400_000).toUTCString();
for (const [retryAfter, expected] of [["60", 60_000], ["9999999999", longest], [inAMonth, longest]]) {
  const stop = AbortSignal.timeout(100);
  const delays = [];
  const plain = globalThis.setTimeout;
  globalThis.setTimeout = (run, delay, ...rest) => (delays.push(delay), plain(run, delay, ...rest));
  const headers = { "Retry-After": retryAfter };
  const busy = new Penstock({ url, key, fetch: async () => new Response("{}", { status: 503, headers }) });
  await assert.rejects(busy.stats("work", { signal: stop }));
  globalThis.setTimeout = plain;
  assert.ok(delays.includes(expected), String(delays));
}

// A Retry-After may be a date, also one that is over.
for (const [date, low, high] of [[Date.now() + 3_600_000, 3590, 3601], [0, 0, 0]]) {
  const headers = { "Retry-After": new Date(date).toUTCString() };
  const later = new Penstock({ url, key, retries: 0, fetch: async () => new Response("{}", { status: 503, headers }) });
  const refusal = await later.stats("work").catch((error) => error);
  assert.ok(low <= refusal.retryAfterSeconds && refusal.retryAfterSeconds <= high, refusal.retryAfterSeconds);
}
passed("Retry-After");

// A response that is not JSON is text. A stream is not a call.
assert.match(await client.call("metrics"), /^# HELP penstock_/m);
await assert.rejects(client.call("stream_messages", { query: { topic: "work" } }), /use stream/);
passed("responses that are not JSON");

// A stopped worker gives back what its handlers did not finish.
await client.enqueue("slow", 1);
let started;
const begun = new Promise((resolve) => (started = resolve));
const slow = new Worker(client, "slow", (_, { signal }) => {
  started();
  return new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
}, { graceSeconds: 0 });
const ending = slow.run();
await begun;
await slow.stop();
await ending;
assert.equal((await client.stats("slow")).pending, 1);
passed("a worker that stops");
console.log(JSON.stringify(seen));
