//! A mock cluster, clients of it, and waiting with a deadline.
//!
//! A mock cluster stays on the thread that made it, so every test runs on a
//! runtime of one thread.

use std::time::Duration;

use ackgate_lane::{Backoff, Generation, OnReject, Order, Policy, Position, Window};
use ackgate_proto::v1;
use prost::Message as _;
use rdkafka::{
    ClientConfig, Offset, TopicPartitionList,
    consumer::{BaseConsumer, CommitMode, Consumer as _},
    mocking::MockCluster,
    producer::{DefaultProducerContext, FutureProducer, FutureRecord},
};
use tokio::{sync::mpsc, time::timeout};

use crate::{
    broker::{Assigned, Chunk, Commit, Connect as _, Consumer, Error, Event, kafka::KafkaConnect},
    config::{Batch, Cluster, Delivery, StartAt, Subscription},
};

/// For anything to happen. Joining a group takes the mock cluster 3 s.
pub(in crate::broker::kafka) const PATIENCE: Duration = Duration::from_secs(120);

pub(in crate::broker::kafka) type Mock = MockCluster<'static, DefaultProducerContext>;

pub(in crate::broker::kafka) fn mock(topic: &str, partitions: i32) -> Mock {
    let mock = MockCluster::new(1).unwrap();
    mock.create_topic(topic, partitions, 1).unwrap();
    mock
}

pub(in crate::broker::kafka) fn cluster(bootstrap: &str) -> Cluster {
    Cluster {
        name: "main".to_owned(),
        bootstrap: vec![bootstrap.to_owned()],
        properties: Vec::new(),
    }
}

pub(in crate::broker::kafka) fn subscription(
    topics: &[&str],
    group: &str,
    start: StartAt,
) -> Subscription {
    let backoff = Backoff {
        initial: Duration::ZERO,
        factor: 1.0,
        max: Duration::ZERO,
    };
    Subscription {
        name: "subscription".to_owned(),
        cluster: "main".to_owned(),
        topics: topics.iter().map(|topic| (*topic).to_owned()).collect(),
        group: group.to_owned(),
        start,
        delivery: Delivery::Competing,
        policy: Policy {
            order: Order::None,
            ack_deadline: Duration::from_secs(30),
            max_attempts: 5,
            max_deliveries: 20,
            backoff,
            on_reject: OnReject::DeadLetter,
            dead_letter_backoff: backoff,
            on_unwritten: ackgate_lane::OnUnwritten::Block,
            breaker: ackgate_lane::Breaker::default(),
            window: Window {
                records: 2000,
                span: 10_000,
            },
            commit_interval: Duration::from_secs(1),
            commit_settlements: 1000,
            exactly_once: false,
        },
        window_bytes: 1 << 26,
        batch: Batch {
            max_records: 1024,
            max_bytes: 256 << 10,
            linger: Duration::ZERO,
            min_fill: 1.0,
        },
        map_bytes: ackgate_lane::MAX_MAP_BYTES,
        linger: Duration::ZERO,
        intake: crate::config::Intake::default(),
        revoke_drain: Duration::from_secs(5),
        resume_grace: Duration::from_secs(30),
        lease: crate::config::Lease {
            duration: Duration::from_secs(30),
            beat: Duration::from_secs(10),
        },
        cohort_grace: Duration::ZERO,
        min_subscribers: 1,
        dead_letter: None,
        consumer_properties: Vec::new(),
    }
}

/// A subscription whose members come and go: when one leaves, the mock cluster
/// waits for most of a session before it does anything.
pub(in crate::broker::kafka) fn restless(subscription: Subscription) -> Subscription {
    let properties = vec![
        ("session.timeout.ms".to_owned(), "6000".to_owned()),
        ("heartbeat.interval.ms".to_owned(), "500".to_owned()),
    ];
    Subscription {
        consumer_properties: properties,
        ..subscription
    }
}

