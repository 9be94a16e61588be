"""What a subscriber does on the wire, with threads and with asyncio."""

from __future__ import annotations

import threading
import time

import grpc
import pytest
from conftest import eventually, ours, throughout
from gateway import kept

from ackgate import (
    Disconnected,
    Draining,
    Fail,
    GatewayError,
    NotClosed,
    NotOpened,
    Opened,
    Options,
    Problem,
    ProblemKind,
    Received,
    Reject,
    Release,
    Silent,
    Subscriber,
)
from ackgate.v1 import gateway_pb2
from ackgate.v1.gateway_pb2 import SubscribeResponse


def verdicts(stream, records):
    """Verdicts as (offset, outcome, code, lane), until so many records have one."""
    seen = []
    while len(seen) < records:
        for verdict in stream.next("settle").verdicts:
            last = verdict.last_offset if verdict.HasField("last_offset") else verdict.first_offset
            seen += [
                (offset, verdict.outcome, verdict.code, verdict.lane)
                for offset in range(verdict.first_offset, last + 1)
            ]
    return sorted(seen)


def gate():
    """A handler that waits, the offsets that it has begun, and what lets it go on."""
    begun, go_on = [], threading.Event()

    def handler(delivery):
        begun.append(delivery.offset)
        return go_on

    return handler, begun, go_on


def test_acks_are_joined_and_the_end_is_said(gateway, run):
    running = run(lambda _: None, Options(credit=50, token="secret", flush_interval=0.2))
    stream = gateway.next()
    opened = stream.opened()
    assert (opened.credit.records, opened.resumable) == (50, True)
    assert dict(stream.context.invocation_metadata())["authorization"] == "Bearer secret"
    stream.batch(*range(10, 40))
    settle = stream.next("settle")
    assert [(one.first_offset, one.last_offset) for one in settle.verdicts] == [(10, 39)]
    running.stop()
    stream.next("close")
    stream.end()
    assert running.join().acked == 30
    eventually(lambda: not ours())


def test_gaps_are_not_spanned(gateway, run):
    run(lambda _: None, Options(flush_interval=0.2))
    stream = gateway.next()
    stream.opened()
    stream.batch(1, 2, 4)
    settle = stream.next("settle")
    spans = [(one.first_offset, one.last_offset) for one in settle.verdicts]
    assert spans == [(1, 2), (4, 0)]


def test_what_a_handler_raises_is_its_verdict(gateway, run):
    def handler(delivery):
        match delivery.offset:
            case 1:
                raise Reject("bad", "no good")
            case 2:
                raise Fail("later", code="busy", retry_after=1.5)
            case 3:
                raise Release
            case 4:
                raise KeyError("oops")

    running = run(handler)
    stream = gateway.next()
    stream.opened()
    stream.batch(0, 1, 2, 3, 4)
    assert verdicts(stream, 5) == [
        (0, gateway_pb2.OUTCOME_ACKED, "", 7),
        (1, gateway_pb2.OUTCOME_REJECTED, "bad", 7),
        (2, gateway_pb2.OUTCOME_FAILED, "busy", 7),
        (3, gateway_pb2.OUTCOME_RELEASED, "", 7),
        (4, gateway_pb2.OUTCOME_FAILED, "handler", 7),
    ]
    running.stop()
    stream.next("close")
    stream.end()
    running.join()


def test_handlers_are_as_many_as_allowed(gateway, run):
    handler, begun, go_on = gate()
    running = run(handler, concurrency=3)
    stream = gateway.next()
    stream.opened()
    stream.batch(*range(20))
    eventually(lambda: len(begun) == 3)
    throughout(lambda: len(begun) == 3)
    go_on.set()
    eventually(lambda: len(begun) == 20)
    running.stop(0.0)


def test_resumes_and_answers_what_was_kept(gateway, run):
    handler, begun, go_on = gate()
    running = run(handler)
    first = gateway.next()
    first.opened(resume_token="t")
    first.batch(1, 2, lane=7)
    eventually(lambda: len(begun) == 2)
    first.end(grpc.StatusCode.UNAVAILABLE)
    second = gateway.next()
    opened = second.opened(resume_token="u", resumed=[kept(1, lane=9)])
    assert (opened.resume.token, opened.subscriber_id) == ("t", "me")
    held = [(one.topic, one.first_offset, one.last_offset) for one in opened.resume.held]
    assert held == [("orders", 1, 2)]
    eventually(lambda: len(running.of(Opened)) == 2)
    go_on.set()
    assert verdicts(second, 1) == [(1, gateway_pb2.OUTCOME_ACKED, "", 9)]
    eventually(lambda: running.of(Problem))
    problem = running.of(Problem)[0]
    assert (problem.kind, problem.first_offset) == (ProblemKind.LOST, 2)
    assert running.of(Opened)[1].resumed == 1
    assert running.of(Disconnected)[0].error.code == "UNAVAILABLE"


