/** How streams and subscribers end. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { status } from "@grpc/grpc-js";

import { Outcome } from "../src/gen/ackgate/v1/gateway.js";
import { GatewayError, NotClosed, NotOpened, Silent, Subscriber } from "../src/index.js";
import { eventually } from "./gateway.js";
import { disconnected, run, serve } from "./running.js";

const ignore = (): void => undefined;

test("silence is a dead stream", async () => {
  const gateway = await serve();
  const running = run(gateway.address, ignore);
  await (await gateway.next()).opened({ ping: 150 });
  await gateway.next();
  assert.ok(disconnected(running)[0]?.error instanceof Silent);
});

test("a gateway that never opens is left", async () => {
  const gateway = await serve();
  const running = run(gateway.address, ignore, { openTimeout: 200 });
  await gateway.next();
  await gateway.next();
  assert.ok(disconnected(running)[0]?.error instanceof NotOpened);
});

test("a goodbye without an end is an error", async () => {
  const gateway = await serve();
  const running = run(gateway.address, ignore, { closeTimeout: 200 });
  const stream = await gateway.next();
  await stream.opened();
  await eventually(() => running.events.some(({ type }) => type === "opened"));
  running.subscriber.stop();
  await stream.next("close");
  await assert.rejects(running.ended, NotClosed);
});

test("a refusal ends it with its reason", async () => {
  const gateway = await serve();
  const running = run(gateway.address, ignore);
  (await gateway.next()).end(status.NOT_FOUND, "UNKNOWN_SUBSCRIPTION");
  await assert.rejects(running.ended, (error) => {
    assert.ok(error instanceof GatewayError);
    assert.deepEqual(
      [error.code, error.reason, error.retryAfter],
      ["NOT_FOUND", "UNKNOWN_SUBSCRIPTION", 300],
    );
    return true;
  });
});

test("waits as long as the gateway asks", async () => {
  const gateway = await serve();
  run(gateway.address, ignore);
  (await gateway.next()).end(status.RESOURCE_EXHAUSTED, "TOO_MANY_STREAMS");
  const began = performance.now();
  await gateway.next();
  assert.ok(performance.now() - began >= 250);
});

test("until drained ends with the stream", async () => {
  const gateway = await serve();
  const running = run(gateway.address, ignore, { untilDrained: true });
  const stream = await gateway.next();
  assert.equal((await stream.opened()).untilDrained, true);
  stream.end();
  await running.ended;
});

test("to leave the loop is to close it, and no timer is left", async () => {
  const gateway = await serve();
  const timers = (): string[] =>
    process.getActiveResourcesInfo().filter((name) => name === "Timeout" || name === "Immediate");
  const before = timers().length;
  // A timer that is left outlasts the test.
  const subscriber = new Subscriber(gateway.address, "orders", { closeTimeout: 120_000 });
  const left = (async () => {
    for await (const delivery of subscriber) {
      delivery.ack();
      break;
    }
  })();
  const stream = await gateway.next();
  await stream.opened();
  stream.batch([1, 2]);
  assert.deepEqual(
    (await stream.verdicts(2)).map(([offset, outcome]) => [offset, outcome]),
    [
      [1, Outcome.ACKED],
      [2, Outcome.RELEASED],
    ],
  );
  await stream.next("close");
  stream.end();
  await left;
  gateway.stop();
  await eventually(() => timers().length <= before);
});

test("an abort signal stops a run before anything is open", async () => {
  const stop = new AbortController();
  const subscriber = new Subscriber("127.0.0.1:1", "orders");
  const ended = subscriber.run(() => undefined, { signal: stop.signal });
  stop.abort();
  assert.equal((await ended).records, 0);
});
