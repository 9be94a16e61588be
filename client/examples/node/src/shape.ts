/** What a subscription is to be like, in the configuration's own terms. */

import { OptionError } from "./errors.js";
import {
  Delivery,
  OnReject,
  Order,
  type Start,
  type SubscriptionOptions as Wire,
} from "./gen/ackgate/v1/gateway.js";
import { duration } from "./time.js";

/**
 * Options of a subscription. What is not set asks for nothing. Times are in ms. They shape an
 * ad hoc subscription that is opened for the first time; of any other the gateway refuses the
 * stream (`OPTIONS_CONTRADICT`) if it is otherwise.
 */
export interface SubscriptionOptions {
  readonly delivery?: "competing" | "broadcast";
  readonly order?: "none" | "key" | "lane";
  /** Where a group without a committed offset begins; a time: at the first record at or after it. */
  readonly start?: "earliest" | "latest" | "fail" | Date;
  /** 100 to 3,600,000. */
  readonly ackDeadline?: number;
  /** 1 to 1000. */
  readonly maxAttempts?: number;
  /** 1 to 1000. */
  readonly maxDeliveries?: number;
  readonly onReject?: "deadLetter" | "drop" | "hold";
  readonly deadLetterTopic?: string;
  /** What is read at all, in CEL. */
  readonly filter?: string;
  /** Records younger than this are held back: at most 30 days. */
  readonly minAge?: number;
}

const DELIVERIES = { competing: Delivery.COMPETING, broadcast: Delivery.BROADCAST };
const ORDERS = { none: Order.NONE, key: Order.KEY, lane: Order.LANE };
const ON_REJECTS = { deadLetter: OnReject.DEAD_LETTER, drop: OnReject.DROP, hold: OnReject.HOLD };

const RANGES = {
  ackDeadline: [100, 3_600_000],
  maxAttempts: [1, 1_000],
  maxDeliveries: [1, 1_000],
  minAge: [0, 30 * 86_400_000],
} as const;

/** Checks every range. Throws `OptionError`. */
export function checkShape(shape: SubscriptionOptions): void {
  for (const [option, [least, most]] of Object.entries(RANGES)) {
    const value = shape[option as keyof typeof RANGES];
    if (value !== undefined && !(Number.isInteger(value) && value >= least && value <= most)) {
      throw new OptionError(option, `${value} is not within ${least} to ${most}`);
    }
  }
  const words: [string, unknown, object][] = [
    ["delivery", shape.delivery, DELIVERIES],
    ["order", shape.order, ORDERS],
    ["onReject", shape.onReject, ON_REJECTS],
  ];
  for (const [option, value, all] of words) {
    if (value !== undefined && !Object.hasOwn(all, String(value))) {
      throw new OptionError(option, `${String(value)} is none of ${Object.keys(all).join(", ")}`);
    }
  }
  const { start } = shape;
  if (start instanceof Date ? Number.isNaN(start.getTime()) : !/^(|earliest|latest|fail)$/.test(start ?? "")) {
    throw new OptionError("start", "earliest, latest, fail or a time");
  }
}

/** As the protocol has it. */
export function shapeToWire(shape: SubscriptionOptions): Wire {
  const { delivery, order, onReject, ackDeadline, minAge } = shape;
  return {
    delivery: delivery ? DELIVERIES[delivery] : Delivery.UNSPECIFIED,
    order: order ? ORDERS[order] : Order.UNSPECIFIED,
    start: startToWire(shape.start),
    ackDeadline: ackDeadline === undefined ? undefined : duration(ackDeadline),
    maxAttempts: shape.maxAttempts,
    maxDeliveries: shape.maxDeliveries,
    onReject: onReject ? ON_REJECTS[onReject] : OnReject.UNSPECIFIED,
    deadLetterTopic: shape.deadLetterTopic,
    filter: shape.filter,
    minAge: minAge === undefined ? undefined : duration(minAge),
  };
}

function startToWire(start: SubscriptionOptions["start"]): Start | undefined {
  if (start === undefined) return undefined;
  if (start instanceof Date) return { at: { $case: "timestamp", value: start } };
  return { at: { $case: start, value: {} } };
}
