/** The conformance program: runs a subscription as its records say, and prints JSON lines. */

import { createHash, randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";

import { USAGE, type Arguments, read } from "./src/cli.js";
import {
  type Batch,
  type Delivery,
  type Event,
  Fail,
  GatewayError,
  Reject,
  type Sent,
  type Stats,
  Subscriber,
} from "./src/index.js";

/** Values beyond this many bytes are printed as their hash. */
const PRINTED = 1_024;

/** Attempts that are remembered for the verdicts that are to come: the highest credit. */
const REMEMBERED = 1_000_000;

/** What bigints are marked with, so that they become numbers of the text with every digit. */
const MARK = `${randomUUID()}:`;
const MARKED = new RegExp(`"${MARK}(-?\\d+)"`, "g");

const UNREPORTED = new Set(["duplicate", "other"]);

/** By topic, partition, offset and delivery number. */
const attempts = new Map<string, number>();

function line(event: string, fields: object): void {
  const text = JSON.stringify({ event, ...fields }, (_, value: unknown) =>
    typeof value === "bigint" ? `${MARK}${value}` : value,
  );
  process.stdout.write(`${text.replaceAll(MARKED, "$1")}\n`);
}

function onEvent(event: Event, batches: boolean): void {
  switch (event.type) {
    case "opened": {
      const { session, subscriberId, resumed } = event;
      line("opened", { session, subscriber_id: subscriberId, resumed });
      break;
    }
    case "received":
      if (!batches) remember(event.batch);
      break;
    case "sent":
      if (!batches) verdicts(event);
      break;
    case "problem":
      if (UNREPORTED.has(event.kind)) break;
      line("problem", {
        topic: event.topic,
        partition: event.partition,
        first_offset: event.firstOffset,
        last_offset: event.lastOffset,
        kind: event.kind,
      });
      break;
    case "draining":
      line("drain", { reason: event.reason });
      break;
    case "disconnected": {
      const { code, reason, said } = event.error;
      const retry = Math.round(event.retryIn);
      line("disconnected", { code, reason, message: said, retry_in_ms: retry });
      break;
    }
    default:
  }
}

function remember(batch: Batch): void {
  for (const { topic, partition, offset, number, attempt } of batch) {
    attempts.set(`${topic}/${partition}/${offset}/${number}`, attempt);
  }
  for (const key of attempts.keys()) {
    if (attempts.size <= REMEMBERED) break;
    attempts.delete(key);
  }
}

function verdicts({ topic, partition, firstOffset, lastOffset, delivery, outcome }: Sent): void {
  for (let offset = firstOffset; offset <= lastOffset; offset += 1n) {
    const key = `${topic}/${partition}/${offset}/${delivery}`;
    const attempt = attempts.get(key) ?? 0;
    attempts.delete(key);
    line("verdict", { topic, partition, offset, attempt, verdict: outcome });
  }
}

function base64(raw: Buffer | null): string | null {
  return raw === null ? null : raw.toString("base64");
}

/** Prints the record and does what it says. */
async function handle(delivery: Delivery, signal: AbortSignal): Promise<void> {
  const { topic, partition, offset, attempt, number, key, value, headers, timestampMs } = delivery;
  const long = value !== null && value.length > PRINTED;
  line("delivery", {
    topic,
    partition,
    offset,
    attempt,
    delivery: number,
    key: base64(key),
    ...(long
      ? { value_sha256: createHash("sha256").update(value).digest("hex") }
      : { value: base64(value) }),
    value_bytes: value?.length ?? 0,
    headers: headers.map(([name, of]) => [name, base64(of)]),
    timestamp_ms: timestampMs,
    traceparent: delivery.traceContext?.traceparent ?? null,
  });
  const wish = (delivery.header("conformance-do") ?? Buffer.from("ack")).toString("utf8");
  const [what, first = "", second = ""] = wish.split(":");
  switch (what) {
    case "ack":
      return;
    case "reject":
      throw new Reject(first, "asked for");
    case "fail":
      if (attempt > Number(first)) return;
      throw new Fail("asked for", { code: "asked", retryAfter: Number(second) });
    case "work":
      await sleep(Number(first), undefined, { signal, ref: false });
      return;
    case "raise":
      if (attempt <= 1) throw new Error("asked for");
      return;
    default:
      throw new Reject("conformance-do", `not known: ${wish}`);
  }
}

async function run(args: Arguments, signal: AbortSignal): Promise<Stats> {
  const observer = (event: Event): void => onEvent(event, args.batches);
  const subscriber = new Subscriber(args.address, args.subscription, args.options, observer);
  if (!args.batches) return subscriber.run(handle, { concurrency: args.concurrency, signal });
  signal.addEventListener("abort", () => subscriber.stop());
  for await (const batch of subscriber.batches()) {
    const { topic, partition, firstOffset, lastOffset } = batch;
    const range = { first_offset: firstOffset, last_offset: lastOffset };
    line("batch", { topic, partition, records: batch.size, ...range });
    batch.ack();
  }
  return subscriber.close();
}

/** Returns the exit code: 0 closed, 1 ended by an error, 2 a bad command line. */
async function main(): Promise<number> {
  const stop = new AbortController();
  for (const name of ["SIGTERM", "SIGINT"] as const) {
    process.on(name, () => (stop.signal.aborted ? process.exit(130) : stop.abort()));
  }
  try {
    const { acked, rejected, failed, released } = await run(read(process.argv.slice(2)), stop.signal);
    line("closed", { acked, rejected, failed, released });
    return 0;
  } catch (error) {
    if (error instanceof GatewayError) {
      const { code, reason, said } = error;
      line("error", { code, reason, message: said });
      return 1;
    }
    process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n${USAGE}\n`);
    return 2;
  }
}

process.exitCode = await main();