/// Writes records with the values `first..end` and waits for them.
pub(in crate::broker::kafka) async fn fill(
    bootstrap: &str,
    topic: &str,
    partition: i32,
    values: std::ops::Range<u64>,
) {
    let producer: FutureProducer = ClientConfig::new()
        .set("bootstrap.servers", bootstrap)
        .create()
        .unwrap();
    let mut sent = Vec::new();
    for value in values {
        let value = value.to_string();
        let record = FutureRecord::to(topic)
            .partition(partition)
            .payload(&value)
            .key("k");
        sent.push(producer.send_result(record).unwrap());
    }
    for delivery in sent {
        delivery.await.unwrap().unwrap();
    }
}

/// The committed offset of a partition, as another client sees it.
pub(in crate::broker::kafka) fn committed(
    bootstrap: &str,
    group: &str,
    topic: &str,
    partition: i32,
) -> Offset {
    let mut list = TopicPartitionList::new();
    list.add_partition(topic, partition);
    let list = outsider(bootstrap, group)
        .committed_offsets(list, PATIENCE)
        .unwrap();
    list.find_partition(topic, partition).unwrap().offset()
}

/// Commits for a group that has no members.
pub(in crate::broker::kafka) fn commit(
    bootstrap: &str,
    group: &str,
    topic: &str,
    partition: i32,
    offset: i64,
) {
    let mut list = TopicPartitionList::new();
    list.add_partition_offset(topic, partition, Offset::Offset(offset))
        .unwrap();
    outsider(bootstrap, group)
        .commit(&list, CommitMode::Sync)
        .unwrap();
}

fn outsider(bootstrap: &str, group: &str) -> BaseConsumer {
    ClientConfig::new()
        .set("bootstrap.servers", bootstrap)
        .set("group.id", group)
        .set("enable.auto.commit", "false")
        .create()
        .unwrap()
}

/// A member of a group and what it has told.
pub(in crate::broker::kafka) struct Member {
    pub(in crate::broker::kafka) consumer: Box<dyn Consumer>,
    events: mpsc::Receiver<Event>,
}

impl Member {
    pub(in crate::broker::kafka) fn join(bootstrap: &str, subscription: &Subscription) -> Self {
        Self::with_queue(bootstrap, subscription, 16)
    }

    pub(in crate::broker::kafka) fn with_queue(
        bootstrap: &str,
        subscription: &Subscription,
        events: usize,
    ) -> Self {
        Self::start(KafkaConnect::new(&cluster(bootstrap), subscription), events)
    }

    /// Fetches no more than `bytes` ahead.
    pub(in crate::broker::kafka) fn within(
        bootstrap: &str,
        subscription: &Subscription,
        bytes: u64,
    ) -> Self {
        let connect = KafkaConnect::new(&cluster(bootstrap), subscription);
        Self::start(connect.within(bytes), 16)
    }

    fn start(connect: KafkaConnect, events: usize) -> Self {
        // Shown with the output of a failed test, as far as `RUST_LOG` says.
        tracing_subscriber::fmt()
            .with_env_filter(tracing_subscriber::EnvFilter::from_default_env())
            .with_test_writer()
            .try_init()
            .ok();
        let (sender, receiver) = mpsc::channel(events);
        Self {
            consumer: connect.consume(sender).unwrap(),
            events: receiver,
        }
    }

    /// The next event.
    pub(in crate::broker::kafka) async fn event(&mut self) -> Event {
        timeout(PATIENCE, self.events.recv())
            .await
            .expect("an event in time")
            .expect("events go on until the consumer is closed")
    }

    /// The first event that `pick` takes, in time; others are passed over. Some come
    /// for ever, so that each of them in time says nothing.
    pub(in crate::broker::kafka) async fn until<T>(
        &mut self,
        mut pick: impl FnMut(Event) -> Option<T>,
    ) -> T {
        let found = async {
            loop {
                if let Some(found) = pick(self.event().await) {
                    return found;
                }
            }
        };
        timeout(PATIENCE, found).await.expect("the event in time")
    }

