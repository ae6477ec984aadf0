// The client that openapi-generator generates for typescript-fetch.
import { Configuration, type Message, MessagesApi, TopicsApi } from "./openapi_generator_client";
import { type Lease, run } from "./scenario";

function leaseOf(message: Message): Lease {
  return {
    id: message.id,
    token: message.leaseToken ?? "",
    json: message.json,
    attempt: message.attempt,
    lastError: message.lastError,
    leaseUntil: message.visibilityTimeout ?? new Date(0),
  };
}

void run((basePath, accessToken) => {
  const configuration = new Configuration({ basePath, accessToken });
  const messages = new MessagesApi(configuration);
  const topics = new TopicsApi(configuration);
  return {
    async createTopic(topic, maxRetries) {
      await topics.createTopic({ newTopic: { topic, maxRetries } });
    },
    async enqueue(topic, json, idempotencyKey) {
      const answer = await messages.enqueueMessages({ idempotencyKey, enqueueMessagesRequest: { topic, json } });
      return "id" in answer ? answer.id : "";
    },
    async dequeue(topic, waitSeconds) {
      return (await messages.dequeueMessages({ dequeue: { topic, waitSeconds } })).messages.map(leaseOf);
    },
    async extend({ id, token }, visibilityTimeoutSeconds) {
      const answer = await messages.extendMessage({ id, extend: { leaseToken: token, visibilityTimeoutSeconds } });
      return answer.visibilityTimeout;
    },
    async nack({ id, token }, error) {
      return (await messages.nackMessage({ id, nack: { leaseToken: token, error, delaySeconds: 0 } })).state;
    },
    async settle(leases, action, error) {
      const wanted = leases.map(({ id, token }) => ({ id, leaseToken: token, action, error }));
      const { results } = await messages.settleMessages({ settlements: { messages: wanted } });
      return results.map(({ state }) => state);
    },
    async redrive(topic) {
      return (await topics.redriveTopic({ topic })).count;
    },
    async dead(topic) {
      return (await topics.showStats({ topic })).items[0]?.dead ?? -1;
    },
  };
});
