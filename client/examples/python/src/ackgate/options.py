"""Options of a subscriber, checked before anything is sent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from enum import Enum
from pathlib import Path

from ackgate.errors import OptionError
from ackgate.messages import duration
from ackgate.shape import SubscriptionOptions
from ackgate.v1 import gateway_pb2

SLACK = 64 * 1024
"""What the transport accepts beyond `max_message_bytes`."""


@dataclass(frozen=True, slots=True)
class Tls:
    """How to know the gateway, and how to be known to it.

    Without `ca` the system's roots are trusted. `certificate` and `key` come together.
    `server_name` is the name to expect in the gateway's certificate instead of the address.
    All three are PEM.
    """

    ca: bytes | None = None
    certificate: bytes | None = None
    key: bytes | None = field(default=None, repr=False)
    server_name: str = ""

    def __post_init__(self) -> None:
        """Checks it."""
        if (self.certificate is None) != (self.key is None):
            raise OptionError("tls", "a certificate and its key come together")

    @classmethod
    def from_files(
        cls,
        ca: str | Path | None = None,
        certificate: str | Path | None = None,
        key: str | Path | None = None,
        server_name: str = "",
    ) -> Tls:
        """Reads the files."""

        def read(path: str | Path | None) -> bytes | None:
            return None if path is None else Path(path).read_bytes()

        return cls(read(ca), read(certificate), read(key), server_name)


class Confirm(Enum):
    """Which answers to verdicts the gateway is asked for."""

    PROBLEMS = gateway_pb2.CONFIRM_UNSPECIFIED
    """Only of those that changed nothing."""
    APPLIED = gateway_pb2.CONFIRM_APPLIED
    """Of every message, once its verdicts are applied."""
    DURABLE = gateway_pb2.CONFIRM_DURABLE
    """Of every message, once what it did survives the loss of the gateway: for
    `Delivery.ack_durably`. Each asks for a commit."""


@dataclass(frozen=True, slots=True)
class AdHoc:
    """A subscription that the gateway's configuration does not name, where it allows such.

    Subscribers with the same cluster, group and set of topics share it, whatever the order.
    """

    cluster: str
    topics: Sequence[str]
    """1 to 100."""
    group: str
    """1 to 255 characters."""

    def __post_init__(self) -> None:
        """Checks it."""
        if not self.cluster:
            raise OptionError("ad_hoc", "the cluster is missing")
        if isinstance(self.topics, str) or not 1 <= len(self.topics) <= 100:
            raise OptionError("ad_hoc", "1 to 100 topics")
        if not all(self.topics):
            raise OptionError("ad_hoc", "a topic has a name")
        if not 1 <= len(self.group) <= 255:
            raise OptionError("ad_hoc", "a group has 1 to 255 characters")


@dataclass(frozen=True, slots=True)
class BatchOptions:
    """What a batch waits for. What is not set is as the subscription has it."""

    max_records: int = 0
    """1 to 10,000."""
    max_bytes: int = 0
    """1 KiB to 16 MiB."""
    linger: float | None = None
    """Seconds that the first record may wait for others, 0 to 60."""
    min_fill: float = 0.0
    """The part of the limits at which a batch counts as full, 0.01 to 1."""


@dataclass(frozen=True, slots=True)
class Options:
    """How to subscribe. Times are in seconds."""

    subscriber_id: str = ""
    """The subscriber's own name, at most 256 bytes. Empty: the gateway makes one."""
    ad_hoc: AdHoc | None = None
    """In place of a named subscription."""
    expect: SubscriptionOptions | None = None
    """What the subscription is to be like."""
    confirm: Confirm = Confirm.PROBLEMS
    """Which answers to verdicts are wanted."""
    credit: int = 1_000
    """The most records that may be out at any time, 1 to 1,000,000."""
    credit_bytes: int = 32 << 20
    """The same in bytes, 1 to 1 GiB."""
    max_message_bytes: int = 4 << 20
    """Largest message that is accepted, 4096 to 1 GiB."""
    ack_deadline: float | None = None
    """Time for a verdict, 0.1 to 3600. None: the subscription's."""
    batch: BatchOptions | None = None
    filter: str = ""
    """Which records are expected, in CEL."""
    until_drained: bool = False
    """End once everything is read and answered."""
    resumable: bool = True
    """What is in hand outlives a broken connection, if it comes back in time."""
    takeover: bool = False
    """Take the place of a live stream of the same name, once, at the beginning."""
    tls: Tls | None = None
    token: str = field(default="", repr=False)
    """Shown to the gateway as a bearer token."""
    flush_interval: float = 0.005
    """How long verdicts are gathered before they are sent together."""
    flush_records: int = 1_000
    """How many are gathered at most."""
    open_timeout: float = 10.0
    close_timeout: float = 5.0
    """Time for the goodbye, and for the end of the stream after it."""
    keepalive_interval: float = 20.0
    keepalive_timeout: float = 10.0
    retries: int | None = None
    """Failures in a row before it is given up. None: as many as it takes."""
    stream_window: int = 4 << 20
    """Bytes that the gateway may send ahead."""

    def __post_init__(self) -> None:
        """Checks every range."""
        name = self.subscriber_id
        if len(name.encode("utf-8", errors="replace")) > 256 or not _is_plain(name):
            raise OptionError("subscriber_id", "at most 256 bytes without control characters")
        if not _is_plain(self.token) or not self.token.isascii() or " " in self.token:
            raise OptionError("token", "printable ASCII without spaces")
        _within("credit", self.credit, 1, 1_000_000)
        _within("credit_bytes", self.credit_bytes, 1, 1 << 30)
        _within("max_message_bytes", self.max_message_bytes, 4_096, 1 << 30)
        if self.ack_deadline is not None:
            _within("ack_deadline", self.ack_deadline, 0.1, 3_600)
        _within("flush_interval", self.flush_interval, 0, 1)
        _within("flush_records", self.flush_records, 1, 1_000_000)
        _within("open_timeout", self.open_timeout, 0.001, 3_600)
        _within("close_timeout", self.close_timeout, 0.001, 3_600)
        _within("keepalive_interval", self.keepalive_interval, 1, 3_600)
        _within("keepalive_timeout", self.keepalive_timeout, 0.1, 3_600)
        _within("stream_window", self.stream_window, 65_535, 16 << 20)

    def open(self, subscription: str) -> gateway_pb2.Open:
        """The opening of a stream, without what it goes on with."""
        wire = gateway_pb2.Open(
            subscription=subscription,
            subscriber_id=self.subscriber_id,
            credit=gateway_pb2.Credit(records=self.credit, bytes=self.credit_bytes),
            max_message_bytes=self.max_message_bytes,
            resumable=self.resumable,
            until_drained=self.until_drained,
            filter=self.filter,
            confirm=self.confirm.value,
        )
        if self.ack_deadline is not None:
            wire.ack_deadline.CopyFrom(duration(self.ack_deadline))
        if self.batch is not None:
            wire.batch.max_records = self.batch.max_records
            wire.batch.max_bytes = self.batch.max_bytes
            wire.batch.min_fill = self.batch.min_fill
            if self.batch.linger is not None:
                wire.batch.linger.FromTimedelta(timedelta(seconds=self.batch.linger))
        if self.ad_hoc is not None:
            wire.subscription = ""
            wire.ad_hoc.cluster = self.ad_hoc.cluster
            wire.ad_hoc.topics.extend(self.ad_hoc.topics)
            wire.ad_hoc.group = self.ad_hoc.group
        if self.expect is not None:
            asked = wire.ad_hoc.options if self.ad_hoc is not None else wire.expect
            asked.CopyFrom(self.expect.wire())
        return wire


def _within(option: str, value: float, least: float, most: float) -> None:
    if not least <= value <= most:
        raise OptionError(option, f"{value} is not within {least} to {most}")


def _is_plain(text: str) -> bool:
    return not any(ord(char) < 32 or ord(char) == 127 for char in text)
