"""Cases about verdicts: what is told comes back, goes on or is dead-lettered as it should."""

import collections

from broker import Record
from cases import case


def outcomes(program):
    """The verdicts given, by place and attempt."""
    return [(one.place, one.attempt, one.verdict) for one in program.all("verdict")]


def attempts(program, place):
    """The attempts of one record that were begun, in order."""
    return [one.attempt for one in program.deliveries() if one.place == place]


@case
def order(stage):
    """Records of a key come in order over four partitions, and none overtakes a failed one."""
    topic = stage.topic(partitions=4)
    keys = [f"key-{number}".encode() for number in range(12)]
    records = []
    for number in range(96):
        record = Record(str(number).encode(), keys[number % len(keys)])
        records.append(record.told("fail:1:150") if number % 7 == 3 else record)
    written = stage.broker.write(topic, records)
    gateway = stage.gateway({"work": {"topics": [topic], "order": "key"}})
    program = stage.program(gateway)
    program.count(96, "verdict", verdict="acked")

    expected = collections.defaultdict(list)
    for (partition, offset), record in zip(written, records):
        expected[record.key].append((partition, offset, 1))
        if record.headers:
            expected[record.key].append((partition, offset, 2))
    begun = collections.defaultdict(list)
    for one in program.deliveries():
        begun[one.key_bytes].append((one.partition, one.offset, one.attempt))
    for key in keys:
        assert begun[key] == expected[key], f"{key}: {begun[key]}, not {expected[key]}"
    assert len({place[0] for place in written}) > 1, "all keys lie in one partition"
    stage.settled(topic)
    closed = program.close()
    assert (closed.acked, closed.failed) == (96, 14), closed


@case
def redelivery(stage):
    """A failed record comes as attempts 1, 2, 3, not before its time; others do not wait."""
    topic = stage.topic()
    stage.broker.write(topic, [Record(b"slow").told("fail:2:800"), Record(b"next")])
    gateway = stage.gateway({"work": {"topics": [topic]}})
    program = stage.program(gateway)
    program.first("verdict", offset=0, attempt=3)
    tries = [one for one in program.deliveries() if one.offset == 0]
    assert [one.attempt for one in tries] == [1, 2, 3], tries
    assert [one.delivery for one in tries] == [1, 2, 3], tries
    for earlier, later in zip(tries, tries[1:]):
        waited = later.at - earlier.at
        # What was written late may be read late, so it can only seem shorter by a little.
        assert waited >= 0.7, f"attempt {later.attempt} came after {waited:.3f} s"
    (other,) = (one for one in program.all("verdict") if one.offset == 1)
    assert other.at < tries[1].at, "the record behind waited for the failed one"
    assert outcomes(program)[-1] == ((topic, 0, 0), 3, "acked")
    stage.settled(topic)
    closed = program.close()
    assert (closed.acked, closed.failed) == (2, 2), closed


@case
def reject(stage):
    """A rejected record lies in the dead-letter topic with its code, and is settled."""
    topic, dead = stage.topic(), stage.topic(name="dead")
    bad = Record(b"\x00\xff bad", b"the key", headers=(("kept", b"\x01"),))
    stage.broker.write(topic, [bad.told("reject:no-such-customer"), Record(b"good")])
    gateway = stage.gateway({"work": {"topics": [topic], "dead": dead}})
    program = stage.program(gateway, "--subscriber-id", "rejecter")
    program.count(2, "verdict")
    (letter,) = stage.broker.read(dead, 1)
    assert (letter.key, letter.value) == (b"the key", b"\x00\xff bad"), letter
    assert letter.headers[0] == ("kept", b"\x01"), letter
    told = {name: letter.told(name) for name in ["cause", "code", "attempts", "topic", "offset"]}
    assert told == {
        "cause": "rejected",
        "code": "no-such-customer",
        "attempts": "1",
        "topic": topic,
        "offset": "0",
    }, told
    assert letter.told("subscriber") == "rejecter", letter
    stage.settled(topic)
    closed = program.close()
    assert (closed.acked, closed.rejected) == (1, 1), closed
    assert len(program.deliveries()) == 2, program.deliveries()


@case
def raise_(stage):
    """A handler that raises fails its record with code `handler`; the record comes again."""
    topic, once, dead = stage.topic(), stage.topic(name="once"), stage.topic(name="dead")
    stage.broker.write(topic, [Record(b"r").told("raise"), Record(b"next")])
    stage.broker.write(once, [Record(b"r").told("raise"), Record(b"next")])
    gateway = stage.gateway(
        {
            "work": {"topics": [topic]},
            "once": {"topics": [once], "max_attempts": 1, "dead": dead},
        }
    )
    program = stage.program(gateway)
    program.count(2, "verdict", verdict="acked")
    assert attempts(program, (topic, 0, 0)) == [1, 2], program.deliveries()
    assert ((topic, 0, 0), 1, "failed") in outcomes(program), outcomes(program)
    stage.settled(topic)
    program.close()

    # Where the first attempt is the last, the dead letter shows what was answered.
    program = stage.program(gateway, subscription="once")
    program.first("verdict", offset=1, verdict="acked")
    (letter,) = stage.broker.read(dead, 1)
    assert letter.told("code") == "handler", letter
    assert letter.told("cause") == "attempts-exhausted", letter
    stage.settled(once, "once")
    program.close()


@case
def exhausted(stage):
    """A record that fails as often as is allowed is dead-lettered with that cause."""
    topic, dead = stage.topic(), stage.topic(name="dead")
    stage.broker.write(topic, [Record(b"never").told("fail:9:100"), Record(b"good")])
    gateway = stage.gateway({"work": {"topics": [topic], "dead": dead, "max_attempts": 3}})
    program = stage.program(gateway)
    (letter,) = stage.broker.read(dead, 1)
    assert (letter.told("cause"), letter.told("attempts")) == ("attempts-exhausted", "3"), letter
    program.first("verdict", offset=1, verdict="acked")
    assert attempts(program, (topic, 0, 0)) == [1, 2, 3], program.deliveries()
    stage.settled(topic)
    closed = program.close()
    assert (closed.acked, closed.failed) == (1, 3), closed


@case
def extend(stage):
    """Work that takes longer than the deadline is delivered once: the deadline is moved."""
    topic = stage.topic()
    stage.broker.write(topic, [Record(b"long").told("work:4000"), Record(b"short")])
    gateway = stage.gateway({"work": {"topics": [topic]}})
    program = stage.program(gateway, "--ack-deadline", 1000)
    done = program.first("verdict", offset=0)
    assert (done.verdict, done.attempt) == ("acked", 1), done
    stage.settled(topic)
    assert attempts(program, (topic, 0, 0)) == [1], program.deliveries()
    assert not program.all("problem"), program.all("problem")
    program.close()
