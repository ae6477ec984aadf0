import type { components } from "./openapi.js";

export type Problem = components["schemas"]["Problem"];

/** The server refused a call, or did not answer. */
export class PenstockError extends Error {
  override readonly name = "PenstockError";
  /** The status of the response; 0 if there was none. */
  readonly status: number;
  /** The name of the error, such as `LeaseLostError`. */
  readonly code: string;
  /** What happened, without the hint. */
  readonly detail: string;
  /** What to do about it. */
  readonly hint: string | undefined;
  /** The field or parameter that was wrong. */
  readonly field: string | undefined;
  /** The values that the field may have. */
  readonly allowed: string | undefined;
  /** Details by name, such as `topic` or `id`. */
  readonly fields: Readonly<Record<string, unknown>>;
  /** Whether the same call may succeed later. */
  readonly retryable: boolean;
  /** The id of the request in the log of the server. */
  readonly requestId: string | undefined;
  /** The number of seconds after which the server asks to try again. */
  readonly retryAfterSeconds: number | undefined;

  constructor(
    status: number,
    problem: Partial<Problem>,
    options: { retryAfterSeconds?: number | undefined; cause?: unknown } = {},
  ) {
    const detail = problem.detail ?? `the server answered with status ${status}`;
    super(problem.hint ? `${detail}. ${problem.hint}` : detail, { cause: options.cause });
    this.detail = detail;
    this.status = status;
    this.code = problem.code ?? "UnexpectedResponse";
    this.hint = problem.hint ?? undefined;
    this.field = problem.field ?? undefined;
    this.allowed = problem.allowed ?? undefined;
    this.fields = problem.fields ?? {};
    this.retryable = problem.retryable ?? (status === 0 || status === 429 || status >= 502);
    this.requestId = problem.request_id ?? undefined;
    this.retryAfterSeconds = options.retryAfterSeconds;
  }
}

/** The error of a call without a response. */
export function unavailable(reason: string, cause: unknown): PenstockError {
  const detail = `the server does not respond: ${reason}`;
  return new PenstockError(0, { code: "ServerUnavailableError", detail }, { cause });
}

/** The error of a handler whose lease has ended: another consumer may have the message. */
export function leaseLost(id: string, reason: string): PenstockError {
  const detail = `the lease on message ${id} is lost: ${reason}`;
  const hint = "Let handlers end when their signal aborts, and choose longer leases";
  return new PenstockError(409, { code: "LeaseLostError", detail, hint, fields: { id } });
}

/** Thrown by a handler: the message becomes a dead letter without further attempts. */
export class Reject extends Error {
  override readonly name = "Reject";
}

/** Thrown by a handler: the message is delivered again after a delay. The attempt does not count. */
export class Snooze extends Error {
  override readonly name = "Snooze";

  constructor(readonly delaySeconds: number) {
    super(`delivered again after ${delaySeconds} s`);
  }
}

/** Thrown by a handler: the attempt failed, and the next one comes after a chosen delay. */
export class RetryAfter extends Error {
  override readonly name = "RetryAfter";

  constructor(
    readonly delaySeconds: number,
    message: string,
  ) {
    super(message);
  }
}

const LONGEST_TEXT = 100_000;

/** The text of an error for the server. Every error has one that can be stored, so that a nack works. */
export function errorText(error: unknown): string {
  const text = error instanceof Error ? `${error.name}: ${error.message}` : String(error);
  // Half of a surrogate pair is not valid text. The cut may leave one.
  return text.slice(0, LONGEST_TEXT).replace(/\p{Surrogate}/gu, "?");
}
