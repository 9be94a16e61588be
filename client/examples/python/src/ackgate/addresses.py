"""Where gateways are: how an address is read, and which one is tried next."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ackgate.errors import OptionError
from ackgate.options import Tls

MOST_ADDRESSES = 64

Addresses = str | Sequence[str]
"""One address or several, each `https://HOST:PORT`, `http://HOST:PORT` or `HOST:PORT`."""


class Target(NamedTuple):
    """Where the gateway is, and how to know it."""

    authority: str
    """`HOST:PORT`."""
    tls: Tls | None


def target(address: str, tls: Tls | None) -> Target:
    """Reads an address.

    `https://` uses TLS, with the system's roots unless there are others; the others do only
    if there is a `tls`.
    """
    scheme, separator, rest = address.partition("://")
    if not separator:
        scheme, rest = "http", address
    if scheme not in {"http", "https"}:
        raise OptionError("address", f"{scheme}:// is neither http:// nor https://")
    authority = rest.rstrip("/")
    if not authority or "/" in authority or "@" in authority:
        raise OptionError("address", f"{address!r} is not HOST:PORT")
    if ":" not in authority.rpartition("]")[2]:
        authority += ":443" if scheme == "https" else ":7654"
    if scheme == "https" and tls is None:
        tls = Tls()
    return Target(authority, tls)


def listed(addresses: Addresses, tls: Tls | None) -> list[str]:
    """The addresses in the order to try them, each of them checked."""
    every = [addresses] if isinstance(addresses, str) else list(addresses)
    if not 1 <= len(every) <= MOST_ADDRESSES:
        raise OptionError("address", f"1 to {MOST_ADDRESSES} addresses, not {len(every)}")
    for address in every:
        target(address, tls)
    return every


class Gateways:
    """The addresses of a subscriber, tried in turn: it has a stream to one of them at a time."""

    def __init__(self, addresses: Addresses, tls: Tls | None) -> None:
        """Begins with the first. Raises `OptionError`."""
        self._every = listed(addresses, tls)
        self._tls = tls
        self._at = 0
        self._refused = 0

    def __len__(self) -> int:
        """How many there are."""
        return len(self._every)

    @property
    def address(self) -> str:
        """The one of the moment."""
        return self._every[self._at]

    @property
    def target(self) -> Target:
        """The same, read."""
        return target(self.address, self._tls)

    def opened(self) -> None:
        """A stream is open here."""
        self._refused = 0

    def leave(self) -> None:
        """It does not serve now: the next one is tried."""
        self._refused = 0
        self._next()

    def refused(self) -> bool:
        """Trying again here would not help. Returns whether it may help elsewhere."""
        self._refused += 1
        self._next()
        return self._refused < len(self._every)

    def _next(self) -> None:
        self._at = (self._at + 1) % len(self._every)
