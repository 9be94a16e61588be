"""What a conformance program prints: JSON lines, checked for their shape as they come."""

import base64
import json
import time

# For each event its fields: name, types, and whether it may be absent.
_TEXT, _INT, _LIST = (str,), (int,), (list,)
_PLACE = {"topic": _TEXT, "partition": _INT}
_RUN = {"first_offset": _INT, "last_offset": _INT}
_SHAPES = {
    "opened": {"session": _TEXT, "subscriber_id": _TEXT, "resumed": _INT},
    "delivery": _PLACE
    | {
        "offset": _INT,
        "attempt": _INT,
        "delivery": _INT,
        "key": (str, type(None)),
        "value_bytes": _INT,
        "headers": _LIST,
        "timestamp_ms": _INT,
        # Of the span to continue, the gateway's before the record's own.
        "traceparent": (str, type(None)),
    },
    "verdict": _PLACE | {"offset": _INT, "attempt": _INT, "verdict": _TEXT},
    "batch": _PLACE | _RUN | {"records": _INT},
    "problem": _PLACE | _RUN | {"kind": _TEXT},
    "drain": {"reason": _TEXT},
    "disconnected": {"code": _TEXT, "reason": _TEXT, "message": _TEXT, "retry_in_ms": _INT},
    "closed": {"acked": _INT, "rejected": _INT, "failed": _INT, "released": _INT},
    "error": {"code": _TEXT, "reason": _TEXT, "message": _TEXT},
}
_WORDS = {
    ("verdict", "verdict"): {"acked", "rejected", "failed", "released"},
    ("problem", "kind"): {
        "stale", "fenced", "conflict", "unknown", "expired", "invalid", "lost",
    },
    ("drain", "reason"): {"GATEWAY_STOPS", "CONNECTION_AGE", ""},
}
# A value above so many bytes is told by its digest.
PRINTED_BYTES = 1024


class Event(dict):
    """One line. Its fields are read as attributes; `at` is when it came, in seconds."""

    def __init__(self, fields):
        super().__init__(fields)
        self.at = time.monotonic()

    def __getattr__(self, name):
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None

    @property
    def place(self):
        return (self["topic"], self["partition"], self["offset"])

    @property
    def key_bytes(self):
        return _bytes(self["key"])

    @property
    def value_decoded(self):
        """The value, of a record whose value is printed."""
        return _bytes(self["value"])

    @property
    def header_pairs(self):
        return tuple((name, _bytes(value)) for name, value in self["headers"])


def _bytes(text):
    return None if text is None else base64.b64decode(text, validate=True)


def parse(line):
    """The event of a line.

    Raises ValueError if the line is not what the contract says.
    """
    fields = json.loads(line)
    if not isinstance(fields, dict):
        raise ValueError("it is not an object")
    kind = fields.get("event")
    if kind not in _SHAPES:
        raise ValueError(f"there is no event {kind!r}")
    for name, types in _SHAPES[kind].items():
        if name not in fields:
            raise ValueError(f"{name} is missing")
        if not isinstance(fields[name], types) or isinstance(fields[name], bool):
            raise ValueError(f"{name} is {fields[name]!r}")
        words = _WORDS.get((kind, name))
        if words and fields[name] not in words:
            raise ValueError(f"{name} is {fields[name]!r}")
    if kind == "delivery":
        _check_delivery(fields)
    return Event(fields)


def _check_delivery(fields):
    if fields["value_bytes"] > PRINTED_BYTES:
        if "value" in fields or len(fields.get("value_sha256", "")) != 64:
            raise ValueError("a large value is told by its digest alone")
    else:
        value = fields["value"]
        if len(_bytes(value) or b"") != fields["value_bytes"]:
            raise ValueError("value_bytes is not the value's length")
    _bytes(fields["key"])
    for pair in fields["headers"]:
        if not (isinstance(pair, list) and len(pair) == 2 and isinstance(pair[0], str)):
            raise ValueError(f"a header is {pair!r}")
        _bytes(pair[1])
