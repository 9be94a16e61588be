"""Cases about ends: of the gateway, of the program, asked for or not."""

import signal

from broker import Record
from cases import case
from cases.streams import begun_once


def working(number, milliseconds):
    return [Record(str(n).encode()).told(f"work:{milliseconds}") for n in range(number)]


@case
def drain(stage):
    """A gateway that stops lets work finish; after its restart nothing comes again."""
    topic = stage.topic()
    written = stage.broker.write(topic, working(60, 150))
    gateway = stage.gateway({"work": {"topics": [topic]}})
    program = stage.program(gateway, "--concurrency", 4, "--credit", 16)
    program.count(10, "verdict")
    gateway.terminate()
    program.first("drain", reason="GATEWAY_STOPS")
    gateway.end()
    # What it counted is what Kafka has: everything that was answered, as it was.
    answered = len(program.all("verdict", verdict="acked"))
    assert answered < 60, "everything was done before the gateway stopped"
    gateway.start()
    program.count(2, "opened")
    program.count(60, "verdict", verdict="acked")
    stage.settled(topic)
    begun_once(program, [(topic, *place) for place in written])
    program.close()


@case
def close(stage):
    """SIGTERM: what is in hand is answered, the rest goes to another at once."""
    topic = stage.topic()
    stage.broker.write(topic, working(2, 1500) + [Record(b"rest") for _ in range(8)])
    # Whoever is lost is waited for; who closes is not.
    gateway = stage.gateway({"work": {"topics": [topic], "resume_grace": "30s"}})
    leaver = stage.program(gateway, "--concurrency", 2, "--credit", 10)
    leaver.count(2, "delivery")
    leaver.terminate()
    heir = stage.program(gateway)
    closed = leaver.closed()
    assert closed.acked == 2, closed
    assert len(leaver.deliveries()) == 2, "it began new work after SIGTERM"
    heir.count(8, "verdict", within=10, verdict="acked")
    assert {one.offset for one in heir.deliveries()} == set(range(2, 10)), heir.deliveries()
    assert {one.attempt for one in heir.deliveries()} == {1}, heir.deliveries()
    stage.settled(topic)
    heir.close()


@case
def kill(stage):
    """SIGKILL in the middle of work: the records come again, and no attempt is used."""
    topic = stage.topic()
    stage.broker.write(topic, working(2, 2000))
    gateway = stage.gateway({"work": {"topics": [topic], "resume_grace": "1s"}})
    victim = stage.program(gateway, "--concurrency", 2)
    victim.count(2, "delivery")
    victim.signal(signal.SIGKILL)
    victim.end()
    assert not victim.all("verdict"), "it was done before it was killed"
    heir = stage.program(gateway)
    heir.count(2, "verdict", verdict="acked")
    again = sorted((one.offset, one.attempt, one.delivery) for one in heir.deliveries())
    assert again == [(0, 1, 2), (1, 1, 2)], again
    stage.settled(topic)
    heir.close()


@case
def until_drained(stage):
    """`--until-drained` ends by itself once all is answered, and on an empty topic at once."""
    topic, empty = stage.topic(partitions=2), stage.topic(name="empty")
    records = [Record(str(n).encode()) for n in range(50)] + [Record(b"again").told("fail:1:500")]
    stage.broker.write(topic, records)
    gateway = stage.gateway({"work": {"topics": [topic]}, "empty": {"topics": [empty]}})
    program = stage.program(gateway, "--until-drained")
    nothing = stage.program(gateway, "--until-drained", subscription="empty")
    closed = program.closed()
    assert (closed.acked, closed.failed) == (51, 1), closed
    stage.settled(topic, within=5)
    assert nothing.closed().acked == 0, nothing.events
    assert not nothing.deliveries(), nothing.deliveries()


@case
def errors(stage):
    """What cannot succeed ends at once: an unknown subscription with 1, bad options with 2."""
    gateway = stage.gateway({"work": {"topics": [stage.topic()]}})
    error = stage.program(gateway, subscription="nowhere").gives_up()
    assert (error.code, error.reason) == ("NOT_FOUND", "UNKNOWN_SUBSCRIPTION"), error
    assert error.message, error
    address = ["--address", gateway.address, "--subscription", "work"]
    wrong = [
        [*address, "--no-such-option"],
        [*address, "--credit", "plenty"],
        [*address, "--concurrency", "0"],
    ]
    programs = [stage.run_program(*arguments) for arguments in wrong]
    for arguments, program in zip(wrong, programs):
        code = program.end()
        assert code == 2, f"{arguments}: it ended with {code}"
        assert not program.events, f"{arguments}: {program.events}"
        assert any(line.startswith("! ") for line in program.tail), f"{arguments}: no words"
