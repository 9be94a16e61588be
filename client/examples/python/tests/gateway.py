"""A gateway in this process that does as the test says, over a real socket."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
from google.rpc import error_details_pb2, status_pb2

from ackgate.v1 import gateway_pb2, gateway_pb2_grpc
from ackgate.v1.gateway_pb2 import ResumeAnswer, SubscribeRequest, SubscribeResponse

DEADLINE = 20.0
"""How long a test waits for anything, in seconds."""

METHOD = "/ackgate.v1.GatewayService/Subscribe"


def kept(offset: int, *, lane: int) -> ResumeAnswer:
    """Says of the record at `orders/3` that it is still in hand, under this lane."""
    return ResumeAnswer(
        topic="orders",
        partition=3,
        first_offset=offset,
        last_offset=offset,
        result=gateway_pb2.RESUME_RESULT_KEPT,
        lane=lane,
    )


class Stream:
    """One stream, from the gateway's side."""

    def __init__(self, context: grpc.ServicerContext) -> None:
        self.context = context
        self.requests: queue.Queue[SubscribeRequest | None] = queue.Queue()
        self._out: queue.Queue[bytes | Callable[[], None] | None] = queue.Queue()

    def next(self, kind: str, timeout: float = DEADLINE) -> Any:
        """The next request of this kind; others are passed over."""
        end = time.monotonic() + timeout
        while True:
            request = self.requests.get(timeout=max(0.001, end - time.monotonic()))
            assert request is not None, f"the stream ended without {kind}"
            if request.WhichOneof("request") == kind:
                return getattr(request, kind)

    def no_more(self) -> bool:
        """Waits for the end of what the subscriber sends; whether it said nothing more."""
        return self.requests.get(timeout=DEADLINE) is None

    def opened(self, **fields: Any) -> gateway_pb2.Open:
        """Takes `Open` and answers it."""
        request = self.next("open")
        opened = gateway_pb2.Opened(session="s", subscriber_id="me", protocol_version=1)
        opened.settings.ack_deadline.seconds = 30
        opened.settings.ping_interval.seconds = 30
        opened.MergeFrom(gateway_pb2.Opened(**fields))
        self.send(SubscribeResponse(opened=opened))
        assert isinstance(request, gateway_pb2.Open)
        return request

    def batch(self, *offsets: int, lane: int = 7, redelivered: int = 0) -> None:
        """Sends records of `orders/3`; `redelivered`: their delivery number."""
        response = SubscribeResponse()
        response.batch.lane, response.batch.topic, response.batch.partition = lane, "orders", 3
        for offset in offsets:
            response.batch.records.add(offset=offset, value=b"")
        if redelivered:
            response.batch.redeliveries.add(
                first_offset=offsets[0],
                last_offset=offsets[-1],
                attempt=redelivered,
                delivery=redelivered,
            )
        self.send(response)

    def settled(self, sequence: int, *problems: tuple[int, int], more: bool = False) -> None:
        """Answers a message; `problems`: offsets and what became of their verdicts."""
        response = SubscribeResponse()
        response.settled.sequence, response.settled.more = sequence, more
        response.settled.SetInParent()
        for offset, result in problems:
            response.settled.answers.add(
                lane=7, first_offset=offset, last_offset=offset, result=result
            )
        self.send(response)

    def send(self, response: SubscribeResponse) -> None:
        """Sends a message."""
        self._out.put(response.SerializeToString())

    def send_raw(self, raw: bytes) -> None:
        """Sends what no message of this version is."""
        self._out.put(raw)

    def end(self, code: grpc.StatusCode = grpc.StatusCode.OK, reason: str = "") -> None:
        """Ends the stream."""
        if code is grpc.StatusCode.OK:
            self._out.put(None)
            return

        def abort() -> None:
            status = status_pb2.Status(code=code.value[0], message="as the test says")
            if reason:
                info = error_details_pb2.ErrorInfo(reason=reason, domain="ackgate")
                status.details.add().Pack(info)
                retry = error_details_pb2.RetryInfo()
                retry.retry_delay.FromMilliseconds(300)
                status.details.add().Pack(retry)
            trailer = ("grpc-status-details-bin", status.SerializeToString())
            self.context.set_trailing_metadata((trailer,))
            self.context.abort(code, "as the test says")

        self._out.put(abort)

    def responses(self) -> Iterator[bytes]:
        """What is sent, until the end."""
        while True:
            item = self._out.get()
            if item is None:
                return
            if isinstance(item, bytes):
                yield item
            else:
                item()

    def read(self, requests: Iterator[SubscribeRequest]) -> None:
        """Takes in what the subscriber says."""
        try:
            for request in requests:
                self.requests.put(request)
        except Exception:  # noqa: S110 - the call is over
            pass
        self.requests.put(None)
        # Also where the subscriber hung up: the thread of this stream ends.
        if not self.context.is_active():
            self._out.put(None)


class Gateway(gateway_pb2_grpc.GatewayServiceServicer):
    """Takes streams, one after the other."""

    def __init__(self, credentials: grpc.ServerCredentials | None = None) -> None:
        self._streams: queue.Queue[Stream] = queue.Queue()
        self._pool = ThreadPoolExecutor(8, thread_name_prefix="fake-gateway")
        self._server = grpc.server(self._pool)
        handler = grpc.stream_stream_rpc_method_handler(
            self._subscribe,
            request_deserializer=SubscribeRequest.FromString,
            response_serializer=lambda raw: raw,
        )
        service = grpc.method_handlers_generic_handler(
            "ackgate.v1.GatewayService", {"Subscribe": handler}
        )
        self._server.add_generic_rpc_handlers((service,))
        if credentials is None:
            port = self._server.add_insecure_port("127.0.0.1:0")
        else:
            port = self._server.add_secure_port("127.0.0.1:0", credentials)
        self.address = f"127.0.0.1:{port}"
        self._server.start()

    def next(self) -> Stream:
        """The next stream."""
        return self._streams.get(timeout=DEADLINE)

    def is_alone(self) -> bool:
        """Whether no stream has come that was not taken."""
        return self._streams.empty()

    def stop(self) -> None:
        """Ends everything at once."""
        self._server.stop(None).wait(DEADLINE)
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _subscribe(
        self, requests: Iterator[SubscribeRequest], context: grpc.ServicerContext
    ) -> Iterator[bytes]:
        # As the real one does it: a caller may wait for them before it says anything.
        context.send_initial_metadata(())
        stream = Stream(context)
        threading.Thread(
            target=stream.read, args=(requests,), name="fake-gateway-reader", daemon=True
        ).start()
        self._streams.put(stream)
        context.add_callback(lambda: stream._out.put(None))
        return stream.responses()
