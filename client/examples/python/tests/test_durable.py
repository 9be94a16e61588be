"""Waits for durable verdicts: what the gateway says ends each, or the end of its stream."""

from __future__ import annotations

import asyncio
import threading

import grpc
import pytest
from conftest import eventually, throughout
from gateway import DEADLINE, kept

from ackgate import Confirm, NotDurable, Options, ProblemKind
from ackgate.v1 import gateway_pb2

DURABLE = Options(confirm=Confirm.DURABLE)


@pytest.fixture
def durables(run):
    """Runs a handler that acks durably, and collects what it got, by offset."""
    got = {}

    def start(options=DURABLE, **more):
        def handler(delivery):
            if delivery.offset == 9:
                got[9] = delivery.reject_durably("bad", "no good")
            else:
                got[delivery.offset] = delivery.ack_durably()

        return run(handler, options, **more)

    start.got = got
    return start


def test_it_lasts_until_the_gateway_confirms_its_own_message(gateway, durables):
    durables()
    stream = gateway.next()
    assert stream.opened().confirm == gateway_pb2.CONFIRM_DURABLE
    stream.batch(0)
    one = stream.next("settle")
    stream.batch(9)
    two = stream.next("settle")
    assert [one.verdicts[0].outcome, two.verdicts[0].outcome] == [
        gateway_pb2.OUTCOME_ACKED,
        gateway_pb2.OUTCOME_REJECTED,
    ]
    stream.settled(two.sequence)
    assert durables.got[9].result(DEADLINE) is None
    throughout(lambda: not durables.got[0].done())
    stream.settled(one.sequence)
    # As a program with asyncio waits for it.
    asyncio.run(_awaited(durables.got[0]))


async def _awaited(durable):
    await asyncio.wait_for(durable, DEADLINE)


def test_it_ends_with_the_problem_of_its_record(gateway, durables):
    durables(Options(confirm=Confirm.DURABLE, flush_interval=1.0, flush_records=3))
    stream = gateway.next()
    stream.opened()
    stream.batch(0, 1, 2)
    settle = stream.next("settle")
    assert (settle.verdicts[0].first_offset, settle.verdicts[0].last_offset) == (0, 2)
    # An answer in two parts counts as one.
    stream.settled(settle.sequence, (0, gateway_pb2.VERDICT_RESULT_STALE), more=True)
    stream.settled(settle.sequence, (1, gateway_pb2.VERDICT_RESULT_DUPLICATE))
    with pytest.raises(NotDurable) as told:
        durables.got[0].result(DEADLINE)
    assert told.value.kind is ProblemKind.STALE
    assert durables.got[1].result(DEADLINE) is None, "an equal verdict confirms it"
    assert durables.got[2].result(DEADLINE) is None


def test_it_ends_with_the_stream(gateway, durables):
    durables()
    stream = gateway.next()
    stream.opened(resume_token="t")
    stream.batch(0)
    stream.next("settle")
    stream.end(grpc.StatusCode.UNAVAILABLE)
    with pytest.raises(NotDurable) as told:
        durables.got[0].result(DEADLINE)
    assert told.value.kind is None


def test_what_was_not_sent_goes_on_over_a_reconnect_and_under_another_number(gateway, durables):
    durables(Options(confirm=Confirm.DURABLE, flush_interval=1.0, flush_records=1_000))
    stream = gateway.next()
    stream.opened(resume_token="t")
    stream.batch(0, 1)
    eventually(lambda: len(durables.got) == 2)
    stream.end(grpc.StatusCode.UNAVAILABLE)
    stream = gateway.next()
    stream.opened(resumed=[kept(1, lane=7)], resume_token="t")
    settle = stream.next("settle")
    with pytest.raises(NotDurable):
        durables.got[0].result(DEADLINE)
    stream.settled(settle.sequence)
    assert durables.got[1].result(DEADLINE) is None


def test_goodbye_waits_for_confirmations(gateway, durables):
    running = durables(Options(confirm=Confirm.DURABLE, close_timeout=DEADLINE))
    stream = gateway.next()
    stream.opened()
    stream.batch(0)
    settle = stream.next("settle")
    running.stop()
    stream.next("credit")
    throughout(stream.requests.empty)
    stream.settled(settle.sequence)
    stream.next("close")
    stream.end()
    running.join()
    assert durables.got[0].result(0) is None


def test_goodbye_does_not_wait_for_ever(gateway, durables):
    running = durables()
    stream = gateway.next()
    stream.opened()
    stream.batch(0)
    stream.next("settle")
    running.stop()
    # After the time for the goodbye, which the fixture shortens.
    stream.next("close")
    stream.end()
    running.join()
    with pytest.raises(NotDurable):
        durables.got[0].result(0)


def test_without_the_option_it_is_over_at_once_and_the_verdict_counts(gateway, run):
    got = []

    def handler(delivery):
        got.append(delivery.ack_durably())
        got.append(delivery.ack_durably())

    run(handler)
    stream = gateway.next()
    stream.opened()
    stream.batch(0)
    assert stream.next("settle").verdicts[0].outcome == gateway_pb2.OUTCOME_ACKED
    with pytest.raises(NotDurable, match="did not ask"):
        got[0].result(DEADLINE)
    with pytest.raises(NotDurable, match="before"):
        got[1].result(DEADLINE)


def test_a_handler_may_wait_for_it(gateway, run):
    answered = threading.Event()

    def handler(delivery):
        if delivery.offset == 0:
            delivery.ack_durably().add_done_callback(lambda _: answered.set())

    run(handler, DURABLE)
    stream = gateway.next()
    stream.opened()
    stream.batch(0)
    stream.settled(stream.next("settle").sequence)
    assert answered.wait(DEADLINE)
