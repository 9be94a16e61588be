"""Cases about many records: each is answered once, and never more are out than granted."""

import collections

from broker import Record
from cases import case

MANY = 10_000
# Time for all of them on a busy machine.
LONG = 120


def many(stage):
    """A topic with many records."""
    topic = stage.topic(partitions=4)
    records = [Record(f"{n:0100}".encode(), str(n).encode()) for n in range(MANY)]
    return topic, stage.broker.write(topic, records)


@case
def ten_thousand(stage):
    """10,000 records over four partitions: each begun and acked once, committed to the end."""
    topic, written = many(stage)
    gateway = stage.gateway({"work": {"topics": [topic]}})
    program = stage.program(gateway, "--credit", 2000, "--until-drained")
    closed = program.closed(LONG)
    assert closed.acked == MANY, closed
    expected = collections.Counter((topic, *place) for place in written)
    begun = collections.Counter(one.place for one in program.deliveries())
    acked = collections.Counter(one.place for one in program.all("verdict", verdict="acked"))
    assert begun == expected, f"{(expected - begun).total()} missing, {(begun - expected).total()} again"
    assert acked == expected, f"{(expected - acked).total()} not acked"
    stage.settled(topic)


@case
def batches(stage):
    """10,000 records by batches, acked by ranges: all there, committed to the end."""
    topic, written = many(stage)
    gateway = stage.gateway({"work": {"topics": [topic]}})
    program = stage.program(gateway, "--credit", 2000, "--batches", "--until-drained")
    closed = program.closed(LONG)
    assert closed.acked == MANY, closed
    assert not program.deliveries(), "a handler was called"
    seen = program.all("batch")
    assert sum(one.records for one in seen) == MANY, sum(one.records for one in seen)
    assert len(seen) < MANY, "each batch had one record"
    # Nothing else is written here, so a batch has no gaps, and two have nothing in common.
    covered = collections.Counter(
        (one.partition, offset)
        for one in seen
        for offset in range(one.first_offset, one.last_offset + 1)
    )
    assert covered == collections.Counter(written), "the batches are not the log"
    stage.settled(topic)


@case
def concurrency(stage):
    """Never more handlers at work than `--concurrency` says, and as many when there is work."""
    topic = stage.topic()
    stage.broker.write(topic, [Record(str(n).encode()).told("work:600") for n in range(15)])
    gateway = stage.gateway({"work": {"topics": [topic]}})
    program = stage.program(gateway, "--concurrency", 3)
    program.count(15, "verdict", verdict="acked")
    # Each works 600 ms, so of any four in a row the last begins when the first is done.
    # When verdicts are printed tells nothing: they may be gathered.
    begun = [one.at for one in program.deliveries()]
    apart = [later - earlier for earlier, later in zip(begun, begun[3:])]
    assert min(apart) >= 0.45, f"a fourth handler began after {min(apart):.2f} s"
    together = [later - earlier for earlier, later in zip(begun, begun[2:])]
    assert min(together) < 0.45, "three were never at work at once"
    stage.settled(topic)
    program.close()


@case
def credit(stage):
    """L8: never more records are out than `--credit` grants."""
    topic = stage.topic()
    stage.broker.write(topic, [Record(str(n).encode()).told("work:100") for n in range(30)])
    gateway = stage.gateway({"work": {"topics": [topic]}})
    program = stage.program(gateway, "--credit", 5, "--concurrency", 2)
    out = []
    while len(program.all("verdict")) < 30:
        # What is out as the gateway counts it, looked at while work goes on.
        out.extend(lane["out"] for lane in gateway.lanes("work"))
        program.count(min(30, len(program.all("verdict")) + 2), "verdict", verdict="acked")
    assert 1 <= max(out) <= 5, out
    stage.settled(topic)
    program.close()
