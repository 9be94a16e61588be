"""What the conformance program prints: events and deliveries as lines of JSON."""

from __future__ import annotations

import base64
import hashlib
import json
import sys
import threading
from collections import OrderedDict

from ackgate import (
    Batch,
    Delivery,
    Disconnected,
    Draining,
    Event,
    GatewayError,
    Opened,
    Problem,
    ProblemKind,
    Received,
    Sent,
    Stats,
)

PRINTED = 1_024
"""Values beyond this many bytes are printed as their hash."""

REMEMBERED = 1_000_000
"""Attempts that are remembered for the verdicts that are to come: the highest credit."""

_REPORTED = {
    ProblemKind.STALE,
    ProblemKind.FENCED,
    ProblemKind.CONFLICT,
    ProblemKind.UNKNOWN,
    ProblemKind.EXPIRED,
    ProblemKind.INVALID,
    ProblemKind.LOST,
}


class Lines:
    """Prints; may be called from any thread."""

    def __init__(self, *, batches: bool) -> None:
        """`batches`: single records and verdicts are not printed."""
        self._batches = batches
        self._lock = threading.Lock()
        # Attempt by topic, partition, offset and delivery number.
        self._attempts: OrderedDict[tuple[str, int, int, int], int] = OrderedDict()

    def line(self, event: str, **fields: object) -> None:
        """Prints one."""
        text = json.dumps({"event": event, **fields}, ensure_ascii=False, separators=(",", ":"))
        with self._lock:
            sys.stdout.write(text + "\n")
            sys.stdout.flush()

    def on_event(self, event: Event) -> None:
        """Prints an event of the subscriber."""
        match event:
            case Opened(session, subscriber_id, resumed):
                self.line("opened", session=session, subscriber_id=subscriber_id, resumed=resumed)
            case Received(batch) if not self._batches:
                self._remember(batch)
            case Sent() if not self._batches:
                self._verdicts(event)
            case Problem() if event.kind in _REPORTED:
                self.line(
                    "problem",
                    topic=event.topic,
                    partition=event.partition,
                    first_offset=event.first_offset,
                    last_offset=event.last_offset,
                    kind=event.kind.value,
                )
            case Draining(reason):
                self.line("drain", reason=reason)
            case Disconnected(error, retry_in):
                self.line(
                    "disconnected",
                    code=error.code,
                    reason=error.reason,
                    message=error.message,
                    retry_in_ms=round(retry_in * 1_000),
                )
            case _:
                pass

    def delivery(self, delivery: Delivery) -> None:
        """Prints that a handler begins."""
        value = delivery.value
        shown: dict[str, object] = {"value": _text(value)}
        if value is not None and len(value) > PRINTED:
            shown = {"value_sha256": hashlib.sha256(value).hexdigest()}
        self.line(
            "delivery",
            topic=delivery.topic,
            partition=delivery.partition,
            offset=delivery.offset,
            attempt=delivery.attempt,
            delivery=delivery.number,
            key=_text(delivery.key),
            **shown,
            value_bytes=len(value or b""),
            headers=[[name, _text(of)] for name, of in delivery.headers],
            timestamp_ms=delivery.timestamp_ms,
            traceparent=context.traceparent if (context := delivery.trace_context) else None,
        )

    def batch(self, batch: Batch) -> None:
        """Prints that a batch is taken."""
        self.line(
            "batch",
            topic=batch.topic,
            partition=batch.partition,
            records=len(batch),
            first_offset=batch.first_offset,
            last_offset=batch.last_offset,
        )

    def closed(self, stats: Stats) -> None:
        """Prints the last line of a graceful end."""
        self.line(
            "closed",
            acked=stats.acked,
            rejected=stats.rejected,
            failed=stats.failed,
            released=stats.released,
        )

    def error(self, error: GatewayError) -> None:
        """Prints the last line of an end that trying again cannot help."""
        self.line("error", code=error.code, reason=error.reason, message=error.message)

    def _remember(self, batch: Batch) -> None:
        with self._lock:
            for delivery in batch:
                at = (delivery.topic, delivery.partition, delivery.offset, delivery.number)
                self._attempts[at] = delivery.attempt
            while len(self._attempts) > REMEMBERED:
                self._attempts.popitem(last=False)

    def _verdicts(self, sent: Sent) -> None:
        for offset in range(sent.first_offset, sent.last_offset + 1):
            at = (sent.topic, sent.partition, offset, sent.delivery)
            with self._lock:
                attempt = self._attempts.pop(at, 0)
            self.line(
                "verdict",
                topic=sent.topic,
                partition=sent.partition,
                offset=offset,
                attempt=attempt,
                verdict=sent.outcome.value,
            )


def _text(raw: bytes | None) -> str | None:
    return None if raw is None else base64.b64encode(raw).decode("ascii")
