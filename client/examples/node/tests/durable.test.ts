/** Waits for durable verdicts: what the gateway says ends each, or the end of its stream. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { status } from "@grpc/grpc-js";

import { Confirm, Outcome, ResumeResult, VerdictResult } from "../src/gen/ackgate/v1/gateway.js";
import { type Handler, NotDurable, type Options } from "../src/index.js";
import { eventually, throughout } from "./gateway.js";
import { type Running, run, serve } from "./running.js";
import type { Stream } from "./gateway.js";

/** What a wait came to, once it has: "durable", or the kind or the words of its error. */
type Fates = Map<number, string>;

const DURABLE = { confirm: "durable" } as const;

/** A handler that acks durably, and offset 9 rejects; without waiting. */
function durably(fates: Fates, given: Set<number>): Handler {
  return (delivery) => {
    const at = Number(delivery.offset);
    const wait = at === 9 ? delivery.rejectDurably("bad", "no good") : delivery.ackDurably();
    given.add(at);
    wait.then(
      () => fates.set(at, "durable"),
      (error: unknown) => {
        assert.ok(error instanceof NotDurable);
        fates.set(at, error.kind ?? error.message);
      },
    );
  };
}

async function begun(
  options: Partial<Options> = {},
  resumeToken = "",
): Promise<{ running: Running; stream: Stream; fates: Fates; given: Set<number>; next: () => Promise<Stream> }> {
  const gateway = await serve();
  const [fates, given]: [Fates, Set<number>] = [new Map(), new Set()];
  const running = run(gateway.address, durably(fates, given), { ...DURABLE, ...options });
  const stream = await gateway.next();
  assert.equal((await stream.opened({ resumeToken })).confirm, Confirm.DURABLE);
  return { running, stream, fates, given, next: () => gateway.next() };
}

test("a wait lasts until the gateway confirms its own message", async () => {
  const { stream, fates } = await begun();
  stream.batch([0]);
  const one = await stream.next("settle");
  stream.batch([9]);
  const two = await stream.next("settle");
  const outcomes = [one, two].map(({ verdicts }) => verdicts[0]?.outcome);
  assert.deepEqual(outcomes, [Outcome.ACKED, Outcome.REJECTED]);
  stream.settled(two.sequence);
  await eventually(() => fates.get(9) === "durable");
  await throughout(() => !fates.has(0));
  stream.settled(one.sequence);
  await eventually(() => fates.get(0) === "durable");
});

test("a wait ends with the problem of its record", async () => {
  const { stream, fates } = await begun({ flushInterval: 1_000, flushRecords: 3 });
  stream.batch([0, 1, 2]);
  const { sequence, verdicts } = await stream.next("settle");
  assert.deepEqual([verdicts[0]?.firstOffset, verdicts[0]?.lastOffset], [0n, 2n]);
  // An answer in two parts counts as one.
  stream.settled(sequence, [[0, VerdictResult.STALE]], true);
  stream.settled(sequence, [[1, VerdictResult.DUPLICATE]]);
  await eventually(() => fates.size === 3);
  assert.deepEqual([0, 1, 2].map((at) => fates.get(at)), ["stale", "durable", "durable"]);
});

test("a wait ends with the stream", async () => {
  const { stream, fates } = await begun({}, "t");
  stream.batch([0]);
  await stream.next("settle");
  stream.end(status.UNAVAILABLE);
  await eventually(() => /ended before/.test(fates.get(0) ?? ""));
});

test("what was not sent goes on over a reconnect", async () => {
  const { stream, fates, given, next } = await begun({ flushInterval: 1_000 }, "t");
  stream.batch([0, 1]);
  await eventually(() => given.size === 2);
  stream.end(status.UNAVAILABLE);
  const again = await next();
  const where = { topic: "orders", partition: 3, firstOffset: 1n, lastOffset: 1n };
  await again.opened({ resumed: [{ ...where, result: ResumeResult.KEPT, lane: 8n }], resumeToken: "t" });
  const { sequence } = await again.next("settle");
  assert.match(fates.get(0) ?? "", /ended before/);
  assert.ok(!fates.has(1));
  again.settled(sequence);
  await eventually(() => fates.get(1) === "durable");
});

test("the goodbye waits for confirmations", async () => {
  const { running, stream, fates } = await begun({ closeTimeout: 20_000 });
  stream.batch([0]);
  const { sequence } = await stream.next("settle");
  running.subscriber.stop();
  await stream.next("credit");
  await throughout(() => stream.waiting.length === 0);
  stream.settled(sequence);
  await stream.next("close");
  stream.end();
  await running.ended;
  assert.equal(fates.get(0), "durable");
});

test("the goodbye does not wait for ever", async () => {
  const { running, stream, fates } = await begun();
  stream.batch([0]);
  await stream.next("settle");
  running.subscriber.stop();
  await stream.next("close");
  stream.end();
  await running.ended;
  assert.match(fates.get(0) ?? "", /ended before/);
});

test("without the option it is over at once, and the verdict counts", async () => {
  const gateway = await serve();
  const words: string[] = [];
  run(gateway.address, async (delivery) => {
    for (const wait of [delivery.ackDurably(), delivery.ackDurably()]) {
      await wait.catch((error: Error) => words.push(error.message));
    }
  });
  const stream = await gateway.next();
  await stream.opened();
  stream.batch([0]);
  assert.equal((await stream.next("settle")).verdicts[0]?.outcome, Outcome.ACKED);
  await eventually(() => words.length === 2);
  assert.match(words.join(), /did not ask.*before/);
});
