"""What `subscriber` and `aio` have in common: a subscriber, whatever carries it.

It knows neither threads nor a loop; what is due it does when it is told the time.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from ackgate.addresses import Addresses
from ackgate.core import How, OpenStream, new_core
from ackgate.delivery import Batch, Delivery
from ackgate.errors import GatewayError
from ackgate.events import Observer, Stats
from ackgate.inbox import Inbox
from ackgate.ledger import Phase
from ackgate.options import Options
from ackgate.v1.gateway_pb2 import SubscribeResponse
from ackgate.watch import Watch

GRACE = 10.0
"""How long handlers may take to finish once the end is wished for, in seconds."""

SLACK = 5.0
"""Seconds beyond all timeouts before the end is not waited for any longer."""

Taken = TypeVar("Taken", Batch, Delivery)


class Connection:
    """One call, as those who read, send and keep the time share it."""

    def __init__(self, watch: Watch) -> None:
        """Begins without a stream."""
        self.watch = watch
        self.stream: OpenStream | None = None
        self.failure: GatewayError | None = None

    def cancel(self) -> None:
        """Ends the call."""
        raise NotImplementedError

    def fail(self, error: GatewayError | None) -> None:
        """Ends the call from this side."""
        self.failure = self.failure or error
        self.cancel()


class Shell:
    """What every subscriber can say of itself, and what it does when."""

    def __init__(
        self,
        address: Addresses,
        subscription: str = "",
        options: Options | None = None,
        on_event: Observer | None = None,
    ) -> None:
        """Checks the options; connects when it is entered, iterated or run.

        Of several addresses it has a stream to one at a time: the next one is tried when one
        does not serve. What is in hand over a lost connection is asked for where it came from.
        """
        self._options = options or Options()
        self._prepare()
        self._core = new_core(address, subscription, self._options, on_event, self._wake)
        self._inbox = Inbox(self._core.counters, self._options.credit)
        self._error: BaseException | None = None
        self._extends = False
        self._stop_until: float | None = None

    def _prepare(self) -> None:
        """Makes what waits and wakes."""
        raise NotImplementedError

    def stats(self) -> Stats:
        """The counts so far."""
        return self._core.counters.snapshot()

    @property
    def subscriber_id(self) -> str:
        """The subscriber's name, given or made by the gateway."""
        return self._core.subscriber_id

    @property
    def session(self) -> str:
        """Name of the latest stream, as the gateway's logs have it."""
        return self._core.session

    @property
    def address(self) -> str:
        """Where the stream is, or is tried next."""
        return self._core.gateways.address

    def _wake(self) -> None:
        """There may be something to send."""
        raise NotImplementedError

    def _limit(self, grace: float) -> float:
        """How long the end may take at most."""
        return grace + self._options.open_timeout + self._options.close_timeout + SLACK

    def _raise(self) -> None:
        """Raises what ended the subscriber, once."""
        error, self._error = self._error, None
        if error is not None:
            raise error

    def _new_watch(self) -> Watch:
        return Watch(self._options, self._core.ledger, time.monotonic())

    def _opened(self, connection: Connection, message: SubscribeResponse, *, closing: bool) -> None:
        """Takes the first message of a stream."""
        now = time.monotonic()
        stream = self._core.opened(message, now)
        connection.watch.opened(stream, now)
        connection.stream = stream
        if closing:
            self._core.ledger.drain()

    def _how(
        self, connection: Connection, error: GatewayError | None, *, closing: bool
    ) -> tuple[OpenStream | None, How, GatewayError | None]:
        """How the call ended."""
        error = connection.failure or error
        stream = connection.stream
        return (stream, *self._core.how(stream, error, closing=closing))

    def _taken(self, take: Callable[[], Taken | None], room: Callable[[], None]) -> Taken | None:
        """What there is for the program now. Calls `room` where more may be put in its place."""
        # What a broken stream brought counts only if the next one keeps it.
        if self._core.ledger.phase is Phase.BROKEN:
            return None
        was_full = self._inbox.is_full
        taken = take()
        if was_full:
            room()
        return taken

    def _begin_close(self, until: float, *, first: bool) -> None:
        """Takes no more records and gives back what was not begun; goodbye at `until`."""
        self._stop_until = until if first else min(until, self._stop_until or until)
        if first:
            # First the credit, so that nothing comes in place of what is given back.
            self._core.ledger.credit(0, 0)
            self._inbox.give_back()
            self._core.ledger.drain()

    def _due(self, connection: Connection | None, now: float, *, closing: bool) -> float | None:
        """Does what is due; returns when to look again."""
        ledger = self._core.ledger
        due: float | None = None
        if self._stop_until is not None and not ledger.closing:
            due = self._stop_until
            if now >= due:
                ledger.close()
                due = None
        if connection is None:
            return due
        if connection.stream is None and closing:
            connection.fail(None)
            return due
        at, failure = connection.watch.tick(now, extends=self._extends)
        if failure is not None:
            connection.fail(failure)
            return due
        return at if due is None else min(at, due)