def test_verdicts_given_while_there_is_no_stream_are_sent_on_the_next(gateway, run):
    handler, begun, go_on = gate()
    running = run(handler)
    first = gateway.next()
    first.opened(resume_token="t")
    first.batch(1, 2, 3)
    eventually(lambda: len(begun) == 3)
    first.end(grpc.StatusCode.UNAVAILABLE)
    eventually(lambda: running.of(Disconnected))
    go_on.set()
    second = gateway.next()
    settled = kept(2, lane=0)
    settled.result = gateway_pb2.RESUME_RESULT_SETTLED
    second.opened(resume_token="u", resumed=[kept(1, lane=8), settled])
    assert verdicts(second, 1) == [(1, gateway_pb2.OUTCOME_ACKED, "", 8)]
    eventually(lambda: running.of(Problem))
    assert [problem.first_offset for problem in running.of(Problem)] == [3]


def test_drain_ends_the_stream_once_all_is_answered(gateway, run):
    running = run(lambda _: 0.3)
    first = gateway.next()
    first.opened(resume_token="t")
    first.batch(5)
    drain = SubscribeResponse()
    drain.drain.deadline.seconds = 10
    first.send(drain)
    assert verdicts(first, 1) == [(5, gateway_pb2.OUTCOME_ACKED, "", 7)]
    first.next("close")
    first.end()
    second = gateway.next()
    assert not second.opened().HasField("resume")
    assert running.of(Draining)
    assert not running.of(Disconnected)


def test_silence_is_a_dead_stream(gateway, run):
    running = run(lambda _: None)
    first = gateway.next()
    first.next("open")
    opened = gateway_pb2.Opened(session="s", subscriber_id="me")
    opened.settings.ping_interval.FromMilliseconds(150)
    first.send(SubscribeResponse(opened=opened))
    gateway.next()
    assert isinstance(running.of(Disconnected)[0].error, Silent)


def test_pings_keep_it_alive(gateway, run):
    running = run(lambda _: None)
    stream = gateway.next()
    stream.next("open")
    opened = gateway_pb2.Opened(session="s", subscriber_id="me")
    opened.settings.ping_interval.FromMilliseconds(400)
    stream.send(SubscribeResponse(opened=opened))
    for _ in range(12):
        stream.send(SubscribeResponse(ping=gateway_pb2.Ping()))
        time.sleep(0.1)
    assert not running.of(Disconnected)


def test_a_gateway_that_never_opens_is_left(gateway, run):
    running = run(lambda _: None, Options(open_timeout=0.2))
    gateway.next()
    gateway.next()
    assert isinstance(running.of(Disconnected)[0].error, NotOpened)


def test_beats_and_extends_while_it_works(gateway, run):
    go_on = threading.Event()
    run(lambda _: go_on)
    stream = gateway.next()
    stream.next("open")
    opened = gateway_pb2.Opened(session="s", subscriber_id="me")
    opened.settings.ack_deadline.FromMilliseconds(300)
    opened.settings.lease_beat.FromMilliseconds(50)
    stream.send(SubscribeResponse(opened=opened))
    stream.next("beat")
    stream.batch(1, 2)
    for _ in range(2):
        extend = stream.next("extend")
        assert extend.by.ToMilliseconds() == 300
        spans = [(one.first_offset, one.last_offset) for one in extend.extensions]
        assert spans == [(1, 2)]
    go_on.set()


def test_stop_gives_back_what_was_not_begun(gateway, run):
    handler, begun, go_on = gate()
    running = run(handler, concurrency=1)
    stream = gateway.next()
    stream.opened()
    stream.batch(1, 2, 3)
    stream.batch(4)
    eventually(lambda: begun and len(running.of(Received)) == 2)
    running.stop()
    assert stream.next("credit").records == 0
    go_on.set()
    released = gateway_pb2.OUTCOME_RELEASED
    assert verdicts(stream, 4) == [
        (1, gateway_pb2.OUTCOME_ACKED, "", 7),
        (2, released, "", 7),
        (3, released, "", 7),
        (4, released, "", 7),
    ]
    stream.next("close")
    stream.end()
    stats = running.join()
    assert (stats.acked, stats.released) == (1, 3)


