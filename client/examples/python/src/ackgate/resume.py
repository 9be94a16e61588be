"""Going on after a broken stream: what is named to the gateway, and what its answer leaves."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from typing import NamedTuple

from ackgate.runs import HeldRuns, LaneName, Run
from ackgate.v1 import gateway_pb2

MOST_RUNS = 10_000
"""Most runs that a gateway takes. What is beyond is delivered again."""


class Fate(Enum):
    """What became of a part of a run."""

    KEPT = "kept"
    SETTLED = "settled"
    LOST = "lost"


class Part(NamedTuple):
    """A part of a run, and what became of it; `lane` is its lane's number of now."""

    run: Run
    fate: Fate
    lane: int


def manifest(runs: Iterable[Run], lanes: Mapping[int, LaneName]) -> list[gateway_pb2.Held]:
    """What is worked on, as the gateway is told.

    Of two deliveries of one record it is the later one: the earlier is over.
    """
    named = HeldRuns()
    held: list[gateway_pb2.Held] = []
    for run in sorted(runs, key=lambda run: (-run.delivery, run.lane, run.first)):
        name = lanes.get(run.lane)
        if name is None:
            continue
        for first, last in _not_in(named, run):
            if len(held) >= MOST_RUNS:
                return held
            held.append(
                gateway_pb2.Held(
                    topic=name.topic,
                    partition=name.partition,
                    epoch=name.epoch,
                    first_offset=first,
                    last_offset=last,
                    delivery=run.delivery,
                )
            )
        named.insert(Run(run.lane, 0, run.first, run.last))
    return held


def _not_in(named: HeldRuns, run: Run) -> list[tuple[int, int]]:
    """The parts of `run` that no later delivery names."""
    whole = Run(run.lane, 0, run.first, run.last)
    taken = named.take(whole)
    parts, at = [], run.first
    for part in taken:
        named.insert(part)
        if at < part.first:
            parts.append((at, part.first - 1))
        at = part.last + 1
    if at <= run.last:
        parts.append((at, run.last))
    return parts


class Fates:
    """The gateway's answer to a manifest. What has no answer is lost."""

    def __init__(self, answers: Iterable[gateway_pb2.ResumeAnswer] = ()) -> None:
        """Reads the answers, in any order."""
        self._parts: dict[tuple[str, int], list[tuple[int, int, Fate, int]]] = {}
        self.kept = 0
        for answer in answers:
            fate = Fate.LOST
            if answer.result == gateway_pb2.RESUME_RESULT_KEPT:
                fate = Fate.KEPT
                self.kept += 1
            elif answer.result == gateway_pb2.RESUME_RESULT_SETTLED:
                fate = Fate.SETTLED
            self._parts.setdefault((answer.topic, answer.partition), []).append(
                (answer.first_offset, answer.last_offset, fate, answer.lane)
            )
        for parts in self._parts.values():
            parts.sort(key=lambda part: part[0])

    def of(self, run: Run, name: LaneName | None) -> Iterator[Part]:
        """The parts of `run`, in order."""
        parts = self._parts.get((name.topic, name.partition), []) if name else []
        at = run.first
        begin = max(bisect_right(parts, run.first, key=lambda part: part[0]) - 1, 0)
        for from_, to, fate, lane in parts[begin:]:
            if from_ > run.last:
                break
            first, last = max(from_, at), min(to, run.last)
            if first > last:
                continue
            if at < first:
                yield Part(run.part(at, first - 1), Fate.LOST, run.lane)
            number = lane if fate is Fate.KEPT else run.lane
            yield Part(Run(number, run.delivery, first, last), fate, number)
            at = last + 1
        if at <= run.last:
            yield Part(run.part(at, run.last), Fate.LOST, run.lane)
