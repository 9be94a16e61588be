"""`Subscriber`: a subscription for programs with threads.

Threads: one reads the stream and connects anew; one keeps the time (silence, signs of life,
extensions, the goodbye); the library's own takes what is to be sent from `_requests`. All of
them end with `close`.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterator
from enum import Enum
from types import TracebackType

import grpc

from ackgate import channel
from ackgate.core import How, OpenStream
from ackgate.delivery import Batch, Delivery
from ackgate.errors import AckgateError, GatewayError, NotClosed
from ackgate.events import Stats
from ackgate.ledger import Readiness
from ackgate.shell import GRACE, Connection, Shell, Taken
from ackgate.v1.gateway_pb2 import SubscribeRequest, SubscribeResponse
from ackgate.v1.gateway_pb2_grpc import GatewayServiceStub
from ackgate.watch import Watch


class _State(Enum):
    NEW = 0
    RUNNING = 1
    STOPPING = 2
    DONE = 3


class _Connection(Connection):
    """One call, as the threads share it."""

    def __init__(self, watch: Watch) -> None:
        super().__init__(watch)
        self.call: grpc.Call | None = None
        # Set when there may be something to send.
        self.wake = threading.Event()
        self.over = False

    def cancel(self) -> None:
        if self.call is not None:
            self.call.cancel()


class Subscriber(Shell):
    """A subscription: iterate over its deliveries, or over `batches`, or `run` a handler.

    Connects in the background, and anew after every error that trying again can help.
    An error that it cannot help is raised where deliveries are awaited.

        with Subscriber("127.0.0.1:7654", "orders") as subscriber:
            for delivery in subscriber:
                print(delivery.value)
                delivery.ack()
    """

    def _prepare(self) -> None:
        self._mutex = threading.Condition()
        self._state = _State.NEW
        self._working = 0
        self._connection: _Connection | None = None
        # Safe to put into from a signal handler, unlike all that has a lock.
        self._signals: queue.SimpleQueue[float | None] = queue.SimpleQueue()
        self._stopping = threading.Event()
        self._threads = [
            threading.Thread(target=self._main, name="ackgate-stream", daemon=True),
            threading.Thread(target=self._clock, name="ackgate-clock", daemon=True),
        ]

    def __enter__(self) -> Subscriber:
        """Starts it."""
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Closes it."""
        try:
            self.close()
        except AckgateError:
            # What went wrong inside is what the caller has to know.
            if error is None:
                raise

    def start(self) -> None:
        """Begins to connect. Does nothing the second time."""
        with self._mutex:
            if self._state is not _State.NEW:
                return
            self._state = _State.RUNNING
        for thread in self._threads:
            thread.start()

    def __iter__(self) -> Iterator[Delivery]:
        """The deliveries, until the subscriber ends."""
        self.start()
        while (delivery := self._take(self._inbox.delivery)) is not None:
            yield delivery
        self._raise()

    def batches(self) -> Iterator[Batch]:
        """Whole batches, until the subscriber ends."""
        self.start()
        while (batch := self._take(self._inbox.batch)) is not None:
            yield batch
        self._raise()

    def run(
        self, handler: Callable[[Delivery], object], *, concurrency: int = 8, grace: float = GRACE
    ) -> Stats:
        """Calls `handler` for each record, `concurrency` at a time, until it is stopped.

        A handler that returns has acked its record; one that raises `Reject`, `Fail` or
        `Release` has said so; after any other exception the record is failed with code
        `handler`. Deadlines of what is in hand are extended meanwhile. Then closes: handlers
        have `grace` seconds to finish.

        Raises what ended the subscription, if it was not the program.
        """
        if concurrency < 1:
            raise ValueError("concurrency is at least 1")
        self._extends = True
        self._working = concurrency
        self.start()
        for number in range(concurrency):
            name = f"ackgate-handler-{number}"
            threading.Thread(target=self._work, args=(handler,), name=name, daemon=True).start()
        try:
            with self._mutex:
                while self._working and self._state is not _State.DONE:
                    self._mutex.wait()
        finally:
            stats = self.close(grace=grace)
        return stats

    def set_credit(self, records: int, bytes_: int) -> None:
        """Replaces the credit; zero in either number pauses. What is out stays out."""
        with self._mutex:
            self._inbox.limit = max(self._inbox.limit, records)
        self._core.ledger.credit(records, bytes_)

    def stop(self, grace: float = GRACE) -> None:
        """Begins to close and returns at once; may be called from a signal handler."""
        self._signals.put(grace)

    def close(self, grace: float = 0.0) -> Stats:
        """Takes no more records, gives back what was not begun, and says goodbye.

        What is in hand may be answered by other threads for `grace` seconds more, and is
        given back then. Calling it again does no harm.

        Raises `GatewayError` if the stream was lost before its end: the last verdicts may not
        count, and the gateway then hands those records out again.
        """
        with self._mutex:
            if self._state is _State.NEW:
                self._state = _State.DONE
                return self.stats()
        self.stop(grace)
        limit = self._limit(grace)
        end = time.monotonic() + limit
        for thread in self._threads:
            thread.join(max(0.0, end - time.monotonic()))
            if thread.is_alive():
                raise NotClosed(limit)
        self._raise()
        return self.stats()

    # What the program takes.

    def _take(self, take: Callable[[], Taken | None]) -> Taken | None:
        """Waits for what `take` returns; None at the end."""
        with self._mutex:
            while self._state is _State.RUNNING:
                if (taken := self._taken(take, self._mutex.notify_all)) is not None:
                    return taken
                self._mutex.wait()
        return None

    def _work(self, handler: Callable[[Delivery], object]) -> None:
        try:
            while (delivery := self._take(self._inbox.delivery)) is not None:
                error: Exception | None = None
                try:
                    handler(delivery)
                except Exception as raised:  # noqa: BLE001 - whatever it is, it is a verdict
                    error = raised
                delivery.conclude(error)
        finally:
            with self._mutex:
                self._working -= 1
                self._mutex.notify_all()

    # The thread that reads.

    def _main(self) -> None:
        try:
            while True:
                stream, how, error = self._stream()
                follows = self._core.ended(stream, how, error, time.monotonic())
                with self._mutex:
                    self._mutex.notify_all()
                if follows.delay is None:
                    self._error = follows.error
                    break
                if self._stopping.wait(follows.delay):
                    break
        except BaseException as error:  # noqa: BLE001 - the program raises it
            self._error = error
        finally:
            self._core.ledger.end(broken=False)
            with self._mutex:
                self._state = _State.DONE
                self._mutex.notify_all()
            self._signals.put(None)

    def _stream(self) -> tuple[OpenStream | None, How, GatewayError | None]:
        """Runs one stream from connecting to its end."""
        to_gateway = channel.connect(self._core.gateways.target, self._options)
        connection = _Connection(self._new_watch())
        try:
            call = GatewayServiceStub(to_gateway).Subscribe(
                self._requests(connection), metadata=channel.metadata(self._options)
            )
            connection.call = call
            self._connection = connection
            self._signals.put(None)
            error: GatewayError | None = None
            try:
                for message in call:
                    self._receive(connection, message)
            except grpc.RpcError as raised:
                error = GatewayError.from_rpc(raised)
            except GatewayError as raised:
                error = raised
            return self._how(connection, error, closing=self._stopping.is_set())
        finally:
            self._connection = None
            connection.over = True
            connection.wake.set()
            connection.fail(None)
            to_gateway.close()

    def _receive(self, connection: _Connection, message: SubscribeResponse) -> None:
        connection.watch.heard(time.monotonic())
        if connection.stream is None:
            self._opened(connection, message, closing=self._stopping.is_set())
            with self._mutex:
                self._mutex.notify_all()
            connection.wake.set()
            self._signals.put(None)
            return
        batch = connection.stream.receive(message)
        if batch is None:
            return
        with self._mutex:
            # Full only if the gateway exceeds the credit; HTTP/2 then holds it back.
            while self._inbox.is_full and self._state is _State.RUNNING:
                self._mutex.wait()
            if self._state is _State.RUNNING:
                self._inbox.put(batch)
                self._mutex.notify_all()
                return
        batch.release()

    # What is sent; the library's thread takes it, as fast as the transport does.

    def _requests(self, connection: _Connection) -> Iterator[SubscribeRequest]:
        yield self._core.opening()
        until: float | None = None
        while not connection.over:
            stream = connection.stream
            readiness = stream.readiness() if stream is not None else Readiness.EMPTY
            if readiness is Readiness.ENDED:
                return
            now = time.monotonic()
            if readiness is Readiness.SOON and until is None:
                until = now + self._options.flush_interval
            due = readiness is Readiness.SOON and until is not None and now >= until
            if stream is None or (readiness is not Readiness.NOW and not due):
                if self._core.ledger.is_confirming:
                    self._signals.put(None)
                wait = until - now if until is not None else None
                connection.wake.wait(wait)
                connection.wake.clear()
                continue
            until = None
            for outgoing in stream.outgoing():
                # Before it is handed over: the library may not come back once the stream ends.
                stream.sent(outgoing)
                last = outgoing.request.HasField("close")
                if last:
                    connection.watch.said_goodbye(time.monotonic())
                    self._signals.put(None)
                yield outgoing.request
                if last:
                    return

    def _wake(self) -> None:
        connection = self._connection
        if connection is not None:
            connection.wake.set()

    # The thread that keeps the time.

    def _clock(self) -> None:
        due: float | None = None
        while self._state is not _State.DONE:
            wait = None if due is None else max(0.0, due - time.monotonic())
            try:
                grace = self._signals.get(timeout=wait)
            except queue.Empty:
                grace = None
            now = time.monotonic()
            if grace is not None:
                self._begin_stop(now + grace)
            due = self._due(self._connection, now, closing=self._stopping.is_set())

    def _begin_stop(self, until: float) -> None:
        """Takes no more records and gives back what was not begun."""
        with self._mutex:
            if self._state is _State.DONE:
                return
            first = self._state is _State.RUNNING
            self._state = _State.STOPPING
            self._stopping.set()
            self._begin_close(until, first=first)
            self._mutex.notify_all()
