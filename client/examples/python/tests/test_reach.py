"""Which gateway is reached, and what is said of those that are not."""

from __future__ import annotations

import socket
import threading

import grpc
import pytest
from certificates import Authority
from conftest import eventually
from gateway import Gateway

from ackgate import (
    Disconnected,
    GatewayError,
    Options,
    Outgoing,
    Tls,
    TlsError,
    publish,
)
from ackgate.v1 import gateway_pb2
from ackgate.v1.gateway_pb2 import Drain, SubscribeResponse

PATIENT = Options(retries=2, open_timeout=5.0)


@pytest.fixture
def authority(tmp_path):
    return Authority(tmp_path)


@pytest.fixture
def serve():
    served = []

    def start(credentials=None):
        served.append(Gateway(credentials))
        return served[-1]

    yield start
    for one in served:
        one.stop()


def free():
    """A port where nobody listens."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        return bound.getsockname()[1]


def with_tls(**tls):
    return Options(retries=2, open_timeout=5.0, tls=Tls(**tls))


@pytest.mark.parametrize(
    ("tls", "advice"),
    [
        ({"ca": "other", "server_name": "gateway.test"}, "no authority that is trusted"),
        ({"ca": "own", "server_name": "else.test"}, "not for this name"),
    ],
)
def test_certificate_that_does_not_fit_ends_it(run, serve, authority, tmp_path, tls, advice):
    gateway = serve(authority.server())
    other = Authority(tmp_path, "other").pem
    fitting = {**tls, "ca": {"own": authority.pem, "other": other}[tls["ca"]]}
    running = run(lambda _: None, with_tls(**fitting), address=f"https://{gateway.address}")
    with pytest.raises(TlsError, match=advice) as told:
        running.join()
    assert not told.value.retryable
    assert told.value.address == f"https://{gateway.address}"
    assert gateway.address in str(told.value)
    assert not running.of(Disconnected), "it tried again"


def test_tls_to_a_plain_port_ends_it(run, gateway, authority):
    running = run(lambda _: None, with_tls(ca=authority.pem), address=f"https://{gateway.address}")
    with pytest.raises(TlsError, match="does not speak TLS: use http://"):
        running.join()
    assert not running.of(Disconnected)


def test_plain_text_to_a_tls_port_says_what_is_probably_wrong(run, serve, authority):
    gateway = serve(authority.server())
    running = run(lambda _: None, PATIENT, address=gateway.address)
    with pytest.raises(GatewayError, match="address begins with https://"):
        running.join()
    # It may as well be a gateway that goes down.
    assert len(running.of(Disconnected)) == 2


def test_missing_certificate_says_what_is_wanted(run, serve, authority):
    gateway = serve(authority.server(clients=True))
    options = with_tls(ca=authority.pem, server_name="gateway.test")
    running = run(lambda _: None, options, address=f"https://{gateway.address}")
    with pytest.raises(GatewayError, match="certificate of this side"):
        running.join()


def test_nobody_there_is_tried_again(run, authority):
    options = with_tls(ca=authority.pem)
    running = run(lambda _: None, options, address=f"https://127.0.0.1:{free()}")
    with pytest.raises(GatewayError, match="refused") as told:
        running.join()
    assert not isinstance(told.value, TlsError)
    assert len(running.of(Disconnected)) == 2


def test_publishing_says_it_too(serve, authority):
    gateway = serve(authority.server())
    options = with_tls(ca=authority.pem, server_name="else.test")
    with pytest.raises(TlsError):
        publish(f"https://{gateway.address}", [Outgoing("orders", b"")], options)


def test_next_address_is_tried_and_comes_back(run, serve):
    nobody, first, second = f"127.0.0.1:{free()}", serve(), serve()
    running = run(lambda _: None, address=[nobody, first.address, second.address])
    stream = first.next()
    stream.opened()
    assert running.of(Disconnected)[0].error.address == nobody
    stream.end(grpc.StatusCode.UNAVAILABLE)
    # It cannot be gone on with: no token was given.
    stream = second.next()
    stream.opened()
    stream.batch(0)
    stream.next("settle")
    running.stop()
    stream.next("close")
    stream.end()
    assert running.join().acked == 1


def test_what_is_in_hand_is_asked_for_where_it_came_from(run, serve):
    first, second, go_on = serve(), serve(), threading.Event()
    running = run(lambda _: go_on, address=[first.address, second.address])
    stream = first.next()
    stream.opened(resume_token="here")
    stream.batch(0)
    eventually(lambda: running._subscriber.stats().records or running.of(object))
    stream.end(grpc.StatusCode.UNAVAILABLE)
    again = first.next()
    assert again.next("open").resume.token == "here"
    # It is not there any more.
    again.end(grpc.StatusCode.UNAVAILABLE)
    stream = second.next()
    stream.opened()
    go_on.set()


def test_gateway_that_stops_is_left_and_an_old_connection_is_not(run, serve):
    first, second = serve(), serve()
    running = run(lambda _: None, address=[first.address, second.address])
    for gateway, reason in (
        (first, gateway_pb2.DRAIN_REASON_CONNECTION_AGE),
        (first, gateway_pb2.DRAIN_REASON_GATEWAY_STOPS),
        (second, gateway_pb2.DRAIN_REASON_GATEWAY_STOPS),
    ):
        stream = gateway.next()
        stream.opened()
        stream.send(SubscribeResponse(drain=Drain(reason=reason)))
        stream.next("close")
        stream.end()
    first.next().opened()
    running.stop(0.0)


def test_refusal_ends_it_once_every_address_refuses(run, serve):
    first, second = serve(), serve()
    running = run(lambda _: None, address=[first.address, second.address])
    first.next().end(grpc.StatusCode.NOT_FOUND, "UNKNOWN_SUBSCRIPTION")
    second.next().end(grpc.StatusCode.PERMISSION_DENIED)
    with pytest.raises(GatewayError) as told:
        running.join()
    assert (told.value.code, told.value.address) == ("PERMISSION_DENIED", second.address)


def test_superseded_does_not_go_elsewhere(run, serve):
    first, second = serve(), serve()
    running = run(lambda _: None, address=[first.address, second.address])
    stream = first.next()
    stream.opened()
    stream.end(grpc.StatusCode.ABORTED, "SUPERSEDED")
    with pytest.raises(GatewayError, match="SUPERSEDED"):
        running.join()
