"""Cases about traces: which span a program is to continue."""

from broker import Record
from cases import case

TRACE, PRODUCER = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
PARENT = f"00-{TRACE}-{PRODUCER}-01"


def parts(one):
    """Trace, span and flags of what a delivery continues."""
    version, trace, span, flags = one.traceparent.split("-")
    assert (version, len(trace), len(span)) == ("00", 32, 16), one.traceparent
    return trace, span, flags


@case
def trace(stage):
    """The gateway's span of each attempt is continued, in the producer's trace if it has one."""
    topic = stage.topic()
    headers = (("traceparent", PARENT.encode()), ("tracestate", b"a=1"))
    records = [Record(b"traced", headers=headers).told("fail:1:50"), Record(b"not traced")]
    stage.broker.write(topic, records)
    gateway = stage.gateway({"work": {"topics": [topic]}}, telemetry__traces__sample=1)
    program = stage.program(gateway)
    program.count(2, "verdict", verdict="acked")
    first, second = [parts(one) for one in program.deliveries() if one.offset == 0]
    assert first[0] == second[0] == TRACE, "the producer's trace is lost"
    spans = {PRODUCER, first[1], second[1]}
    assert len(spans) == 3, "each attempt has a span of its own, below the producer's"
    assert first[2] == second[2] == "01", "the gateway records them"
    # Without a producer's trace the gateway begins one.
    (own,) = [parts(one) for one in program.deliveries() if one.offset == 1]
    assert own[0] != TRACE and own[2] == "01", own
    # The record's own headers come as they were written.
    kept = [one.header_pairs[:2] for one in program.deliveries() if one.offset == 0]
    assert kept == [headers, headers], kept
    stage.settled(topic)
    program.close()


@case
def untraced(stage):
    """Where the gateway traces nothing, the producer's own context is continued, if it is valid."""
    topic = stage.topic()
    wrong = PARENT.replace(TRACE, "0" * 32)
    values = [PARENT.encode(), wrong.encode(), b"\xff", None]
    records = [Record(headers=(("traceparent", value),)) for value in values]
    stage.broker.write(topic, [*records, Record()])
    gateway = stage.gateway({"work": {"topics": [topic]}}, telemetry__traces__sample=0)
    program = stage.program(gateway)
    program.count(5, "verdict", verdict="acked")
    seen = {one.offset: one.traceparent for one in program.deliveries()}
    assert seen == {0: PARENT, 1: None, 2: None, 3: None, 4: None}, seen
    stage.settled(topic)
    program.close()
