//! A Kafka broker inside this process: librdkafka's mock cluster on a thread of
//! its own, for `ackgate demo`, `ackgate bench` without a cluster, and tests.
//!
//! It keeps records in memory only, at most 5 MiB or 100,000 produced batches per
//! partition, and drops the oldest beyond that. It has no admin API (hence
//! [`Embedded::create_topic`]), no look-up by time, no authentication, and its
//! transactions are a façade. Topics that a client asks for come into being with
//! four partitions. A group's first member waits three seconds for others: the
//! mock cluster has a switch for that, but no safe one.
//!
//! Boundary: the mock cluster never leaves its thread.

use std::{
    sync::mpsc::{self, SyncSender},
    thread,
    time::Duration,
};

use rdkafka::{
    mocking::MockCluster,
    producer::DefaultProducerContext,
    types::{RDKafkaApiKey, RDKafkaRespErr},
};

use crate::broker::{Error, ErrorKind};

/// Bytes of produced batches that a partition keeps.
pub const PARTITION_BYTES: u64 = 5 * 1024 * 1024;

/// Produced batches that a partition keeps.
pub const PARTITION_BATCHES: u64 = 100_000;

/// The mock cluster answers within milliseconds; this is for a machine under load.
const ANSWER: Duration = Duration::from_secs(30);

/// What an embedded broker begins with.
#[derive(Clone, Debug)]
pub struct Options {
    /// Brokers of the cluster, 1 or more.
    pub brokers: u16,
    /// Topics to create, each with its number of partitions, 1 or more.
    pub topics: Vec<(String, u16)>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            brokers: 1,
            topics: Vec::new(),
        }
    }
}

/// Requests that the broker can be told to refuse.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusable {
    /// Writing records. The producer sees a policy that they violate, which is final.
    Write,
    /// Committing offsets. The consumer sees that it is not allowed to.
    Commit,
}

/// A running broker. Dropping it stops it a moment later.
#[derive(Debug)]
pub struct Embedded {
    bootstrap: String,
    commands: SyncSender<Command>,
}

type Cluster = MockCluster<'static, DefaultProducerContext>;
type Command = Box<dyn FnOnce(&Cluster) + Send>;

impl Embedded {
    /// Starts a broker on loopback, on ports the system chooses, with its topics.
    /// Blocks for some milliseconds.
    ///
    /// # Errors
    /// The thread or the cluster cannot be started, or a topic cannot be created.
    pub fn start(options: Options) -> Result<Self, Error> {
        let (commands, inbox) = mpsc::sync_channel::<Command>(16);
        let (started, answer) = mpsc::sync_channel(1);
        let brokers = i32::from(options.brokers.max(1));
        thread::Builder::new()
            .name("embedded-kafka".to_owned())
            .spawn(move || {
                let cluster = match MockCluster::new(brokers) {
                    Ok(cluster) => cluster,
                    Err(error) => {
                        drop(started.send(Err(refusal(&error))));
                        return;
                    }
                };
                if started.send(Ok(cluster.bootstrap_servers())).is_ok() {
                    while let Ok(command) = inbox.recv() {
                        command(&cluster);
                    }
                }
            })
            .map_err(|error| refusal(&error))?;
        let bootstrap = answer.recv_timeout(ANSWER).map_err(|_| silent())??;
        let embedded = Self {
            bootstrap,
            commands,
        };
        for (topic, partitions) in &options.topics {
            embedded.create_topic(topic, *partitions)?;
        }
        Ok(embedded)
    }

    /// Creates a topic. Blocks for less than a millisecond.
    ///
    /// # Errors
    /// It exists, or the name or the number of partitions is not valid.
    pub fn create_topic(&self, topic: &str, partitions: u16) -> Result<(), Error> {
        let name = topic.to_owned();
        self.ask(move |cluster| {
            cluster
                .create_topic(&name, i32::from(partitions), 1)
                .map_err(|error| Error {
                    kind: ErrorKind::Operator,
                    detail: format!("topic {name} cannot be created: {error}"),
                })
        })?
    }

    /// `host:port` of the brokers, separated by commas.
    #[must_use]
    pub fn bootstrap(&self) -> String {
        self.bootstrap.clone()
    }

    /// Cuts all connections and refuses new ones, or accepts them again.
    ///
    /// # Errors
    /// The broker does not answer.
    pub fn set_reachable(&self, reachable: bool) -> Result<(), Error> {
        self.ask(move |cluster| {
            if reachable {
                cluster.broker_up(-1)
            } else {
                cluster.broker_down(-1)
            }
            .map_err(|error| refusal(&error))
        })?
    }

    /// Refuses the next `times` requests of a kind; a request may carry many
    /// records. Zero takes earlier refusals back.
    ///
    /// # Errors
    /// The broker does not answer.
    pub fn refuse(&self, requests: Refusable, times: u16) -> Result<(), Error> {
        self.ask(move |cluster| {
            let (api, error) = match requests {
                Refusable::Write => (
                    RDKafkaApiKey::Produce,
                    RDKafkaRespErr::RD_KAFKA_RESP_ERR_POLICY_VIOLATION,
                ),
                Refusable::Commit => (
                    RDKafkaApiKey::OffsetCommit,
                    RDKafkaRespErr::RD_KAFKA_RESP_ERR_GROUP_AUTHORIZATION_FAILED,
                ),
            };
            cluster.clear_request_errors(api);
            if times > 0 {
                cluster.request_errors(api, &vec![error; usize::from(times)]);
            }
        })
    }

