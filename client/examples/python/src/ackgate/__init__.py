"""Subscribes to an ackgate gateway: records in, verdicts out.

`Subscriber` is for programs with threads, `ackgate.aio.Subscriber` for asyncio.
"""

from ackgate.delivery import Batch, Delivery
from ackgate.errors import (
    AckgateError,
    Fail,
    GatewayError,
    NotClosed,
    NotOpened,
    OptionError,
    ProtocolError,
    Reject,
    Release,
    Silent,
    StreamEnded,
)
from ackgate.events import (
    Disconnected,
    Draining,
    Event,
    LaneChanged,
    Opened,
    Outcome,
    Problem,
    ProblemKind,
    Received,
    Sent,
    Stats,
)
from ackgate.options import AdHoc, BatchOptions, Options, Tls
from ackgate.publish import Outgoing, Written, publish
from ackgate.subscriber import Subscriber

__all__ = [
    "AckgateError",
    "AdHoc",
    "Batch",
    "BatchOptions",
    "Delivery",
    "Disconnected",
    "Draining",
    "Event",
    "Fail",
    "GatewayError",
    "LaneChanged",
    "NotClosed",
    "NotOpened",
    "Opened",
    "OptionError",
    "Options",
    "Outcome",
    "Outgoing",
    "Problem",
    "ProblemKind",
    "ProtocolError",
    "Received",
    "Reject",
    "Release",
    "Sent",
    "Silent",
    "Stats",
    "StreamEnded",
    "Subscriber",
    "Tls",
    "Written",
    "publish",
]
