"""Traces: what a delivery says of its own, and OpenTelemetry going on with it."""

from __future__ import annotations

import pytest
from opentelemetry import propagate, trace
from test_core import NAME, new_ledger

from ackgate import Batch, TraceContext
from ackgate.trace import of_record
from ackgate.v1 import record_pb2

TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
PARENT = f"00-{TRACE}-{SPAN}-01"
OWN = f"00-{TRACE}-00f067aa0ba902b7-01"


def delivery(*headers, own=""):
    wire = record_pb2.Batch(lane=7, topic=NAME.topic, partition=NAME.partition)
    record = wire.records.add(offset=5)
    for name, value in headers:
        record.headers.add(key=name, value=value)
    if own:
        wire.traces.add(offset=5, traceparent=own, tracestate="g=1")
    ledger, _ = new_ledger()
    return next(iter(Batch(ledger, 1, wire)))


def test_a_records_own_context_is_read():
    context = delivery(("traceparent", PARENT.encode()), ("tracestate", b"a=1")).trace_context
    assert context == TraceContext(PARENT, "a=1")
    assert (context.trace_id, context.span_id, context.is_sampled) == (TRACE, SPAN, True)
    assert context.headers() == [("traceparent", PARENT.encode()), ("tracestate", b"a=1")]
    assert delivery().trace_context is None


@pytest.mark.parametrize(
    "wrong",
    [
        "",
        "00-0af7",
        PARENT.upper(),
        PARENT.replace(TRACE, "0" * 32),
        PARENT.replace(SPAN, "0" * 16),
        f"ff{PARENT[2:]}",
        f"{PARENT}-more",
        f" {PARENT}",
        f"{PARENT}\n",
    ],
)
def test_what_is_malformed_is_none(wrong):
    assert TraceContext.parse(wrong) is None
    assert delivery(("traceparent", wrong.encode())).trace_context is None


def test_later_versions_and_flags_are_read_as_far_as_they_are_known():
    assert TraceContext.parse(f"01{PARENT[2:]}-more") == TraceContext(PARENT)
    assert TraceContext.parse(f"{PARENT[:-2]}fe") == TraceContext(f"{PARENT[:-2]}00")


@pytest.mark.parametrize("wrong", ["a", "A=1", "a=" + "x" * 511, "a=1,b", ",".join(["a=1"] * 33)])
def test_a_wrong_state_is_left_out(wrong):
    assert TraceContext.parse(PARENT, wrong) == TraceContext(PARENT)
    assert TraceContext.parse(PARENT, "a=1, b@c=2") == TraceContext(PARENT, "a=1, b@c=2")


def test_the_last_parent_counts_and_states_are_joined():
    headers = [
        ("traceparent", b"nonsense"),
        ("tracestate", b"a=1"),
        ("traceparent", PARENT.encode()),
        ("tracestate", b"b=2"),
        ("tracestate", None),
    ]
    assert of_record(headers, None) == TraceContext(PARENT, "a=1,b=2")


def test_the_gateways_context_goes_before_the_records():
    headers = [("traceparent", PARENT.encode()), ("tracestate", b"a=1")]
    assert delivery(*headers, own=OWN).trace_context == TraceContext(OWN, "g=1")
    assert delivery(own=OWN).trace_context == TraceContext(OWN, "g=1")
    assert delivery(*headers, own="nonsense").trace_context == TraceContext(PARENT, "a=1")


def test_opentelemetry_goes_on_with_it():
    context = delivery(("traceparent", PARENT.encode()), ("tracestate", b"a=1")).trace_context
    parent = trace.get_current_span(propagate.extract(context.carrier())).get_span_context()
    assert parent.is_remote
    assert (f"{parent.trace_id:032x}", f"{parent.span_id:016x}") == (TRACE, SPAN)
    assert parent.trace_flags.sampled
    assert parent.trace_state.get("a") == "1"