    /// Runs `question` on the cluster's thread.
    fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&Cluster) -> T + Send + 'static,
    ) -> Result<T, Error> {
        let (reply, answer) = mpsc::sync_channel(1);
        self.commands
            .send(Box::new(move |cluster| drop(reply.send(question(cluster)))))
            .map_err(|_| silent())?;
        answer.recv_timeout(ANSWER).map_err(|_| silent())
    }
}

fn refusal(error: &dyn std::error::Error) -> Error {
    Error {
        kind: ErrorKind::Operator,
        detail: format!("the embedded broker: {error}"),
    }
}

fn silent() -> Error {
    Error {
        kind: ErrorKind::Operator,
        detail: "the embedded broker does not answer".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::{net::TcpStream, time::Instant};

    use rdkafka::{
        ClientConfig, Offset, TopicPartitionList,
        consumer::{BaseConsumer, CommitMode, Consumer},
        message::Message as _,
        producer::{BaseProducer, BaseRecord, Producer as _},
    };

    use super::*;

    fn broker(topics: &[(&str, u16)]) -> Embedded {
        let topics = topics
            .iter()
            .map(|(name, count)| ((*name).to_owned(), *count))
            .collect();
        Embedded::start(Options {
            topics,
            ..Options::default()
        })
        .unwrap()
    }

    fn client(broker: &Embedded) -> ClientConfig {
        let mut config = ClientConfig::new();
        config
            .set("bootstrap.servers", broker.bootstrap())
            .set("group.id", "g")
            .set("message.timeout.ms", "10000");
        config
    }

    fn consumer(broker: &Embedded) -> BaseConsumer {
        let mut config = client(broker);
        config.remove("message.timeout.ms");
        config.create().unwrap()
    }

    fn write(broker: &Embedded, topic: &str, value: &[u8]) {
        let producer: BaseProducer = client(broker).remove("group.id").create().unwrap();
        producer
            .send(BaseRecord::<(), _>::to(topic).partition(0).payload(value))
            .unwrap();
        producer.flush(Duration::from_secs(10)).unwrap();
    }

    #[test]
    fn topics_have_the_partitions_asked_for() {
        let broker = broker(&[("orders", 3), ("other", 1)]);
        let metadata = consumer(&broker)
            .fetch_metadata(None, Duration::from_secs(10))
            .unwrap();
        let mut topics: Vec<_> = metadata
            .topics()
            .iter()
            .map(|topic| (topic.name().to_owned(), topic.partitions().len()))
            .collect();
        topics.sort();
        assert_eq!(topics, [("orders".to_owned(), 3), ("other".to_owned(), 1)]);
    }

    #[test]
    fn topic_that_exists_is_refused_with_its_name() {
        let broker = broker(&[("orders", 3)]);
        let error = broker.create_topic("orders", 1).unwrap_err();
        assert!(error.detail.contains("orders"), "{error}");
    }

    #[test]
    fn written_record_is_read_and_its_commit_is_kept() {
        let broker = broker(&[("orders", 1)]);
        write(&broker, "orders", b"one");
        let consumer = consumer(&broker);
        let mut lane = TopicPartitionList::new();
        lane.add_partition_offset("orders", 0, Offset::Beginning)
            .unwrap();
        consumer.assign(&lane).unwrap();
        let deadline = Instant::now() + Duration::from_secs(20);
        let record = loop {
            assert!(Instant::now() < deadline, "no record");
            if let Some(Ok(record)) = consumer.poll(Duration::from_millis(100)) {
                break record;
            }
        };
        assert_eq!(record.payload(), Some(b"one".as_slice()));
        consumer.commit_message(&record, CommitMode::Sync).unwrap();
        let committed = consumer.committed(Duration::from_secs(10)).unwrap();
        assert_eq!(committed.elements()[0].offset(), Offset::Offset(1));
    }

    #[test]
    fn commit_is_refused_as_often_as_asked() {
        let broker = broker(&[("orders", 1)]);
        let consumer = consumer(&broker);
        let mut lane = TopicPartitionList::new();
        lane.add_partition_offset("orders", 0, Offset::Offset(0))
            .unwrap();
        broker.refuse(Refusable::Commit, 1).unwrap();
        consumer.commit(&lane, CommitMode::Sync).unwrap_err();
        consumer.commit(&lane, CommitMode::Sync).unwrap();
    }

    #[test]
    fn unreachable_broker_answers_again_when_told() {
        let broker = broker(&[("orders", 1)]);
        broker.set_reachable(false).unwrap();
        let consumer = consumer(&broker);
        consumer
            .fetch_metadata(Some("orders"), Duration::from_millis(300))
            .unwrap_err();
        broker.set_reachable(true).unwrap();
        consumer
            .fetch_metadata(Some("orders"), Duration::from_secs(20))
            .unwrap();
    }

    #[test]
    fn dropped_broker_stops() {
        let broker = broker(&[]);
        let address = broker.bootstrap();
        TcpStream::connect(&address).unwrap();
        drop(broker);
        let deadline = Instant::now() + Duration::from_secs(20);
        while TcpStream::connect(&address).is_ok() {
            assert!(Instant::now() < deadline, "{address} still answers");
            thread::yield_now();
        }
    }
}
