"""What every subscriber does whatever carries it: no thread, no loop, no socket.

A shell (`subscriber` with threads, `aio` with asyncio) sends what this builds, shows it what
comes, and does what it says next.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from google.protobuf.message import Message

from ackgate.addresses import Addresses, Gateways
from ackgate.backoff import MOST, Backoff
from ackgate.delivery import Batch
from ackgate.errors import SUPERSEDED, GatewayError, ProtocolError, StreamEnded
from ackgate.events import (
    Counters,
    Disconnected,
    Draining,
    LaneChanged,
    Observer,
    Opened,
    Problem,
    ProblemKind,
    Received,
)
from ackgate.handshake import explained
from ackgate.ledger import Ledger, Readiness
from ackgate.messages import Messages, Outgoing, seconds
from ackgate.options import Confirm, Options
from ackgate.v1 import gateway_pb2, record_pb2
from ackgate.v1.gateway_pb2 import SubscribeRequest, SubscribeResponse


class How(Enum):
    """How a stream ended."""

    CLOSED = 0
    """The subscriber said goodbye, or there is nothing left for it."""
    DRAINED = 1
    """The gateway asked for the end, and everything was answered."""
    FAILED = 2


@dataclass(frozen=True, slots=True)
class Next:
    """What follows: another stream in `delay` seconds; or the end, with or without an error."""

    delay: float | None = None
    error: GatewayError | None = None


class OpenStream:
    """One stream from `Opened` to its end."""

    def __init__(self, core: Core, opened: gateway_pb2.Opened, now: float) -> None:
        """Begins it; `now` is any clock that does not go back, in seconds."""
        settings = opened.settings
        self._core = core
        self._messages = Messages(settings.max_verdicts)
        self.begun = now
        self.draining = False
        # It drains because the gateway stops.
        self.stops = False
        self.useful = False
        self.ack_deadline = seconds(settings.ack_deadline)
        # Longest silence; 0: the gateway promises no pings.
        self.silence = 2 * seconds(settings.ping_interval)
        # How often to give a sign of life; 0: never.
        self.beat = seconds(settings.lease_beat) if settings.HasField("lease_beat") else 0.0
        self.number = core.ledger.begin(opened.resumed)

    def receive(self, message: SubscribeResponse) -> Batch | None:
        """Takes a message in; returns it if it is a batch."""
        ledger, counters = self._core.ledger, self._core.counters
        match message.WhichOneof("response"):
            case "batch":
                return self._batch(message.batch)
            case "settled":
                for answer in message.settled.answers:
                    name = ledger.name(answer.lane)
                    topic, partition = (name.topic, name.partition) if name else ("", -1)
                    first, last = answer.first_offset, answer.last_offset
                    kind = ProblemKind.from_wire(answer.result)
                    counters.tell(Problem(topic, partition, first, last, kind, answer.detail))
                ledger.settled(message.settled)
            case "drain":
                self.draining = True
                drain = message.drain
                self.stops = drain.reason == gateway_pb2.DRAIN_REASON_GATEWAY_STOPS
                counters.tell(Draining(_drain_reason(drain), seconds(drain.deadline)))
                ledger.drain()
            case "lane_event":
                event = message.lane_event
                what = _enumerator(event, "kind").removeprefix("LANE_EVENT_KIND_")
                counters.tell(LaneChanged(event.topic, event.partition, what, event.detail))
            case _:
                # A ping, or a kind that this version does not know.
                pass
        return None

    def readiness(self) -> Readiness:
        """Whether there is something to send."""
        return self._core.ledger.readiness(self.number)

    def outgoing(self) -> list[Outgoing]:
        """What is to be sent now; empty if nothing is, or the stream is over."""
        if self.readiness() in {Readiness.EMPTY, Readiness.ENDED}:
            return []
        messages = list(self._messages.build(self._core.ledger.take()))
        for message in messages:
            if message.watchers:
                self._core.ledger.waiting(message.request.settle.sequence, message.watchers)
        return messages

    def sent(self, outgoing: Outgoing) -> None:
        """It was handed to the transport."""
        outgoing.count(self._core.ledger, self._core.counters)

    def _batch(self, wire: record_pb2.Batch) -> Batch | None:
        if not wire.records:
            return None
        self.useful = True
        core = self._core
        batch = Batch(core.ledger, self.number, wire)
        core.ledger.handed(batch.runs, batch.name)
        core.counters.add("records", len(wire.records))
        core.counters.add("batches", 1)
        if core.counters.observer is not None:
            core.counters.tell(Received(batch))
        return batch


class Core:
    """A subscriber over all its streams."""

    def __init__(
        self,
        gateways: Gateways,
        subscription: str,
        options: Options,
        counters: Counters,
        ledger: Ledger,
    ) -> None:
        """Begins without a stream."""
        self.gateways = gateways
        self.options = options
        self.counters = counters
        self.ledger = ledger
        self.session = ""
        self.subscriber_id = options.subscriber_id
        self._subscription = subscription
        self._backoff = Backoff(addresses=len(gateways))
        # What the next stream shows to go on after the latest; empty: it cannot.
        self._token = ""

    def opening(self) -> SubscribeRequest:
        """The first message of the next stream: anew, or where the last one broke."""
        wire = self.options.open(self._subscription)
        wire.takeover = self.options.takeover and not self.session
        if self._token:
            wire.subscriber_id = self.subscriber_id
            wire.resume.token = self._token
            wire.resume.held.extend(self.ledger.manifest())
        return SubscribeRequest(open=wire)

    def opened(self, message: SubscribeResponse, now: float) -> OpenStream:
        """Takes the first message of a stream."""
        if message.WhichOneof("response") != "opened":
            raise ProtocolError("the first message is not Opened")
        opened = message.opened
        self.session, self.subscriber_id = opened.session, opened.subscriber_id
        self._token = opened.resume_token
        self.gateways.opened()
        stream = OpenStream(self, opened, now)
        self.counters.add("streams", 1)
        kept = sum(answer.result == gateway_pb2.RESUME_RESULT_KEPT for answer in opened.resumed)
        event = Opened(opened.session, opened.subscriber_id, kept, stream.ack_deadline)
        self.counters.tell(event)
        return stream

    def how(
        self, stream: OpenStream | None, error: GatewayError | None, *, closing: bool
    ) -> tuple[How, GatewayError | None]:
        """How a stream ended that there is no more to hear of. `closing`: it was wished for."""
        if error is not None and stream is None:
            error = explained(error, self.gateways.target)
        if error is not None:
            error.address = self.gateways.address
        if closing:
            # Before anything was open there is nobody to say goodbye to.
            return How.CLOSED, error if stream is not None else None
        if error is not None:
            return How.FAILED, error
        if stream is not None and stream.draining:
            return How.DRAINED, None
        if stream is not None and self.options.until_drained:
            return How.CLOSED, None
        ended = StreamEnded()
        ended.address = self.gateways.address
        return How.FAILED, ended

    def ended(
        self, stream: OpenStream | None, how: How, error: GatewayError | None, now: float
    ) -> Next:
        """A stream is over, or there was none. Says what follows."""
        retryable = error is not None and error.retryable
        broken = how is How.FAILED and retryable and bool(self._token)
        if stream is not None and not broken:
            self._token = ""
        if stream is not None:
            self.ledger.end(broken=broken)
        if how is How.CLOSED or (error is not None and not self._goes_on(error)):
            self.ledger.end(broken=False)
            return Next(error=error)
        if how is How.DRAINED or error is None:
            # An old connection is followed by a new one to the same gateway.
            if stream is not None and stream.stops:
                self.gateways.leave()
            return Next(delay=self._backoff.after_success())
        # What is in hand is known only where it came from: there first.
        if retryable and not (broken and stream is not None):
            self.gateways.leave()
        useful = stream is not None and (stream.useful or now - stream.begun > MOST)
        limit = self.options.retries
        if not useful and limit is not None and self._backoff.failures >= limit:
            self.ledger.end(broken=False)
            return Next(error=error)
        delay = self._backoff.after_failure(useful=useful, retry_after=error.retry_after)
        self.counters.tell(Disconnected(error, delay))
        return Next(delay=delay)

    def _goes_on(self, error: GatewayError) -> bool:
        """Whether trying again can help, here or at another address."""
        if error.retryable:
            return True
        return error.reason != SUPERSEDED and self.gateways.refused()


def new_core(
    addresses: Addresses,
    subscription: str,
    options: Options,
    observer: Observer | None,
    wake: Callable[[], None],
) -> Core:
    """A core with its ledger; `wake` is called when there may be something to send."""
    gateways = Gateways(addresses, options.tls)
    counters = Counters(observer)
    durable = options.confirm is Confirm.DURABLE
    ledger = Ledger(counters, flush_records=options.flush_records, durable=durable, wake=wake)
    return Core(gateways, subscription, options, counters, ledger)


def _drain_reason(drain: gateway_pb2.Drain) -> str:
    name = _enumerator(drain, "reason").removeprefix("DRAIN_REASON_")
    return "" if name == "UNSPECIFIED" else name


def _enumerator(message: Message, name: str) -> str:
    """The enumerator's name of a field; empty if there is none of this number."""
    descriptor = message.DESCRIPTOR.fields_by_name.get(name)
    if descriptor is None or descriptor.enum_type is None:
        return ""
    value = descriptor.enum_type.values_by_number.get(getattr(message, name))
    return value.name if value is not None else ""
