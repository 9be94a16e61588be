"""`SubscriptionOptions`: what a subscription is to be like, in the configuration's own terms."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import Enum

from ackgate.errors import OptionError
from ackgate.messages import duration
from ackgate.v1 import gateway_pb2


class DeliveryMode(Enum):
    """How records are spread over subscribers."""

    COMPETING = gateway_pb2.DELIVERY_COMPETING
    BROADCAST = gateway_pb2.DELIVERY_BROADCAST


class Order(Enum):
    """How records may overtake each other."""

    NONE = gateway_pb2.ORDER_NONE
    KEY = gateway_pb2.ORDER_KEY
    LANE = gateway_pb2.ORDER_LANE


class OnReject(Enum):
    """What happens to rejected and exhausted records."""

    DEAD_LETTER = gateway_pb2.ON_REJECT_DEAD_LETTER
    DROP = gateway_pb2.ON_REJECT_DROP
    HOLD = gateway_pb2.ON_REJECT_HOLD


class Start(Enum):
    """Where a group without a committed offset begins."""

    EARLIEST = "earliest"
    LATEST = "latest"
    FAIL = "fail"
    """Nowhere: an operator has to commit an offset."""


@dataclass(frozen=True, slots=True)
class SubscriptionOptions:
    """Options of a subscription. What is None asks for nothing. Times are in seconds.

    They shape an ad hoc subscription that is opened for the first time; of any other the
    gateway refuses the stream (`OPTIONS_CONTRADICT`) if it is otherwise.
    """

    delivery: DeliveryMode | None = None
    order: Order | None = None
    start: Start | datetime | None = None
    """A time with its zone: at the first record at or after it."""
    ack_deadline: float | None = None
    max_attempts: int | None = None
    max_deliveries: int | None = None
    on_reject: OnReject | None = None
    dead_letter_topic: str | None = None
    filter: str | None = None
    """What is read at all, in CEL."""
    min_age: float | None = None
    """Records younger than this are held back."""

    def __post_init__(self) -> None:
        """Checks every range."""
        for name, value, least, most in (
            ("ack_deadline", self.ack_deadline, 0.1, 3_600),
            ("max_attempts", self.max_attempts, 1, 1_000),
            ("max_deliveries", self.max_deliveries, 1, 1_000),
            ("min_age", self.min_age, 0, 30 * 86_400),
        ):
            if value is not None and not least <= value <= most:
                raise OptionError(name, f"{value} is not within {least} to {most}")
        if isinstance(self.start, datetime) and self.start.tzinfo is None:
            raise OptionError("start", "a time needs its zone")

    def wire(self) -> gateway_pb2.SubscriptionOptions:
        """As the protocol has it."""
        wire = gateway_pb2.SubscriptionOptions(
            max_attempts=self.max_attempts,
            max_deliveries=self.max_deliveries,
            dead_letter_topic=self.dead_letter_topic,
            filter=self.filter,
        )
        if self.delivery is not None:
            wire.delivery = self.delivery.value
        if self.order is not None:
            wire.order = self.order.value
        if self.on_reject is not None:
            wire.on_reject = self.on_reject.value
        if self.ack_deadline is not None:
            wire.ack_deadline.CopyFrom(duration(self.ack_deadline))
        if self.min_age is not None:
            wire.min_age.CopyFrom(duration(self.min_age))
        match self.start:
            case datetime():
                wire.start.timestamp.FromDatetime(self.start)
            case Start():
                getattr(wire.start, self.start.value).SetInParent()
            case None:
                pass
        return wire
