"""Cases about records themselves: what Kafka has arrives byte for byte, whatever its size."""

import hashlib

from broker import Record
from cases import case

MIB = 1024 * 1024


@case
def nulls(stage):
    """Null and empty keys, values and headers, and repeated headers, arrive as they are."""
    topic = stage.topic()
    every_byte = bytes(range(256))
    records = [
        Record(None, None, timestamp_ms=1),
        Record(b"", b"", timestamp_ms=1_700_000_000_123),
        Record(None, b"", timestamp_ms=2),
        Record(b"", None, timestamp_ms=3),
        Record(every_byte, every_byte[::-1], timestamp_ms=4),
        Record(
            b"headers",
            b"key",
            headers=(
                ("null", None),
                ("empty", b""),
                ("again", b"1"),
                ("bytes", every_byte),
                ("again", None),
                ("again", b"3"),
                ("ключ-🗝", "значение".encode()),
            ),
            timestamp_ms=5,
        ),
    ]
    stage.broker.write(topic, records)
    gateway = stage.gateway({"work": {"topics": [topic]}})
    program = stage.program(gateway)
    program.count(len(records), "verdict", verdict="acked")
    seen = {one.offset: one for one in program.deliveries()}
    for offset, sent in enumerate(records):
        got = seen[offset]
        as_sent = (sent.key, sent.value, sent.headers, sent.timestamp_ms)
        as_got = (got.key_bytes, got.value_decoded, got.header_pairs, got.timestamp_ms)
        assert as_got == as_sent, f"offset {offset}: {as_got}, not {as_sent}"
    stage.settled(topic)
    program.close()


@case
def unicode(stage):
    """FC-90: a subscriber's name and its codes may have letters of any script, also as text."""
    topic, dead = stage.topic(), stage.topic(name="dead")
    subscriber, code = "Müller-注文-🚀", "número-ß-不明"
    stage.broker.write(topic, [Record("größer".encode()).told(f"reject:{code}")])
    gateway = stage.gateway({"work": {"topics": [topic], "dead": dead}})
    program = stage.program(gateway, "--subscriber-id", subscriber)
    opened = program.first("opened")
    assert opened.subscriber_id == subscriber, opened
    (letter,) = stage.broker.read(dead, 1)
    assert [letter.told("subscriber"), letter.told("code")] == [subscriber, code], letter
    stage.settled(topic)
    program.close()
    # A subscription has a plain name, so one like this is unknown, and nothing worse.
    error = stage.program(gateway, subscription="заказы-🚚").gives_up()
    assert (error.code, error.reason) == ("NOT_FOUND", "UNKNOWN_SUBSCRIPTION"), error


@case
def limit(stage):
    """4 MiB arrive; what is larger is dead-lettered as oversize, unless 16 MiB are allowed."""
    config = {"max_message_bytes": 20 * MIB}
    topic, dead = stage.topic(**config), stage.topic(name="dead", **config)
    fits = hashlib.sha512(b"fits").digest() * (4 * MIB // 64 - 64)
    large = hashlib.sha512(b"large").digest() * (5 * MIB // 64)
    stage.broker.write(topic, [Record(fits), Record(large), Record(b"after")])
    gateway = stage.gateway(
        {"work": {"topics": [topic], "dead": dead}, "wide": {"topics": [topic], "dead": dead}}
    )
    program = stage.program(gateway)
    program.first("verdict", offset=0, verdict="acked")
    program.first("verdict", offset=2, verdict="acked")
    assert digest(program, 0) == hashlib.sha256(fits).hexdigest(), "it is not the same value"
    assert not [one for one in program.deliveries() if one.offset == 1], "it was delivered"
    (letter,) = stage.broker.read(dead, 1)
    assert (letter.told("cause"), letter.told("offset")) == ("oversize", "1"), letter.headers
    assert len(program.all("opened")) == 1, "the stream broke"
    stage.settled(topic)
    program.close()

    program = stage.program(gateway, "--max-message-bytes", 16 * MIB, subscription="wide")
    program.count(3, "verdict", verdict="acked")
    assert digest(program, 1) == hashlib.sha256(large).hexdigest(), "it is not the same value"
    stage.settled(topic, "wide")
    program.close()


def digest(program, offset):
    """What a program says about a large value."""
    (one,) = (one for one in program.deliveries() if one.offset == offset)
    return one.value_sha256
