/** Options of a subscriber, checked before anything is sent. */

import { readFileSync } from "node:fs";

import { OptionError } from "./errors.js";
import { Confirm as WireConfirm, Open } from "./gen/ackgate/v1/gateway.js";
import { type SubscriptionOptions, checkShape, shapeToWire } from "./shape.js";
import { duration } from "./time.js";

/**
 * How to know the gateway, and how to be known to it; all PEM. Without `ca` the system's roots
 * are trusted. `certificate` and `key` come together. `serverName` is the name to expect in the
 * gateway's certificate instead of the address.
 */
export interface Tls {
  readonly ca?: Buffer | undefined;
  readonly certificate?: Buffer | undefined;
  readonly key?: Buffer | undefined;
  readonly serverName?: string | undefined;
}

/**
 * A subscription that the gateway's configuration does not name, where it allows such.
 * Subscribers with the same cluster, group and set of topics share it, whatever the order.
 */
export interface AdHoc {
  readonly cluster: string;
  /** 1 to 100. */
  readonly topics: readonly string[];
  /** 1 to 255 characters. */
  readonly group: string;
}

/**
 * Which answers to verdicts the gateway is asked for: only of those that changed nothing; of
 * every message, once its verdicts are applied; or once what it did survives the loss of the
 * gateway, for `Delivery.ackDurably`, where each message asks for a commit.
 */
export type Confirm = "problems" | "applied" | "durable";

const CONFIRMS = {
  problems: WireConfirm.UNSPECIFIED,
  applied: WireConfirm.APPLIED,
  durable: WireConfirm.DURABLE,
} as const satisfies Record<Confirm, WireConfirm>;

/** What a batch waits for. What is not set is as the subscription has it. */
export interface BatchOptions {
  /** 1 to 10,000. */
  readonly maxRecords?: number;
  /** 1 KiB to 16 MiB. */
  readonly maxBytes?: number;
  /** How long in ms the first record may wait for others, at most 1 min. */
  readonly linger?: number;
  /** The part of the limits at which a batch counts as full, 0.01 to 1. */
  readonly minFill?: number;
}

/** How to subscribe. Times are in ms. */
export interface Options {
  /** The subscriber's own name, at most 256 bytes. Empty: the gateway makes one. */
  readonly subscriberId: string;
  /** In place of a named subscription. */
  readonly adHoc: AdHoc | undefined;
  /** What the subscription is to be like. */
  readonly expect: SubscriptionOptions | undefined;
  readonly confirm: Confirm;
  /** The most records that may be out at any time, 1 to 1,000,000. */
  readonly credit: number;
  /** The same in bytes, 1 to 1 GiB. */
  readonly creditBytes: number;
  /** Largest message that is accepted, 4096 to 1 GiB. */
  readonly maxMessageBytes: number;
  /** Time for a verdict, 100 to 3,600,000. Undefined: the subscription's. */
  readonly ackDeadline: number | undefined;
  readonly batch: BatchOptions | undefined;
  /** Which records are expected, in CEL. */
  readonly filter: string;
  /** End once everything is read and answered. */
  readonly untilDrained: boolean;
  /** What is in hand outlives a broken connection, if it comes back in time. */
  readonly resumable: boolean;
  /** Take the place of a live stream of the same name, once, at the beginning. */
  readonly takeover: boolean;
  readonly tls: Tls | undefined;
  /** Shown to the gateway as a bearer token. */
  readonly token: string;
  /** How long verdicts are gathered before they are sent together. */
  readonly flushInterval: number;
  /** How many are gathered at most. */
  readonly flushRecords: number;
  readonly openTimeout: number;
  /** Time for the goodbye, and for the end of the stream after it. */
  readonly closeTimeout: number;
  readonly keepaliveInterval: number;
  readonly keepaliveTimeout: number;
  /** Failures in a row before it is given up. Undefined: as many as it takes. */
  readonly retries: number | undefined;
  /** Bytes that the gateway may send ahead. */
  readonly streamWindow: number;
}

const DEFAULTS: Options = {
  subscriberId: "",
  adHoc: undefined,
  expect: undefined,
  confirm: "problems",
  credit: 1_000,
  creditBytes: 32 << 20,
  maxMessageBytes: 4 << 20,
  ackDeadline: undefined,
  batch: undefined,
  filter: "",
  untilDrained: false,
  resumable: true,
  takeover: false,
  tls: undefined,
  token: "",
  flushInterval: 5,
  flushRecords: 1_000,
  openTimeout: 10_000,
  closeTimeout: 5_000,
  keepaliveInterval: 20_000,
  keepaliveTimeout: 10_000,
  retries: undefined,
  streamWindow: 4 << 20,
};

