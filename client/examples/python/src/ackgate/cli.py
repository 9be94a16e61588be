"""The command line that the programs share: where the gateway is, and how it is reached."""

from __future__ import annotations

import argparse
from pathlib import Path

from ackgate.errors import OptionError
from ackgate.options import Options, Tls


def parser(description: str) -> argparse.ArgumentParser:
    """A parser with the options of every program."""
    result = argparse.ArgumentParser(description=description)
    result.add_argument(
        "--address",
        type=lambda text: text.split(","),
        default=["127.0.0.1:7654"],
        metavar="A[,B...]",
        help="tried in turn [default: 127.0.0.1:7654]",
    )
    result.add_argument("--subscription", default="orders", help="[default: %(default)s]")
    result.add_argument("--subscriber-id", default="", metavar="NAME")
    result.add_argument("--credit", type=int, default=64, metavar="N", help="[default: 64]")
    result.add_argument("--concurrency", type=int, default=8, metavar="N", help="[default: 8]")
    result.add_argument("--max-message-bytes", type=int, default=4 << 20, metavar="N")
    result.add_argument("--ack-deadline", type=int, metavar="MS")
    result.add_argument("--until-drained", action="store_true")
    result.add_argument("--tls-ca", metavar="FILE", help="PEM of who vouches for the gateway")
    result.add_argument("--tls-cert", metavar="FILE", help="PEM to show to the gateway")
    result.add_argument("--tls-key", metavar="FILE", help="PEM of its key")
    result.add_argument("--tls-server-name", default="", metavar="NAME")
    result.add_argument("--token-file", metavar="FILE")
    return result


def options(arguments: argparse.Namespace) -> Options:
    """The options that were given. Raises `OptionError` or `OSError`."""
    if arguments.concurrency < 1:
        raise OptionError("concurrency", f"{arguments.concurrency} is not 1 or more")
    tls: Tls | None = None
    files = (arguments.tls_ca, arguments.tls_cert, arguments.tls_key)
    if any(files) or arguments.tls_server_name:
        tls = Tls.from_files(*files, arguments.tls_server_name)
    token = Path(arguments.token_file).read_text("utf-8").strip() if arguments.token_file else ""
    deadline = arguments.ack_deadline
    return Options(
        subscriber_id=arguments.subscriber_id,
        credit=arguments.credit,
        max_message_bytes=arguments.max_message_bytes,
        ack_deadline=None if deadline is None else deadline / 1_000,
        until_drained=arguments.until_drained,
        tls=tls,
        token=token,
    )
