"""Errors: what ends a subscription, and what a handler raises to give its verdict."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta

import grpc
from google.protobuf.message import DecodeError
from google.rpc import error_details_pb2, status_pb2

_FINAL = frozenset(
    {
        # What a request asks for is wrong or not allowed, or a message is larger than
        # accepted: it would be so again.
        "INVALID_ARGUMENT",
        "NOT_FOUND",
        "PERMISSION_DENIED",
        "UNAUTHENTICATED",
        "FAILED_PRECONDITION",
        "OUT_OF_RANGE",
        "UNIMPLEMENTED",
    }
)


SUPERSEDED = "SUPERSEDED"
"""The gateway's reason for ending a stream whose place another one took."""


class AckgateError(Exception):
    """Anything that this package raises."""


class OptionError(AckgateError, ValueError):
    """An option is outside its range; nothing was sent."""

    def __init__(self, option: str, problem: str) -> None:
        """Names the option, and what is allowed."""
        super().__init__(f"option {option}: {problem}")
        self.option = option


class GatewayError(AckgateError):
    """The gateway ended a call or would not begin it, or it cannot be reached.

    `code` is the gRPC code's name, `reason` the gateway's stable reason code (empty if
    the error came from something in between), `retry_after` the least time in seconds
    before another try, if the gateway gave one.
    """

    def __init__(
        self, code: str, message: str, *, reason: str = "", retry_after: float | None = None
    ) -> None:
        """Describes it."""
        bracketed = f" ({reason})" if reason else ""
        super().__init__(f"{code}{bracketed}: {message}")
        self.code = code
        self.reason = reason
        self.message = message
        self.retry_after = retry_after
        self.address = ""
        """Of the gateway, as it was given; empty if it is not known."""

    @property
    def retryable(self) -> bool:
        """Whether the same call can succeed later without anybody changing anything."""
        # Another stream of this name took its place: the two would take turns.
        return self.code not in _FINAL and self.reason != SUPERSEDED

    @classmethod
    def from_rpc(cls, error: grpc.RpcError) -> GatewayError:
        """Reads a failed call, with its details."""
        call = error if isinstance(error, grpc.Call) else None
        code = getattr(error, "code", lambda: None)()
        message = getattr(error, "details", lambda: None)() or ""
        trailers = call.trailing_metadata() if call else getattr(error, "trailing_metadata", None)
        if callable(trailers):
            trailers = trailers()
        name = code.name if isinstance(code, grpc.StatusCode) else "UNKNOWN"
        return _detailed(name, message, trailers or ())


class TlsError(GatewayError):
    """TLS did not come about, and would not if it were tried again.

    The gateway's certificate is of no trusted authority, for another name or out of its time,
    the gateway did not take this side's certificate or wanted one, or what listens there does
    not speak TLS. The message says which, and what to do.
    """

    def __init__(self, what: str) -> None:
        """Says what."""
        super().__init__("UNAVAILABLE", what)

    @property
    def retryable(self) -> bool:
        """Never: it would be so again."""
        return False


class StreamEnded(GatewayError):
    """The stream ended without a word, as when the gateway is killed."""

    def __init__(self) -> None:
        """Describes it."""
        super().__init__("UNAVAILABLE", "the gateway ended the stream")


class Silent(GatewayError):
    """Nothing came for twice the gateway's ping interval."""

    def __init__(self, seconds: float) -> None:
        """Says how long nothing came."""
        super().__init__("UNAVAILABLE", f"no sign of life from the gateway for {seconds:g} s")


class NotOpened(GatewayError):
    """The stream was not open in time."""

    def __init__(self, seconds: float) -> None:
        """Says how long it was waited for."""
        super().__init__(
            "DEADLINE_EXCEEDED", f"the gateway did not open the stream within {seconds:g} s"
        )


class NotClosed(GatewayError):
    """The goodbye was not answered in time: the last verdicts may not count."""

    def __init__(self, seconds: float) -> None:
        """Says how long it was waited for."""
        super().__init__(
            "DEADLINE_EXCEEDED",
            f"the gateway did not end the stream within {seconds:g} s of the goodbye",
        )


class ProtocolError(GatewayError):
    """The gateway sent what the protocol does not allow."""

    def __init__(self, what: str) -> None:
        """Says what."""
        super().__init__("INTERNAL", f"the gateway broke the protocol: {what}")

    @property
    def retryable(self) -> bool:
        """Never: it would be so again."""
        return False


class Verdict(Exception):
    """What a handler raises to answer its record otherwise than acked."""


class Reject(Verdict):
    """Refuses the record for good: it becomes a dead letter now.

    `code` has at most 128 bytes, `reason` 1 KiB; longer ones are cut.
    """

    def __init__(self, code: str, reason: str = "") -> None:
        """Says why."""
        super().__init__(f"{code}: {reason}" if reason else code)
        self.code = code
        self.reason = reason


class Fail(Verdict):
    """Not this time: the record comes again after the subscription's backoff.

    Or after `retry_after`, at most 1 h. Uses an attempt.
    """

    def __init__(
        self, reason: str = "", *, code: str = "", retry_after: float | timedelta | None = None
    ) -> None:
        """Says why, and when it may come again."""
        super().__init__(reason or code)
        self.reason = reason
        self.code = code
        self.retry_after = retry_after


class Release(Verdict):
    """Gives the record back untouched: again at once, elsewhere if possible."""


def _detailed(code: str, message: str, trailers: Iterable[tuple[str, str | bytes]]) -> GatewayError:
    reason, retry_after = "", None
    for key, value in trailers:
        if key != "grpc-status-details-bin" or not isinstance(value, bytes):
            continue
        status = status_pb2.Status()
        try:
            status.ParseFromString(value)
        except DecodeError:
            # Not the gateway's: the code and the words still tell enough.
            continue
        for detail in status.details:
            info = error_details_pb2.ErrorInfo()
            retry = error_details_pb2.RetryInfo()
            if detail.Is(info.DESCRIPTOR) and detail.Unpack(info):
                reason = info.reason
            elif detail.Is(retry.DESCRIPTOR) and detail.Unpack(retry):
                retry_after = retry.retry_delay.ToTimedelta().total_seconds()
    return GatewayError(code, message, reason=reason, retry_after=retry_after)
