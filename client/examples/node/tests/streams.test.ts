/** What a subscriber does on the wire. */

import assert from "node:assert/strict";
import { beforeEach, test } from "node:test";

import { status } from "@grpc/grpc-js";

import { Outcome, ResumeAnswer, ResumeResult } from "../src/gen/ackgate/v1/gateway.js";
import {
  type Event,
  Fail,
  type Handler,
  type Options,
  Reject,
  Release,
  Subscriber,
} from "../src/index.js";
import { duration } from "../src/time.js";
import { type Gateway, eventually, throughout } from "./gateway.js";
import { type Running, run as runOn, serve } from "./running.js";

let gateway: Gateway;
let running: Running;

beforeEach(async () => {
  gateway = await serve();
});

function run(handler: Handler, options: Partial<Options> = {}, concurrency = 4): void {
  running = runOn(gateway.address, handler, options, concurrency);
}

function of<T extends Event["type"]>(type: T): Extract<Event, { type: T }>[] {
  return running.events.filter((event): event is Extract<Event, { type: T }> => event.type === type);
}

/** A handler that waits until it is opened, and how often it has begun. */
function gate(): { handler: () => Promise<void>; begun: () => number; open: () => void } {
  let [begun, open] = [0, (): void => undefined];
  const opened = new Promise<void>((resolve) => (open = resolve));
  const handler = (): Promise<void> => {
    begun += 1;
    return opened;
  };
  return { handler, begun: () => begun, open: () => open() };
}

function kept(offset: number, lane: bigint): ResumeAnswer {
  const at = BigInt(offset);
  const where = { topic: "orders", partition: 3, firstOffset: at, lastOffset: at };
  return { ...where, result: ResumeResult.KEPT, lane };
}

test("acks are joined, and the end is said", async () => {
  run(() => undefined, { credit: 50, token: "secret", flushInterval: 200 });
  const stream = await gateway.next();
  const open = await stream.opened();
  assert.equal(open.credit?.records, 50);
  assert.equal(open.resumable, true);
  assert.deepEqual(stream.call.metadata.get("authorization"), ["Bearer secret"]);
  stream.batch(Array.from({ length: 30 }, (_, index) => index + 10));
  const { verdicts } = await stream.next("settle");
  assert.deepEqual(
    verdicts.map(({ firstOffset, lastOffset }) => [firstOffset, lastOffset]),
    [[10n, 39n]],
  );
  running.subscriber.stop();
  await stream.next("close");
  stream.end();
  assert.equal((await running.ended).acked, 30);
});

test("gaps are not spanned", async () => {
  run(() => undefined, { flushInterval: 200 });
  const stream = await gateway.next();
  await stream.opened();
  stream.batch([1, 2, 4]);
  const { verdicts } = await stream.next("settle");
  assert.deepEqual(
    verdicts.map(({ firstOffset, lastOffset }) => [firstOffset, lastOffset]),
    [
      [1n, 2n],
      [4n, undefined],
    ],
  );
});

test("what a handler throws is its verdict", async () => {
  run(({ offset }) => {
    if (offset === 1n) throw new Reject("bad", "no good");
    if (offset === 2n) throw new Fail("later", { code: "busy", retryAfter: 1_500 });
    if (offset === 3n) throw new Release();
    if (offset === 4n) throw new TypeError("oops");
  });
  const stream = await gateway.next();
  await stream.opened();
  stream.batch([0, 1, 2, 3, 4]);
  assert.deepEqual(await stream.verdicts(5), [
    [0, Outcome.ACKED, "", 7n],
    [1, Outcome.REJECTED, "bad", 7n],
    [2, Outcome.FAILED, "busy", 7n],
    [3, Outcome.RELEASED, "", 7n],
    [4, Outcome.FAILED, "handler", 7n],
  ]);
});

test("handlers are as many as allowed", async () => {
  const { handler, begun, open } = gate();
  run(handler, {}, 3);
  const stream = await gateway.next();
  await stream.opened();
  stream.batch(Array.from({ length: 20 }, (_, index) => index));
  await eventually(() => begun() === 3);
  await throughout(() => begun() === 3);
  open();
  await eventually(() => begun() === 20);
});

test("resumes, and answers what was kept", async () => {
  const { handler, begun, open } = gate();
  run(handler);
  const first = await gateway.next();
  await first.opened({ resumeToken: "t" });
  first.batch([1, 2]);
  await eventually(() => begun() === 2);
  first.end(status.UNAVAILABLE);
  const second = await gateway.next();
  const again = await second.opened({ resumeToken: "u", resumed: [kept(1, 9n)] });
  assert.equal(again.resume?.token, "t");
  assert.equal(again.subscriberId, "me");
  assert.deepEqual(
    again.resume?.held.map((run) => [run.topic, run.firstOffset, run.lastOffset]),
    [["orders", 1n, 2n]],
  );
  await eventually(() => of("opened").length === 2);
  open();
  assert.deepEqual(await second.verdicts(1), [[1, Outcome.ACKED, "", 9n]]);
  await eventually(() => of("problem").length === 1);
  assert.deepEqual(
    of("problem").map(({ kind, firstOffset }) => [kind, firstOffset]),
    [["lost", 2n]],
  );
  assert.equal(of("opened")[1]?.resumed, 1);
  assert.equal(of("disconnected")[0]?.error.code, "UNAVAILABLE");
});

