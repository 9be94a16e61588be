"""Writes some records through the gateway in one call."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import grpc

from ackgate import channel
from ackgate.addresses import Addresses, Target, listed, target
from ackgate.errors import GatewayError, OptionError
from ackgate.handshake import explained
from ackgate.messages import duration
from ackgate.options import Options
from ackgate.v1 import publish_pb2
from ackgate.v1.gateway_pb2_grpc import GatewayServiceStub

MOST_RECORDS = 10_000
"""Most records in one call; it also takes at most 16 MiB."""

_SLACK = 5.0


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A record to write. None is Kafka's null and differs from empty."""

    topic: str
    value: bytes | None
    key: bytes | None = None
    headers: Sequence[tuple[str, bytes | None]] = ()
    partition: int | None = None
    timestamp_ms: int | None = None

    def wire(self) -> publish_pb2.OutgoingRecord:
        """The record as it is sent."""
        record = publish_pb2.OutgoingRecord(
            topic=self.topic,
            value=self.value,
            key=self.key,
            partition=self.partition,
            timestamp_ms=self.timestamp_ms,
        )
        for name, value in self.headers:
            record.headers.add(key=name, value=value)
        return record


@dataclass(frozen=True, slots=True)
class Written:
    """What became of a record. `error` is empty if it was written."""

    topic: str
    partition: int | None
    offset: int | None
    error: str
    detail: str


def publish(
    address: Addresses,
    records: Iterable[Outgoing],
    options: Options | None = None,
    *,
    cluster: str = "",
    timeout: float = 30.0,
) -> list[Written]:
    """Writes 1 to 10,000 records and returns what became of each, in their order.

    `timeout` is in seconds, for each record. Of several addresses it is the first one that can
    be reached. Raises `GatewayError` if the call itself did not succeed: then nobody knows what
    was written.
    """
    request = publish_pb2.PublishBatchRequest()
    request.options.cluster = cluster
    request.options.timeout.CopyFrom(duration(timeout))
    request.records.extend(record.wire() for record in records)
    if not 1 <= len(request.records) <= MOST_RECORDS:
        raise OptionError("records", f"1 to {MOST_RECORDS}, not {len(request.records)}")
    options = options or Options()
    *others, last = (target(one, options.tls) for one in listed(address, options.tls))
    to = next((one for one in others if _is_reached(one, options)), last)
    with channel.connect(to, options) as to_gateway:
        try:
            response = GatewayServiceStub(to_gateway).PublishBatch(
                request, timeout=timeout + _SLACK, metadata=channel.metadata(options)
            )
        except grpc.RpcError as error:
            raise explained(GatewayError.from_rpc(error), to) from error
    return [_written(result) for result in response.results]


def _is_reached(to: Target, options: Options) -> bool:
    with channel.connect(to, options) as to_gateway:
        try:
            grpc.channel_ready_future(to_gateway).result(options.open_timeout)
        except grpc.FutureTimeoutError:
            return False
    return True


def _written(result: publish_pb2.PublishResult) -> Written:
    error = publish_pb2.PublishError.DESCRIPTOR.values_by_number.get(result.error)
    name = "" if result.error == 0 else error.name if error else f"UNKNOWN_{result.error}"
    return Written(
        topic=result.topic,
        partition=result.partition if result.HasField("partition") else None,
        offset=result.offset if result.HasField("offset") else None,
        error=name.removeprefix("PUBLISH_ERROR_"),
        detail=result.detail,
    )
