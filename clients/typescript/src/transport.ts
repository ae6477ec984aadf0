import { PenstockError, type Problem, unavailable } from "./errors.js";
import type { operations } from "./openapi.js";
import { OPERATIONS } from "./operations.js";

export type OperationId = keyof typeof OPERATIONS & keyof operations;
/** Operations with one response. A stream has many messages: see `Penstock.stream`. */
export type CallableId = Exclude<OperationId, "stream_messages">;

type Json<T> = T extends { content: { "application/json": infer B } } ? B : undefined;
/** A response of another content type, such as the metrics, is text. */
type JsonOrText<T> = T extends { content: { "application/json": infer B } }
  ? B
  : T extends { content: object }
    ? string
    : undefined;
type Success<R> = R extends Record<number, unknown>
  ? { [S in keyof R & (200 | 201 | 202)]: JsonOrText<R[S]> }[keyof R & (200 | 201 | 202)]
  : never;
type Optional<T> = T extends undefined ? undefined : T;

/** The body of the request of an operation. */
export type Body<K extends OperationId> = operations[K] extends { requestBody?: infer B }
  ? Json<NonNullable<B>>
  : undefined;
/** The parameters in the query of an operation. */
export type Query<K extends OperationId> = Optional<operations[K]["parameters"]["query"]>;
/** The parameters in the path of an operation. */
export type Path<K extends OperationId> = Optional<operations[K]["parameters"]["path"]>;
/** The body of the response of an operation. */
export type Answer<K extends OperationId> = Success<operations[K]["responses"]>;

export interface CallOptions {
  /** Aborts the call. */
  signal?: AbortSignal | undefined;
  /**
   * The `Idempotency-Key` of a POST: the server does the call once, even if it is sent again. The
   * default is a new key, so that a call can be repeated after a broken connection. `null`: none.
   */
  idempotencyKey?: string | null | undefined;
  /** The number of seconds to wait for the response. */
  timeoutSeconds?: number | undefined;
}

export type Call<K extends OperationId> = CallOptions & {
  path?: Path<K>;
  query?: Query<K>;
  body?: Body<K>;
  headers?: Record<string, string>;
};

export interface TransportOptions {
  /** The address of the server, such as `https://queue.example.com`. */
  url: string;
  /** An API key, such as `psk_...`. */
  key: string;
  /** The number of seconds to wait for a response. Default: 30. */
  timeoutSeconds?: number;
  /** How often a call is repeated if the server is busy or unreachable. Default: 5. */
  retries?: number;
  /** The function that sends requests. Default: the global `fetch`. */
  fetch?: typeof fetch;
}

const FIRST_DELAY_SECONDS = 0.1;
const LONGEST_DELAY_SECONDS = 10;

/** Sends calls to the server, and repeats them where that is safe. */
export class Transport {
  readonly #url: string;
  readonly #key: string;
  readonly #timeoutSeconds: number;
  readonly #retries: number;
  readonly #fetch: typeof fetch;

  constructor(options: TransportOptions) {
    this.#url = options.url.replace(/\/+$/, "");
    this.#key = options.key;
    this.#timeoutSeconds = options.timeoutSeconds ?? 30;
    this.#retries = options.retries ?? 5;
    this.#fetch = options.fetch ?? globalThis.fetch.bind(globalThis);
  }

