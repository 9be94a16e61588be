/**
 * Prints every record of a subscription and acks it. Ctrl-C stops it.
 *
 * Refuses what is not UTF-8 for good, to show how: such records become dead letters.
 */

import { USAGE, read } from "./src/cli.js";
import { type Delivery, type Event, GatewayError, Reject, Subscriber } from "./src/index.js";

const utf8 = new TextDecoder("utf-8", { fatal: true });

/** Prints one record. To return is to ack. */
function show({ topic, partition, offset, key, value }: Delivery): void {
  let text = "<null>";
  try {
    if (value) text = utf8.decode(value);
  } catch (error) {
    throw new Reject("not-utf-8", String(error));
  }
  console.log(`${topic}/${partition}@${offset} ${key ? key.toString("utf8") : "<null>"} ${text}`);
}

/** Says on standard error whether there is a stream, and why not. */
function tell(event: Event): void {
  if (event.type === "opened") {
    console.error(`subscribed as ${event.subscriberId}`);
  } else if (event.type === "disconnected") {
    console.error(`${event.error.message}; again in ${(event.retryIn / 1_000).toFixed(1)} s`);
  }
}

if (process.argv.includes("--help")) {
  console.log(USAGE);
  process.exit();
}

const stop = new AbortController();
for (const name of ["SIGTERM", "SIGINT"] as const) process.once(name, () => stop.abort());

try {
  const { address, subscription, concurrency, options } = read(process.argv.slice(2));
  const subscriber = new Subscriber(address, subscription, options, tell);
  const stats = await subscriber.run(show, { concurrency, signal: stop.signal });
  console.log(`${stats.records} records, ${stats.acked} acked, ${stats.rejected} rejected`);
} catch (error) {
  console.error(error instanceof Error ? error.message : error);
  if (!(error instanceof GatewayError)) console.error(USAGE);
  process.exitCode = error instanceof GatewayError ? 1 : 2;
}
