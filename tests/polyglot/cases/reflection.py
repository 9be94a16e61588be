"""Cases that the runner does by itself: what any tool finds out without the proto files."""

import contextlib
import queue
import threading
import time

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

import reflected
from broker import Record
from cases import runner_case
from stage import eventually

GATEWAY = "ackgate.v1.GatewayService"
SERVING = health_pb2.HealthCheckResponse.SERVING


@runner_case
def reflection(stage):
    """Both versions list the services; publish, pull and settle work from what they describe."""
    topic = stage.topic()
    gateway = stage.gateway({"work": {"topics": [topic]}}, clusters__main__publish__topics=[topic])
    for version in [reflected.V1, reflected.V1ALPHA]:
        with contextlib.closing(reflected.Reflection(gateway.address, version)) as known:
            services = known.services()
            assert {GATEWAY, "grpc.health.v1.Health"} <= services, services
            assert "ackgate.v1.AdminService" not in services, "operators' calls are shown"
            _write_and_pull(stage, topic, known)


def _write_and_pull(stage, topic, known):
    value = b"by reflection \x00\xff"
    headers = [{"key": "h", "value": b""}, {"key": "h"}]
    record = {"topic": topic, "key": b"", "value": value, "headers": headers}
    (result,) = known.unary(GATEWAY, "PublishBatch", {"records": [record]}).results
    assert result.error == 0 and result.HasField("offset"), result

    wait = {"wait": {"seconds": 10}}
    asked = {"subscription": "work", "subscriber_id": "a tool", **wait}
    pulled = known.unary(GATEWAY, "Pull", asked)
    assert pulled.subscriber_id == "a tool", pulled
    (batch,) = pulled.batches
    (got,) = batch.records
    assert (got.offset, got.value) == (result.offset, value), got
    assert got.HasField("key") and got.key == b"", got
    assert [one.HasField("value") for one in got.headers] == [True, False], got

    settle = known.message("ackgate.v1.SettleRequest").DESCRIPTOR
    durable = settle.fields_by_name["confirm"].enum_type.values_by_name["CONFIRM_DURABLE"].number
    verdict = {"lane": batch.lane, "first_offset": got.offset, "outcome": 1}
    answer = known.unary(
        GATEWAY,
        "Settle",
        {"session": pulled.session, "verdicts": [verdict], "confirm": durable, "close": True},
    )
    assert not answer.answers, answer
    # Durable: it is there already.
    committed = stage.broker.committed(stage.group(), topic)
    assert committed == stage.broker.ends(topic), committed


@runner_case
def health(stage):
    """The gateway and each subscription are SERVING, also without a token; others NOT_FOUND."""
    topic = stage.topic()
    tokens = stage.file("tokens", "somebody:sha256:" + 32 * "ab" + "\n")
    gateway = stage.gateway({"work": {"topics": [topic]}}, listen__tokens_file=str(tokens))
    with grpc.insecure_channel(gateway.address) as channel:
        stub = health_pb2_grpc.HealthStub(channel)

        def is_serving(service):
            asked = health_pb2.HealthCheckRequest(service=service)
            return stub.Check(asked, timeout=10).status == SERVING

        for service in ["", GATEWAY, "subscription/work"]:
            eventually(f"{service!r} is SERVING", lambda one=service: is_serving(one))
        assert refusal(lambda: is_serving("subscription/nowhere")) == "NOT_FOUND"
        with contextlib.closing(reflected.Reflection(gateway.address)) as known:
            assert refusal(known.services) == "UNAUTHENTICATED"


def refusal(call):
    """The name of the status that a call ends with."""
    try:
        answer = call()
    except grpc.RpcError as error:
        return error.code().name
    return f"no refusal but {answer}"


@runner_case
def headers(stage):
    """FC-85: response headers come within a second, before the first message of either side."""
    topic = stage.topic()
    gateway = stage.gateway({"work": {"topics": [topic]}})
    requests = queue.SimpleQueue()
    with contextlib.closing(reflected.Reflection(gateway.address)) as known:
        asked = known.message("ackgate.v1.SubscribeRequest")
        answered = known.message("ackgate.v1.SubscribeResponse")
        # What was learned has made the connection, so the second is the stream's alone.
        call = known.channel.stream_stream(
            f"/{GATEWAY}/Subscribe",
            request_serializer=asked.SerializeToString,
            response_deserializer=answered.FromString,
        )(iter(requests.get, None), timeout=reflected.SECONDS)
        came = threading.Event()
        threading.Thread(target=lambda: (call.initial_metadata(), came.set()), daemon=True).start()
        assert came.wait(1), "no response headers within a second"
        assert call.is_active(), call
        requests.put(asked(open={"subscription": "work"}))
        opened = next(call)
        assert opened.opened.subscriber_id, opened
        stage.broker.write(topic, [Record(b"one")])
        requests.put(asked(credit={"records": 1, "bytes": 1024}))
        batch = next(one.batch for one in call if one.HasField("batch"))
        assert [one.value for one in batch.records] == [b"one"], batch
        requests.put(asked(close={}))
        began = time.monotonic()
        assert not [one for one in call if one.HasField("batch")], "it came twice"
        assert time.monotonic() - began < reflected.SECONDS, "the goodbye was not answered"
        requests.put(None)
