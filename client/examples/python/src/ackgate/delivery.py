"""`Batch` and `Delivery`: records in hand, each to be answered once.

The methods that answer are cheap, never wait, and may be called from any thread.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from ackgate.durable import Durable, NotDurable
from ackgate.errors import Fail, Reject, Release
from ackgate.events import Outcome
from ackgate.gathered import ACK, RELEASE, Answer
from ackgate.ledger import Ledger, Phase
from ackgate.runs import LaneName, Run, joined
from ackgate.trace import TraceContext, of_record
from ackgate.v1 import record_pb2

HANDLER = "handler"
"""The code of the failed verdict on a record whose handler raised anything unexpected."""


class Batch:
    """Records of one lane, in offset order, as they came.

    Answer it as a whole, or iterate over its deliveries and answer each; a later answer to
    the whole is for those that have none.
    """

    __slots__ = (
        "_answered",
        "_ledger",
        "_numbers",
        "_runs",
        "_traces",
        "lane",
        "name",
        "session",
        "wire",
    )

    def __init__(self, ledger: Ledger, session: int, wire: record_pb2.Batch) -> None:
        """Takes a batch as it came; it must have a record."""
        self._ledger = ledger
        self.session = session
        self.wire = wire
        self.lane: int = wire.lane
        self.name = LaneName(wire.topic, wire.partition, wire.epoch)
        # Attempt and delivery number, by offset; what is not in here is at the first of both.
        self._numbers: dict[int, tuple[int, int]] = {}
        self._answered: set[int] = set()
        for run in wire.redeliveries:
            for offset in range(run.first_offset, run.last_offset + 1):
                self._numbers[offset] = (run.attempt, run.delivery)
        # Few records have one, and usually none.
        self._traces = {
            trace.offset: TraceContext.parse(trace.traceparent, trace.tracestate)
            for trace in wire.traces
        }
        self._runs = self._as_runs(wire)

    def _as_runs(self, wire: record_pb2.Batch) -> list[Run]:
        records = wire.records
        first, last = records[0].offset, records[-1].offset
        if not self._numbers and last - first + 1 == len(records):
            return [Run(self.lane, 1, first, last)]
        return joined(
            Run(self.lane, self._numbers.get(offset, (1, 1))[1], offset, offset)
            for offset in (record.offset for record in records)
        )

    @property
    def topic(self) -> str:
        """The records' topic."""
        return self.name.topic

    @property
    def partition(self) -> int:
        """The records' partition."""
        return self.name.partition

    @property
    def runs(self) -> list[Run]:
        """The records that are the program's to answer, as runs."""
        return list(self._runs)

    @property
    def first_offset(self) -> int:
        """Offset of the first record."""
        return int(self.wire.records[0].offset)

    @property
    def last_offset(self) -> int:
        """Offset of the last record."""
        return int(self.wire.records[-1].offset)

    def __len__(self) -> int:
        """Number of records that are the program's to answer."""
        return sum(run.size for run in self._runs)

    def __iter__(self) -> Iterator[Delivery]:
        """The records, each to be answered by itself."""
        whole = len(self) == len(self.wire.records)
        mine = (
            set() if whole else {at for run in self._runs for at in range(run.first, run.last + 1)}
        )
        for record in self.wire.records:
            if whole or record.offset in mine:
                attempt, number = self._numbers.get(record.offset, (1, 1))
                yield Delivery(self, record, attempt, number)

    def ack(self) -> None:
        """Says that the records are done."""
        self._answer(ACK)

    def reject(self, code: str, reason: str = "") -> None:
        """Refuses the records for good: they become dead letters now."""
        self._answer(Answer(Outcome.REJECTED, code, reason))

    def fail(
        self, reason: str = "", *, code: str = "", retry_after: float | timedelta | None = None
    ) -> None:
        """Not this time: the records come again after a backoff, or after `retry_after`."""
        self._answer(Answer(Outcome.FAILED, code, reason, in_seconds(retry_after)))

    def release(self) -> None:
        """Gives the records back untouched: again at once, elsewhere if possible."""
        self._answer(RELEASE)

    def extend(self, by: float) -> None:
        """Says that work goes on: the deadline becomes now plus `by` seconds, at most 600."""
        for run in self._left():
            self._ledger.extend(run, by)

    def refresh(self) -> bool:
        """After a reconnect: keeps only what the gateway kept. Returns whether it is any."""
        if self.session == self._ledger.session and self._ledger.phase is not Phase.OVER:
            return True
        self._runs = [
            Run(self.lane, part.delivery, part.first, part.last)
            for run in self._runs
            for part in self._ledger.kept(run)
        ]
        self.session = self._ledger.session
        return bool(self._runs)

    def _trace(self, offset: int) -> TraceContext | None:
        """The gateway's own span of a delivery, if there is one."""
        return self._traces.get(offset)

    def _left(self) -> list[Run]:
        if not self._answered:
            return self._runs
        return joined(
            run.part(offset, offset)
            for run in self._runs
            for offset in range(run.first, run.last + 1)
            if offset not in self._answered
        )

    def _answer(self, answer: Answer) -> None:
        left, self._runs = self._left(), []
        for run in left:
            self._ledger.answer(run, answer)

    def _answer_one(self, run: Run, answer: Answer) -> None:
        self._answered.add(run.first)
        self._ledger.answer(run, answer)

    def _answer_durably(self, run: Run, answer: Answer) -> Durable:
        self._answered.add(run.first)
        return self._ledger.answer_durably(run, answer)

    def _extend_one(self, run: Run, by: float) -> None:
        self._ledger.extend(run, by)


