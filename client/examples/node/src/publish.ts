/** Writes some records through the gateway in one call. */

import { type Addresses, type Target, listed, target } from "./addresses.js";
import { channel, metadata } from "./channel.js";
import { GatewayError, OptionError } from "./errors.js";
import { GatewayServiceClient } from "./gen/ackgate/v1/gateway.js";
import {
  OutgoingRecord,
  type PublishBatchResponse,
  PublishError,
  PublishOptions,
} from "./gen/ackgate/v1/publish.js";
import { explained } from "./handshake.js";
import { type Options, complete } from "./options.js";
import { duration } from "./time.js";

/** Most records in one call; it also takes at most 16 MiB. */
const MOST_RECORDS = 10_000;

const SLACK = 5_000;

/** A record to write. Null is Kafka's null and differs from empty. */
export interface Outgoing {
  readonly topic: string;
  readonly value: Buffer | string | null;
  readonly key?: Buffer | string | null;
  readonly headers?: readonly (readonly [name: string, value: Buffer | string | null])[];
  readonly partition?: number;
  readonly timestampMs?: bigint;
}

/** What became of a record. `error` is empty if it was written. */
export interface Written {
  readonly topic: string;
  readonly partition?: number | undefined;
  readonly offset?: bigint | undefined;
  readonly error: string;
  readonly detail: string;
}

/**
 * Writes 1 to 10,000 records and returns what became of each, in their order. `timeout` is in
 * ms, for each record. Of several addresses it is the first one that can be reached. Throws
 * `GatewayError` if the call itself did not succeed: then nobody knows what was written.
 */
export async function publish(
  address: Addresses,
  records: readonly Outgoing[],
  given: Partial<Options> & { readonly cluster?: string; readonly timeout?: number } = {},
): Promise<Written[]> {
  const { cluster = "", timeout = 30_000, ...rest } = given;
  if (records.length < 1 || records.length > MOST_RECORDS) {
    throw new OptionError("records", `1 to ${MOST_RECORDS}, not ${records.length}`);
  }
  const options = complete(rest);
  const to = await reached(listed(address, options.tls), options);
  const client = new GatewayServiceClient(...channel(to, options));
  const request = {
    options: PublishOptions.fromPartial({ cluster, timeout: duration(timeout) }),
    records: records.map(toWire),
  };
  try {
    const response = await new Promise<PublishBatchResponse>((resolve, reject) => {
      const deadline = Date.now() + timeout + SLACK;
      client.publishBatch(request, metadata(options), { deadline }, (error, answer) =>
        error ? reject(explained(GatewayError.of(error), to)) : resolve(answer),
      );
    });
    return response.results.map(({ error, ...result }) => ({
      ...result,
      error: error === PublishError.UNSPECIFIED ? "" : (PublishError[error] ?? `UNKNOWN_${error}`),
    }));
  } finally {
    client.close();
  }
}

/** The first that can be reached, or the last. */
async function reached(addresses: readonly string[], options: Options): Promise<Target> {
  const targets = addresses.map((one) => target(one, options.tls));
  for (const to of targets.slice(0, -1)) {
    const client = new GatewayServiceClient(...channel(to, options));
    const deadline = Date.now() + options.openTimeout;
    const isThere = await new Promise((resolve) =>
      client.waitForReady(deadline, (error) => resolve(error === undefined)),
    );
    client.close();
    if (isThere) return to;
  }
  return targets.at(-1) as Target;
}

function toWire(record: Outgoing): OutgoingRecord {
  return {
    topic: record.topic,
    value: bytes(record.value),
    key: bytes(record.key),
    headers: (record.headers ?? []).map(([key, value]) => ({ key, value: bytes(value) })),
    partition: record.partition,
    timestampMs: record.timestampMs,
  };
}

function bytes(of: Buffer | string | null | undefined): Buffer | undefined {
  return typeof of === "string" ? Buffer.from(of, "utf8") : (of ?? undefined);
}
