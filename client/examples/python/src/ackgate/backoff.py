"""How far apart tries are: exponential, with full jitter."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

FIRST = 0.25
"""Longest wait before the first retry, in seconds."""

MOST = 30.0
"""Longest wait of all, in seconds."""

MOST_ASKED = 60.0
"""Longest wait that a gateway can ask for, in seconds."""


@dataclass
class Backoff:
    """Counts failures in a row and spaces them out."""

    failures: int = 0
    addresses: int = 1
    """Tried in turn: a round over all of them is one step."""
    random: random.Random = field(default_factory=random.Random)

    def after_success(self) -> float:
        """Seconds before the next stream, after one that ended well."""
        self.failures = 0
        return self.random.uniform(0, FIRST)

    def after_failure(self, *, useful: bool, retry_after: float | None) -> float:
        """Seconds before the next try. `useful`: the stream had brought something."""
        if useful:
            self.failures = 0
        # Beyond this many the longest wait is reached; no number grows for ever.
        most = min(MOST, FIRST * 2 ** min(self.failures // self.addresses, 10))
        self.failures += 1
        least = min(retry_after or 0.0, MOST_ASKED)
        # Jitter also above the least: all who were told the same would come at once.
        return least + self.random.uniform(0, most)
