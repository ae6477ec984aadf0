// The client that @hey-api/openapi-ts generates.
import { createClient, createConfig } from "./hey_api_client/client";
import * as sdk from "./hey_api_client";
import { type Lease, run } from "./scenario";

function leaseOf(message: sdk.Message): Lease {
  return {
    id: message.id,
    token: message.lease_token ?? "",
    json: message.json,
    attempt: message.attempt,
    lastError: message.last_error,
    leaseUntil: new Date(message.visibility_timeout ?? 0),
  };
}

void run((url, key) => {
  const client = createClient(createConfig({ baseUrl: url, auth: ({ scheme }) => (scheme === "bearer" ? key : undefined) }));
  const usual = { client, throwOnError: true } as const;
  return {
    async createTopic(topic, max_retries) {
      await sdk.createTopic({ ...usual, body: { topic, max_retries } });
    },
    async enqueue(topic, json, idempotencyKey) {
      const headers = idempotencyKey === undefined ? {} : { "Idempotency-Key": idempotencyKey };
      const { data } = await sdk.enqueueMessages({ ...usual, headers, body: { topic, json } });
      return "id" in data ? data.id : "";
    },
    async dequeue(topic, wait_seconds) {
      const { data } = await sdk.dequeueMessages({ ...usual, body: { topic, wait_seconds } });
      return data.messages.map(leaseOf);
    },
    async extend({ id, token }, visibility_timeout_seconds) {
      const body = { lease_token: token, visibility_timeout_seconds };
      const { data } = await sdk.extendMessage({ ...usual, path: { id }, body });
      return new Date(data.visibility_timeout);
    },
    async nack({ id, token }, error) {
      const body = { lease_token: token, error, delay_seconds: 0 };
      return (await sdk.nackMessage({ ...usual, path: { id }, body })).data.state;
    },
    async settle(leases, action, error) {
      const messages = leases.map(({ id, token }) => ({ id, lease_token: token, action, error }));
      const { data } = await sdk.settleMessages({ ...usual, body: { messages } });
      return data.results.map(({ state }) => state);
    },
    async redrive(topic) {
      return (await sdk.redriveTopic({ ...usual, path: { topic } })).data.count;
    },
    async dead(topic) {
      return (await sdk.showStats({ ...usual, query: { topic } })).data.items[0]?.dead ?? -1;
    },
  };
});
