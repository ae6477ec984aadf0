import type { components } from "./openapi.js";
import { errorText, PenstockError, unavailable } from "./errors.js";
import { messagesOf } from "./events.js";
import {
  type Answer,
  type Body,
  type Call,
  type CallableId,
  type CallOptions,
  type Query,
  Transport,
  type TransportOptions,
} from "./transport.js";

type Schemas = components["schemas"];
export type Message = Schemas["Message"];
export type Settlement = Schemas["Settlement"];
export type SettleResult = Schemas["SettleResult"];
export type Topic = Schemas["Topic"];
export type TopicConfig = Schemas["Config"];
export type Stats = Schemas["Stats"];
export type Schedule = Schemas["Schedule"];

/** A message with the token of its lease, as `dequeue` returns it. */
export interface Lease {
  readonly id: string;
  readonly lease_token?: string;
}

type Options<T> = { [K in keyof T]?: T[K] | undefined };
/** Options of a new message. */
export type EnqueueOptions = Options<Omit<Schemas["EnqueueJson"], "topic" | "json">> & CallOptions;
export type DequeueOptions = Options<Omit<Schemas["Dequeue"], "topic">> & CallOptions;
export type NewMessage = Schemas["JsonMessage"] | Schemas["PayloadMessage"];

/** A client of a Penstock server. */
export class Penstock {
  readonly #transport: Transport;
  readonly #headers: Record<string, string>;

  /** @param options `strict`: refuse topics that do not exist, instead of creating them. */
  constructor(options: TransportOptions & { strict?: boolean }) {
    this.#transport = new Transport(options);
    this.#headers = options.strict ? { Prefer: "handling=strict" } : {};
  }

  /**
   * Call any operation of the API by its name in the OpenAPI document, with its types. A response
   * that is not JSON, such as the metrics, is text. `stream` calls the operation that streams.
   */
  call<K extends CallableId>(operation: K, call: Call<K> = {}): Promise<Answer<K>> {
    return this.#transport.call(operation, { ...call, headers: { ...this.#headers, ...call.headers } });
  }

  /** Enqueue a JSON value. Returns the id of the message. */
  async enqueue(topic: string, json: unknown, options: EnqueueOptions = {}): Promise<string> {
    // JSON.stringify would send the bytes as an object with a field for each.
    if (json instanceof Uint8Array) throw new TypeError("use enqueueBytes for bytes");
    return this.#enqueue({ topic, json }, options);
  }

  /** Enqueue bytes. Returns the id of the message. */
  async enqueueBytes(topic: string, bytes: Uint8Array, options: EnqueueOptions = {}): Promise<string> {
    return this.#enqueue({ topic, payload: toBase64(bytes) }, options);
  }