    /// Whether nothing but news of the cluster and its logs comes for a while.
    pub(in crate::broker::kafka) async fn quiet(&mut self, how_long: Duration) -> bool {
        let end = tokio::time::Instant::now() + how_long;
        loop {
            match tokio::time::timeout_at(end, self.events.recv()).await {
                Err(_) => return true,
                Ok(Some(
                    Event::Cluster(_)
                    | Event::Contact { .. }
                    | Event::Heads(_)
                    | Event::Client(_)
                    | Event::Prefetch { .. }
                    | Event::AtEnd { .. },
                )) => {}
                Ok(_) => return false,
            }
        }
    }

    /// Waits for `count` lanes, over as many assignments as it takes.
    pub(in crate::broker::kafka) async fn lanes(&mut self, count: usize) -> Vec<Assigned> {
        let mut lanes = Vec::new();
        while lanes.len() < count {
            lanes.extend(self.until(assigned).await);
        }
        lanes.sort_by_key(|lane| lane.partition.partition);
        lanes
    }

    /// Waits for the one lane of a topic.
    pub(in crate::broker::kafka) async fn lane(&mut self) -> Assigned {
        self.lanes(1).await.remove(0)
    }

    pub(in crate::broker::kafka) fn grant(&self, generation: Generation, records: u32) {
        self.consumer.grant(generation, records, 1 << 20);
    }

    pub(in crate::broker::kafka) async fn chunk(&mut self) -> Chunk {
        self.until(fetched).await
    }

    /// Offsets of the next `count` records of a lane that was granted as many.
    pub(in crate::broker::kafka) async fn offsets(&mut self, count: usize) -> Vec<u64> {
        let mut offsets = Vec::new();
        while offsets.len() < count {
            offsets.extend(
                self.chunk()
                    .await
                    .records
                    .iter()
                    .map(|record| record.offset),
            );
        }
        offsets
    }

    /// Commits and waits for the answer.
    pub(in crate::broker::kafka) async fn commit(
        &mut self,
        generation: Generation,
        position: u64,
    ) -> Result<(), Error> {
        self.commit_with(generation, position, None).await
    }

    /// Commits with metadata and waits for the answer.
    pub(in crate::broker::kafka) async fn commit_with(
        &mut self,
        generation: Generation,
        position: u64,
        metadata: Option<&str>,
    ) -> Result<(), Error> {
        let asked = Commit {
            generation,
            position: Position::new(position),
            serial: position,
            metadata: metadata.map(Into::into),
            letters: Vec::new(),
        };
        self.consumer.commit(vec![asked.clone()]);
        self.until(|event| match event {
            Event::Committed { commit, result } if commit == asked => Some(result),
            _ => None,
        })
        .await
    }

    /// Seeks and waits for the answer.
    pub(in crate::broker::kafka) async fn seek(
        &mut self,
        generation: Generation,
        to: u64,
        number: u64,
    ) -> Result<(), Error> {
        self.consumer.seek(generation, Position::new(to), number);
        self.until(|event| match event {
            Event::Sought { seek, result, .. } if seek == number => Some(result),
            _ => None,
        })
        .await
    }

    /// Closes, answers what is revoked with nothing, and waits for the end.
    pub(in crate::broker::kafka) async fn close(mut self) {
        self.consumer.close();
        self.until(|event| matches!(event, Event::Closed).then_some(()))
            .await;
        assert!(
            self.events.recv().await.is_none(),
            "nothing follows the last event"
        );
    }
}

pub(in crate::broker::kafka) fn assigned(event: Event) -> Option<Vec<Assigned>> {
    if let Event::Assigned(lanes) = event {
        Some(lanes)
    } else {
        None
    }
}

pub(in crate::broker::kafka) fn fetched(event: Event) -> Option<Chunk> {
    if let Event::Fetched(chunk) = event {
        Some(chunk)
    } else {
        None
    }
}

/// Decodes the values of a chunk.
pub(in crate::broker::kafka) fn values(chunk: &Chunk) -> Vec<String> {
    let batch = v1::Batch::decode(chunk.bytes.clone()).unwrap();
    batch
        .records
        .iter()
        .map(|record| String::from_utf8(record.value.clone().unwrap().to_vec()).unwrap())
        .collect()
}
