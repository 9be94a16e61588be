"""The times of one connection: what is due when, and what has come too late."""

from __future__ import annotations

from ackgate.core import OpenStream
from ackgate.errors import GatewayError, NotClosed, NotOpened, Silent
from ackgate.ledger import Ledger
from ackgate.options import Options


class Watch:
    """Told the time, never asks for it. In seconds, by any clock that does not go back."""

    def __init__(self, options: Options, ledger: Ledger, now: float) -> None:
        """Begins with the connection."""
        self._options = options
        self._ledger = ledger
        self._stream: OpenStream | None = None
        self._open_until = now + options.open_timeout
        self._closing_until: float | None = None
        self._confirmed_until: float | None = None
        self._heard = now
        self._next_beat = 0.0
        self._next_extension = 0.0

    def opened(self, stream: OpenStream, now: float) -> None:
        """The stream is open."""
        self._stream = stream
        self._heard = now
        self._next_beat = now + stream.beat
        self._next_extension = now + stream.ack_deadline / 3

    def heard(self, now: float) -> None:
        """Something came."""
        self._heard = now

    def said_goodbye(self, now: float) -> None:
        """The end of the stream is to follow."""
        self._closing_until = now + self._options.close_timeout

    def tick(self, now: float, *, extends: bool) -> tuple[float, GatewayError | None]:
        """Does what is due. Returns when to look again, and why the connection is to end.

        `extends`: what is in hand gets more time.
        """
        stream, options = self._stream, self._options
        if self._closing_until is not None and now >= self._closing_until:
            return now, NotClosed(options.close_timeout)
        if stream is None:
            late = NotOpened(options.open_timeout) if now >= self._open_until else None
            return self._open_until, late
        times = [now + 60.0]
        times += self._confirming(now)
        if self._closing_until is not None:
            times.append(self._closing_until)
        if stream.silence:
            times.append(self._heard + stream.silence)
            if now >= times[-1]:
                return now, Silent(stream.silence)
        if stream.beat:
            if now >= self._next_beat:
                self._next_beat = now + stream.beat
                self._ledger.beat()
            times.append(self._next_beat)
        if extends and stream.ack_deadline:
            if now >= self._next_extension:
                self._next_extension = now + stream.ack_deadline / 3
                self._ledger.extend_held(stream.ack_deadline)
            times.append(self._next_extension)
        return min(times), None

    def _confirming(self, now: float) -> list[float]:
        """The goodbye waits for durable confirmations, but not for ever."""
        if not self._ledger.is_confirming:
            return []
        if self._confirmed_until is None:
            self._confirmed_until = now + self._options.close_timeout
        if now < self._confirmed_until:
            return [self._confirmed_until]
        self._ledger.hurry()
        return []
