"""The parts that know no socket."""

from __future__ import annotations

import random
from datetime import UTC, datetime

import pytest

from ackgate import (
    AdHoc,
    DeliveryMode,
    OnReject,
    OptionError,
    Options,
    Order,
    Start,
    SubscriptionOptions,
    Tls,
)
from ackgate.addresses import Gateways, target
from ackgate.backoff import Backoff
from ackgate.events import Counters, Outcome, Problem
from ackgate.gathered import ACK, Answer
from ackgate.ledger import Ledger, Readiness
from ackgate.messages import MAX_BYTES, Messages, cut
from ackgate.resume import Fate, Fates, manifest
from ackgate.runs import HeldRuns, LaneName, Run, joined
from ackgate.v1 import gateway_pb2
from ackgate.v1.gateway_pb2 import ResumeAnswer

NAME = LaneName("orders", 3, 1)


def new_ledger():
    told = []
    ledger = Ledger(Counters(told.append), flush_records=10, wake=lambda: None)
    return ledger, told


def answer(first, last, result, lane=0):
    return ResumeAnswer(
        topic="orders", partition=3, first_offset=first, last_offset=last, result=result, lane=lane
    )


@pytest.mark.parametrize("seed", range(20))
def test_held_runs_are_a_set_of_offsets(seed):
    chance = random.Random(seed)
    held, model = HeldRuns(), set()
    for _ in range(200):
        first = chance.randrange(60)
        run = Run(7, 1, first, first + chance.randrange(8))
        whole = set(range(run.first, run.last + 1))
        if chance.random() < 0.5:
            held.insert(run)
            model |= whole
        else:
            taken = {at for part in held.take(run) for at in range(part.first, part.last + 1)}
            assert taken == model & whole
            model -= whole
        runs = list(held)
        assert {at for run in runs for at in range(run.first, run.last + 1)} == model
        assert joined(runs) == runs, "neighbours are one"
        assert len(held) == len(model)
        assert all(held.has(7, 1, at) == (at in model) for at in range(70))


def test_runs_join_only_without_a_gap_and_within_a_delivery():
    runs = [Run(1, 1, 4, 5), Run(1, 1, 1, 3), Run(1, 2, 6, 6), Run(2, 1, 6, 7), Run(1, 1, 7, 7)]
    assert joined(runs) == [Run(1, 1, 1, 5), Run(1, 1, 7, 7), Run(1, 2, 6, 6), Run(2, 1, 6, 7)]


def test_of_two_deliveries_the_later_is_named():
    held = manifest([Run(7, 1, 0, 9), Run(7, 2, 4, 5), Run(8, 1, 0, 0)], {7: NAME})
    spans = [(one.first_offset, one.last_offset, one.delivery) for one in held]
    assert spans == [(4, 5, 2), (0, 3, 1), (6, 9, 1)]


def test_a_manifest_has_no_more_runs_than_a_gateway_takes():
    runs = [Run(7, 1, at * 2, at * 2) for at in range(10_500)]
    assert len(manifest(runs, {7: NAME})) == 10_000


def test_what_has_no_answer_is_lost():
    fates = Fates([answer(2, 4, 1, 9), answer(6, 99, 2)])
    parts = [
        (part.first, part.last, fate, lane) for part, fate, lane in fates.of(Run(7, 1, 0, 8), NAME)
    ]
    assert parts == [
        (0, 1, Fate.LOST, 7),
        (2, 4, Fate.KEPT, 9),
        (5, 5, Fate.LOST, 7),
        (6, 8, Fate.SETTLED, 7),
    ]
    assert [fate for _, fate, _ in fates.of(Run(7, 1, 3, 3), None)] == [Fate.LOST]


