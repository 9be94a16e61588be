"""What has come and was not taken by the program yet. No lock: its owner has one."""

from __future__ import annotations

from collections import deque

from ackgate.delivery import Batch, Delivery
from ackgate.events import Counters


class Inbox:
    """Batches in the order they came, and what is left of the one that is taken by record.

    Within the credit it never fills; beyond that its owner lets the stream wait.
    """

    def __init__(self, counters: Counters, limit: int) -> None:
        """`limit`: the credit in records."""
        self.limit = limit
        self._counters = counters
        self._batches: deque[Batch] = deque()
        self._deliveries: deque[Delivery] = deque()
        self._size = 0

    @property
    def is_full(self) -> bool:
        """Whether there is as much as the credit allows."""
        return self._size >= self.limit

    def put(self, batch: Batch) -> None:
        """Takes a batch in."""
        self._batches.append(batch)
        self._size += len(batch)

    def batch(self) -> Batch | None:
        """The next batch of which anything is still the program's."""
        while self._batches:
            batch = self._batches.popleft()
            before = len(batch)
            self._size -= before
            ours = batch.refresh()
            self._counters.add("discarded", before - len(batch))
            if ours:
                return batch
        return None

    def delivery(self) -> Delivery | None:
        """The next record that is still the program's."""
        while True:
            while self._deliveries:
                delivery = self._deliveries.popleft()
                if delivery.is_ours():
                    return delivery
                self._counters.add("discarded", 1)
            batch = self.batch()
            if batch is None:
                return None
            self._deliveries.extend(batch)

    def give_back(self) -> None:
        """Releases all that is in."""
        for delivery in self._deliveries:
            delivery.release()
        for batch in self._batches:
            batch.release()
        self._deliveries.clear()
        self._batches.clear()
        self._size = 0
