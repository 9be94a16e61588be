//! A broker as a test sees it: topics, records in, records out, committed offsets.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use ackgate::broker::kafka::embedded::{Embedded, Options};
use rdkafka::{
    ClientConfig, Message as _, Offset, TopicPartitionList,
    admin::{AdminClient, AdminOptions, NewTopic, TopicReplication},
    client::DefaultClientContext,
    consumer::{BaseConsumer, Consumer as _},
    error::KafkaError,
    message::{Header, Headers as _, OwnedHeaders},
    producer::{FutureProducer, FutureRecord, Producer as _},
};
use tokio::task::spawn_blocking;

use super::{PATIENCE, kafka::Kafka};

/// The broker of one test.
#[derive(Debug)]
pub(crate) enum Broker {
    /// librdkafka's mock cluster in this process, one for each test.
    Embedded(Embedded),
    /// Apache Kafka, one for all tests.
    Kafka(&'static Kafka),
}

/// A record to produce.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outgoing {
    /// Where to.
    pub(crate) partition: i32,
    /// `None` is Kafka's null.
    pub(crate) key: Option<Vec<u8>>,
    /// `None` is Kafka's null.
    pub(crate) value: Option<Vec<u8>>,
    /// In order, repeats kept.
    pub(crate) headers: Vec<(String, Option<Vec<u8>>)>,
    /// Milliseconds since the Unix epoch; `None`: now.
    pub(crate) timestamp: Option<i64>,
}

/// A record as it lies in a topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    /// Where it lies.
    pub(crate) partition: i32,
    /// Its offset.
    pub(crate) offset: i64,
    /// `None` is Kafka's null.
    pub(crate) key: Option<Vec<u8>>,
    /// `None` is Kafka's null.
    pub(crate) value: Option<Vec<u8>>,
    /// In order, repeats kept.
    pub(crate) headers: Vec<(String, Option<Vec<u8>>)>,
    /// Milliseconds since the Unix epoch.
    pub(crate) timestamp: Option<i64>,
}

impl Outgoing {
    /// A record with a value and nothing else.
    pub(crate) fn value(partition: i32, value: impl Into<Vec<u8>>) -> Self {
        Self {
            partition,
            value: Some(value.into()),
            ..Self::default()
        }
    }

    /// The same with a key.
    pub(crate) fn keyed(self, key: impl Into<Vec<u8>>) -> Self {
        Self {
            key: Some(key.into()),
            ..self
        }
    }
}

impl Seen {
    /// The value of the first header with this key, as text.
    pub(crate) fn header(&self, key: &str) -> Option<&str> {
        let (_, value) = self.headers.iter().find(|(name, _)| name == key)?;
        value
            .as_deref()
            .and_then(|value| std::str::from_utf8(value).ok())
    }
}

impl Broker {
    /// Starts an embedded broker.
    pub(crate) fn embedded() -> Self {
        Self::Embedded(Embedded::start(Options::default()).expect("the embedded broker starts"))
    }

    /// Takes the run's Apache Kafka.
    pub(crate) fn kafka() -> Self {
        Self::Kafka(Kafka::shared())
    }

    /// Starts an Apache Kafka of the test's own, to be stopped and killed at will.
    pub(crate) fn own_kafka() -> Self {
        Self::Kafka(Kafka::own())
    }

    /// `host:port` of the first brokers to ask.
    pub(crate) fn bootstrap(&self) -> String {
        match self {
            Self::Embedded(embedded) => embedded.bootstrap(),
            Self::Kafka(kafka) => kafka.bootstrap().to_owned(),
        }
    }

    /// The embedded broker, in tests that inject its faults.
    pub(crate) fn faults(&self) -> &Embedded {
        match self {
            Self::Embedded(embedded) => embedded,
            Self::Kafka(_) => panic!("only the embedded broker has faults to inject"),
        }
    }