def test_each_record_is_answered_once():
    ledger, told = new_ledger()
    session = ledger.begin([])
    ledger.handed([Run(7, 1, 0, 3)], NAME)
    assert ledger.readiness(session) is Readiness.EMPTY
    ledger.answer(Run(7, 1, 1, 1), ACK)
    assert ledger.readiness(session) is Readiness.SOON
    ledger.answer(Run(7, 1, 1, 1), Answer(Outcome.FAILED))
    assert [(event.first_offset, event.kind.value) for event in told] == [(1, "lost")]
    ledger.answer(Run(7, 1, 0, 0), ACK)
    assert ledger.take().acks == [Run(7, 1, 0, 1)]
    assert ledger.out == 2
    assert ledger.counters.snapshot().stale_answers == 1


def test_many_verdicts_do_not_wait():
    ledger, _ = new_ledger()
    session = ledger.begin([])
    ledger.handed([Run(7, 1, 0, 99)], NAME)
    ledger.answer(Run(7, 1, 0, 9), ACK)
    assert ledger.readiness(session) is Readiness.NOW


def test_after_a_loss_nothing_counts():
    ledger, told = new_ledger()
    ledger.begin([])
    ledger.handed([Run(7, 1, 0, 9)], NAME)
    ledger.answer(Run(7, 1, 0, 4), ACK)
    ledger.end(broken=False)
    ledger.answer(Run(7, 1, 5, 5), ACK)
    assert [event.first_offset for event in told if isinstance(event, Problem)] == [5]
    assert ledger.counters.snapshot().stale_answers == 6
    assert not ledger.take().acks


def test_a_renamed_lane_is_renamed_again():
    ledger, _ = new_ledger()
    ledger.begin([])
    ledger.handed([Run(7, 1, 0, 0)], NAME)
    for lane in (8, 9):
        ledger.end(broken=True)
        ledger.begin([answer(0, 0, 1, lane)])
    ledger.answer(Run(7, 1, 0, 0), ACK)
    assert ledger.take().acks == [Run(9, 1, 0, 0)]


def test_extensions_go_before_verdicts_and_messages_stay_small():
    ledger, _ = new_ledger()
    ledger.begin([])
    ledger.handed([Run(7, 1, at * 2, at * 2) for at in range(5_000)], NAME)
    ledger.extend(Run(7, 1, 0, 0), 5.0)
    for at in range(5_000):
        ledger.answer(Run(7, 1, at * 2, at * 2), Answer(Outcome.FAILED, reason=f"{at}" * 300))
    kinds, sequences, sizes = [], [], []
    for outgoing in Messages(2_000).build(ledger.take()):
        kind = outgoing.request.WhichOneof("request")
        kinds.append(kind)
        sequences.append(getattr(outgoing.request, kind).sequence)
        sizes.append(outgoing.request.ByteSize())
        assert len(outgoing.verdicts) <= 2_000
    assert kinds[0] == "extend"
    assert set(kinds[1:]) == {"settle"}
    assert sequences == list(range(1, len(kinds) + 1))
    assert max(sizes) < MAX_BYTES + 2_048


def test_texts_are_cut_between_characters():
    assert cut("äöü", 3) == "ä"
    assert cut("äöü", 6) == "äöü"
    assert cut("\ud800x", 8) == "?x"


class Highest(random.Random):
    def uniform(self, a, b):
        return b


def test_waits_grow_with_full_jitter():
    backoff = Backoff(random=Highest())
    waits = [backoff.after_failure(useful=False, retry_after=None) for _ in range(10)]
    assert waits[:3] == [0.25, 0.5, 1.0]
    assert waits[-1] == 30.0
    assert backoff.after_failure(useful=True, retry_after=5.0) == 5.25
    assert backoff.after_success() == 0.25


def test_addresses():
    assert target("localhost:7000", None) == ("localhost:7000", None)
    assert target("http://localhost:7000/", None) == ("localhost:7000", None)
    assert target("https://gate", None) == ("gate:443", Tls())
    assert target("[::1]:7", Tls(ca=b"x")) == ("[::1]:7", Tls(ca=b"x"))
    for wrong in ("ftp://a:1", "http://", "a:1/b", "http://user@a:1"):
        with pytest.raises(OptionError):
            target(wrong, None)