test("verdicts given while there is no stream are sent on the next", async () => {
  const { handler, begun, open } = gate();
  run(handler);
  const first = await gateway.next();
  await first.opened({ resumeToken: "t" });
  first.batch([1, 2, 3]);
  await eventually(() => begun() === 3);
  first.end(status.UNAVAILABLE);
  await eventually(() => of("disconnected").length === 1);
  open();
  const second = await gateway.next();
  const settled = { ...kept(2, 0n), result: ResumeResult.SETTLED };
  await second.opened({ resumeToken: "u", resumed: [settled, kept(1, 8n)] });
  assert.deepEqual(await second.verdicts(1), [[1, Outcome.ACKED, "", 8n]]);
  await eventually(() => of("problem").length === 1);
  assert.equal(of("problem")[0]?.firstOffset, 3n);
});

test("a drain ends the stream once all is answered, and another follows", async () => {
  const { handler, open } = gate();
  run(handler);
  const first = await gateway.next();
  await first.opened({ resumeToken: "t" });
  first.batch([5]);
  first.send({ $case: "drain", value: { deadline: duration(10_000), reason: 2 } });
  await eventually(() => of("draining").length === 1);
  open();
  assert.deepEqual(await first.verdicts(1), [[5, Outcome.ACKED, "", 7n]]);
  await first.next("close");
  first.end();
  const second = await gateway.next();
  assert.equal((await second.opened()).resume, undefined);
  assert.equal(of("draining")[0]?.reason, "CONNECTION_AGE");
  assert.equal(of("disconnected").length, 0);
});

test("beats, and extends while it works", async () => {
  const { handler, open } = gate();
  run(handler);
  const stream = await gateway.next();
  await stream.opened({ ackDeadline: 300, beat: 50 });
  await stream.next("beat");
  stream.batch([1, 2]);
  for (let round = 0; round < 2; round += 1) {
    const { by, extensions } = await stream.next("extend");
    assert.deepEqual(by, duration(300));
    assert.deepEqual(
      extensions.map(({ firstOffset, lastOffset }) => [firstOffset, lastOffset]),
      [[1n, 2n]],
    );
  }
  open();
});

test("a stop gives back what was not begun", async () => {
  const { handler, begun, open } = gate();
  run(handler, {}, 1);
  const stream = await gateway.next();
  await stream.opened();
  stream.batch([1, 2, 3]);
  stream.batch([4]);
  await eventually(() => begun() === 1 && of("received").length === 2);
  running.subscriber.stop();
  assert.equal((await stream.next("credit")).records, 0);
  open();
  assert.deepEqual(await stream.verdicts(4), [
    [1, Outcome.ACKED, "", 7n],
    [2, Outcome.RELEASED, "", 7n],
    [3, Outcome.RELEASED, "", 7n],
    [4, Outcome.RELEASED, "", 7n],
  ]);
  await stream.next("close");
  stream.end();
  const { acked, released } = await running.ended;
  assert.deepEqual([acked, released], [1, 3]);
});

test("messages of a later version are passed over", async () => {
  run(() => undefined);
  const stream = await gateway.next();
  await stream.opened();
  // Field 99 of `SubscribeResponse`, a message of two bytes.
  stream.raw(Buffer.from([0x9a, 0x06, 0x02, 0x08, 0x01]));
  stream.batch([1]);
  assert.equal((await stream.verdicts(1)).length, 1);
  assert.equal(of("disconnected").length, 0);
});

test("what comes again is answered by its number", async () => {
  const seen: number[][] = [];
  run(({ attempt, number }) => void seen.push([attempt, number]), { flushInterval: 200 });
  const stream = await gateway.next();
  await stream.opened();
  stream.batch([4, 5], { again: 3 });
  const { verdicts } = await stream.next("settle");
  assert.deepEqual(
    verdicts.map((verdict) => [verdict.firstOffset, verdict.lastOffset, verdict.delivery]),
    [[4n, 5n, 3]],
  );
  assert.deepEqual(seen, [
    [3, 3],
    [3, 3],
  ]);
});

test("a batch is answered by its runs", async () => {
  const subscriber = new Subscriber(gateway.address, "orders", { closeTimeout: 300 });
  const batches = subscriber.batches();
  const first = batches.next();
  const stream = await gateway.next();
  await stream.opened();
  stream.batch([1, 2, 3, 5]);
  const { value: batch } = await first;
  assert.ok(batch);
  assert.deepEqual([batch.size, batch.firstOffset, batch.lastOffset], [4, 1n, 5n]);
  for (const delivery of batch) {
    delivery.reject("bad");
    break;
  }
  batch.ack();
  assert.deepEqual(
    (await stream.verdicts(4)).map(([offset, outcome]) => [offset, outcome]),
    [
      [1, Outcome.REJECTED],
      [2, Outcome.ACKED],
      [3, Outcome.ACKED],
      [5, Outcome.ACKED],
    ],
  );
  subscriber.stop(0);
  await stream.next("close");
  stream.end();
  await batches.return();
});
