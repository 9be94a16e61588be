"""Runs of records, and which of them a program has in hand.

Invariant: a verdict counts only for what is in a `HeldRuns`, and takes it out; so each
delivery is answered once at most.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from typing import NamedTuple


class Run(NamedTuple):
    """Records of one lane that follow each other and have the same delivery number.

    Sorts by lane, delivery and offset.
    """

    lane: int
    delivery: int
    first: int
    last: int

    @property
    def size(self) -> int:
        """Number of records."""
        return self.last - self.first + 1

    def part(self, first: int, last: int) -> Run:
        """The records from `first` to `last`, both included."""
        return Run(self.lane, self.delivery, first, last)


class LaneName(NamedTuple):
    """A lane as its records name it; the number changes from stream to stream."""

    topic: str
    partition: int
    epoch: int


def joined(runs: Iterable[Run]) -> list[Run]:
    """Joins what follows each other without a gap, given in any order.

    Offsets that are missing in between are never spanned: they may be a gap of the log,
    but also a record that is on its way in another batch.
    """
    result: list[Run] = []
    for run in sorted(runs):
        if result:
            before = result[-1]
            if before[:2] == run[:2] and before.last + 1 == run.first:
                result[-1] = before.part(before.first, run.last)
                continue
        result.append(run)
    return result


def either_way(before: Run, run: Run) -> Run | None:
    """The run of both, if one follows the other without a gap."""
    if before.lane != run.lane or before.delivery != run.delivery:
        return None
    if before.last + 1 == run.first:
        return before.part(before.first, run.last)
    if run.last + 1 == before.first:
        return before.part(run.first, before.last)
    return None


class HeldRuns:
    """Runs by lane and delivery number; neighbours are one."""

    __slots__ = ("_size", "_spans")

    def __init__(self) -> None:
        """Holds nothing."""
        # First and last offsets, each in ascending order.
        self._spans: dict[tuple[int, int], tuple[list[int], list[int]]] = {}
        self._size = 0

    def __len__(self) -> int:
        """Number of records."""
        return self._size

    def __iter__(self) -> Iterator[Run]:
        """All runs, by lane, delivery and offset."""
        for (lane, delivery), (firsts, lasts) in sorted(self._spans.items()):
            for first, last in zip(firsts, lasts, strict=True):
                yield Run(lane, delivery, first, last)

    def insert(self, run: Run) -> None:
        """Takes in a run; what is in already counts once."""
        spans = self._spans.setdefault((run.lane, run.delivery), ([], []))
        firsts, lasts = spans
        low = bisect_left(firsts, run.first)
        if low > 0 and lasts[low - 1] >= run.first - 1:
            low -= 1
        high = bisect_right(firsts, run.last + 1)
        first, last = run.first, run.last
        if low < high:
            first, last = min(first, firsts[low]), max(last, lasts[high - 1])
            for at in range(low, high):
                self._size -= lasts[at] - firsts[at] + 1
        firsts[low:high] = [first]
        lasts[low:high] = [last]
        self._size += last - first + 1

    def take(self, run: Run) -> list[Run]:
        """Takes out what is held of `run`, and returns it in order."""
        spans = self._spans.get((run.lane, run.delivery))
        if spans is None:
            return []
        firsts, lasts = spans
        low = bisect_right(firsts, run.first) - 1
        if low < 0 or lasts[low] < run.first:
            low += 1
        high = bisect_right(firsts, run.last)
        if low >= high:
            return []
        taken = [
            run.part(max(firsts[at], run.first), min(lasts[at], run.last))
            for at in range(low, high)
        ]
        left: list[tuple[int, int]] = []
        if firsts[low] < run.first:
            left.append((firsts[low], run.first - 1))
        if lasts[high - 1] > run.last:
            left.append((run.last + 1, lasts[high - 1]))
        firsts[low:high] = [first for first, _ in left]
        lasts[low:high] = [last for _, last in left]
        self._size -= sum(part.size for part in taken)
        if not firsts:
            del self._spans[run.lane, run.delivery]
        return taken

    def has(self, lane: int, delivery: int, offset: int) -> bool:
        """Whether the record is held under this number."""
        spans = self._spans.get((lane, delivery))
        if spans is None:
            return False
        at = bisect_right(spans[0], offset) - 1
        return at >= 0 and spans[1][at] >= offset

    def lanes(self) -> set[int]:
        """Lanes of which anything is held."""
        return {lane for lane, _ in self._spans}
