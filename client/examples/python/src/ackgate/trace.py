"""`TraceContext`: where a record is in a trace, as W3C Trace Context has it.

Headers come from whoever wrote the record: what is not exactly as it should be is none.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

PARENT = "traceparent"
STATE = "tracestate"

_PARENT = re.compile(r"(?!ff)([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_MEMBER = re.compile(r"[a-z0-9][a-z0-9_*/@-]*=[\x20-\x2b\x2d-\x3c\x3e-\x7e]*")

MOST_STATE = 512
"""Longest `tracestate` that is passed on; of at most 32 members."""
MOST_MEMBERS = 32


@dataclass(frozen=True, slots=True)
class TraceContext:
    """The span that work on a record continues. Its two fields are headers as they stand."""

    traceparent: str
    tracestate: str = ""
    """Empty if there is none."""

    @classmethod
    def parse(cls, traceparent: str, tracestate: str = "") -> TraceContext | None:
        """Reads both headers; None if `traceparent` is not well formed.

        A `tracestate` that is not, or has more than 512 bytes or 32 members, is left out.
        """
        match = _PARENT.fullmatch(traceparent)
        if match is None:
            return None
        version, trace, span, flags, more = match.groups()
        # Later versions may go on; ids of zeros mean none.
        if (version == "00" and more) or not int(trace, 16) or not int(span, 16):
            return None
        sampled = int(flags, 16) & 1
        return cls(f"00-{trace}-{span}-{sampled:02x}", tracestate if _is_state(tracestate) else "")

    @property
    def trace_id(self) -> str:
        """32 hexadecimal digits."""
        return self.traceparent[3:35]

    @property
    def span_id(self) -> str:
        """16 hexadecimal digits."""
        return self.traceparent[36:52]

    @property
    def is_sampled(self) -> bool:
        """Whether whoever wrote it may have recorded the trace."""
        return self.traceparent.endswith("1")

    def carrier(self) -> dict[str, str]:
        """What OpenTelemetry's propagators extract a context from."""
        carrier = {PARENT: self.traceparent}
        if self.tracestate:
            carrier[STATE] = self.tracestate
        return carrier

    def headers(self) -> list[tuple[str, bytes]]:
        """The same as headers of a record to publish."""
        return [(name, value.encode()) for name, value in self.carrier().items()]


def of_record(
    headers: Iterable[tuple[str, bytes | None]], gateways: TraceContext | None
) -> TraceContext | None:
    """The context of a record: the gateway's, if one came beside it, else its producer's."""
    if gateways is not None:
        return gateways
    parent, states = "", list[str]()
    for name, value in headers:
        text = (value or b"").decode("utf-8", errors="replace")
        if name == PARENT:
            parent = text
        elif name == STATE and value is not None:
            states.append(text)
    return TraceContext.parse(parent, ",".join(states))


def _is_state(text: str) -> bool:
    members = [member.strip(" \t") for member in text.split(",")]
    fits = len(text.encode()) <= MOST_STATE and len(members) <= MOST_MEMBERS
    return fits and all(_MEMBER.fullmatch(member) for member in members if member)
