/** Which gateway is reached, and what is said of those that are not. */

import assert from "node:assert/strict";
import { createServer } from "node:net";
import { after, before, test } from "node:test";

import { status } from "@grpc/grpc-js";

import { DrainReason } from "../src/gen/ackgate/v1/gateway.js";
import { GatewayError, type Options, TlsError, publish } from "../src/index.js";
import { Authority } from "./certificates.js";
import { eventually } from "./gateway.js";
import { disconnected, run, serve } from "./running.js";

const ignore = (): void => undefined;
let [authority, other]: Authority[] = [];

before(() => {
  authority = new Authority();
  other = new Authority();
});

after(() => {
  authority?.remove();
  other?.remove();
});

/** Two tries at most, with this authority and name. */
function trusting(of: Authority | undefined, serverName?: string): Partial<Options> {
  return { retries: 2, openTimeout: 5_000, tls: { ca: of?.pem, serverName } };
}

/** An address where nobody listens. */
async function nobody(): Promise<string> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const at = server.address();
  await new Promise((resolve) => server.close(resolve));
  assert.ok(at && typeof at === "object");
  return `127.0.0.1:${at.port}`;
}

test("a certificate that does not fit ends it", async () => {
  const gateway = await serve(authority?.server());
  const address = `https://${gateway.address}`;
  for (const [options, advice] of [
    [trusting(other, "gateway.test"), /no authority that is trusted/],
    [trusting(authority, "else.test"), /not for this name/],
  ] as const) {
    const running = run(address, ignore, options);
    await assert.rejects(running.ended, (error: unknown) => {
      assert.ok(error instanceof TlsError, String(error));
      assert.match(error.message, advice);
      assert.ok(error.message.includes(gateway.address));
      assert.deepEqual([error.retryable, error.address], [false, address]);
      return true;
    });
    assert.deepEqual(disconnected(running), [], "it tried again");
  }
});

test("TLS to a plain port ends it", async () => {
  const gateway = await serve();
  const running = run(`https://${gateway.address}`, ignore, trusting(authority));
  await assert.rejects(running.ended, /does not speak TLS: use http:\/\//);
  assert.deepEqual(disconnected(running), []);
});

test("plain text to a TLS port says what is probably wrong", async () => {
  const gateway = await serve(authority?.server());
  const running = run(gateway.address, ignore, { retries: 2 });
  await assert.rejects(running.ended, /address begins with https:\/\//);
  // It may as well be a gateway that goes down.
  assert.equal(disconnected(running).length, 2);
});

test("a missing certificate says what is wanted", async () => {
  const gateway = await serve(authority?.server(true));
  const running = run(`https://${gateway.address}`, ignore, trusting(authority, "gateway.test"));
  await assert.rejects(running.ended, /certificate of this side/);
});

test("nobody there is tried again", async () => {
  const running = run(`https://${await nobody()}`, ignore, trusting(authority));
  await assert.rejects(running.ended, (error) => !(error instanceof TlsError));
  assert.equal(disconnected(running).length, 2);
});

test("publishing says it, too", async () => {
  const gateway = await serve(authority?.server());
  const records = [{ topic: "orders", value: "" }];
  const given = trusting(authority, "else.test");
  await assert.rejects(publish(`https://${gateway.address}`, records, given), TlsError);
});

test("the next address is tried, and the one after it", async () => {
  const [none, first, second] = [await nobody(), await serve(), await serve()];
  const running = run([none, first.address, second.address], ignore);
  let stream = await first.next();
  await stream.opened();
  assert.equal(disconnected(running)[0]?.error.address, none);
  stream.end(status.UNAVAILABLE);
  // It cannot be gone on with: no token was given.
  stream = await second.next();
  await stream.opened();
  stream.batch([0]);
  await stream.next("settle");
  running.subscriber.stop();
  await stream.next("close");
  stream.end();
  assert.equal((await running.ended).acked, 1);
});

test("what is in hand is asked for where it came from", async () => {
  const [first, second] = [await serve(), await serve()];
  const running = run([first.address, second.address], (_, signal) => {
    return new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve()));
  });
  const stream = await first.next();
  await stream.opened({ resumeToken: "here" });
  stream.batch([0]);
  await eventually(() => running.subscriber.stats().records === 1);
  stream.end(status.UNAVAILABLE);
  const again = await first.next();
  assert.equal((await again.next("open")).resume?.token, "here");
  // It is not there any more.
  again.end(status.UNAVAILABLE);
  await (await second.next()).opened();
  running.subscriber.stop(0);
});

test("a gateway that stops is left, and an old connection is not", async () => {
  const [first, second] = [await serve(), await serve()];
  run([first.address, second.address], ignore);
  for (const [gateway, reason] of [
    [first, DrainReason.CONNECTION_AGE],
    [first, DrainReason.GATEWAY_STOPS],
    [second, DrainReason.GATEWAY_STOPS],
  ] as const) {
    const stream = await gateway.next();
    await stream.opened();
    stream.send({ $case: "drain", value: { deadline: undefined, reason } });
    await stream.next("close");
    stream.end();
  }
  await (await first.next()).opened();
});

test("a refusal ends it once every address refuses", async () => {
  const [first, second] = [await serve(), await serve()];
  const running = run([first.address, second.address], ignore);
  (await first.next()).end(status.NOT_FOUND, "UNKNOWN_SUBSCRIPTION");
  (await second.next()).end(status.PERMISSION_DENIED);
  await assert.rejects(running.ended, (error: unknown) => {
    assert.ok(error instanceof GatewayError);
    assert.deepEqual([error.code, error.address], ["PERMISSION_DENIED", second.address]);
    return true;
  });
});

test("a superseded one does not go elsewhere", async () => {
  const [first, second] = [await serve(), await serve()];
  const running = run([first.address, second.address], ignore);
  const stream = await first.next();
  await stream.opened();
  stream.end(status.ABORTED, "SUPERSEDED");
  await assert.rejects(running.ended, /SUPERSEDED/);
});
