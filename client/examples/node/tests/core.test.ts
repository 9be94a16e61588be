/** The parts that know no socket. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { Backoff } from "../src/backoff.js";
import { Gateways, target } from "../src/addresses.js";
import { OptionError } from "../src/errors.js";
import { Counters, type Event } from "../src/events.js";
import { Open, ResumeAnswer, ResumeResult, SubscribeRequest } from "../src/gen/ackgate/v1/gateway.js";
import { ACK, Ledger } from "../src/ledger.js";
import { Messages, cut } from "../src/messages.js";
import { type Options, complete, opening } from "../src/options.js";
import { Fates, manifest } from "../src/resume.js";
import { HeldRuns, type Run, joined } from "../src/runs.js";
import { duration, milliseconds } from "../src/time.js";

const NAME = { topic: "orders", partition: 3, epoch: 1n };

function run(first: number, last: number, delivery = 1, lane = 7n): Run {
  return { lane, delivery, first: BigInt(first), last: BigInt(last) };
}

function answer(first: number, last: number, result: ResumeResult, lane = 0n): ResumeAnswer {
  const [firstOffset, lastOffset] = [BigInt(first), BigInt(last)];
  return { topic: "orders", partition: 3, firstOffset, lastOffset, result, lane };
}

function newLedger(): [Ledger, Event[]] {
  const told: Event[] = [];
  const counters = new Counters((event) => told.push(event));
  return [new Ledger(counters, 10, () => undefined), told];
}

/** Numbers below 1, the same for the same seed. */
function chance(seed: number): () => number {
  let state = seed * 2_654_435_761 + 1;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
}

test("held runs are a set of offsets", () => {
  for (let seed = 0; seed < 20; seed += 1) {
    const random = chance(seed);
    const held = new HeldRuns();
    const model = new Set<number>();
    for (let step = 0; step < 200; step += 1) {
      const first = Math.floor(random() * 60);
      const last = first + Math.floor(random() * 8);
      const whole = Array.from({ length: last - first + 1 }, (_, index) => first + index);
      if (random() < 0.5) {
        held.insert(run(first, last));
        for (const at of whole) model.add(at);
      } else {
        const taken = held.take(run(first, last)).flatMap(offsets);
        assert.deepEqual(taken, whole.filter((at) => model.has(at)));
        for (const at of whole) model.delete(at);
      }
      const runs = [...held];
      assert.deepEqual(runs.flatMap(offsets), [...model].sort((a, b) => a - b));
      assert.deepEqual(joined(runs), runs, "neighbours are one");
      assert.equal(held.size, model.size);
      for (let at = 0; at < 70; at += 1) assert.equal(held.has(7n, 1, BigInt(at)), model.has(at));
    }
  }
});

function offsets({ first, last }: Run): number[] {
  return Array.from({ length: Number(last - first) + 1 }, (_, index) => Number(first) + index);
}

test("runs join only without a gap and within a delivery", () => {
  const runs = [run(4, 5), run(1, 3), run(6, 6, 2), run(6, 7, 1, 8n), run(7, 7)];
  assert.deepEqual(joined(runs), [run(1, 5), run(7, 7), run(6, 6, 2), run(6, 7, 1, 8n)]);
});

test("of two deliveries of a record the later is named", () => {
  const held = manifest([run(0, 9), run(4, 5, 2), run(0, 0, 1, 8n)], new Map([[7n, NAME]]));
  assert.deepEqual(
    held.map((one) => [one.firstOffset, one.lastOffset, one.delivery]),
    [
      [4n, 5n, 2],
      [0n, 3n, 1],
      [6n, 9n, 1],
    ],
  );
});

test("a manifest has no more runs than a gateway takes", () => {
  const runs = Array.from({ length: 10_500 }, (_, index) => run(index * 2, index * 2));
  assert.equal(manifest(runs, new Map([[7n, NAME]])).length, 10_000);
});

