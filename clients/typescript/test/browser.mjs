// Runs in a page of a browser. `scenario(url, key)` returns what it saw.
import { payloadOf, Penstock, PenstockError, Worker } from "../dist/index.js";

export async function scenario(url, key) {
  const client = new Penstock({ url, key });
  const seen = {};
  const waiting = client.dequeue("page", { wait_seconds: 20 });
  await client.enqueueBytes("page", Uint8Array.of(1, 2, 255));
  const [message] = await waiting;
  seen.bytes = [...payloadOf(message)];
  await client.ack(message);
  seen.lost = await client.ack(message).catch((error) => error instanceof PenstockError && error.code);
  // The page may read Retry-After, and the id of the request.
  await client.createTopic("full", { max_depth: 1 });
  await client.enqueue("full", 1);
  const once = new Penstock({ url, key, retries: 0 });
  const full = await once.enqueue("full", 2).catch((error) => error);
  seen.full = [full.status, full.retryAfterSeconds, typeof full.requestId];
  seen.streamed = [];
  await client.enqueueMany("stream", [1, 2, 3].map((json) => ({ json })));
  for await (const each of client.stream("stream", { credit: 1 })) {
    seen.streamed.push(each.json);
    await client.ack(each);
    if (seen.streamed.length === 3) break;
  }
  seen.handled = [];
  await client.enqueueMany("work", [1, 2, 3].map((json) => ({ json })));
  await new Promise((resolve) => {
    const worker = new Worker(client, "work", async (each) => {
      seen.handled.push(each.json);
      if (seen.handled.length === 3) setTimeout(() => worker.stop().then(resolve));
    });
    void worker.run();
  });
  seen.left = (await client.stats("work")).processing;
  return seen;
}
