"""What is gathered, as messages of one stream."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta

from google.protobuf.duration_pb2 import Duration

from ackgate.durable import Durable, Watcher
from ackgate.events import Counters, Outcome, Sent
from ackgate.gathered import ACK, Answer, Gathered
from ackgate.ledger import Ledger
from ackgate.runs import Run, joined
from ackgate.v1 import gateway_pb2
from ackgate.v1.gateway_pb2 import SubscribeRequest

MAX_VERDICTS = 10_000
"""Most verdicts in a message if the gateway does not say."""

MAX_BYTES = 1 << 20
"""Largest message of verdicts: well below what gRPC servers accept by default."""

MAX_CODE = 128
MAX_REASON = 1_024

MAX_EXTENSION = 600.0
"""Most that an extension may ask for, in seconds."""

MAX_RETRY_AFTER = 3_600.0
"""Most that a failed verdict may ask for, in seconds."""

_OUTCOMES = {
    Outcome.ACKED: gateway_pb2.OUTCOME_ACKED,
    Outcome.REJECTED: gateway_pb2.OUTCOME_REJECTED,
    Outcome.FAILED: gateway_pb2.OUTCOME_FAILED,
    Outcome.RELEASED: gateway_pb2.OUTCOME_RELEASED,
}


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A message, and the verdicts in it."""

    request: SubscribeRequest
    verdicts: list[tuple[Run, Answer]]
    watchers: list[Watcher] = field(default_factory=list)
    """Who waits for its answer."""

    def count(self, ledger: Ledger, counters: Counters) -> None:
        """Tells of its verdicts once it is handed to the stream."""
        for run, answer in self.verdicts:
            name = ledger.name(run.lane)
            topic, partition = (name.topic, name.partition) if name else ("", -1)
            counters.sent(Sent(topic, partition, run.first, run.last, run.delivery, answer.outcome))


class Messages:
    """Builds the messages of one stream, numbering those that are answered."""

    def __init__(self, max_verdicts: int = 0) -> None:
        """Takes what the gateway allows; 0: it did not say."""
        self._sequence = 0
        self._max = min(max_verdicts or MAX_VERDICTS, MAX_VERDICTS)

    def build(self, gathered: Gathered) -> Iterator[Outgoing]:
        """The messages, in the order to be sent.

        Extensions go before verdicts: a verdict on the same record would make them late.
        """
        if gathered.beat:
            yield Outgoing(SubscribeRequest(beat=gateway_pb2.Beat()), [])
        if gathered.credit is not None:
            records, bytes_ = gathered.credit
            credit = gateway_pb2.Credit(records=records, bytes=bytes_)
            yield Outgoing(SubscribeRequest(credit=credit), [])
        yield from self._extensions(gathered.extensions)
        verdicts = [(run, ACK) for run in joined(gathered.acks)]
        yield from self._settles(verdicts + gathered.answers, gathered.watchers)
        if gathered.close:
            yield Outgoing(SubscribeRequest(close=gateway_pb2.Close()), [])

    def _extensions(self, extensions: dict[Run, float]) -> Iterator[Outgoing]:
        by_time: dict[float, list[Run]] = {}
        for run, by in extensions.items():
            by_time.setdefault(min(by, MAX_EXTENSION), []).append(run)
        for by, runs in by_time.items():
            whole = joined(runs)
            for at in range(0, len(whole), self._max):
                extend = gateway_pb2.Extend(sequence=self._next(), by=duration(by))
                for run in whole[at : at + self._max]:
                    extension = extend.extensions.add(lane=run.lane, first_offset=run.first)
                    if run.last != run.first:
                        extension.last_offset = run.last
                yield Outgoing(SubscribeRequest(extend=extend), [])

    def _settles(
        self, verdicts: list[tuple[Run, Answer]], watchers: list[Watcher]
    ) -> Iterator[Outgoing]:
        waiting = {(run.lane, run.delivery, run.first): durable for run, durable in watchers}
        settle, inside, size = gateway_pb2.Settle(), list[tuple[Run, Answer]](), 0
        for run, answer in verdicts:
            wire = verdict(run, answer)
            settle.verdicts.append(wire)
            inside.append((run, answer))
            size += wire.ByteSize() + 4
            if len(inside) >= self._max or size >= MAX_BYTES:
                settle.sequence = self._next()
                yield Outgoing(SubscribeRequest(settle=settle), inside, _watching(inside, waiting))
                settle, inside, size = gateway_pb2.Settle(), [], 0
        if inside:
            settle.sequence = self._next()
            yield Outgoing(SubscribeRequest(settle=settle), inside, _watching(inside, waiting))

    def _next(self) -> int:
        self._sequence += 1
        return self._sequence


def _watching(
    verdicts: list[tuple[Run, Answer]], waiting: dict[tuple[int, int, int], Durable]
) -> list[Watcher]:
    """Those who wait for one of these verdicts."""
    if not waiting:
        return []
    return [
        Watcher(run.part(offset, offset), waiting[run.lane, run.delivery, offset])
        for run, _ in verdicts
        for offset in range(run.first, run.last + 1)
        if (run.lane, run.delivery, offset) in waiting
    ]


def verdict(run: Run, answer: Answer) -> gateway_pb2.Verdict:
    """A verdict on the wire. Long codes and reasons are cut: they never cost the verdict."""
    wire = gateway_pb2.Verdict(
        lane=run.lane,
        first_offset=run.first,
        delivery=run.delivery,
        outcome=_OUTCOMES[answer.outcome],
        code=cut(answer.code, MAX_CODE),
        reason=cut(answer.reason, MAX_REASON),
    )
    if run.last != run.first:
        wire.last_offset = run.last
    if answer.retry_after is not None:
        wire.retry_after.CopyFrom(duration(min(answer.retry_after, MAX_RETRY_AFTER)))
    return wire


def cut(text: str, most: int) -> str:
    """The longest beginning of `text` that takes at most this many bytes of UTF-8."""
    raw = text.encode("utf-8", errors="replace")
    return raw[:most].decode("utf-8", errors="ignore")


def duration(seconds: float) -> Duration:
    """Seconds as a duration of the protocol."""
    wire = Duration()
    wire.FromTimedelta(timedelta(seconds=max(seconds, 0.0)))
    return wire


def seconds(wire: Duration) -> float:
    """A duration of the protocol as seconds."""
    return wire.seconds + wire.nanos / 1e9
