"""The cases: each a function of a stage, named as on the command line with `_` for `-`.

The first line of its documentation says what it asserts.
"""

import dataclasses
import importlib
from collections.abc import Callable

_MODULES = ["verdicts", "records", "streams", "stops", "bulk", "access", "traces", "reflection"]
_found = []


@dataclasses.dataclass(frozen=True)
class Case:
    """One case."""

    name: str
    run: Callable
    # Whether it is the runner's alone, and needs no program in any language.
    alone: bool

    @property
    def about(self):
        return (self.run.__doc__ or "").strip().splitlines()[0]


def case(function):
    """Marks a case for every language."""
    _found.append(Case(_name(function), function, alone=False))
    return function


def runner_case(function):
    """Marks a case that the runner does by itself."""
    _found.append(Case(_name(function), function, alone=True))
    return function


def _name(function):
    # `raise_` is what Python lets one write.
    return function.__name__.rstrip("_").replace("_", "-")


def every():
    """All cases, in the order of their files."""
    if not _found:
        for name in _MODULES:
            importlib.import_module(f"cases.{name}")
    return list(_found)