def test_a_goodbye_without_an_end_is_an_error(gateway, run):
    running = run(lambda _: None, Options(close_timeout=0.2))
    stream = gateway.next()
    stream.opened()
    eventually(lambda: running.of(Opened))
    running.stop()
    stream.next("close")
    with pytest.raises(NotClosed):
        running.join()


def test_refusals_end_it_with_their_reason(gateway, run):
    running = run(lambda _: None)
    stream = gateway.next()
    stream.next("open")
    stream.end(grpc.StatusCode.NOT_FOUND, "UNKNOWN_SUBSCRIPTION")
    with pytest.raises(GatewayError) as raised:
        running.join()
    error = raised.value
    assert (error.code, error.reason) == ("NOT_FOUND", "UNKNOWN_SUBSCRIPTION")
    assert error.retry_after == pytest.approx(0.3)
    eventually(lambda: not ours())


def test_waits_as_long_as_the_gateway_asks(gateway, run):
    running = run(lambda _: None)
    gateway.next().end(grpc.StatusCode.RESOURCE_EXHAUSTED, "TOO_MANY_STREAMS")
    began = time.monotonic()
    gateway.next()
    assert time.monotonic() - began >= 0.25
    assert running.of(Disconnected)[0].retry_in >= 0.3


def test_until_drained_ends_with_the_stream(gateway, run):
    running = run(lambda _: None, Options(until_drained=True))
    stream = gateway.next()
    assert stream.opened().until_drained
    stream.end()
    running.join()


def test_messages_of_a_later_version_are_passed_over(gateway, run):
    running = run(lambda _: None)
    stream = gateway.next()
    stream.opened()
    # Field 99 of `SubscribeResponse`, a message of two bytes.
    stream.send_raw(b"\x9a\x06\x02\x08\x01")
    stream.batch(1)
    assert verdicts(stream, 1)
    assert not running.of(Disconnected)


def test_what_comes_again_is_answered_by_its_number(gateway, run):
    seen = []
    run(lambda delivery: seen.append((delivery.attempt, delivery.number)))
    stream = gateway.next()
    stream.opened()
    stream.batch(4, 5, redelivered=3)
    (verdict,) = stream.next("settle").verdicts
    assert (verdict.first_offset, verdict.last_offset, verdict.delivery) == (4, 5, 3)
    assert seen == [(3, 3), (3, 3)]


def test_a_loop_that_is_left_gives_back_the_rest(gateway):
    with Subscriber(gateway.address, "orders") as subscriber:
        stream = gateway.next()
        stream.opened()
        stream.batch(1, 2)
        for delivery in subscriber:
            delivery.ack()
            break
        subscriber.stop(0.0)
        assert [one[:2] for one in verdicts(stream, 2)] == [
            (1, gateway_pb2.OUTCOME_ACKED),
            (2, gateway_pb2.OUTCOME_RELEASED),
        ]
        stream.next("close")
        stream.end()
    eventually(lambda: not ours())


def test_a_batch_is_answered_by_its_runs(gateway):
    with Subscriber(gateway.address, "orders") as subscriber:
        stream = gateway.next()
        stream.opened()
        stream.batch(1, 2, 3, 5)
        batch = next(subscriber.batches())
        assert (len(batch), batch.first_offset, batch.last_offset) == (4, 1, 5)
        next(iter(batch)).reject("bad")
        batch.ack()
        assert [one[:2] for one in verdicts(stream, 4)] == [
            (1, gateway_pb2.OUTCOME_REJECTED),
            (2, gateway_pb2.OUTCOME_ACKED),
            (3, gateway_pb2.OUTCOME_ACKED),
            (5, gateway_pb2.OUTCOME_ACKED),
        ]
        subscriber.stop(0.0)
        stream.next("close")
        stream.end()


def test_the_last_verdicts_count_though_the_stream_ends_at_once(gateway, run):
    running = run(lambda _: None, Options(until_drained=True))
    stream = gateway.next()
    stream.opened()
    stream.batch(*range(100))
    verdicts(stream, 100)
    stream.end()
    assert running.join().acked == 100
