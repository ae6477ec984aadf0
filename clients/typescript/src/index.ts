export {
  type DequeueOptions,
  type EnqueueOptions,
  type Lease,
  type Message,
  type NewMessage,
  payloadOf,
  Penstock,
  type Schedule,
  type Settlement,
  type SettleResult,
  type Stats,
  type Topic,
  type TopicConfig,
} from "./client.js";
export { PenstockError, type Problem, Reject, RetryAfter, Snooze } from "./errors.js";
export type { components, operations, paths } from "./openapi.js";
export type { Answer, Body, Call, CallableId, CallOptions, OperationId, Query, TransportOptions } from "./transport.js";
export { type Context, type Handler, Worker, type WorkerOptions } from "./worker.js";