class Delivery:
    """One hand-over of a record, waiting for its verdict.

    Without one it comes again once its deadline has passed. It outlives a broken stream if
    the gateway keeps it; else the verdict is reported as a problem of kind `lost`.
    """

    __slots__ = ("_batch", "_record", "answered", "attempt", "number")

    def __init__(self, batch: Batch, record: record_pb2.Record, attempt: int, number: int) -> None:
        """One record of a batch."""
        self._batch = batch
        self._record = record
        self.attempt = attempt
        """1 plus the failed verdicts and expiries so far."""
        self.number = number
        """1 plus the earlier hand-overs."""
        self.answered = False

    def __repr__(self) -> str:
        """Without key, value and headers: they do not belong in logs."""
        return f"<Delivery {self.topic}/{self.partition}@{self.offset} attempt {self.attempt}>"

    @property
    def topic(self) -> str:
        """The record's topic."""
        return self._batch.name.topic

    @property
    def partition(self) -> int:
        """The record's partition."""
        return self._batch.name.partition

    @property
    def epoch(self) -> int:
        """Number of the lane's history: a reset of the subscription starts a new one."""
        return self._batch.name.epoch

    @property
    def offset(self) -> int:
        """The record's position in its partition."""
        return int(self._record.offset)

    @property
    def timestamp_ms(self) -> int:
        """Milliseconds since the Unix epoch; 0 if there is none."""
        return int(self._record.timestamp_ms)

    @property
    def key(self) -> bytes | None:
        """The key; None is Kafka's null."""
        return self._record.key if self._record.HasField("key") else None

    @property
    def value(self) -> bytes | None:
        """The value; None is Kafka's null."""
        return self._record.value if self._record.HasField("value") else None

    @property
    def headers(self) -> list[tuple[str, bytes | None]]:
        """All headers in the record's order; a value of None is Kafka's null."""
        return [
            (header.key, header.value if header.HasField("value") else None)
            for header in self._record.headers
        ]

    def header(self, name: str) -> bytes | None:
        """The value of the last header of this name."""
        for key, value in reversed(self.headers):
            if key == name:
                return value
        return None

    @property
    def trace_context(self) -> TraceContext | None:
        """What work on the record continues: the gateway's span, if it traces the record.

        Else what its producer wrote into its headers; None if that is nothing valid.
        """
        return of_record(self.headers, self._batch._trace(self.offset))

    def ack(self) -> None:
        """Says that the record is done."""
        self._answer(ACK)

    def ack_durably(self) -> Durable:
        """The same; what is returned ends once the verdict survives the loss of the gateway.

        Needs `Options(confirm=Confirm.DURABLE)`. The verdict is given at once, whether it is
        waited for or not.
        """
        return self._answer_durably(ACK)

    def reject_durably(self, code: str, reason: str = "") -> Durable:
        """As `reject` and `ack_durably`: also its dead letter is safe then."""
        return self._answer_durably(Answer(Outcome.REJECTED, code, reason))

    def reject(self, code: str, reason: str = "") -> None:
        """Refuses the record for good: it becomes a dead letter now.

        `code` has at most 128 bytes, `reason` 1 KiB; longer ones are cut.
        """
        self._answer(Answer(Outcome.REJECTED, code, reason))

    def fail(
        self, reason: str = "", *, code: str = "", retry_after: float | timedelta | None = None
    ) -> None:
        """Not this time: the record comes again after the subscription's backoff.

        Or after `retry_after` (seconds, at most 1 h). Uses an attempt.
        """
        self._answer(Answer(Outcome.FAILED, code, reason, in_seconds(retry_after)))

    def release(self) -> None:
        """Gives the record back untouched: again at once, elsewhere if possible."""
        self._answer(RELEASE)

    def extend(self, by: float) -> None:
        """Says that work goes on: the deadline becomes now plus `by` seconds.

        At most 600 s at a time and 1 h in total. `run` does it by itself.
        """
        if by > 0 and not self.answered:
            self._batch._extend_one(self._run(), by)

    def is_ours(self) -> bool:
        """Whether it still counts what is said about it; a reconnect may have lost it."""
        ledger = self._batch._ledger
        if self._batch.session == ledger.session and ledger.phase is not Phase.OVER:
            return True
        return bool(ledger.kept(self._run()))

    def conclude(self, error: BaseException | None) -> None:
        """Gives the verdict that follows from how a handler ended, if it gave none itself."""
        if self.answered:
            return
        match error:
            case None:
                self.ack()
            case Reject(code=code, reason=reason):
                self.reject(code, reason)
            case Fail(reason=reason, code=code, retry_after=retry_after):
                self.fail(reason, code=code, retry_after=retry_after)
            case Release():
                self.release()
            case _:
                self.fail(f"{type(error).__name__}: {error}", code=HANDLER)

    def _run(self) -> Run:
        offset = self._record.offset
        return Run(self._batch.lane, self.number, offset, offset)

    def _answer(self, answer: Answer) -> None:
        if self.answered:
            return
        self.answered = True
        self._batch._answer_one(self._run(), answer)

    def _answer_durably(self, answer: Answer) -> Durable:
        if self.answered:
            durable = Durable()
            durable.end(NotDurable("the record was answered before"))
            return durable
        self.answered = True
        return self._batch._answer_durably(self._run(), answer)


def in_seconds(time: float | timedelta | None) -> float | None:
    """A time in seconds."""
    return time.total_seconds() if isinstance(time, timedelta) else time
