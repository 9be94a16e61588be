"""Channels: from a target and options to a connection, for threads and for asyncio."""

from __future__ import annotations

import os
import ssl
from pathlib import Path

import grpc
import grpc.aio

from ackgate.addresses import Target
from ackgate.options import SLACK, Options, Tls

ChannelOptions = list[tuple[str, int | str]]


def metadata(options: Options) -> tuple[tuple[str, str], ...]:
    """What every call carries."""
    return (("authorization", f"Bearer {options.token}"),) if options.token else ()


def connect(to: Target, options: Options) -> grpc.Channel:
    """A channel for threads; nothing is sent before its first call."""
    arguments = _arguments(options, to)
    if to.tls is None:
        return grpc.insecure_channel(to.authority, options=arguments)
    return grpc.secure_channel(to.authority, _credentials(to.tls), options=arguments)


def connect_aio(to: Target, options: Options) -> grpc.aio.Channel:
    """A channel for asyncio; to be called within a running loop."""
    arguments = _arguments(options, to)
    if to.tls is None:
        return grpc.aio.insecure_channel(to.authority, options=arguments)
    return grpc.aio.secure_channel(to.authority, _credentials(to.tls), options=arguments)


def _arguments(options: Options, to: Target) -> ChannelOptions:
    arguments: ChannelOptions = [
        # Each stream has a connection of its own, and the only backoff is ours.
        ("grpc.use_local_subchannel_pool", 1),
        ("grpc.enable_retries", 0),
        ("grpc.max_receive_message_length", options.max_message_bytes + SLACK),
        ("grpc.keepalive_time_ms", int(options.keepalive_interval * 1_000)),
        ("grpc.keepalive_timeout_ms", int(options.keepalive_timeout * 1_000)),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.max_pings_without_data", 0),
        # A window that stays as it is, in place of one that is measured with pings.
        ("grpc.http2.bdp_probe", 0),
        ("grpc.http2.lookahead_bytes", options.stream_window),
    ]
    if to.tls is not None and to.tls.server_name:
        arguments.append(("grpc.ssl_target_name_override", to.tls.server_name))
        arguments.append(("grpc.default_authority", to.tls.server_name))
    return arguments


def _credentials(tls: Tls) -> grpc.ChannelCredentials:
    roots = tls.ca if tls.ca is not None else _system_roots()
    return grpc.ssl_channel_credentials(roots, tls.key, tls.certificate)


def _system_roots() -> bytes | None:
    """The system's roots; None, which means those of the library, if there are none."""
    paths = ssl.get_default_verify_paths()
    known = (
        os.environ.get("SSL_CERT_FILE"),
        paths.cafile,
        paths.openssl_cafile,
        "/etc/ssl/certs/ca-certificates.crt",
        "/etc/pki/tls/certs/ca-bundle.crt",
    )
    for path in known:
        if path and Path(path).is_file():
            return Path(path).read_bytes()
    return None
