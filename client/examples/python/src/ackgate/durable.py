"""`Durable`: waits until a verdict survives the loss of the gateway, or will not.

Each wait ends: with the gateway's answer, or with its stream.
"""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import NamedTuple

from ackgate.errors import AckgateError
from ackgate.events import ProblemKind
from ackgate.runs import Run
from ackgate.v1 import gateway_pb2


class NotDurable(AckgateError):
    """A verdict is not known to be durable: the record may come again.

    `kind` is what the gateway said of it. Without one, nobody asked for durable confirmations
    or the stream ended before the answer: the verdict may have become durable all the same.
    """

    def __init__(self, what: str, kind: ProblemKind | None = None) -> None:
        """Describes it."""
        super().__init__(what)
        self.kind = kind


class Durable(Future[None]):
    """Ends once a verdict is durable, or raises `NotDurable`. Not to wait for it is fine.

    `result(timeout)` waits in a thread, `await` in any asyncio loop.
    """

    def __await__(self) -> Generator[object, None, None]:
        """Waits without a thread."""
        return asyncio.wrap_future(self).__await__()

    def end(self, error: NotDurable | None = None) -> None:
        """Ends the wait, once."""
        if self.done():
            return
        if error is None:
            self.set_result(None)
        else:
            self.set_exception(error)


class Watcher(NamedTuple):
    """Who waits for the verdict on one record."""

    run: Run
    durable: Durable


@dataclass(slots=True)
class _Message:
    watchers: dict[tuple[int, int], list[Durable]]
    problems: list[tuple[int, int, int, ProblemKind]] = field(default_factory=list)

    def failed(self) -> dict[tuple[int, int], NotDurable]:
        """By lane and offset what did not become durable."""
        failed: dict[tuple[int, int], NotDurable] = {}
        for lane, first, last, kind in self.problems:
            error = NotDurable(f"the verdict did not become durable: {kind.value}", kind)
            # Whichever are fewer.
            if last - first < len(self.watchers):
                hit = [(lane, offset) for offset in range(first, last + 1)]
            else:
                hit = [at for at in self.watchers if at[0] == lane and first <= at[1] <= last]
            failed.update((at, error) for at in hit if at not in failed)
        return failed


class Waits:
    """The messages of one stream whose verdicts somebody waits for. No lock: its owner has one."""

    def __init__(self) -> None:
        """Begins with none."""
        self._open: dict[int, _Message] = {}

    def __bool__(self) -> bool:
        """Whether there is any."""
        return bool(self._open)

    def sent(self, sequence: int, watchers: Sequence[Watcher]) -> None:
        """A message with this number is about to be sent."""
        if not watchers:
            return
        message = self._open[sequence] = _Message({})
        for run, durable in watchers:
            message.watchers.setdefault((run.lane, run.first), []).append(durable)

    def settled(self, wire: gateway_pb2.Settled) -> list[tuple[Durable, NotDurable | None]]:
        """Takes the gateway's answer. Returns the waits that it ends, and how."""
        message = self._open.get(wire.sequence)
        if message is None:
            return []
        for answer in wire.answers:
            kind = ProblemKind.from_wire(answer.result)
            # An equal verdict given before is as good.
            if kind is not ProblemKind.DUPLICATE:
                problem = (answer.lane, answer.first_offset, answer.last_offset, kind)
                message.problems.append(problem)
        if wire.more:
            return []
        del self._open[wire.sequence]
        failed = message.failed()
        return [
            (durable, failed.get(at))
            for at, durables in message.watchers.items()
            for durable in durables
        ]

    def end(self) -> list[Durable]:
        """The stream is over. Returns who still waits."""
        left = [one for message in self._open.values() for one in _all(message.watchers.values())]
        self._open.clear()
        return left


def session_ended() -> NotDurable:
    """What is told to those whose answer did not come."""
    return NotDurable("the stream ended before the verdict was confirmed")


def not_asked() -> Durable:
    """A wait that is over: nobody will tell."""
    durable = Durable()
    durable.end(NotDurable("the subscriber did not ask for durable confirmations"))
    return durable


def _all(lists: Iterable[list[Durable]]) -> Iterable[Durable]:
    for one in lists:
        yield from one
