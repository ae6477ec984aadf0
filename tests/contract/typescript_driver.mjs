// Runs the client for TypeScript for the contract suite. It reads calls as lines of JSON and answers with lines of JSON.
import { createInterface } from "node:readline";
import { payloadOf, Penstock, PenstockError } from "../../clients/typescript/dist/index.js";

const [url, key] = process.argv.slice(2);
const client = new Penstock({ url, key, strict: true });

// JSON lacks some numbers, and bytes.
const revived = (_, value) => {
  if (value?.$number !== undefined) return Number(value.$number);
  if (value?.$bytes !== undefined) return new Uint8Array(Buffer.from(value.$bytes, "base64"));
  return value;
};

const base64 = (bytes) => Buffer.from(bytes).toString("base64");
// Bytes pass through `payloadOf`, as a caller reads them.
const shown = (value) => {
  if (Array.isArray(value)) return value.map(shown);
  return typeof value?.payload === "string" ? { ...value, payload: base64(payloadOf(value)) } : value;
};

async function taken(messages, count) {
  const found = [];
  for await (const message of messages) {
    if (found.push(message) === count) break;
  }
  return found;
}

async function answer({ method, args, take }) {
  const called = client[method](...args);
  return { result: shown(await (take ? taken(called, take) : called)) ?? null };
}

const asError = (error) =>
  error instanceof PenstockError
    ? { problem: { ...error, detail: error.detail }, status: error.status }
    : { crash: String(error?.stack ?? error) };

for await (const line of createInterface({ input: process.stdin })) {
  const done = await answer(JSON.parse(line, revived)).catch((error) => ({ error: asError(error) }));
  process.stdout.write(`${JSON.stringify(done)}\n`);
}