const RANGES = {
  credit: [1, 1_000_000],
  creditBytes: [1, 1 << 30],
  maxMessageBytes: [4_096, 1 << 30],
  ackDeadline: [100, 3_600_000],
  flushInterval: [0, 1_000],
  flushRecords: [1, 1_000_000],
  openTimeout: [1, 3_600_000],
  closeTimeout: [1, 3_600_000],
  keepaliveInterval: [1_000, 3_600_000],
  keepaliveTimeout: [100, 3_600_000],
  retries: [0, 1_000_000],
  streamWindow: [65_535, 16 << 20],
} as const;

/** Fills in what is not given and checks every range. Throws `OptionError`. */
export function complete(given: Partial<Options>): Options {
  const defined = Object.entries(given).filter(([, value]) => value !== undefined);
  const options: Options = { ...DEFAULTS, ...Object.fromEntries(defined) };
  for (const [option, [least, most]] of Object.entries(RANGES)) {
    const value = options[option as keyof typeof RANGES];
    if (value === undefined) continue;
    if (!Number.isInteger(value) || value < least || value > most) {
      throw new OptionError(option, `${value} is not within ${least} to ${most}`);
    }
  }
  const { subscriberId, token, tls } = options;
  if (Buffer.byteLength(subscriberId) > 256 || /[\x00-\x1f\x7f]/.test(subscriberId)) {
    throw new OptionError("subscriberId", "at most 256 bytes without control characters");
  }
  if (!/^[\x21-\x7e]*$/.test(token)) {
    throw new OptionError("token", "printable ASCII without spaces");
  }
  if (tls && (tls.certificate === undefined) !== (tls.key === undefined)) {
    throw new OptionError("tls", "a certificate and its key come together");
  }
  if (!Object.hasOwn(CONFIRMS, options.confirm)) {
    throw new OptionError("confirm", Object.keys(CONFIRMS).join(", "));
  }
  if (options.adHoc) checkAdHoc(options.adHoc);
  if (options.expect) checkShape(options.expect);
  return options;
}

function checkAdHoc({ cluster, topics, group }: AdHoc): void {
  if (!cluster) throw new OptionError("adHoc", "the cluster is missing");
  if (!Array.isArray(topics) || topics.length < 1 || topics.length > 100 || !topics.every(Boolean)) {
    throw new OptionError("adHoc", "1 to 100 topics");
  }
  if (group.length < 1 || group.length > 255) {
    throw new OptionError("adHoc", "a group has 1 to 255 characters");
  }
}

/** Reads the files. */
export function tlsFromFiles(files: {
  ca?: string | undefined;
  certificate?: string | undefined;
  key?: string | undefined;
  serverName?: string | undefined;
}): Tls {
  const read = (path: string | undefined): Buffer | undefined =>
    path === undefined ? undefined : readFileSync(path);
  return {
    ca: read(files.ca),
    certificate: read(files.certificate),
    key: read(files.key),
    serverName: files.serverName,
  };
}

/** The opening of a stream, without what it goes on with. */
export function opening(options: Options, subscription: string): Open {
  const { ackDeadline, adHoc, batch } = options;
  const expect = options.expect && shapeToWire(options.expect);
  return {
    ...Open.fromPartial({
      subscription: adHoc ? "" : subscription,
      subscriberId: options.subscriberId,
      maxMessageBytes: BigInt(options.maxMessageBytes),
      resumable: options.resumable,
      untilDrained: options.untilDrained,
      filter: options.filter,
      confirm: CONFIRMS[options.confirm],
    }),
    credit: { records: options.credit, bytes: BigInt(options.creditBytes) },
    ackDeadline: ackDeadline === undefined ? undefined : duration(ackDeadline),
    batch: batch && {
      maxRecords: batch.maxRecords ?? 0,
      maxBytes: BigInt(batch.maxBytes ?? 0),
      linger: batch.linger === undefined ? undefined : duration(batch.linger),
      minFill: batch.minFill ?? 0,
    },
    adHoc: adHoc && { ...adHoc, topics: [...adHoc.topics], options: expect },
    expect: adHoc ? undefined : expect,
  };
}
