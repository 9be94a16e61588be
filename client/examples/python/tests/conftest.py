"""A gateway for each test, and a subscriber of either kind that runs a handler against it."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from gateway import DEADLINE, Gateway

from ackgate import Delivery, Event, Options, Stats, Subscriber, aio

Handler = Callable[[Delivery], float | threading.Event | None]
"""Returns how long to work, in seconds, or until when."""


class Running:
    """A subscriber with its handler, in a thread of its own."""

    def __init__(
        self,
        kind: str,
        address: str | list[str],
        handler: Handler,
        options: Options,
        concurrency: int,
    ) -> None:
        self.events: list[Event] = []
        self.error: BaseException | None = None
        self.stats: Stats | None = None
        self._handler = handler
        self._concurrency = concurrency
        self._subscriber = Subscriber(address, "orders", options, self.events.append)
        self._ready = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._aio: aio.Subscriber | None = None
        target = self._threads if kind == "threads" else lambda: asyncio.run(self._asyncio())
        self._address, self._options = address, options
        self._thread = threading.Thread(target=self._guard, args=(target,), name="test-run")
        self._thread.start()
        assert self._ready.wait(DEADLINE)

    def _guard(self, target: Callable[[], None]) -> None:
        try:
            target()
        except BaseException as error:  # the test looks at it
            self.error = error

    def _threads(self) -> None:
        self._ready.set()

        def handle(delivery: Delivery) -> None:
            work = self._handler(delivery) or 0.0
            if isinstance(work, threading.Event):
                work.wait(DEADLINE)
            else:
                time.sleep(work)

        self.stats = self._subscriber.run(handle, concurrency=self._concurrency, grace=5.0)

    async def _asyncio(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._aio = aio.Subscriber(self._address, "orders", self._options, self.events.append)
        self._ready.set()

        async def handle(delivery: Delivery) -> None:
            work = self._handler(delivery) or 0.0
            if isinstance(work, threading.Event):
                await asyncio.to_thread(work.wait, DEADLINE)
            else:
                await asyncio.sleep(work)

        self.stats = await self._aio.run(handle, concurrency=self._concurrency, grace=5.0)
        left = asyncio.all_tasks() - {asyncio.current_task()}
        assert not [task for task in left if task.get_name().startswith("ackgate")]

    def stop(self, grace: float = 5.0) -> None:
        """Asks it to close."""
        if self._loop is not None and self._aio is not None:
            with contextlib.suppress(RuntimeError):  # its loop is over
                self._loop.call_soon_threadsafe(self._aio.stop, grace)
        else:
            self._subscriber.stop(grace)

    def join(self) -> Stats:
        """Waits for its end; raises what it raised."""
        self._thread.join(DEADLINE)
        assert not self._thread.is_alive()
        if self.error is not None:
            raise self.error
        assert self.stats is not None
        return self.stats

    def of(self, kind: type) -> list[Event]:
        """The events of a kind."""
        return [event for event in list(self.events) if isinstance(event, kind)]


@pytest.fixture
def gateway() -> Iterator[Gateway]:
    fake = Gateway()
    yield fake
    fake.stop()


@pytest.fixture(params=["threads", "asyncio"])
def run(request: pytest.FixtureRequest, gateway: Gateway) -> Iterator[Callable[..., Running]]:
    started: list[Running] = []

    def start(
        handler: Handler,
        options: Options | None = None,
        concurrency: int = 4,
        address: str | list[str] = "",
    ) -> Running:
        options = options or Options()
        # Few of the tests answer the goodbye.
        if options.close_timeout == Options().close_timeout:
            options = replace(options, close_timeout=1.0)
        running = Running(request.param, address or gateway.address, handler, options, concurrency)
        started.append(running)
        return running

    yield start
    for running in started:
        running.stop(0.0)
        running._thread.join(DEADLINE)


def eventually(holds: Callable[[], object]) -> None:
    """Waits until it holds."""
    end = time.monotonic() + DEADLINE
    while not holds():
        assert time.monotonic() < end, f"it did not come to hold; threads: {ours()}"
        time.sleep(0.01)


def throughout(holds: Callable[[], object]) -> None:
    """Looks for a while whether it goes on to hold."""
    end = time.monotonic() + 0.2
    while time.monotonic() < end:
        assert holds()
        time.sleep(0.01)


def ours() -> list[str]:
    """Threads of subscribers, and those that the library has for them."""
    names = [thread.name for thread in threading.enumerate()]
    return [name for name in names if name.startswith("ackgate") or name.endswith("(_run)")]
