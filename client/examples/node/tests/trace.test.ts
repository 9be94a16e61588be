/** Traces: what a delivery says of its own, and OpenTelemetry going on with it. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { ROOT_CONTEXT, defaultTextMapGetter, trace } from "@opentelemetry/api";
import { W3CTraceContextPropagator } from "@opentelemetry/core";

import { Counters } from "../src/events.js";
import { Batch as WireBatch, Record } from "../src/gen/ackgate/v1/record.js";
import { Batch, type Delivery, TraceContext } from "../src/index.js";
import { Ledger } from "../src/ledger.js";

const TRACE = "0af7651916cd43dd8448eb211c80319c";
const SPAN = "b7ad6b7169203331";
const PARENT = `00-${TRACE}-${SPAN}-01`;
const OWN = `00-${TRACE}-00f067aa0ba902b7-01`;

function delivery(headers: [string, string | undefined][], own?: string): Delivery {
  const record = Record.fromPartial({ offset: 5n });
  record.headers = headers.map(([key, value]) => ({
    key,
    value: value === undefined ? undefined : Buffer.from(value),
  }));
  const wire = WireBatch.fromPartial({ lane: 7n, topic: "orders" });
  if (own !== undefined) wire.traces = [{ offset: 5n, traceparent: own, tracestate: "g=1" }];
  const ledger = new Ledger(new Counters(undefined), 10, () => undefined);
  const [one] = new Batch(ledger, 1, [record], wire);
  assert.ok(one);
  return one;
}

function told(context: TraceContext | undefined): [string, string] | undefined {
  return context && [context.traceparent, context.tracestate];
}

test("a record's own context is read", () => {
  const context = delivery([["traceparent", PARENT], ["tracestate", "a=1"]]).traceContext;
  assert.deepEqual(told(context), [PARENT, "a=1"]);
  assert.deepEqual([context?.traceId, context?.spanId, context?.isSampled], [TRACE, SPAN, true]);
  assert.deepEqual(context?.headers(), [["traceparent", PARENT], ["tracestate", "a=1"]]);
  assert.equal(delivery([]).traceContext, undefined);
});

test("what is malformed is none", () => {
  for (const wrong of [
    "",
    "00-0af7",
    PARENT.toUpperCase(),
    PARENT.replace(TRACE, "0".repeat(32)),
    PARENT.replace(SPAN, "0".repeat(16)),
    `ff${PARENT.slice(2)}`,
    `${PARENT}-more`,
    ` ${PARENT}`,
    `${PARENT}\n`,
  ]) {
    assert.equal(delivery([["traceparent", wrong]]).traceContext, undefined, JSON.stringify(wrong));
  }
});

test("later versions and flags are read as far as they are known", () => {
  assert.deepEqual(told(TraceContext.parse(`01${PARENT.slice(2)}-more`)), [PARENT, ""]);
  assert.deepEqual(told(TraceContext.parse(`${PARENT.slice(0, -2)}fe`)), [`${PARENT.slice(0, -2)}00`, ""]);
});

test("a wrong state is left out", () => {
  for (const wrong of ["a", "A=1", `a=${"x".repeat(511)}`, "a=1,b", Array(33).fill("a=1").join(",")]) {
    assert.deepEqual(told(TraceContext.parse(PARENT, wrong)), [PARENT, ""]);
  }
  assert.deepEqual(told(TraceContext.parse(PARENT, "a=1, b@c=2")), [PARENT, "a=1, b@c=2"]);
});

test("the last parent counts, and states are joined", () => {
  const headers: [string, string | undefined][] = [
    ["traceparent", "nonsense"],
    ["tracestate", "a=1"],
    ["traceparent", PARENT],
    ["tracestate", "b=2"],
    ["tracestate", undefined],
  ];
  assert.deepEqual(told(delivery(headers).traceContext), [PARENT, "a=1,b=2"]);
});

test("the gateway's context goes before the record's", () => {
  const headers: [string, string][] = [["traceparent", PARENT], ["tracestate", "a=1"]];
  assert.deepEqual(told(delivery(headers, OWN).traceContext), [OWN, "g=1"]);
  assert.deepEqual(told(delivery([], OWN).traceContext), [OWN, "g=1"]);
  assert.deepEqual(told(delivery(headers, "nonsense").traceContext), [PARENT, "a=1"]);
});

test("OpenTelemetry goes on with it", () => {
  const carrier = delivery([["traceparent", PARENT], ["tracestate", "a=1"]]).traceContext?.carrier();
  const propagator = new W3CTraceContextPropagator();
  const context = propagator.extract(ROOT_CONTEXT, carrier, defaultTextMapGetter);
  const parent = trace.getSpanContext(context);
  assert.deepEqual([parent?.traceId, parent?.spanId, parent?.traceFlags], [TRACE, SPAN, 1]);
  assert.ok(parent?.isRemote);
  assert.equal(parent?.traceState?.get("a"), "1");
});
