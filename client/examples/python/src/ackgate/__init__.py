"""Subscribes to an ackgate gateway: records in, verdicts out.

`Subscriber` is for programs with threads, `ackgate.aio.Subscriber` for asyncio.
"""

from ackgate.delivery import Batch, Delivery
from ackgate.durable import Durable, NotDurable
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
    TlsError,
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
from ackgate.options import AdHoc, BatchOptions, Confirm, Options, Tls
from ackgate.publish import Outgoing, Written, publish
from ackgate.shape import DeliveryMode, OnReject, Order, Start, SubscriptionOptions
from ackgate.subscriber import Subscriber
from ackgate.trace import TraceContext

__all__ = [
    "AckgateError",
    "AdHoc",
    "Batch",
    "BatchOptions",
    "Confirm",
    "Delivery",
    "DeliveryMode",
    "Disconnected",
    "Draining",
    "Durable",
    "Event",
    "Fail",
    "GatewayError",
    "LaneChanged",
    "NotClosed",
    "NotDurable",
    "NotOpened",
    "OnReject",
    "Opened",
    "OptionError",
    "Options",
    "Order",
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
    "Start",
    "Stats",
    "StreamEnded",
    "Subscriber",
    "SubscriptionOptions",
    "Tls",
    "TlsError",
    "TraceContext",
    "Written",
    "publish",
]
