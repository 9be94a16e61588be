"""Cases about the stream: it breaks, falls silent or is handed over, and nothing is lost."""

import collections
import time

from broker import Record
from cases import case


def begun_once(program, places):
    """Every record was begun once, and no verdict was without effect."""
    begun = collections.Counter(one.place for one in program.deliveries())
    assert set(begun) == set(places), f"missing: {sorted(set(places) - set(begun))}"
    again = {place: times for place, times in begun.items() if times > 1}
    assert not again, f"begun more than once: {again}"
    assert not program.all("problem"), program.all("problem")


@case
def resume(stage):
    """A cut connection costs nothing: the same subscriber keeps its work and finishes it."""
    topic = stage.topic()
    stage.broker.write(topic, [Record(str(n).encode()).told("work:3000") for n in range(2)])
    gateway = stage.gateway({"work": {"topics": [topic]}})
    proxy = stage.proxy(gateway)
    program = stage.program(proxy, "--concurrency", 2)
    program.count(2, "delivery")
    proxy.cut()
    program.first("disconnected")
    first, second = program.count(2, "opened")[:2]
    assert not program.all("verdict"), "the work ended before the stream was back"
    assert second.subscriber_id == first.subscriber_id, (first, second)
    # Two neighbouring records may be named in one run or in two.
    assert first.resumed == 0 and second.resumed in (1, 2), (first, second)
    program.count(2, "verdict", verdict="acked")
    stage.settled(topic)
    begun_once(program, [(topic, 0, 0), (topic, 0, 1)])
    program.close()


@case
def blackhole(stage):
    """FC-82: a peer that has fallen silent is noticed by its missing pings, and left."""
    topic = stage.topic()
    stage.broker.write(topic, [Record(b"before")])
    gateway = stage.gateway({"work": {"topics": [topic]}}, listen__ping_interval="1s")
    proxy = stage.proxy(gateway)
    program = stage.program(proxy)
    program.first("verdict", offset=0)
    # What was sent is on its way for certain once Kafka has the commit.
    stage.settled(topic)
    proxy.fall_silent()
    silent = time.monotonic()
    # Twice the interval, and the time of a slow machine; far below any TCP timeout.
    lost = program.first("disconnected", within=15)
    assert lost.at - silent >= 0.9, f"left after {lost.at - silent:.1f} s, before it was silent"
    program.count(2, "opened")
    stage.broker.write(topic, [Record(b"after")])
    program.first("verdict", offset=1, verdict="acked")
    stage.settled(topic)
    begun_once(program, [(topic, 0, 0), (topic, 0, 1)])
    program.close()


@case
def age(stage):
    """A connection that is too old is handed over to a new one without loss or repeat."""
    topic = stage.topic()
    written = stage.broker.write(
        topic, [Record(str(n).encode()).told("work:100") for n in range(80)]
    )
    gateway = stage.gateway({"work": {"topics": [topic]}}, listen__max_connection_age="2s")
    program = stage.program(gateway, "--concurrency", 2, "--credit", 16)
    program.first("drain", reason="CONNECTION_AGE")
    program.count(2, "opened")
    program.count(80, "verdict", verdict="acked")
    stage.settled(topic)
    begun_once(program, [(topic, *place) for place in written])
    program.close()


@case
def beat(stage):
    """A leased lane stays with a subscriber that works longer than the lease."""
    topic = stage.topic()
    stage.broker.write(topic, [Record(b"long").told("work:5000"), Record(b"next")])
    gateway = stage.gateway(
        {
            "work": {
                "topics": [topic],
                "order": "lane",
                "lease.duration": "2s",
                "lease.beat": "500ms",
            }
        }
    )
    holder = stage.program(gateway, "--subscriber-id", "holder")
    holder.first("delivery", offset=0)
    standby = stage.program(gateway, "--subscriber-id", "standby")
    standby.first("opened")
    holder.first("verdict", offset=0, verdict="acked")
    holder.first("verdict", offset=1, verdict="acked")
    stage.settled(topic)
    begun_once(holder, [(topic, 0, 0), (topic, 0, 1)])
    assert not standby.deliveries(), standby.deliveries()
    holder.close()
    standby.close()
