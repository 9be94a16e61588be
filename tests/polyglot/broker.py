"""Apache Kafka for the run, and what a case does with it: topics, records, committed offsets.

Everything here speaks to the broker itself, never through a gateway: what a gateway and a
program say about commits and dead letters is compared with what Kafka has.
"""

import dataclasses
import os
import threading
import time

import confluent_kafka as kafka
from confluent_kafka import admin

import ports
import processes

# Large records are a case of their own.
MAX_MESSAGE_BYTES = 32 * 1024 * 1024


@dataclasses.dataclass(frozen=True)
class Record:
    """A record to write. Nothing and empty differ in key, value and headers' values."""

    value: bytes | None = b""
    key: bytes | None = None
    headers: tuple = ()
    partition: int | None = None
    timestamp_ms: int = 0

    def told(self, what):
        """The same with the header that tells the handler what to do."""
        return dataclasses.replace(
            self, headers=(*self.headers, ("conformance-do", what.encode()))
        )


@dataclasses.dataclass(frozen=True)
class Seen:
    """A record as it lies in a topic."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: tuple

    def header(self, name):
        """The text of the only header of a name; nothing if there is none."""
        found = [value for key, value in self.headers if key == name]
        assert len(found) <= 1, f"{name} stands {len(found)} times"
        return found[0].decode() if found else None

    def told(self, name):
        """The text of a header that the gateway adds to dead letters."""
        return self.header("ackgate.dead-letter." + name)


class Broker:
    """One Apache Kafka on loopback, with clients of the run's own."""

    def __init__(self, root):
        port, controller = ports.free(), ports.free()
        env = dict(
            os.environ,
            ACKGATE_KAFKA_PORT=str(port),
            ACKGATE_KAFKA_CONTROLLER_PORT=str(controller),
        )
        self.address = f"127.0.0.1:{port}"
        # The pipe closes when the runner ends, however that ends, and the broker with it.
        self._life, theirs = os.pipe()[::-1]
        self.process = processes.Process(
            "Apache Kafka",
            [root / "tests/kafka/broker.sh", "run", "--until-stdin-closes"],
            env=env,
            stdin=theirs,
        )
        os.close(theirs)
        # The first time Kafka's jars are fetched.
        self.process.wait(
            "the broker is ready",
            lambda: any(line.startswith("ready ") for line in self.process.tail),
            within=300,
        )
        common = {"bootstrap.servers": self.address, "log_level": 0}
        self._admin = admin.AdminClient(common)
        # Idempotent, or a batch that is tried again comes after those behind it.
        settings = {"message.max.bytes": MAX_MESSAGE_BYTES, "linger.ms": 2}
        self._producer = kafka.Producer(common | settings | {"enable.idempotence": True})
        self._common = common
        self._writing = threading.Lock()

    def stop(self):
        """Ends the broker; its data goes with it."""
        os.close(self._life)
        self.process.end(30)

    def create(self, topic, partitions, config):
        new = admin.NewTopic(topic, partitions, 1, config=config)
        for made in self._admin.create_topics([new], request_timeout=20).values():
            made.result()
        # Known to the controller first, to who asks the broker a moment later.
        deadline = time.monotonic() + 20
        while True:
            known = self._admin.list_topics(topic, timeout=10).topics[topic]
            ready = [p for p in known.partitions.values() if p.leader >= 0]
            if known.error is None and len(ready) == partitions:
                return
            assert time.monotonic() < deadline, f"{topic} has no leaders: {known.error}"
            time.sleep(0.05)

    def write(self, topic, records):
        """Writes records and returns (partition, offset) of each, in order."""
        written = [None] * len(records)

        def report(at, error, message):
            written[at] = error or (message.partition(), message.offset())

        # One case at a time, so that a flush ends.
        with self._writing:
            for at, record in enumerate(records):
                chosen = {} if record.partition is None else {"partition": record.partition}
                self._producer.produce(
                    topic,
                    value=record.value,
                    key=record.key,
                    headers=list(record.headers),
                    timestamp=record.timestamp_ms,
                    on_delivery=lambda error, message, at=at: report(at, error, message),
                    **chosen,
                )
                if at % 1000 == 0:
                    self._producer.poll(0)
            left = self._producer.flush(60)
        assert left == 0, f"{left} records were not written to {topic}"
        refused = [one for one in written if not isinstance(one, tuple)]
        assert not refused, f"Kafka refused records: {refused[0]}"
        return written

    def ends(self, topic):
        """The log end of each partition."""
        partitions = self._admin.list_topics(topic, timeout=10).topics[topic].partitions
        asked = {
            kafka.TopicPartition(topic, number): admin.OffsetSpec.latest()
            for number in partitions
        }
        found = self._admin.list_offsets(asked, request_timeout=20)
        return {one.partition: answer.result().offset for one, answer in found.items()}

    def committed(self, group, topic):
        """The committed position of each partition that has one."""
        asked = [kafka.ConsumerGroupTopicPartitions(group)]
        (answer,) = self._admin.list_consumer_group_offsets(asked, request_timeout=20).values()
        found = answer.result().topic_partitions
        return {one.partition: one.offset for one in found if one.topic == topic}

    def read(self, topic, count, within=20):
        """The first `count` records of a topic, once they are there."""
        settings = {
            "group.id": "unused",
            "enable.auto.commit": False,
            "fetch.message.max.bytes": MAX_MESSAGE_BYTES,
        }
        consumer = kafka.Consumer(self._common | settings)
        try:
            ends = self.ends(topic)
            consumer.assign([kafka.TopicPartition(topic, number, 0) for number in ends])
            found, deadline = [], time.monotonic() + within
            while len(found) < count:
                assert time.monotonic() < deadline, f"{topic} has {len(found)} of {count} records"
                message = consumer.poll(0.2)
                if message is None:
                    continue
                assert message.error() is None, f"{topic}: {message.error()}"
                found.append(
                    Seen(
                        message.partition(),
                        message.offset(),
                        message.key(),
                        message.value(),
                        tuple(message.headers() or ()),
                    )
                )
            return found
        finally:
            consumer.close()
