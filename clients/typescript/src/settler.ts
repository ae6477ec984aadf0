import type { Penstock, Settlement, SettleResult } from "./client.js";

const MOST = 1000;

interface Waiting {
  settlement: Settlement;
  resolve: (result: SettleResult | undefined) => void;
}

/** Settles messages together: all that were added while the call before was under way. */
export class Settler {
  readonly #client: Penstock;
  readonly #onError: (error: unknown) => void;
  #waiting: Waiting[] = [];
  #isSending = false;

  constructor(client: Penstock, onError: (error: unknown) => void) {
    this.#client = client;
    this.#onError = onError;
  }

  /** The result; undefined if no attempt reached the server. */
  add(settlement: Settlement): Promise<SettleResult | undefined> {
    return new Promise((resolve) => {
      this.#waiting.push({ settlement, resolve });
      if (!this.#isSending) {
        this.#isSending = true;
        queueMicrotask(() => void this.#send());
      }
    });
  }

  async #send(): Promise<void> {
    while (this.#waiting.length) {
      const batch = this.#next();
      try {
        const results = await this.#client.settle(batch.map(({ settlement }) => settlement));
        batch.forEach(({ resolve }, index) => resolve(results[index]));
      } catch (error) {
        this.#onError(error);
        for (const { resolve } of batch) resolve(undefined);
      }
    }
    this.#isSending = false;
  }

  /** A message may be extended and settled: each call has it once. */
  #next(): Waiting[] {
    const ids = new Set<string>();
    const rest: Waiting[] = [];
    const batch = this.#waiting.filter((each) => {
      const fits = ids.size < MOST && !ids.has(each.settlement.id);
      if (fits) ids.add(each.settlement.id);
      else rest.push(each);
      return fits;
    });
    this.#waiting = rest;
    return batch;
  }
}
