//! The yardstick of `ackgate bench`: an ordinary consumer in a group of its own that
//! reads a topic to its end and commits each second. Nothing stands between it and
//! the client library, and it fetches with the settings the gateway uses.
//!
//! Every call blocks.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use rdkafka::{
    ClientContext, Offset, TopicPartitionList,
    consumer::{BaseConsumer, CommitMode, Consumer as _, ConsumerContext},
    error::KafkaError,
    message::Message as _,
};

use super::{error, settings, witness::Witness};
use crate::{
    broker::{Error, ErrorKind},
    config::{Cluster, Subscription},
};

/// Between two commits.
const COMMIT: Duration = Duration::from_secs(1);

/// Longest wait for one record.
const POLL: Duration = Duration::from_millis(20);

/// Records between two looks at the clock, which costs as much as a record.
const CLOCK_EVERY: u64 = 256;

/// What a reading came to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reading {
    /// Records read.
    pub records: u64,
    /// Bytes of their keys and values.
    pub bytes: u64,
    /// From the first record to the last.
    pub read: Duration,
    /// From the first record until Kafka confirmed the commit of the log end.
    pub committed: Duration,
}

/// Errors pass or run into the deadline: they need no log line each.
struct Quiet;

impl ClientContext for Quiet {
    fn error(&self, _: KafkaError, _: &str) {}
}

impl ConsumerContext for Quiet {}

/// Reads the subscription's topic from start to end, as the only member of its
/// group, which must be a fresh one that starts at the oldest record. Calls
/// `progress` with the number of records now and then.
///
/// # Errors
/// The cluster cannot be asked, or the end was not reached and committed in time.
pub fn read(
    cluster: &Cluster,
    subscription: &Subscription,
    deadline: Duration,
    mut progress: impl FnMut(u64),
) -> Result<Reading, Error> {
    let topic = subscription.topics.first().map_or("", String::as_str);
    let group = subscription.group.as_str();
    let until = Instant::now() + deadline;
    let ends: BTreeMap<i32, i64> = Witness::new(cluster, group)?
        .progress(topic, deadline)?
        .into_iter()
        .filter(|lane| lane.start < lane.end)
        .map(|lane| (lane.partition, lane.end))
        .collect();
    let consumer = consumer(cluster, subscription, ends.len())?;
    consumer
        .subscribe(&[topic])
        .map_err(|error| failed(topic, &error))?;
    let lanes = ends
        .iter()
        .map(|(&partition, &end)| Lane {
            partition,
            end,
            next: None,
        })
        .collect();
    let mut run = Run {
        consumer,
        topic,
        lanes,
        records: 0,
        bytes: 0,
        first: None,
    };
    let mut next_commit = None;
    while !run.is_read() {
        run.drain();
        progress(run.records);
        in_time(topic, until)?;
        let due = run
            .first
            .map(|first| *next_commit.get_or_insert(first + COMMIT));
        if due.is_some_and(|due| Instant::now() >= due) {
            run.commit()?;
            next_commit = Some(Instant::now() + COMMIT);
        }
    }
    let since_first = || run.first.map(|first| first.elapsed()).unwrap_or_default();
    let read = since_first();
    loop {
        run.commit()?;
        // The answer to a commit that nobody waited for reaches no callback, and one
        // that is waited for has no deadline: so the broker is asked.
        let again = until.min(Instant::now() + COMMIT);
        while Instant::now() < again {
            if run.is_committed(again) {
                let committed = since_first();
                return Ok(Reading {
                    records: run.records,
                    bytes: run.bytes,
                    read,
                    committed,
                });
            }
        }
        in_time(topic, until)?;
    }
}

fn in_time(topic: &str, until: Instant) -> Result<(), Error> {
    if Instant::now() < until {
        return Ok(());
    }
    let detail = format!("{topic} was not read and committed in time");
    Err(Error {
        kind: ErrorKind::Transient,
        detail,
    })
}

struct Run<'a> {
    consumer: BaseConsumer<Quiet>,
    topic: &'a str,
    /// In order of partitions, without empty ones.
    lanes: Vec<Lane>,
    records: u64,
    bytes: u64,
    first: Option<Instant>,
}

/// A partition that is being read. Positions are kept here: asking the client for
/// them costs more than many records.
struct Lane {
    partition: i32,
    /// The log end when the reading began.
    end: i64,
    /// The next offset to read, once one was read.
    next: Option<i64>,
}

