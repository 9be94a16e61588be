/** Subscribes to an ackgate gateway: records in, verdicts out. */

export { Batch, Delivery, type FailOptions } from "./delivery.js";
export { NotDurable } from "./durable.js";
export type { Addresses } from "./addresses.js";
export {
  Fail,
  GatewayError,
  NotClosed,
  NotOpened,
  OptionError,
  ProtocolError,
  Reject,
  Release,
  Silent,
  StreamEnded,
  TlsError,
} from "./errors.js";
export type { Event, Observer, Outcome, Problem, ProblemKind, Sent, Stats } from "./events.js";
export {
  type AdHoc,
  type BatchOptions,
  type Confirm,
  type Options,
  type Tls,
  tlsFromFiles,
} from "./options.js";
export { type Outgoing, type Written, publish } from "./publish.js";
export type { SubscriptionOptions } from "./shape.js";
export { type Handler, type RunOptions, Subscriber } from "./subscriber.js";
export { TraceContext } from "./trace.js";
