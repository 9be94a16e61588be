"""Prints every record of a subscription and acks it. Ctrl-C stops it.

Refuses what is not UTF-8 for good, to show how: such records become dead letters.
"""

from __future__ import annotations

import signal
import sys

from ackgate import (
    Delivery,
    Disconnected,
    Event,
    GatewayError,
    Opened,
    OptionError,
    Reject,
    Subscriber,
    cli,
)


def show(delivery: Delivery) -> None:
    """Prints one record. To return is to ack."""
    key, value = delivery.key, delivery.value
    name = "<null>" if key is None else key.decode("utf-8", errors="replace")
    try:
        text = "<null>" if value is None else value.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Reject("not-utf-8", str(error)) from error
    # Handlers run side by side: a line is one write, its end included.
    line = f"{delivery.topic}/{delivery.partition}@{delivery.offset} {name} {text}\n"
    print(line, end="", flush=True)


def tell(event: Event) -> None:
    """Says on standard error whether there is a stream, and why not."""
    if isinstance(event, Opened):
        print(f"subscribed as {event.subscriber_id}", file=sys.stderr, flush=True)
    elif isinstance(event, Disconnected):
        print(f"{event.error}; again in {event.retry_in:.1f} s", file=sys.stderr, flush=True)


def main() -> int:
    """Returns the exit code."""
    arguments = cli.parser(__doc__ or "").parse_args()
    try:
        options = cli.options(arguments)
        subscriber = Subscriber(arguments.address, arguments.subscription, options, tell)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: subscriber.stop())
        stats = subscriber.run(show, concurrency=arguments.concurrency)
    except (OptionError, OSError) as error:
        print(error, file=sys.stderr)
        return 2
    except GatewayError as error:
        print(error, file=sys.stderr)
        return 1
    print(f"{stats.records} records, {stats.acked} acked, {stats.rejected} rejected")
    return 0


if __name__ == "__main__":
    sys.exit(main())