test("what has no answer is lost", () => {
  const fates = new Fates([
    answer(6, 99, ResumeResult.SETTLED),
    answer(2, 4, ResumeResult.KEPT, 9n),
  ]);
  assert.deepEqual(
    [...fates.of(run(0, 8), NAME)],
    [
      { run: run(0, 1), fate: "lost" },
      { run: run(2, 4, 1, 9n), fate: "kept" },
      { run: run(5, 5), fate: "lost" },
      { run: run(6, 8), fate: "settled" },
    ],
  );
});

test("each record is answered once", () => {
  const [ledger, told] = newLedger();
  const session = ledger.begin([]);
  ledger.handed([run(0, 3)], NAME);
  assert.equal(ledger.readiness(session), "empty");
  ledger.answer(run(1, 1), ACK);
  assert.equal(ledger.readiness(session), "soon");
  ledger.answer(run(1, 1), { outcome: "failed" });
  assert.deepEqual(
    told.map((event) => event.type === "problem" && [event.firstOffset, event.kind]),
    [[1n, "lost"]],
  );
  ledger.answer(run(0, 0), ACK);
  assert.deepEqual(ledger.take().acks, [run(0, 1)]);
  assert.equal(ledger.out, 2);
});

test("after a loss nothing counts", () => {
  const [ledger] = newLedger();
  ledger.begin([]);
  ledger.handed([run(0, 9)], NAME);
  ledger.answer(run(0, 4), ACK);
  ledger.end(false);
  ledger.answer(run(5, 5), ACK);
  assert.equal(ledger.counters.stats.staleAnswers, 6);
  assert.equal(ledger.take().acks.length, 0);
});

test("a renamed lane is renamed again", () => {
  const [ledger] = newLedger();
  ledger.begin([]);
  ledger.handed([run(0, 0)], NAME);
  for (const lane of [8n, 9n]) {
    ledger.end(true);
    ledger.begin([answer(0, 0, ResumeResult.KEPT, lane)]);
  }
  ledger.answer(run(0, 0), ACK);
  assert.deepEqual(ledger.take().acks, [run(0, 0, 1, 9n)]);
});

test("extensions go before verdicts, and messages stay small", () => {
  const [ledger] = newLedger();
  ledger.begin([]);
  const runs = Array.from({ length: 5_000 }, (_, index) => run(index * 2, index * 2));
  ledger.handed(runs, NAME);
  ledger.extend(run(0, 0), 5_000);
  for (const [at, one] of runs.entries()) {
    ledger.answer(one, { outcome: "failed", reason: `${at}`.repeat(300) });
  }
  const all = [...new Messages(2_000).build(ledger.take())];
  const kinds = all.map(({ request }) => request.request?.$case);
  assert.equal(kinds[0], "extend");
  assert.deepEqual(new Set(kinds.slice(1)), new Set(["settle"]));
  assert.equal(all.reduce((sum, { verdicts }) => sum + verdicts.length, 0), 5_000);
  for (const { request, verdicts } of all) {
    assert.ok(verdicts.length <= 2_000);
    assert.ok(SubscribeRequest.encode(request).finish().length < (1 << 20) + 4_096);
  }
});

test("no offset loses a digit", () => {
  const [ledger] = newLedger();
  ledger.begin([]);
  const at = 2n ** 63n - 2n;
  const lane = 2n ** 64n - 1n;
  const far: Run = { lane, delivery: 1, first: at, last: at };
  ledger.handed([far], NAME);
  ledger.answer(far, ACK);
  const [settle] = [...new Messages(0).build(ledger.take())];
  assert.ok(settle);
  const wire = SubscribeRequest.decode(SubscribeRequest.encode(settle.request).finish());
  assert.ok(wire.request?.$case === "settle");
  const [verdict] = wire.request.value.verdicts;
  assert.deepEqual([verdict?.lane, verdict?.firstOffset], [lane, at]);
});

test("texts are cut between characters", () => {
  assert.equal(cut("äöü", 3), "ä");
  assert.equal(cut("äöü", 6), "äöü");
});

test("waits grow, with full jitter", () => {
  const backoff = new Backoff(() => 1);
  const waits = Array.from({ length: 10 }, () => backoff.afterFailure(false));
  assert.deepEqual(waits.slice(0, 3), [250, 500, 1_000]);
  assert.equal(waits.at(-1), 30_000);
  assert.equal(backoff.afterFailure(true, 5_000), 5_250);
  assert.equal(backoff.afterSuccess(), 250);
});