    /// Apache Kafka, in tests that use its own tools.
    pub(crate) fn tools(&self) -> &'static Kafka {
        match self {
            Self::Embedded(_) => panic!("the embedded broker has no tools"),
            Self::Kafka(kafka) => kafka,
        }
    }

    /// Creates a topic, with a setting of its own if one is given.
    pub(crate) async fn create(&self, topic: &str, partitions: u16, setting: Option<(&str, &str)>) {
        match self {
            Self::Embedded(embedded) => {
                embedded
                    .create_topic(topic, partitions)
                    .expect("the topic can be created");
            }
            Self::Kafka(_) => {
                let admin: AdminClient<DefaultClientContext> =
                    self.client().create().expect("an admin client can be made");
                let copies = TopicReplication::Fixed(1);
                let mut new = NewTopic::new(topic, i32::from(partitions), copies);
                if let Some((name, value)) = setting {
                    new = new.set(name, value);
                }
                let options = AdminOptions::new().operation_timeout(Some(PATIENCE));
                let created = admin.create_topics([&new], &options).await;
                for result in created.expect("Kafka answers") {
                    result.expect("the topic can be created");
                }
            }
        }
    }

    /// Writes records, in order within each partition, and returns once all are stored.
    pub(crate) async fn produce(&self, topic: &str, records: impl IntoIterator<Item = Outgoing>) {
        let producer: FutureProducer = self
            .client()
            .set("enable.idempotence", "true")
            .set("queue.buffering.max.messages", "1000000")
            .set("linger.ms", "2")
            .set("message.max.bytes", "20000000")
            .set("message.timeout.ms", "60000")
            .create()
            .expect("a producer can be made");
        let mut stored = Vec::new();
        for record in records {
            let mut headers = OwnedHeaders::new();
            for (key, value) in &record.headers {
                headers = headers.insert(Header {
                    key,
                    value: value.as_deref(),
                });
            }
            let mut future = FutureRecord::<[u8], [u8]>::to(topic).partition(record.partition);
            future.key = record.key.as_deref();
            future.payload = record.value.as_deref();
            future.timestamp = record.timestamp;
            if !record.headers.is_empty() {
                future.headers = Some(headers);
            }
            match producer.send_result(future) {
                Ok(delivery) => stored.push(delivery),
                Err((error, _)) => panic!("{topic} takes no record: {error}"),
            }
        }
        for delivery in stored {
            delivery
                .await
                .expect("the producer lives")
                .expect("the record is stored");
        }
        spawn_blocking(move || producer.flush(PATIENCE))
            .await
            .unwrap()
            .unwrap();
    }

    /// The group's committed positions, where it has any.
    pub(crate) async fn committed(&self, group: &str, topic: &str) -> BTreeMap<i32, i64> {
        let client = self.client().set("group.id", group).clone();
        let topic = topic.to_owned();
        let ask = move || {
            let consumer: BaseConsumer = client.create().expect("a consumer can be made");
            let mut list = TopicPartitionList::new();
            for partition in 0..partitions(&consumer, &topic) {
                list.add_partition(&topic, partition);
            }
            // A broker that has just started does not know its groups yet.
            let deadline = Instant::now() + PATIENCE;
            let answer = loop {
                match consumer.committed_offsets(list.clone(), PATIENCE) {
                    Ok(answer) => break answer,
                    Err(error) => {
                        assert!(Instant::now() < deadline, "the group is not known: {error}");
                        drop(consumer.poll(Duration::from_millis(100)));
                    }
                }
            };
            answer
                .elements()
                .iter()
                .filter_map(|element| {
                    let committed = element.offset().to_raw().filter(|offset| *offset >= 0);
                    committed.map(|offset| (element.partition(), offset))
                })
                .collect()
        };
        spawn_blocking(ask).await.unwrap()
    }

    /// Everything in the topic now, by partition and offset.
    pub(crate) async fn read(&self, topic: &str) -> Vec<Seen> {
        let client = self
            .client()
            .set("group.id", "reader-without-commits")
            // Behind the last record there may be markers.
            .set("enable.partition.eof", "true")
            .clone();
        let topic = topic.to_owned();
        spawn_blocking(move || read_all(&client, &topic))
            .await
            .unwrap()
    }

    /// Settings that every client of the tests begins with.
    pub(crate) fn client(&self) -> ClientConfig {
        let mut config = ClientConfig::new();
        config
            .set("bootstrap.servers", self.bootstrap())
            .set("allow.auto.create.topics", "false")
            .set("enable.auto.commit", "false")
            .set("topic.metadata.refresh.interval.ms", "1000");
        config
    }
}

fn partitions(consumer: &BaseConsumer, topic: &str) -> i32 {
    let metadata = consumer
        .fetch_metadata(Some(topic), PATIENCE)
        .expect("Kafka answers");
    metadata
        .topics()
        .first()
        .map_or(0, |found| found.partitions().len() as i32)
}

fn read_all(client: &ClientConfig, topic: &str) -> Vec<Seen> {
    let consumer: BaseConsumer = client.create().expect("a consumer can be made");
    let mut list = TopicPartitionList::new();
    let mut ends = BTreeMap::new();
    for partition in 0..partitions(&consumer, topic) {
        let (first, end) = consumer
            .fetch_watermarks(topic, partition, PATIENCE)
            .expect("Kafka answers");
        if first < end {
            list.add_partition_offset(topic, partition, Offset::Offset(first))
                .unwrap();
            ends.insert(partition, end);
        }
    }
    consumer.assign(&list).unwrap();
    let deadline = Instant::now() + PATIENCE;
    let mut seen = Vec::new();
    while !ends.is_empty() {
        assert!(
            Instant::now() < deadline,
            "{topic} was not read to its end {ends:?}: {seen:?}"
        );
        let record = match consumer.poll(Duration::from_millis(100)) {
            Some(Ok(record)) => record,
            Some(Err(KafkaError::PartitionEOF(partition))) => {
                ends.remove(&partition);
                continue;
            }
            Some(Err(_)) | None => continue,
        };
        if ends
            .get(&record.partition())
            .is_some_and(|end| record.offset() + 1 >= *end)
        {
            ends.remove(&record.partition());
        }
        seen.push(Seen {
            partition: record.partition(),
            offset: record.offset(),
            key: record.key().map(<[u8]>::to_vec),
            value: record.payload().map(<[u8]>::to_vec),
            headers: record.headers().map_or_else(Vec::new, |headers| {
                headers
                    .iter()
                    .map(|header| (header.key.to_owned(), header.value.map(<[u8]>::to_vec)))
                    .collect()
            }),
            timestamp: record.timestamp().to_millis(),
        });
    }
    seen.sort_by_key(|record| (record.partition, record.offset));
    seen
}
