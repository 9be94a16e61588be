"""What a subscriber tells of itself: events, counts, and verdicts that changed nothing."""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from ackgate.v1 import gateway_pb2

if TYPE_CHECKING:
    from ackgate.delivery import Batch
    from ackgate.errors import GatewayError

KEPT_PROBLEMS = 1_000
"""Most problems that are kept for `Stats.problems`; the oldest goes first."""


class Outcome(Enum):
    """The verdict on a record."""

    ACKED = "acked"
    REJECTED = "rejected"
    FAILED = "failed"
    RELEASED = "released"


class ProblemKind(Enum):
    """What became of a verdict that changed nothing."""

    DUPLICATE = "duplicate"
    CONFLICT = "conflict"
    STALE = "stale"
    FENCED = "fenced"
    UNKNOWN = "unknown"
    EXPIRED = "expired"
    INVALID = "invalid"
    # A kind that this version does not know.
    OTHER = "other"
    # The delivery did not survive a reconnect: the record comes again, and the verdict was
    # not sent.
    LOST = "lost"

    @classmethod
    def from_wire(cls, result: int) -> ProblemKind:
        """Reads a `VerdictResult`."""
        return _KINDS.get(result, cls.OTHER)


_KINDS: dict[int, ProblemKind] = {
    gateway_pb2.VERDICT_RESULT_DUPLICATE: ProblemKind.DUPLICATE,
    gateway_pb2.VERDICT_RESULT_CONFLICT: ProblemKind.CONFLICT,
    gateway_pb2.VERDICT_RESULT_STALE: ProblemKind.STALE,
    gateway_pb2.VERDICT_RESULT_FENCED: ProblemKind.FENCED,
    gateway_pb2.VERDICT_RESULT_UNKNOWN: ProblemKind.UNKNOWN,
    gateway_pb2.VERDICT_RESULT_EXPIRED: ProblemKind.EXPIRED,
    gateway_pb2.VERDICT_RESULT_INVALID: ProblemKind.INVALID,
}


@dataclass(frozen=True, slots=True)
class Opened:
    """A stream is open. `resumed`: runs that the gateway kept from the one before."""

    session: str
    subscriber_id: str
    resumed: int
    ack_deadline: float
    """Seconds for a verdict on each delivery."""


@dataclass(frozen=True, slots=True)
class Received:
    """A batch has come."""

    batch: Batch


@dataclass(frozen=True, slots=True)
class Sent:
    """Verdicts were handed to the stream."""

    topic: str
    partition: int
    first_offset: int
    last_offset: int
    delivery: int
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class Problem:
    """A verdict, or an extension, that changed nothing."""

    topic: str
    """Empty if no batch of the lane is remembered."""
    partition: int
    """-1 if no batch of the lane is remembered."""
    first_offset: int
    last_offset: int
    kind: ProblemKind
    detail: str = ""
    """For INVALID: a stable reason code."""


@dataclass(frozen=True, slots=True)
class Draining:
    """The gateway asks to finish and to come again; `reason` is its enumerator's name."""

    reason: str
    deadline: float


@dataclass(frozen=True, slots=True)
class LaneChanged:
    """Something happened to a lane; informative."""

    topic: str
    partition: int
    kind: str
    detail: str


@dataclass(frozen=True, slots=True)
class Disconnected:
    """The stream broke; another is tried in `retry_in` seconds."""

    error: GatewayError
    retry_in: float


Event = Opened | Received | Sent | Problem | Draining | LaneChanged | Disconnected

Observer = Callable[[Event], None]
"""Called from the subscriber's own threads: it must be quick, and must not raise."""


@dataclass(frozen=True, slots=True)
class Stats:
    """Counts since the subscriber was made, over all its streams."""

    records: int
    """Records received, redeliveries included."""
    batches: int
    acked: int
    """Records whose acked verdict was handed to the stream; so for the next three."""
    rejected: int
    failed: int
    released: int
    stale_answers: int
    """Records whose verdict came too late to be sent: the gateway hands them out again."""
    discarded: int
    """Records received but not handed to the program, as their stream ended before."""
    streams: int
    problems: tuple[Problem, ...]
    """The latest, oldest first; at most 1,000."""


class Counters:
    """The living counts behind `Stats`; safe to use from any thread."""

    def __init__(self, observer: Observer | None) -> None:
        """Begins at zero."""
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter()
        self._problems: deque[Problem] = deque(maxlen=KEPT_PROBLEMS)
        self.observer = observer

    def add(self, name: str, number: int) -> None:
        """Adds to the count of this name."""
        with self._lock:
            self._counts[name] += number

    def tell(self, event: Event) -> None:
        """Tells the observer, and keeps it if it is a problem."""
        if isinstance(event, Problem):
            with self._lock:
                self._problems.append(event)
        if self.observer is not None:
            self.observer(event)

    def sent(self, event: Sent) -> None:
        """Verdicts were handed to the stream."""
        self.add(event.outcome.value, event.last_offset - event.first_offset + 1)
        if self.observer is not None:
            self.observer(event)

    def snapshot(self) -> Stats:
        """The counts as they are now."""
        with self._lock:
            counts = self._counts
            return Stats(
                records=counts["records"],
                batches=counts["batches"],
                acked=counts["acked"],
                rejected=counts["rejected"],
                failed=counts["failed"],
                released=counts["released"],
                stale_answers=counts["stale_answers"],
                discarded=counts["discarded"],
                streams=counts["streams"],
                problems=tuple(self._problems),
            )
