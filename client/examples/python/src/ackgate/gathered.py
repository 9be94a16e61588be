"""What is gathered for one message or more: verdicts, extensions, a credit, the goodbye.

Whoever adds to it holds the ledger's lock; whoever has taken it has it alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from ackgate.durable import Watcher
from ackgate.events import Outcome
from ackgate.runs import Run, either_way


@dataclass(frozen=True, slots=True)
class Answer:
    """A verdict without its record."""

    outcome: Outcome
    code: str = ""
    reason: str = ""
    retry_after: float | None = None


ACK = Answer(Outcome.ACKED)
RELEASE = Answer(Outcome.RELEASED)


@dataclass(slots=True)
class Gathered:
    """What is sent at once."""

    acks: list[Run] = field(default_factory=list)
    """In the order given, joined where the next one followed."""
    answers: list[tuple[Run, Answer]] = field(default_factory=list)
    """Other verdicts, in the order given."""
    extensions: dict[Run, float] = field(default_factory=dict)
    """Seconds from now; the latest for each run."""
    credit: tuple[int, int] | None = None
    beat: bool = False
    watchers: list[Watcher] = field(default_factory=list)
    """Who waits for a verdict in it to be durable."""
    close: bool = False
    """Nothing follows: say goodbye."""

    def push(self, runs: Iterable[Run], answer: Answer) -> None:
        """Adds a verdict, joined with the one before where that can be."""
        if answer is not ACK:
            self._push_answers(runs, answer)
            return
        acks = self.acks
        for run in runs:
            if acks and (longer := either_way(acks[-1], run)):
                acks[-1] = longer
            else:
                acks.append(run)

    def verdicts(self) -> Iterator[tuple[Run, Answer]]:
        """All verdicts, the acks first."""
        yield from ((run, ACK) for run in self.acks)
        yield from self.answers

    def _push_answers(self, runs: Iterable[Run], answer: Answer) -> None:
        for run in runs:
            longer = None
            if self.answers and self.answers[-1][1] == answer:
                longer = either_way(self.answers[-1][0], run)
            if longer:
                self.answers[-1] = (longer, answer)
            else:
                self.answers.append((run, answer))
