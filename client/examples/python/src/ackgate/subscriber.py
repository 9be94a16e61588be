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
from typing import TypeVar

import grpc

from ackgate import channel
from ackgate.core import Core, How, OpenStream, new_core
from ackgate.delivery import Batch, Delivery
from ackgate.errors import AckgateError, GatewayError, NotClosed
from ackgate.events import Observer, Stats
from ackgate.inbox import Inbox
from ackgate.ledger import Phase, Readiness
from ackgate.options import Options
from ackgate.v1.gateway_pb2 import SubscribeRequest, SubscribeResponse
from ackgate.v1.gateway_pb2_grpc import GatewayServiceStub
from ackgate.watch import Watch

GRACE = 10.0
"""How long handlers may take to finish once the end is wished for, in seconds."""

_SLACK = 5.0

_Taken = TypeVar("_Taken", Batch, Delivery)


class _State(Enum):
    NEW = 0
    RUNNING = 1
    STOPPING = 2
    DONE = 3


class _Connection:
    """One call, as the threads share it."""

    def __init__(self, watch: Watch) -> None:
        self.call: grpc.Call | None = None
        self.stream: OpenStream | None = None
        self.watch = watch
        # Set when there may be something to send.
        self.wake = threading.Event()
        self.over = False
        self.failure: GatewayError | None = None

    def fail(self, error: GatewayError | None) -> None:
        """Ends the call from this side."""
        self.failure = self.failure or error
        if self.call is not None:
            self.call.cancel()


class Subscriber:
    """A subscription: iterate over its deliveries, or over `batches`, or `run` a handler.

    Connects in the background, and anew after every error that trying again can help.
    An error that it cannot help is raised where deliveries are awaited.

        with Subscriber("127.0.0.1:7654", "orders") as subscriber:
            for delivery in subscriber:
                print(delivery.value)
                delivery.ack()
    """

    def __init__(
        self,
        address: str,
        subscription: str = "",
        options: Options | None = None,
        on_event: Observer | None = None,
    ) -> None:
        """Checks the options; connects when it is entered, iterated or run."""
        self._options = options or Options()
        self._address = address
        channel.target(address, self._options.tls)
        self._core: Core = new_core(subscription, self._options, on_event, self._wake)
        self._mutex = threading.Condition()
        self._state = _State.NEW
        self._inbox = Inbox(self._core.counters, self._options.credit)
        self._error: BaseException | None = None
        self._working = 0
        self._extends = False
        self._connection: _Connection | None = None
        # Safe to put into from a signal handler, unlike all that has a lock.
        self._signals: queue.SimpleQueue[float | None] = queue.SimpleQueue()
        self._stop_until: float | None = None
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
        limit = grace + self._options.open_timeout + self._options.close_timeout + _SLACK
        end = time.monotonic() + limit
        for thread in self._threads:
            thread.join(max(0.0, end - time.monotonic()))
            if thread.is_alive():
                raise NotClosed(limit)
        self._raise()
        return self.stats()

    def stats(self) -> Stats:
        """The counts so far."""
        return self._core.counters.snapshot()

    @property
    def subscriber_id(self) -> str:
        """The subscriber's name, given or made by the gateway."""
        return self._core.subscriber_id

    @property
    def session(self) -> str:
        """Name of the latest stream, as the gateway's logs have it."""
        return self._core.session

    # What the program takes.

    def _take(self, take: Callable[[], _Taken | None]) -> _Taken | None:
        """Waits for what `take` returns; None at the end."""
        with self._mutex:
            while self._state is _State.RUNNING:
                # What a broken stream brought counts only if the next one keeps it.
                if self._core.ledger.phase is not Phase.BROKEN:
                    was_full = self._inbox.is_full
                    taken = take()
                    if was_full:
                        self._mutex.notify_all()
                    if taken is not None:
                        return taken
                self._mutex.wait()
        return None

    def _raise(self) -> None:
        """Raises what ended the subscriber, once."""
        error, self._error = self._error, None
        if error is not None:
            raise error

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
        to_gateway = channel.connect(self._address, self._options)
        watch = Watch(self._options, self._core.ledger, time.monotonic())
        connection = _Connection(watch)
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
                error = connection.failure or GatewayError.from_rpc(raised)
            except GatewayError as raised:
                error = raised
            return (
                connection.stream,
                *self._core.how(connection.stream, error, closing=self._stopping.is_set()),
            )
        finally:
            self._connection = None
            connection.over = True
            connection.wake.set()
            connection.fail(None)
            to_gateway.close()

    def _receive(self, connection: _Connection, message: SubscribeResponse) -> None:
        now = time.monotonic()
        connection.watch.heard(now)
        if connection.stream is None:
            stream = self._core.opened(message, now)
            connection.watch.opened(stream, now)
            connection.stream = stream
            if self._stopping.is_set():
                self._core.ledger.drain()
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
                wait = until - now if until is not None else None
                connection.wake.wait(wait)
                connection.wake.clear()
                continue
            until = None
            for outgoing in stream.outgoing():
                yield outgoing.request
                stream.sent(outgoing)
                if outgoing.request.HasField("close"):
                    connection.watch.said_goodbye(time.monotonic())
                    self._signals.put(None)
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
            due = self._tick(now)

    def _tick(self, now: float) -> float | None:
        """Does what is due; returns when to look again."""
        connection, ledger = self._connection, self._core.ledger
        due: float | None = None
        if self._stop_until is not None and not ledger.closing:
            due = self._stop_until
            if now >= due:
                ledger.close()
                due = None
        if connection is None:
            return due
        if connection.stream is None and self._stopping.is_set():
            connection.fail(None)
            return due
        at, failure = connection.watch.tick(now, extends=self._extends)
        if failure is not None:
            connection.fail(failure)
            return due
        return at if due is None else min(at, due)

    def _begin_stop(self, until: float) -> None:
        """Takes no more records and gives back what was not begun."""
        with self._mutex:
            if self._state is _State.DONE:
                return
            first = self._state is _State.RUNNING
            self._state = _State.STOPPING
            self._stop_until = until if first else min(until, self._stop_until or until)
            self._stopping.set()
            if first:
                # First the credit, so that nothing comes in place of what is given back.
                self._core.ledger.credit(0, 0)
                self._inbox.give_back()
                self._core.ledger.drain()
            self._mutex.notify_all()
