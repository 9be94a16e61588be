"""Runs a subscription as its records say, and prints what happens."""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
import time

from ackgate import Delivery, GatewayError, OptionError, Stats, Subscriber, cli
from ackgate_conformance import loop
from ackgate_conformance.lines import Lines
from ackgate_conformance.work import work


def main() -> int:
    """Returns the exit code: 0 closed, 1 ended by an error, 2 a bad command line."""
    parser = cli.parser(__doc__ or "")
    parser.add_argument("--batches", action="store_true", help="take and ack whole batches")
    parser.add_argument("--asyncio", action="store_true", help="the same with asyncio")
    arguments = parser.parse_args()
    lines = Lines(batches=arguments.batches)
    try:
        if arguments.asyncio:
            stats = asyncio.run(loop.run(arguments, lines))
        else:
            stats = _threads(arguments, lines)
    except (OptionError, OSError) as error:
        print(error, file=sys.stderr)
        return 2
    except GatewayError as error:
        lines.error(error)
        return 1
    lines.closed(stats)
    return 0


def _threads(arguments: argparse.Namespace, lines: Lines) -> Stats:
    options = cli.options(arguments)
    subscriber = Subscriber(
        arguments.address, arguments.subscription, options, on_event=lines.on_event
    )

    def on_signal(_number: int, _frame: object) -> None:
        if on_signal.__dict__.setdefault("seen", False):
            os._exit(130)
        on_signal.__dict__["seen"] = True
        subscriber.stop()

    signal.signal(signal.SIGTERM, on_signal)
    signal.signal(signal.SIGINT, on_signal)

    def handle(delivery: Delivery) -> None:
        lines.delivery(delivery)
        time.sleep(work(delivery).seconds)

    if not arguments.batches:
        return subscriber.run(handle, concurrency=arguments.concurrency)
    with subscriber:
        for batch in subscriber.batches():
            lines.batch(batch)
            batch.ack()
        return subscriber.close()


if __name__ == "__main__":
    sys.exit(main())