impl Run<'_> {
    /// Takes records until there are none for a moment, or the clock is due a look.
    fn drain(&mut self) {
        for _ in 0..CLOCK_EVERY {
            match self.consumer.poll(POLL) {
                Some(Ok(record)) => {
                    self.first.get_or_insert_with(Instant::now);
                    self.records += 1;
                    let length = record.payload_len() + record.key_len();
                    self.bytes += u64::try_from(length).unwrap_or_default();
                    let partition = record.partition();
                    if let Some(lane) = self.lanes.iter_mut().find(|it| it.partition == partition) {
                        lane.next = Some(record.offset() + 1);
                    }
                }
                // The client gets over errors, or the deadline ends it.
                Some(Err(_)) | None => return,
            }
        }
    }

    /// Whether every partition was read to its end.
    fn is_read(&self) -> bool {
        self.lanes
            .iter()
            .all(|lane| lane.next.is_some_and(|next| next >= lane.end))
    }

    /// Asks the broker whether every log end is committed.
    fn is_committed(&self, until: Instant) -> bool {
        let mut list = TopicPartitionList::new();
        for lane in &self.lanes {
            list.add_partition(self.topic, lane.partition);
        }
        let left = until.saturating_duration_since(Instant::now());
        let Ok(committed) = self.consumer.committed_offsets(list, left) else {
            // It passes, but not at once; everything is read, so this only waits.
            drop(self.consumer.poll(POLL));
            return false;
        };
        self.lanes.iter().all(|lane| {
            committed
                .find_partition(self.topic, lane.partition)
                .is_some_and(
                    |element| matches!(element.offset(), Offset::Offset(at) if at >= lane.end),
                )
        })
    }

    /// Commits what has been read, without waiting for the answer.
    fn commit(&self) -> Result<(), Error> {
        let mut list = TopicPartitionList::new();
        for lane in &self.lanes {
            if let Some(next) = lane.next {
                list.add_partition_offset(self.topic, lane.partition, Offset::Offset(next))
                    .map_err(|error| failed(self.topic, &error))?;
            }
        }
        if list.count() > 0 {
            self.consumer
                .commit(&list, CommitMode::Async)
                .map_err(|error| failed(self.topic, &error))?;
        }
        Ok(())
    }
}

fn consumer(
    cluster: &Cluster,
    subscription: &Subscription,
    partitions: usize,
) -> Result<BaseConsumer<Quiet>, Error> {
    let mut config = settings::consumer(cluster, subscription);
    // The gateway has a queue for each partition; here all share one, and its limits.
    for (name, most) in [
        ("queued.max.messages.kbytes", 2_097_151),
        ("queued.min.messages", 10_000_000),
    ] {
        let each = config
            .get(name)
            .and_then(|value| value.parse::<usize>().ok());
        if let Some(each) = each {
            let all = each.saturating_mul(partitions.max(1)).min(most);
            config.set(name, all.to_string());
        }
    }
    // What only the gateway asks for. The group is a fresh one.
    config
        .set("enable.partition.eof", "false")
        .set("statistics.interval.ms", "0")
        .set("auto.offset.reset", "earliest");
    config
        .create_with_context(Quiet)
        .map_err(|error| error::mapped(&error, "settings of the consumer"))
}

fn failed(topic: &str, error: &KafkaError) -> Error {
    error::mapped(error, &format!("reading {topic}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::broker::kafka::{
        bulk::{Acks, Bulk, Record},
        embedded::{Embedded, Options},
    };

    fn subscription() -> Subscription {
        let text = r#"
            clusters.main.address = "kafka://unused"
            [subscriptions.s]
            cluster = "main"
            topics = ["orders"]
            group = "g"
            start = "earliest"
            order = "none"
            on_reject = "drop"
        "#;
        let config = crate::config::parse(text, "test".as_ref(), []).unwrap();
        config.subscriptions.into_iter().next().unwrap()
    }

    fn setting(records: usize) -> (Embedded, Cluster) {
        let topics = vec![("orders".to_owned(), 3)];
        let broker = Embedded::start(Options {
            topics,
            ..Options::default()
        })
        .unwrap();
        let cluster = Cluster {
            name: "test".to_owned(),
            bootstrap: vec![broker.bootstrap()],
            properties: Vec::new(),
        };
        let mut bulk = Bulk::new(&cluster, Acks::Leader).unwrap();
        for number in 0..records {
            // The third partition stays empty.
            let partition = i32::from(!number.is_multiple_of(3));
            let (topic, value) = ("orders", Some(b"12345678".as_slice()));
            let partition = Some(partition);
            bulk.send(&Record {
                topic,
                partition,
                value,
                ..Record::default()
            });
        }
        assert_eq!(bulk.finish(|_| {}).failed, 0);
        (broker, cluster)
    }

    #[test]
    fn every_record_is_read_and_the_log_ends_are_committed() {
        let (_broker, cluster) = setting(5_000);
        let mut last = 0;
        let deadline = Duration::from_secs(40);
        let reading = read(&cluster, &subscription(), deadline, |count| last = count).unwrap();
        assert_eq!(
            (reading.records, reading.bytes, last),
            (5_000, 40_000, 5_000)
        );
        assert!(reading.read <= reading.committed, "{reading:?}");
        let lanes = Witness::new(&cluster, "g")
            .unwrap()
            .progress("orders", deadline)
            .unwrap();
        for lane in lanes.iter().filter(|lane| lane.end > 0) {
            assert_eq!(lane.committed, Some(lane.end), "{lane:?}");
        }
    }

    #[test]
    fn reading_that_cannot_end_is_an_error_at_the_deadline() {
        let (_broker, cluster) = setting(1);
        // A group's first join takes longer than this.
        let deadline = Duration::from_millis(500);
        read(&cluster, &subscription(), deadline, |_| {}).unwrap_err();
    }
}
