"""The conformance program with asyncio."""

from __future__ import annotations

import argparse
import asyncio
import os
import signal

from ackgate import Delivery, Stats, aio, cli
from ackgate_conformance.lines import Lines
from ackgate_conformance.work import work


async def run(arguments: argparse.Namespace, lines: Lines) -> Stats:
    """Runs the subscription until it is stopped."""
    subscriber = aio.Subscriber(
        arguments.address, arguments.subscription, cli.options(arguments), lines.on_event
    )
    signalled = asyncio.Event()

    def on_signal() -> None:
        if signalled.is_set():
            os._exit(130)
        signalled.set()
        subscriber.stop()

    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, on_signal)

    async def handle(delivery: Delivery) -> None:
        lines.delivery(delivery)
        await asyncio.sleep(work(delivery).seconds)

    if not arguments.batches:
        return await subscriber.run(handle, concurrency=arguments.concurrency)
    async with subscriber:
        async for batch in subscriber.batches():
            lines.batch(batch)
            batch.ack()
        return await subscriber.close()