  /** Send a call, and return the body of its response. */
  async call<K extends CallableId>(operation: K, call: Call<K> = {}): Promise<Answer<K>> {
    if ((operation as OperationId) === "stream_messages") throw new TypeError("use stream for a stream");
    const [method] = OPERATIONS[operation];
    const headers: Record<string, string> = { ...call.headers };
    const key = call.idempotencyKey === undefined ? crypto.randomUUID() : call.idempotencyKey;
    if (method === "POST" && key !== null) {
      headers["Idempotency-Key"] = key;
    }
    // The server gives back the messages of a dequeue whose caller has gone away.
    const repeatable = method !== "POST" || key !== null || operation === "dequeue_messages";
    // Before the first attempt: a wrong argument is not an error of the connection.
    const request = this.#request(operation, call, headers);
    for (let attempt = 0; ; attempt++) {
      try {
        return (await this.#once(request, call)) as Answer<K>;
      } catch (error) {
        if (!(error instanceof PenstockError) || attempt >= this.#retries) throw error;
        // Without a key, only a refused call is known to have done nothing.
        const refused = error.status === 429 || error.status === 503;
        if (!error.retryable || !(repeatable || refused) || call.signal?.aborted) throw error;
        const random = Math.random() * FIRST_DELAY_SECONDS * 2 ** (attempt + 1);
        const own = Math.min(random, LONGEST_DELAY_SECONDS);
        await sleep(Math.max(error.retryAfterSeconds ?? 0, own), call.signal);
      }
    }
  }

  /** The response of an operation that streams. */
  async open<K extends OperationId>(operation: K, call: Call<K>): Promise<Response> {
    const response = await this.#send(this.#request(operation, call, call.headers ?? {}), call.signal);
    if (!response.ok) throw await refusal(response);
    return response;
  }

  async #once(request: PreparedRequest, call: CallOptions): Promise<unknown> {
    const seconds = call.timeoutSeconds ?? this.#timeoutSeconds;
    const deadline = new AbortController();
    const timer = setTimeout(() => deadline.abort(), milliseconds(seconds));
    const abort = () => deadline.abort(call.signal?.reason);
    if (call.signal?.aborted) abort();
    call.signal?.addEventListener("abort", abort, { once: true });
    try {
      const response = await this.#send(request, deadline.signal);
      if (!response.ok) throw await refusal(response);
      const type = response.headers.get("content-type") ?? "application/json";
      return await (/^application\/(.+\+)?json\b/.test(type) ? response.json() : response.text());
    } catch (error) {
      if (error instanceof PenstockError) throw error;
      if (call.signal?.aborted) throw call.signal.reason;
      const reason = deadline.signal.aborted ? `no response within ${seconds} s` : String(error);
      throw unavailable(reason, error);
    } finally {
      clearTimeout(timer);
      call.signal?.removeEventListener("abort", abort);
    }
  }

  #request<K extends OperationId>(
    operation: K,
    call: Call<K>,
    headers: Record<string, string>,
  ): PreparedRequest {
    const [method, template] = OPERATIONS[operation];
    const hasBody = call.body !== undefined;
    return {
      url: this.#url + filled(template, call.path) + queryOf(call.query),
      init: {
        method,
        headers: {
          Authorization: `Bearer ${this.#key}`,
          ...(hasBody ? { "Content-Type": "application/json" } : {}),
          ...headers,
        },
        redirect: "error",
        ...(hasBody ? { body: encoded(call.body) } : {}),
      },
    };
  }

  #send({ url, init }: PreparedRequest, signal: AbortSignal | undefined): Promise<Response> {
    return this.#fetch(url, signal ? { ...init, signal } : init);
  }
}

interface PreparedRequest {
  readonly url: string;
  readonly init: RequestInit;
}

function encoded(body: unknown): string {
  const text = JSON.stringify(body);
  // JSON.stringify sends NaN and Infinity as null. Only a text with a null can contain one.
  if (text.includes("null")) JSON.stringify(body, refuseNonFinite);
  return text;
}

function refuseNonFinite(name: string, value: unknown): unknown {
  if (typeof value !== "number" || Number.isFinite(value)) return value;
  throw new PenstockError(422, {
    code: "PayloadNotStorableError",
    detail: `${JSON.stringify(name)} is ${value}, which JSON cannot represent`,
    hint: "Send null or text instead.",
    retryable: false,
  });
}

function filled(template: string, path: unknown): string {
  const values = (path ?? {}) as Record<string, string>;
  return template.replace(/{(\w+)}/g, (_, name: string) => {
    const value = values[name];
    if (!value) throw new TypeError(`${template} needs ${name}`);
    return encodeURIComponent(value);
  });
}

function queryOf(query: unknown): string {
  const found = new URLSearchParams();
  for (const [name, value] of Object.entries(query ?? {})) {
    if (value !== undefined && value !== null) found.set(name, String(value));
  }
  const text = found.toString();
  return text && `?${text}`;
}

async function refusal(response: Response): Promise<PenstockError> {
  const retryAfterSeconds = secondsOf(response.headers.get("retry-after"));
  let problem: Partial<Problem> = {};
  try {
    problem = (await response.json()) as Partial<Problem>;
  } catch {
    // The response came from another program, such as a proxy.
  }
  return new PenstockError(response.status, problem, { retryAfterSeconds });
}

/** The seconds of a Retry-After header, which is a number of seconds or a date. */
function secondsOf(retryAfter: string | null): number | undefined {
  if (!retryAfter) return undefined;
  const seconds = /^\d+$/.test(retryAfter) ? Number(retryAfter) : (Date.parse(retryAfter) - Date.now()) / 1000;
  return Number.isFinite(seconds) ? Math.max(seconds, 0) : undefined;
}

/** The time for setTimeout, which treats more than 2^31 - 1, or 24.8 days, as no time. */
function milliseconds(seconds: number): number {
  return Math.min(seconds * 1000, 2 ** 31 - 1);
}

/** Wait; the promise is rejected if the signal aborts. */
export function sleep(seconds: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(signal.reason);
    const abort = () => {
      clearTimeout(timer);
      reject(signal?.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", abort);
      resolve();
    }, milliseconds(seconds));
    signal?.addEventListener("abort", abort, { once: true });
  });
}
