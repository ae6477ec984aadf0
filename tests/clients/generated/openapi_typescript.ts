// The types that openapi-typescript generates, with the client that belongs to it, openapi-fetch.
import createClient from "openapi-fetch";
import type { components, paths } from "./openapi_typescript_client/index";
import { type Lease, run } from "./scenario";

function leaseOf(message: components["schemas"]["Message"]): Lease {
  return {
    id: message.id,
    token: message.lease_token ?? "",
    json: message.json,
    attempt: message.attempt,
    lastError: message.last_error,
    leaseUntil: new Date(message.visibility_timeout ?? 0),
  };
}

/** The body of a response, if it is not a problem document. */
async function ok<T>(call: Promise<{ data?: T; error?: unknown }>): Promise<T> {
  const { data, error } = await call;
  if (data === undefined) throw new Error(JSON.stringify(error));
  return data;
}

void run((baseUrl, key) => {
  const client = createClient<paths>({ baseUrl, headers: { Authorization: `Bearer ${key}` } });
  return {
    async createTopic(topic, max_retries) {
      await ok(client.POST("/api/topic-configs", { body: { topic, max_retries } }));
    },
    async enqueue(topic, json, idempotencyKey) {
      const header = idempotencyKey === undefined ? {} : { "Idempotency-Key": idempotencyKey };
      const data = await ok(client.POST("/api/messages", { params: { header }, body: { topic, json } }));
      return "id" in data ? data.id : "";
    },
    async dequeue(topic, wait_seconds) {
      const { messages } = await ok(client.POST("/api/messages/dequeue", { body: { topic, wait_seconds } }));
      return messages.map(leaseOf);
    },
    async extend({ id, token }, visibility_timeout_seconds) {
      const body = { lease_token: token, visibility_timeout_seconds };
      const data = await ok(client.POST("/api/messages/{id}/extend", { params: { path: { id } }, body }));
      return new Date(data.visibility_timeout);
    },
    async nack({ id, token }, error) {
      const body = { lease_token: token, error, delay_seconds: 0 };
      return (await ok(client.POST("/api/messages/{id}/nack", { params: { path: { id } }, body }))).state;
    },
    async settle(leases, action, error) {
      const messages = leases.map(({ id, token }) => ({ id, lease_token: token, action, error }));
      const { results } = await ok(client.POST("/api/messages/settle", { body: { messages } }));
      return results.map(({ state }) => state);
    },
    async redrive(topic) {
      return (await ok(client.POST("/api/topics/{topic}/redrive", { params: { path: { topic } } }))).count;
    },
    async dead(topic) {
      const { items } = await ok(client.GET("/api/stats", { params: { query: { topic } } }));
      return items[0]?.dead ?? -1;
    },
  };
});