  async #enqueue(content: object, options: EnqueueOptions): Promise<string> {
    const [call, fields] = split(options);
    const body = { ...content, ...fields } as Body<"enqueue_messages">;
    const answer = await this.call("enqueue_messages", { ...call, body });
    return (answer as Schemas["Enqueued"]).id;
  }

  /** Enqueue up to 1,000 messages into a topic, all or none. Returns their ids. */
  async enqueueMany(
    topic: string,
    messages: readonly NewMessage[],
    options: Options<Pick<Schemas["EnqueueToTopic"], "on_conflict" | "unique">> & CallOptions = {},
  ): Promise<string[]> {
    if (!messages.length) return [];
    const [call, fields] = split(options);
    const body = { topic, messages, ...fields } as Body<"enqueue_messages">;
    const answer = await this.call("enqueue_messages", { ...call, body });
    return (answer as Schemas["EnqueuedMany"]).ids;
  }

  /** Claim messages under a lease. With `wait_seconds`, wait until there is one. */
  async dequeue(topic: string, options: DequeueOptions = {}): Promise<Message[]> {
    const [call, fields] = split(options);
    const body = { topic, ...fields } as Body<"dequeue_messages">;
    const timeoutSeconds = call.timeoutSeconds ?? 30 + (options.wait_seconds ?? 0);
    // A lost response needs no key: the messages go back when the connection breaks.
    const idempotencyKey = call.idempotencyKey ?? null;
    const answer = await this.call("dequeue_messages", { ...call, idempotencyKey, timeoutSeconds, body });
    return answer.messages;
  }

  /**
   * Claim messages as they come, on one connection. The stream has at most `credit` messages that
   * are not settled. It ends when the server stops or the signal aborts, and throws a
   * `PenstockError` when the connection breaks. Then call it again.
   */
  async *stream(
    topic: string,
    options: Omit<Query<"stream_messages">, "topic"> & { signal?: AbortSignal } = {},
  ): AsyncGenerator<Message> {
    const { signal, ...query } = options;
    const call: Call<"stream_messages"> = { query: { ...query, topic }, headers: this.#headers, signal };
    try {
      yield* messagesOf(await this.#transport.open("stream_messages", call));
    } catch (error) {
      if (signal?.aborted) return;
      throw error instanceof PenstockError ? error : unavailable(String(error), error);
    }
  }

  /** Settle a message as done. */
  async ack(lease: Lease, options: CallOptions = {}): Promise<void> {
    await this.call("ack_message", { ...options, path: { id: lease.id }, body: token(lease) });
  }

  /** Report a failed attempt. The message is tried again, or becomes a dead letter. */
  async nack(
    lease: Lease,
    options: { error?: string | Error | null; delay_seconds?: number | null } & CallOptions = {},
  ): Promise<Schemas["Settled"]> {
    const [call, { error, ...fields }] = split(options);
    const body = { ...token(lease), ...fields, error: textOrNull(error) };
    return this.call("nack_message", { ...call, path: { id: lease.id }, body });
  }

  /** Make a message a dead letter without further attempts. */
  async reject(
    lease: Lease,
    error: string | Error | null = null,
    options: CallOptions = {},
  ): Promise<Schemas["Settled"]> {
    const body = { ...token(lease), error: textOrNull(error) };
    return this.call("reject_message", { ...options, path: { id: lease.id }, body });
  }

  /** Deliver a message again after a delay. The attempt does not count. */
  async snooze(lease: Lease, delaySeconds = 0, options: CallOptions = {}): Promise<Schemas["Settled"]> {
    const body = { ...token(lease), delay_seconds: delaySeconds };
    return this.call("snooze_message", { ...options, path: { id: lease.id }, body });
  }

  /** Extend a lease, from now on. Returns its new end. */
  async extend(lease: Lease, seconds: number | null = null, options: CallOptions = {}): Promise<string> {
    const body = { ...token(lease), visibility_timeout_seconds: seconds };
    const answer = await this.call("extend_message", { ...options, path: { id: lease.id }, body });
    return answer.visibility_timeout;
  }

  /** Ack, nack, reject, snooze or extend up to 1,000 messages. Each result says what became of it. */
  async settle(messages: readonly Settlement[], options: CallOptions = {}): Promise<SettleResult[]> {
    if (!messages.length) return [];
    const body = {
      messages: messages.map((each) => (each.error ? { ...each, error: errorText(each.error) } : each)),
    };
    return (await this.call("settle_messages", { ...options, body })).results;
  }

  /** One message, waiting or finished, with its attempts. */
  message(id: string, options: CallOptions = {}): Promise<Message> {
    return this.call("show_message", { ...options, path: { id } });
  }

  /** The messages that match, page by page. */
  async *messages(query: Query<"list_messages"> = {}, options: CallOptions = {}): AsyncGenerator<Message> {
    for (let cursor = query?.cursor; ; ) {
      const page = await this.call("list_messages", {
        ...options,
        query: { ...query, ...(cursor ? { cursor } : {}) },
      });
      yield* page.items;
      if (page.next === null) return;
      cursor = page.next;
    }
  }

  /** Cancel messages that are waiting, leased or dead. Returns their number. */
  async cancel(ids: readonly string[], options: CallOptions = {}): Promise<number> {
    if (!ids.length) return 0;
    return (await this.call("cancel_messages", { ...options, body: { ids: [...ids] } })).count;
  }

  /** Enqueue a copy of a finished message. Returns the id of the copy. */
  async replay(id: string, topic: string | null = null, options: CallOptions = {}): Promise<string> {
    return (await this.call("replay_message", { ...options, path: { id }, body: { topic } })).id;
  }

  /** Put dead letters back into their topic. Returns their number. */
  async redrive(topic: string, filter: Body<"redrive_topic"> = {}, options: CallOptions = {}): Promise<number> {
    if (filter?.ids?.length === 0) return 0;
    return (await this.call("redrive_topic", { ...options, path: { topic }, body: filter })).count;
  }

  createTopic(topic: string, config: TopicConfig = {}, options: CallOptions = {}): Promise<Topic> {
    return this.call("create_topic", { ...options, body: { ...config, topic } });
  }

  /** Change the given settings of a topic. */
  setTopic(topic: string, config: TopicConfig, options: CallOptions = {}): Promise<Topic> {
    return this.call("patch_topic_config", { ...options, path: { topic }, body: config });
  }

  topic(topic: string, options: CallOptions = {}): Promise<Topic> {
    return this.call("show_topic_config", { ...options, path: { topic } });
  }

  async topics(options: CallOptions = {}): Promise<Topic[]> {
    return (await this.call("list_topic_configs", options)).items;
  }

  /** Remove a topic. With `force`, its messages too. Returns their number. */
  async dropTopic(topic: string, force = false, options: CallOptions = {}): Promise<number> {
    return (await this.call("drop_topic", { ...options, path: { topic }, query: { force } })).count;
  }

  pause(topic: string, options: CallOptions = {}): Promise<Topic> {
    return this.call("pause_topic", { ...options, path: { topic } });
  }

  resume(topic: string, options: CallOptions = {}): Promise<Topic> {
    return this.call("resume_topic", { ...options, path: { topic } });
  }

  /** Delete the waiting messages of a topic, or the dead letters of `<topic>.dlq`. */
  async purge(topic: string, query: Query<"purge_topic"> = {}, options: CallOptions = {}): Promise<number> {
    return (await this.call("purge_topic", { ...options, path: { topic }, query })).count;
  }

  async stats(topic: string, options: CallOptions = {}): Promise<Stats> {
    const { items } = await this.call("show_stats", { ...options, query: { topic } });
    return items[0] as Stats;
  }
}

/** The payload of a message: its JSON value, or its bytes. */
export function payloadOf(message: Message): unknown {
  return message.payload === undefined ? message.json : fromBase64(message.payload);
}

function split<T extends CallOptions>(options: T): [CallOptions, Omit<T, keyof CallOptions>] {
  const { signal, idempotencyKey, timeoutSeconds, ...fields } = options;
  return [{ signal, idempotencyKey, timeoutSeconds }, fields];
}

function token(lease: Lease): { lease_token: string } {
  if (lease.lease_token === undefined) throw new TypeError(`message ${lease.id} has no lease_token`);
  return { lease_token: lease.lease_token };
}

function textOrNull(error: string | Error | null | undefined): string | null {
  return error === null || error === undefined ? null : errorText(error);
}

function toBase64(bytes: Uint8Array): string {
  let text = "";
  for (let start = 0; start < bytes.length; start += 0x8000) {
    text += String.fromCharCode(...bytes.subarray(start, start + 0x8000));
  }
  return btoa(text);
}

function fromBase64(text: string): Uint8Array {
  return Uint8Array.from(atob(text), (each) => each.charCodeAt(0));
}
