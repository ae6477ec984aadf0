import type { Message, Penstock, Settlement, SettleResult } from "./client.js";
import { errorText, leaseLost, Reject, RetryAfter, Snooze } from "./errors.js";
import { Settler } from "./settler.js";
import { sleep } from "./transport.js";

export interface Context {
  /** Aborts when the lease is lost or ends without an extension, or when the worker stops before the handler is done. */
  signal: AbortSignal;
}

/** Does the work of a message. If it throws, the attempt has failed. */
export type Handler = (message: Message, context: Context) => Promise<void> | void;

export interface WorkerOptions {
  /** The largest number of messages at once. Default: 10. */
  concurrency?: number;
  /** The duration of a lease. The worker extends it while a handler runs. Default: 60. */
  leaseSeconds?: number;
  /** The duration of a long poll, up to 20. Default: 20. */
  waitSeconds?: number;
  /** The time that handlers have after `stop`. Default: 30. */
  graceSeconds?: number;
  /** The name of the worker, for display. */
  worker?: string;
  /** Called with errors of the connection, and with a `LeaseLostError` if a message could not be settled because its
   * lease was lost. The worker continues. Default: `console.error`. */
  onError?: (error: unknown) => void;
}

interface Running {
  message: Message;
  lost: AbortController;
  /** Fires at the end of the lease. */
  expiry?: ReturnType<typeof setTimeout>;
}

/** Claims the messages of a topic, runs a handler for each, and settles them together. */
export class Worker {
  readonly #client: Penstock;
  readonly #topic: string;
  readonly #handler: Handler;
  readonly #options: Required<Omit<WorkerOptions, "worker">> & Pick<WorkerOptions, "worker">;
  readonly #settler: Settler;
  readonly #running = new Map<string, Running>();
  readonly #stopping = new AbortController();
  #wake: () => void = () => undefined;
  #done: Promise<void> | undefined;

  constructor(client: Penstock, topic: string, handler: Handler, options: WorkerOptions = {}) {
    this.#client = client;
    this.#topic = topic;
    this.#handler = handler;
    this.#options = {
      concurrency: 10,
      leaseSeconds: 60,
      waitSeconds: 20,
      graceSeconds: 30,
      onError: (error) => console.error(error),
      ...options,
    };
    this.#settler = new Settler(client, this.#options.onError);
  }

  /** Work until `stop` is called. */
  run(): Promise<void> {
    this.#done ??= this.#run();
    return this.#done;
  }

  /** Claim no more, let the handlers finish, settle their messages, and give the others back. */
  async stop(): Promise<void> {
    this.#stopping.abort();
    this.#wake();
    await this.#done;
  }

  async #run(): Promise<void> {
    const extending = setInterval(() => void this.#extend(), (this.#options.leaseSeconds * 1000) / 3);
    try {
      while (!this.#stopping.signal.aborted) await this.#turn();
      await this.#drain();
    } finally {
      clearInterval(extending);
    }
  }

  async #turn(): Promise<void> {
    const free = this.#options.concurrency - this.#running.size;
    if (free <= 0) return this.#change();
    try {
      const messages = await this.#client.dequeue(this.#topic, {
        count: free,
        wait_seconds: this.#running.size ? 1 : this.#options.waitSeconds,
        visibility_timeout_seconds: this.#options.leaseSeconds,
        worker: this.#options.worker,
        signal: this.#stopping.signal,
      });
      for (const message of messages) void this.#work(message);
    } catch (error) {
      if (this.#stopping.signal.aborted) return;
      this.#options.onError(error);
      await sleep(1, this.#stopping.signal).catch(() => undefined);
    }
  }

  /** Resolves when a handler has finished, or the worker stops. */
  #change(): Promise<void> {
    return new Promise((resolve) => {
      this.#wake = resolve;
      if (this.#stopping.signal.aborted) resolve();
    });
  }

  async #work(message: Message): Promise<void> {
    const lost = new AbortController();
    const running: Running = { message, lost };
    this.#running.set(message.id, running);
    this.#expectEnd(running, Date.now());
    let settlement: Partial<Settlement> = { action: "ack" };
    try {
      await this.#handler(message, { signal: lost.signal });
    } catch (error) {
      settlement = afterError(error);
    }
    if (this.#running.get(message.id) === running) {
      await this.#end(running, settlement);
      this.#running.delete(message.id);
    }
    clearTimeout(running.expiry);
    this.#wake();
  }

  /** Settle a message whose handler has ended, or report that its lease is lost. */
  async #end({ message, lost }: Running, settlement: Partial<Settlement>): Promise<void> {
    if (lost.signal.aborted) return this.#options.onError(lost.signal.reason);
    const result = await this.#settle(message, settlement);
    if (result?.settled === false) this.#options.onError(leaseLost(message.id, `reason ${result.reason}`));
  }

  /** Abort the handler at the end of a lease that began at a time, unless it is extended before. */
  #expectEnd(running: Running, began: number): void {
    const { message, lost } = running;
    const left = began + this.#options.leaseSeconds * 1000 - Date.now();
    clearTimeout(running.expiry);
    running.expiry = setTimeout(() => lost.abort(leaseLost(message.id, "it was not extended in time")), left);
  }

  async #settle(message: Message, settlement: Partial<Settlement>): Promise<SettleResult | undefined> {
    const lease_token = message.lease_token as string;
    return this.#settler.add({ id: message.id, lease_token, ...settlement } as Settlement);
  }

  async #extend(): Promise<void> {
    const leases = [...this.#running.values()];
    const began = Date.now();
    const results = await Promise.all(
      leases.map(({ message }) =>
        this.#settle(message, {
          action: "extend",
          visibility_timeout_seconds: this.#options.leaseSeconds,
        }),
      ),
    );
    leases.forEach((running, index) => {
      const { message, lost } = running;
      // A handler that has just finished has settled its message itself.
      if (this.#running.get(message.id) !== running) return;
      const result = results[index];
      if (result?.settled) this.#expectEnd(running, began);
      else if (result) lost.abort(leaseLost(message.id, `reason ${result.reason}`));
    });
  }

  async #drain(): Promise<void> {
    const end = Date.now() + this.#options.graceSeconds * 1000;
    while (this.#running.size && Date.now() < end) {
      const grace = new AbortController();
      const finished = new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
      await Promise.race([finished, sleep((end - Date.now()) / 1000, grace.signal).catch(() => undefined)]);
      grace.abort();
    }
    const left = [...this.#running.values()];
    this.#running.clear();
    for (const { lost } of left) lost.abort(new Error("the worker stops"));
    await Promise.all(left.map(({ message }) => this.#settle(message, { action: "snooze", delay_seconds: 0 })));
  }
}

function afterError(error: unknown): Partial<Settlement> {
  if (error instanceof Reject) return { action: "reject", error: errorText(error.message) };
  if (error instanceof Snooze) return { action: "snooze", delay_seconds: error.delaySeconds };
  const nack = { action: "nack", error: errorText(error) } as const;
  return error instanceof RetryAfter ? { ...nack, delay_seconds: error.delaySeconds } : nack;
}
