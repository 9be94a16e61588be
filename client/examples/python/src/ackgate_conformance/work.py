"""What a handler is told to do by its record, in the header `conformance-do`."""

from __future__ import annotations

from typing import NamedTuple

from ackgate import Delivery, Fail, Reject

HEADER = "conformance-do"


class Work(NamedTuple):
    """Seconds to work before the record is acked."""

    seconds: float = 0.0


def work(delivery: Delivery) -> Work:
    """Reads the header. Raises what the record asks to be raised."""
    raw = delivery.header(HEADER) or b"ack"
    match raw.decode("utf-8", errors="replace").split(":"):
        case ["ack"]:
            return Work()
        case ["reject", code]:
            raise Reject(code, "asked for")
        case ["fail", times, after]:
            if delivery.attempt <= int(times):
                raise Fail("asked for", code="asked", retry_after=int(after) / 1_000)
            return Work()
        case ["work", time]:
            return Work(int(time) / 1_000)
        case ["raise"]:
            if delivery.attempt <= 1:
                raise RuntimeError("asked for")
            return Work()
        case _:
            raise Reject("conformance-do", f"not known: {raw!r}")
