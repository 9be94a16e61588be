"""The ledger: what the program has in hand, and its verdicts until the stream takes them.

One for all streams of a subscriber, so that deliveries outlive a broken stream where the
gateway keeps them. It knows no thread, loop or socket, only a lock, and calls `wake` when
there may be something to send. What is gathered is bounded by what is out, and so by the
credit: each record is answered once.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from enum import Enum

from ackgate.durable import Durable, Waits, Watcher, not_asked, session_ended
from ackgate.events import Counters, Problem, ProblemKind
from ackgate.gathered import Answer, Gathered
from ackgate.resume import Fate, Fates, manifest
from ackgate.runs import HeldRuns, LaneName, Run
from ackgate.v1 import gateway_pb2

MANY_LANES = 10_000
"""Lanes beyond this are forgotten once nothing of them is in hand."""


class Readiness(Enum):
    """Whether there is something to send."""

    EMPTY = 0
    SOON = 1
    """When the time for gathering is over."""
    NOW = 2
    ENDED = 3


class Phase(Enum):
    """What there is of a stream."""

    OVER = 0
    """None that anything came from."""
    OPEN = 1
    BROKEN = 2
    """It may be gone on with: verdicts are kept for the next one."""


class Ledger:
    """Where the verdicts of a subscriber meet. All methods may be called from any thread."""

    def __init__(
        self,
        counters: Counters,
        *,
        flush_records: int = 1_000,
        durable: bool = False,
        wake: Callable[[], None],
    ) -> None:
        """Begins with nothing. `durable`: durable confirmations are asked for."""
        self.counters = counters
        self._wake = wake
        self._flush_records = flush_records
        self._durable = durable
        self._waits = Waits()
        # The goodbye does not wait for confirmations any longer.
        self._hurried = False
        self._lock = threading.Lock()
        self._session = 0
        self._phase = Phase.OVER
        self._gathered = Gathered()
        # Records answered since something was last taken.
        self._pending = 0
        self._held = HeldRuns()
        self._lanes: dict[int, LaneName] = {}
        # Lanes whose number has changed over a reconnect.
        self._renamed: dict[int, int] = {}
        # Say goodbye once nothing is in hand; or now, and later verdicts do not count.
        self._draining = False
        self._closing = False

    # The program's side.

    def answer_durably(self, run: Run, answer: Answer) -> Durable:
        """Takes the verdict on one record, and says when it is durable."""
        if not self._durable:
            self.answer(run, answer)
            return not_asked()
        durable = Durable()
        self.answer(run, answer, durable)
        return durable

    def answer(self, run: Run, answer: Answer, durable: Durable | None = None) -> None:
        """Takes a verdict. What of `run` is not in hand any more is a problem `lost`."""
        with self._lock:
            run = self._now(run)
            is_late = self._closing
            parts = [] if is_late else self._held.take(run)
            self._gathered.push(parts, answer)
            if durable is not None and parts:
                self._gathered.watchers.append(Watcher(run, durable))
            before = self._pending
            taken = sum(part.size for part in parts)
            self._pending += taken
            wake = (before == 0 and taken > 0) or (before < self._flush_records <= self._pending)
            wake = wake or (self._draining and not len(self._held))
            name = self._lanes.get(run.lane)
        if durable is not None and not parts:
            durable.end(session_ended())
        if is_late:
            self.counters.add("stale_answers", run.size)
        elif taken < run.size:
            self._too_late(run, run.size - taken, name)
        if wake and not is_late:
            self._wake()

    def extend(self, run: Run, by: float) -> None:
        """Asks for more time, in seconds from now; the latest wish for a run counts."""
        with self._lock:
            run = self._now(run)
            if self._closing or not self._held.has(run.lane, run.delivery, run.first):
                self.counters.add("stale_answers", run.size)
                return
            self._gathered.extensions[run] = by
        self._wake()

    def extend_held(self, by: float) -> None:
        """Asks for more time for all that is in hand."""
        with self._lock:
            if self._closing or self._phase is not Phase.OPEN or not len(self._held):
                return
            self._gathered.extensions = dict.fromkeys(self._held, by)
        self._wake()

    def credit(self, records: int, bytes_: int) -> None:
        """Asks for another credit."""
        with self._lock:
            self._gathered.credit = (records, bytes_)
        self._wake()

    def beat(self) -> None:
        """Gives a sign of life."""
        with self._lock:
            self._gathered.beat = True
        self._wake()

    def drain(self) -> None:
        """Says goodbye once all that is in hand is answered."""
        with self._lock:
            self._draining = True
        self._wake()

    def close(self) -> None:
        """Says goodbye after what is gathered; later verdicts do not count."""
        with self._lock:
            self._closing = True
        self._wake()

    def hurry(self) -> None:
        """Says goodbye also if the gateway has not confirmed everything."""
        with self._lock:
            self._hurried = True
        self._wake()

    # The stream's side.

    @property
    def is_confirming(self) -> bool:
        """Whether only confirmations are waited for before the goodbye."""
        with self._lock:
            return self._is_leaving() and not self._may_close()

    def waiting(self, sequence: int, watchers: list[Watcher]) -> None:
        """A message with this number is about to be sent, and these wait for its answer."""
        with self._lock:
            self._waits.sent(sequence, watchers)

    def settled(self, wire: gateway_pb2.Settled) -> None:
        """The gateway answers a message: ends the waits for it."""
        with self._lock:
            ended = self._waits.settled(wire)
            wake = self._is_leaving()
        for durable, error in ended:
            durable.end(error)
        if wake:
            self._wake()

    def readiness(self, session: int) -> Readiness:
        """Whether there is something to send on the stream of this number."""
        with self._lock:
            if self._phase is not Phase.OPEN or self._session != session:
                return Readiness.ENDED
            gathered = self._gathered
            if (
                (self._is_leaving() and self._may_close())
                or self._pending >= self._flush_records
                or gathered.credit is not None
                or gathered.beat
                or gathered.extensions
            ):
                return Readiness.NOW
            return Readiness.SOON if self._pending else Readiness.EMPTY

    def take(self) -> Gathered:
        """Takes all that is gathered."""
        with self._lock:
            self._pending = 0
            # Nothing counts after the goodbye, which releases what is still out.
            self._closing = self._is_leaving()
            gathered, self._gathered = self._gathered, Gathered()
            gathered.close = self._closing and self._may_close(gathered)
            return gathered

    def begin(self, answers: Iterable[gateway_pb2.ResumeAnswer]) -> int:
        """Begins a stream that keeps what `answers` say. Returns its number, from 1 on."""
        with self._lock:
            self._session += 1
            self._phase = Phase.OPEN
            # The goodbye to a draining gateway was for its stream alone.
            self._draining = self._closing = self._hurried = False
            before = [watcher.durable for watcher in self._gathered.watchers]
            lost = self._keep(Fates(answers))
            kept = {id(watcher.durable) for watcher in self._gathered.watchers}
            self._forget_lanes()
            session = self._session
        _end(durable for durable in before if id(durable) not in kept)
        for run, name in lost:
            self._too_late(run, run.size, name)
        self._wake()
        return session

    def end(self, *, broken: bool) -> None:
        """The stream is gone. Not `broken`: nothing that came from it counts any more."""
        with self._lock:
            self._gathered.credit = None
            self._gathered.beat = False
            over = self._waits.end()
            if broken and not self._closing:
                self._phase = Phase.BROKEN
            else:
                self._phase = Phase.OVER
                over += [watcher.durable for watcher in self._gathered.watchers]
                self._gathered = Gathered()
                self._held = HeldRuns()
                self.counters.add("stale_answers", self._pending)
                self._pending = 0
        _end(over)
        self._wake()

    def handed(self, runs: Iterable[Run], name: LaneName) -> None:
        """A batch has come."""
        with self._lock:
            for run in runs:
                self._held.insert(run)
                if run.lane not in self._lanes:
                    self._forget_lanes()
                    self._lanes[run.lane] = name

    def manifest(self) -> list[gateway_pb2.Held]:
        """What to name to the gateway in the next stream."""
        with self._lock:
            answered = [run for run, _ in self._gathered.verdicts()]
            return manifest([*self._held, *answered], self._lanes)

    def name(self, lane: int) -> LaneName | None:
        """The lane's name, if a batch of it is remembered."""
        with self._lock:
            return self._lanes.get(lane)

    def kept(self, run: Run) -> list[Run]:
        """The parts of `run` that are still the program's, under the lane's number of now."""
        with self._lock:
            run = self._now(run)
            parts = self._held.take(run)
            for part in parts:
                self._held.insert(part)
            return parts

    @property
    def session(self) -> int:
        """Number of the latest stream."""
        return self._session

    @property
    def phase(self) -> Phase:
        """What there is of it."""
        return self._phase

    @property
    def closing(self) -> bool:
        """Whether the goodbye was said or is about to be."""
        return self._closing

    @property
    def out(self) -> int:
        """Records in hand."""
        with self._lock:
            return len(self._held)

    # Within the lock.

    def _is_leaving(self) -> bool:
        return self._closing or (self._draining and not len(self._held))

    def _may_close(self, gathered: Gathered | None = None) -> bool:
        gathered = gathered or self._gathered
        return self._hurried or (not self._waits and not gathered.watchers)

    def _now(self, run: Run) -> Run:
        lane = self._renamed.get(run.lane)
        return run if lane is None else Run(lane, run.delivery, run.first, run.last)

    def _keep(self, fates: Fates) -> list[tuple[Run, LaneName | None]]:
        """Keeps what the gateway keeps; returns verdicts that came too late."""
        lost: list[tuple[Run, LaneName | None]] = []
        renamed: dict[int, int] = {}
        names = dict(self._lanes)

        def kept(run: Run, *, answered: bool) -> Iterator[Run]:
            name = self._lanes.get(run.lane)
            for part, fate, lane in fates.of(run, name):
                if fate is Fate.KEPT:
                    if lane != run.lane and name:
                        renamed[run.lane] = lane
                        names[lane] = name
                    yield part
                elif fate is Fate.LOST and answered:
                    lost.append((part, name))

        held = HeldRuns()
        for run in self._held:
            for part in kept(run, answered=False):
                held.insert(part)
        before, self._gathered = self._gathered, Gathered()
        self._gathered.credit = before.credit
        for run, answer in before.verdicts():
            self._gathered.push(kept(run, answered=True), answer)
        for run, by in before.extensions.items():
            for part in kept(run, answered=False):
                self._gathered.extensions[part] = by
        for run, durable in before.watchers:
            for part in kept(run, answered=False):
                self._gathered.watchers.append(Watcher(part, durable))
        self._pending = sum(run.size for run, _ in self._gathered.verdicts())
        self._held, self._lanes = held, names
        in_hand = held.lanes()
        moved = {old: renamed.get(new, new) for old, new in self._renamed.items()}
        self._renamed = {old: new for old, new in moved.items() if new in in_hand} | renamed
        return lost

    def _forget_lanes(self) -> None:
        if len(self._lanes) >= MANY_LANES:
            in_hand = self._held.lanes()
            self._lanes = {lane: name for lane, name in self._lanes.items() if lane in in_hand}

    # Outside of it.

    def _too_late(self, run: Run, records: int, name: LaneName | None) -> None:
        self.counters.add("stale_answers", records)
        topic, partition = (name.topic, name.partition) if name else ("", -1)
        problem = Problem(topic, partition, run.first, run.last, ProblemKind.LOST)
        self.counters.tell(problem)


def _end(durables: Iterable[Durable]) -> None:
    for durable in durables:
        durable.end(session_ended())