test("durations", () => {
  for (const ms of [0, 0.5, 1, 999, 1_000, 86_400_000]) assert.equal(milliseconds(duration(ms)), ms);
});

test("addresses", () => {
  assert.deepEqual(target("localhost:7000", undefined), { authority: "localhost:7000", tls: undefined });
  assert.deepEqual(target("http://a:7/", undefined), { authority: "a:7", tls: undefined });
  assert.deepEqual(target("https://gate", undefined), { authority: "gate:443", tls: {} });
  assert.equal(target("[::1]:7", undefined).authority, "[::1]:7");
  for (const wrong of ["ftp://a:1", "http://", "a:1/b", "http://user@a:1"]) {
    assert.throws(() => target(wrong, undefined), OptionError);
  }
});

test("options out of range are refused", () => {
  const wrong: Partial<Options>[] = [
    { credit: 0 },
    { credit: 1.5 },
    { maxMessageBytes: 100 },
    { ackDeadline: 10 },
    { subscriberId: "a\nb" },
    { subscriberId: "ä".repeat(129) },
    { token: "a b" },
    { tls: { certificate: Buffer.from("x") } },
  ];
  for (const options of wrong) assert.throws(() => complete(options), OptionError);
});

test("addresses are tried in turn, and given up together", () => {
  const gateways = new Gateways(["a:1", "b:2"], undefined);
  assert.equal(gateways.address, "a:1");
  gateways.leave();
  assert.equal(gateways.address, "b:2");
  // One that refuses is no end while the other may serve.
  assert.ok(gateways.refused());
  assert.equal(gateways.address, "a:1");
  gateways.leave();
  assert.ok(gateways.refused());
  assert.ok(!gateways.refused());
  assert.ok(!new Gateways("a:1", undefined).refused());
  for (const wrong of [[], ["a:1", "ftp://b"], Array<string>(65).fill("a")]) {
    assert.throws(() => new Gateways(wrong, undefined), OptionError);
  }
});

test("waits grow by rounds over all addresses", () => {
  const backoff = new Backoff(() => 1, 2);
  const waits = Array.from({ length: 5 }, () => backoff.afterFailure(false));
  assert.deepEqual(waits, [250, 250, 500, 500, 1_000]);
});

test("ad hoc takes the place of a name", () => {
  const adHoc = { cluster: "main", topics: ["a", "b"], group: "nightly" };
  const start = new Date("2026-01-02T00:00:00Z");
  const expect = { delivery: "broadcast", order: "lane", onReject: "drop", start, maxAttempts: 3, minAge: 1_500 } as const;
  const open = (options: Partial<Options>): Open =>
    Open.decode(Open.encode(opening(complete(options), "orders")).finish());
  const wire = open({ adHoc, expect });
  assert.deepEqual([wire.subscription, wire.expect], ["", undefined]);
  assert.deepEqual([wire.adHoc?.cluster, wire.adHoc?.topics, wire.adHoc?.group], ["main", ["a", "b"], "nightly"]);
  const asked = wire.adHoc?.options;
  assert.deepEqual([asked?.delivery, asked?.order, asked?.onReject], [2, 3, 2]);
  assert.deepEqual([asked?.maxAttempts, asked?.maxDeliveries], [3, undefined]);
  assert.deepEqual(asked?.start?.at, { $case: "timestamp", value: start });
  assert.equal(asked?.minAge && milliseconds(asked.minAge), 1_500);
  assert.equal(open({ expect: { start: "earliest" } }).expect?.start?.at?.$case, "earliest");
  const wrong: Partial<Options>[] = [
    { adHoc: { ...adHoc, cluster: "" } },
    { adHoc: { ...adHoc, topics: [] } },
    { adHoc: { ...adHoc, group: "" } },
    { expect: { maxAttempts: 0 } },
    { expect: { start: new Date(Number.NaN) } },
    { expect: { order: "toString" as "key" } },
    { confirm: "later" as "durable" },
  ];
  for (const options of wrong) assert.throws(() => complete(options), OptionError);
});