def test_addresses_are_tried_in_turn_and_given_up_together():
    gateways = Gateways(["a:1", "b:2"], None)
    assert gateways.address == "a:1"
    gateways.leave()
    assert gateways.address == "b:2"
    # One that refuses is no end while the other may serve.
    assert gateways.refused()
    assert gateways.address == "a:1"
    gateways.leave()
    assert gateways.refused()
    assert not gateways.refused()
    assert not Gateways("a:1", None).refused()
    for wrong in ([], ["a:1", "ftp://b"], ["a"] * 65):
        with pytest.raises(OptionError):
            Gateways(wrong, None)


def test_waits_grow_by_rounds_over_all_addresses():
    backoff = Backoff(addresses=2, random=Highest())
    waits = [backoff.after_failure(useful=False, retry_after=None) for _ in range(5)]
    assert waits == [0.25, 0.25, 0.5, 0.5, 1.0]


@pytest.mark.parametrize(
    "wrong",
    [
        {"credit": 0},
        {"credit": 1_000_001},
        {"max_message_bytes": 100},
        {"ack_deadline": 0.01},
        {"subscriber_id": "a\nb"},
        {"subscriber_id": "ä" * 129},
        {"token": "a b"},
        {"token": "ä"},
    ],
)
def test_options_out_of_range_are_refused(wrong):
    with pytest.raises(OptionError):
        Options(**wrong)


def test_a_certificate_needs_its_key():
    with pytest.raises(OptionError):
        Tls(certificate=b"x")


def test_secrets_are_not_shown():
    shown = repr(Options(token="secret", tls=Tls(certificate=b"c", key=b"hidden")))
    assert "secret" not in shown
    assert "hidden" not in shown


def test_opening_says_only_what_is_set():
    wire = Options(ack_deadline=1.5).open("orders")
    assert wire.ack_deadline.ToMilliseconds() == 1_500
    assert not wire.HasField("batch")
    assert not wire.HasField("ad_hoc")
    assert wire.confirm == gateway_pb2.CONFIRM_UNSPECIFIED


def test_ad_hoc_takes_the_place_of_a_name():
    shape = SubscriptionOptions(
        delivery=DeliveryMode.BROADCAST,
        order=Order.LANE,
        start=datetime(2026, 1, 2, tzinfo=UTC),
        max_attempts=3,
        on_reject=OnReject.DROP,
        min_age=1.5,
    )
    options = Options(ad_hoc=AdHoc("main", ["a", "b"], "nightly"), expect=shape)
    wire = options.open("orders")
    assert wire.subscription == ""
    assert (wire.ad_hoc.cluster, list(wire.ad_hoc.topics)) == ("main", ["a", "b"])
    assert wire.ad_hoc.group == "nightly"
    assert not wire.HasField("expect")
    asked = wire.ad_hoc.options
    assert (asked.delivery, asked.order) == (2, 3)
    assert (asked.on_reject, asked.max_attempts) == (2, 3)
    assert asked.start.timestamp.ToDatetime() == datetime(2026, 1, 2)
    assert asked.min_age.ToMilliseconds() == 1_500
    assert not asked.HasField("max_deliveries")
    named = Options(expect=SubscriptionOptions(start=Start.EARLIEST)).open("orders")
    assert named.expect.start.HasField("earliest")
    for wrong in (
        lambda: AdHoc("", ["a"], "g"),
        lambda: AdHoc("main", [], "g"),
        lambda: AdHoc("main", "orders", "g"),
        lambda: AdHoc("main", ["a"], ""),
        lambda: SubscriptionOptions(max_attempts=0),
        lambda: SubscriptionOptions(start=datetime(2026, 1, 2)),
    ):
        with pytest.raises(OptionError):
            wrong()
