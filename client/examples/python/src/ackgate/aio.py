"""`Subscriber`: a subscription for programs with asyncio.

Tasks: one reads the stream and connects anew, one sends, one keeps the time. All of them end
with `close`. Everything here belongs to the loop in which the subscriber was started.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from types import TracebackType
from typing import Any

import grpc
import grpc.aio

from ackgate import channel
from ackgate.core import How, OpenStream
from ackgate.delivery import Batch, Delivery
from ackgate.errors import AckgateError, GatewayError, NotClosed
from ackgate.events import Stats
from ackgate.ledger import Readiness
from ackgate.shell import GRACE, SLACK, Connection, Shell, Taken
from ackgate.v1.gateway_pb2 import SubscribeRequest, SubscribeResponse
from ackgate.v1.gateway_pb2_grpc import GatewayServiceStub
from ackgate.watch import Watch

# Seconds in which a gateway says that it takes the call, or does not.
_HEADERS_WITHIN = 1.0

_Call = grpc.aio.StreamStreamCall[SubscribeRequest, SubscribeResponse]


class _Connection(Connection):
    """One call, as the tasks share it."""

    def __init__(self, call: _Call, watch: Watch) -> None:
        super().__init__(watch)
        self.call = call

    def cancel(self) -> None:
        self.call.cancel()


class Subscriber(Shell):
    """A subscription: iterate over its deliveries, or over `batches`, or `run` a handler.

    As `ackgate.Subscriber`, for asyncio.

        async with Subscriber("127.0.0.1:7654", "orders") as subscriber:
            async for delivery in subscriber:
                print(delivery.value)
                delivery.ack()
    """

    def _prepare(self) -> None:
        # What is given before it is started wakes nobody.
        self._loop: asyncio.AbstractEventLoop | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._connection: _Connection | None = None
        self._stopping = asyncio.Event()
        self._done = asyncio.Event()
        # Set, and soon cleared, when something changed for those who wait: what is in the
        # queue; what is to be sent; what is due.
        self._arrived = asyncio.Condition()
        self._to_send = asyncio.Event()
        self._to_watch = asyncio.Event()

    async def __aenter__(self) -> Subscriber:
        """Starts it."""
        self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Closes it."""
        try:
            await self.close()
        except AckgateError:
            # What went wrong inside is what the caller has to know.
            if error is None:
                raise

    def start(self) -> None:
        """Begins to connect, in the running loop. Does nothing the second time."""
        if self._loop is not None or self._done.is_set():
            return
        self._loop = asyncio.get_running_loop()
        self._tasks = [
            asyncio.create_task(self._main(), name="ackgate-stream"),
            asyncio.create_task(self._clock(), name="ackgate-clock"),
        ]

    async def __aiter__(self) -> AsyncIterator[Delivery]:
        """The deliveries, until the subscriber ends."""
        self.start()
        while (delivery := await self._take(self._inbox.delivery)) is not None:
            yield delivery
        self._raise()

    async def batches(self) -> AsyncIterator[Batch]:
        """Whole batches, until the subscriber ends."""
        self.start()
        while (batch := await self._take(self._inbox.batch)) is not None:
            yield batch
        self._raise()

    async def run(
        self,
        handler: Callable[[Delivery], Awaitable[object]],
        *,
        concurrency: int = 8,
        grace: float = GRACE,
    ) -> Stats:
        """Awaits `handler` for each record, `concurrency` at a time, until it is stopped.

        What it returns or raises is the verdict, as in `ackgate.Subscriber.run`. Handlers that
        have not finished `grace` seconds after `stop` are cancelled.
        """
        if concurrency < 1:
            raise ValueError("concurrency is at least 1")
        self._extends = True
        self.start()
        workers = [
            asyncio.create_task(self._work(handler), name=f"ackgate-handler-{number}")
            for number in range(concurrency)
        ]
        done = asyncio.create_task(self._done.wait(), name="ackgate-done")
        handled: asyncio.Future[list[None]] = asyncio.gather(*workers)
        either: set[asyncio.Future[Any]] = {done, handled}
        try:
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            stats = await self.close(grace=grace)
        finally:
            # Also where this task is cancelled: nothing of it goes on.
            self.stop(0.0)
            for task in (done, *workers):
                task.cancel()
            await asyncio.gather(done, handled, return_exceptions=True)
            await asyncio.wait(self._tasks, timeout=self._options.close_timeout + SLACK)
        return stats

    async def set_credit(self, records: int, bytes_: int) -> None:
        """Replaces the credit; zero in either number pauses. What is out stays out."""
        self._inbox.limit = max(self._inbox.limit, records)
        self._core.ledger.credit(records, bytes_)
        await self._tell()

    def stop(self, grace: float = GRACE) -> None:
        """Begins to close and returns at once; for `loop.add_signal_handler`."""
        if self._done.is_set():
            return
        first = not self._stopping.is_set()
        self._stopping.set()
        self._begin_close(time.monotonic() + grace, first=first)
        self._to_watch.set()

    async def close(self, grace: float = 0.0) -> Stats:
        """Takes no more records, gives back what was not begun, and says goodbye.

        What is in hand may be answered by other tasks for `grace` seconds more, and is given
        back then. Calling it again does no harm.

        Raises `GatewayError` if the stream was lost before its end: the last verdicts may not
        count, and the gateway then hands those records out again.
        """
        if self._loop is None:
            self._done.set()
            return self.stats()
        self.stop(grace)
        await self._tell()
        limit = self._limit(grace)
        _, late = await asyncio.wait(self._tasks, timeout=limit)
        for task in late:
            task.cancel()
        if late:
            raise NotClosed(limit)
        self._raise()
        return self.stats()

    # What the program takes.

    async def _take(self, take: Callable[[], Taken | None]) -> Taken | None:
        """Waits for what `take` returns; None at the end."""
        async with self._arrived:
            while not self._is_over():
                if (taken := self._taken(take, self._arrived.notify_all)) is not None:
                    return taken
                await self._arrived.wait()
        return None

    def _is_over(self) -> bool:
        return self._stopping.is_set() or self._done.is_set()

    async def _tell(self) -> None:
        async with self._arrived:
            self._arrived.notify_all()

    async def _work(self, handler: Callable[[Delivery], Awaitable[object]]) -> None:
        while (delivery := await self._take(self._inbox.delivery)) is not None:
            error: Exception | None = None
            try:
                await handler(delivery)
            except Exception as raised:  # noqa: BLE001 - whatever it is, it is a verdict
                error = raised
            delivery.conclude(error)

    # The task that reads.

    async def _main(self) -> None:
        try:
            while True:
                stream, how, error = await self._stream()
                follows = self._core.ended(stream, how, error, time.monotonic())
                await self._tell()
                if follows.delay is None:
                    self._error = follows.error
                    return
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._stopping.wait(), follows.delay)
                    return
        except Exception as error:  # noqa: BLE001 - the program raises it
            self._error = error
        finally:
            self._core.ledger.end(broken=False)
            self._done.set()
            self._to_watch.set()
            await self._tell()

    async def _stream(self) -> tuple[OpenStream | None, How, GatewayError | None]:
        """Runs one stream from connecting to its end."""
        async with channel.connect_aio(self._core.gateways.target, self._options) as to_gateway:
            call: _Call = GatewayServiceStub(to_gateway).Subscribe(
                metadata=channel.metadata(self._options)
            )
            connection = _Connection(call, self._new_watch())
            self._connection = connection
            self._to_watch.set()
            writer = asyncio.create_task(self._write(connection), name="ackgate-writer")
            error: GatewayError | None = None
            try:
                async for message in call:
                    await self._receive(connection, message)
            except grpc.RpcError as raised:
                error = GatewayError.from_rpc(raised)
            except GatewayError as raised:
                error = raised
            except asyncio.CancelledError:
                # Either the call was ended from this side, or this task.
                if connection.failure is None and not self._stopping.is_set():
                    raise
            finally:
                self._connection = None
                call.cancel()
                writer.cancel()
                await asyncio.gather(writer, return_exceptions=True)
            return self._how(connection, error, closing=self._stopping.is_set())

    async def _receive(self, connection: _Connection, message: SubscribeResponse) -> None:
        connection.watch.heard(time.monotonic())
        if connection.stream is None:
            self._opened(connection, message, closing=self._stopping.is_set())
            self._to_send.set()
            self._to_watch.set()
            await self._tell()
            return
        batch = connection.stream.receive(message)
        if batch is None:
            return
        async with self._arrived:
            # Full only if the gateway exceeds the credit; HTTP/2 then holds it back.
            while self._inbox.is_full and not self._is_over():
                await self._arrived.wait()
            if not self._is_over():
                self._inbox.put(batch)
                self._arrived.notify_all()
                return
        batch.release()

    # The task that sends.

    async def _write(self, connection: _Connection) -> None:
        with contextlib.suppress(grpc.RpcError, asyncio.InvalidStateError):
            # What went wrong is what the reading half hears, too.
            await self._write_all(connection)

    async def _write_all(self, connection: _Connection) -> None:
        # The gateway's headers come at once. A call that it refused instead must not be written
        # to: the library would then tell of an error of its own, and no longer why. Something
        # in between may keep the headers back, so they are not waited for for long.
        headers = asyncio.ensure_future(connection.call.initial_metadata())
        await asyncio.wait({headers}, timeout=_HEADERS_WITHIN)
        headers.cancel()
        if connection.call.done():
            return
        await connection.call.write(self._core.opening())
        while True:
            stream = connection.stream
            readiness = stream.readiness() if stream is not None else Readiness.EMPTY
            if stream is None or readiness is Readiness.EMPTY:
                if self._core.ledger.is_confirming:
                    self._to_watch.set()
                await self._to_send.wait()
                self._to_send.clear()
                continue
            if readiness is Readiness.ENDED:
                return
            if readiness is Readiness.SOON:
                await self._gather(stream)
            for outgoing in stream.outgoing():
                # Before it is handed over: the stream may end before this goes on.
                stream.sent(outgoing)
                last = outgoing.request.HasField("close")
                if last:
                    connection.watch.said_goodbye(time.monotonic())
                    self._to_watch.set()
                await connection.call.write(outgoing.request)
                if last:
                    await connection.call.done_writing()
                    return

    async def _gather(self, stream: OpenStream) -> None:
        """Waits for more verdicts, for as long as they are gathered."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._options.flush_interval):
                while stream.readiness() is Readiness.SOON:
                    self._to_send.clear()
                    await self._to_send.wait()

    def _wake(self) -> None:
        loop = self._loop
        if loop is None:
            return
        if _running() is loop:
            self._to_send.set()
        else:
            # Verdicts may be given from any thread.
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(self._to_send.set)

    # The task that keeps the time.

    async def _clock(self) -> None:
        due: float | None = None
        told = False
        while not self._done.is_set():
            wait = None if due is None else max(0.0, due - time.monotonic())
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._to_watch.wait(), wait)
            self._to_watch.clear()
            if self._stopping.is_set() and not told:
                told = True
                await self._tell()
            closing = self._stopping.is_set()
            due = self._due(self._connection, time.monotonic(), closing=closing)


def _running() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
