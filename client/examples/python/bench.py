"""Measures how many records a second one subscriber takes and acks, in whole batches.

First writes them (`--fill TOPIC`), through the gateway, which must allow that; then reads until
that many were acked and the gateway has taken the goodbye. The subscription's group must not have
read them yet.
"""

from __future__ import annotations

import asyncio
import cProfile
import pstats
import resource
import sys
import time

from ackgate import BatchOptions, Options, Outgoing, Stats, Subscriber, aio, cli, publish

CALL = 10_000


def fill(address: str, topic: str, records: int, size: int, partitions: int) -> None:
    """Writes the records, spread evenly."""
    value = bytes(index % 251 for index in range(size))
    for first in range(0, records, CALL):
        some = range(first, min(first + CALL, records))
        spread = [Outgoing(topic, value, partition=index % partitions) for index in some]
        lost = [result for result in publish(address, spread) if result.error]
        if lost:
            raise SystemExit(f"not written: {lost[0]}")


def each(address: str, subscription: str, options: Options, records: int) -> Stats:
    """Takes, looks at and acks each by itself."""
    seen = 0
    with Subscriber(address, subscription, options) as subscriber:
        for delivery in subscriber:
            if delivery.value is not None:
                seen += 1
            delivery.ack()
            if seen >= records:
                break
        return subscriber.close()


def threads(address: str, subscription: str, options: Options, records: int) -> Stats:
    """Takes and acks them."""
    seen = 0
    with Subscriber(address, subscription, options) as subscriber:
        for batch in subscriber.batches():
            seen += len(batch)
            batch.ack()
            if seen >= records:
                break
        return subscriber.close()


async def loop(address: str, subscription: str, options: Options, records: int) -> Stats:
    """The same with asyncio."""
    seen = 0
    async with aio.Subscriber(address, subscription, options) as subscriber:
        async for batch in subscriber.batches():
            seen += len(batch)
            batch.ack()
            if seen >= records:
                break
        return await subscriber.close()


def main() -> int:
    """Prints one line for each run."""
    parser = cli.parser(__doc__ or "")
    parser.set_defaults(credit=16_384, subscription="bench")
    parser.add_argument("--records", type=int, default=1_000_000, metavar="N")
    parser.add_argument("--size", type=int, default=128, help="bytes of each value")
    parser.add_argument("--fill", metavar="TOPIC", help="write the records first")
    parser.add_argument("--partitions", type=int, default=4, help="of that topic")
    parser.add_argument("--batch-records", type=int, default=0, metavar="N")
    parser.add_argument("--asyncio", action="store_true")
    parser.add_argument("--each", action="store_true", help="ack each record by itself")
    parser.add_argument("--profile", action="store_true", help="show where the time goes")
    arguments = parser.parse_args()
    given = cli.options(arguments)
    options = Options(
        credit=given.credit,
        max_message_bytes=given.max_message_bytes,
        batch=BatchOptions(max_records=arguments.batch_records),
        flush_records=8_192,
        tls=given.tls,
        token=given.token,
    )
    to = (arguments.address, arguments.subscription, options, arguments.records)
    if arguments.fill:
        began = time.monotonic()
        fill(
            arguments.address,
            arguments.fill,
            arguments.records,
            arguments.size,
            arguments.partitions,
        )
        took = time.monotonic() - began
        print(f"written {arguments.records / took:,.0f} records/s in {took:.1f} s", flush=True)
    profile = cProfile.Profile()
    began, before = time.monotonic(), resource.getrusage(resource.RUSAGE_SELF)
    if arguments.profile:
        profile.enable()
    if arguments.asyncio:
        stats = asyncio.run(loop(*to))
    else:
        stats = each(*to) if arguments.each else threads(*to)
    profile.disable()
    took, after = time.monotonic() - began, resource.getrusage(resource.RUSAGE_SELF)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(
        f"{stats.acked / took:,.0f} records/s: {stats.acked:,} acked in {took:.1f} s, from"
        f" connecting to the end of the stream; {stats.records / max(stats.batches, 1):,.0f}"
        f" records a batch; {cpu:.1f} s of CPU here"
    )
    if arguments.profile:
        pstats.Stats(profile).sort_stats("tottime").print_stats(15)
    return 0


if __name__ == "__main__":
    sys.exit(main())
