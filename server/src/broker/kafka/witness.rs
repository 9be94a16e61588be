//! Looks at a topic and a group from outside, as Kafka sees them: log ends,
//! committed positions, and the records of a topic from start to end. Commands use
//! it to check the gateway against the broker instead of believing it.
//!
//! Every call blocks. A witness never joins its group and never commits.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use rdkafka::{
    Offset, TopicPartitionList,
    consumer::{BaseConsumer, Consumer as _},
    error::{KafkaError, KafkaResult},
    message::{Headers as _, Message as _},
};

use super::{error, settings};
use crate::{
    broker::{Error, ErrorKind},
    config::Cluster,
};

/// Longest wait for one record while a topic is read.
const POLL: Duration = Duration::from_millis(100);

/// One partition and how far a group has come in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The partition.
    pub partition: i32,
    /// Offset of the oldest record, or the log end if there is none.
    pub start: i64,
    /// The log end: the offset the next record will have.
    pub end: i64,
    /// The group's committed position; `None` if it has none.
    pub committed: Option<i64>,
}

/// A record as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Its partition.
    pub partition: i32,
    /// Its offset.
    pub offset: i64,
    /// `None` is Kafka's null.
    pub key: Option<Vec<u8>>,
    /// `None` is Kafka's null.
    pub value: Option<Vec<u8>>,
    /// In order, repeats kept.
    pub headers: Vec<(String, Option<Vec<u8>>)>,
}

/// Asks one cluster about one group.
pub struct Witness {
    consumer: BaseConsumer,
}

impl Witness {
    /// Makes a client. Does not wait for the cluster.
    ///
    /// # Errors
    /// The client library refuses the cluster's properties.
    pub fn new(cluster: &Cluster, group: &str) -> Result<Self, Error> {
        let mut config = settings::probe(cluster);
        config
            .set("group.id", group)
            .set("enable.auto.commit", "false")
            .set("auto.offset.reset", "earliest")
            // Only ever one topic is read at a time: the error names none.
            .set("enable.partition.eof", "true")
            .set("fetch.queue.backoff.ms", "5");
        let consumer = config
            .create()
            .map_err(|error| error::mapped(&error, "settings of the client"))?;
        Ok(Self { consumer })
    }

    /// Numbers of a topic's partitions, in order.
    ///
    /// # Errors
    /// The cluster does not answer in time, or has no such topic.
    pub fn partitions(&self, topic: &str, deadline: Duration) -> Result<Vec<i32>, Error> {
        let metadata = self
            .consumer
            .fetch_metadata(Some(topic), deadline)
            .map_err(|error| failed(topic, &error))?;
        let found = metadata.topics().iter().find(|found| found.name() == topic);
        let mut partitions: Vec<i32> = found
            .filter(|found| found.error().is_none())
            .map(|found| {
                found
                    .partitions()
                    .iter()
                    .map(|partition| partition.id())
                    .collect()
            })
            .unwrap_or_default();
        if partitions.is_empty() {
            let detail = format!("there is no topic {topic}");
            return Err(Error {
                kind: ErrorKind::Operator,
                detail,
            });
        }
        partitions.sort_unstable();
        Ok(partitions)
    }

    /// How far the group has come in each partition of `topic`, in order.
    ///
    /// # Errors
    /// The cluster does not answer in time, or has no such topic.
    pub fn progress(&self, topic: &str, deadline: Duration) -> Result<Vec<Progress>, Error> {
        let until = Instant::now() + deadline;
        let left = || until.saturating_duration_since(Instant::now());
        let partitions = self.partitions(topic, left())?;
        let committed = self.committed(topic, &partitions, left())?;
        let mut progress = Vec::with_capacity(partitions.len());
        for partition in partitions {
            let (start, end) = self.patiently(topic, until, |left| {
                self.consumer.fetch_watermarks(topic, partition, left)
            })?;
            let committed = committed.get(&partition).copied();
            progress.push(Progress {
                partition,
                start,
                end,
                committed,
            });
        }
        Ok(progress)
    }

    /// The group's committed positions, by partition; without those that have none.
    /// One request, so that it can be asked often.
    ///
    /// # Errors
    /// The cluster does not answer in time.
    pub fn committed(
        &self,
        topic: &str,
        partitions: &[i32],
        deadline: Duration,
    ) -> Result<BTreeMap<i32, i64>, Error> {
        let mut list = TopicPartitionList::with_capacity(partitions.len());
        for partition in partitions {
            list.add_partition(topic, *partition);
        }
        let until = Instant::now() + deadline;
        let list = self.patiently(topic, until, |left| {
            self.consumer.committed_offsets(list.clone(), left)
        })?;
        let mut committed = BTreeMap::new();
        for element in list.elements() {
            element.error().map_err(|error| failed(topic, &error))?;
            if let Offset::Offset(offset) = element.offset() {
                committed.insert(element.partition(), offset);
            }
        }
        Ok(committed)
    }

    /// Asks again while the answer is one that passes: a broker that has just started
    /// does not know yet which groups it coordinates.
    fn patiently<T>(
        &self,
        topic: &str,
        until: Instant,
        mut ask: impl FnMut(Duration) -> KafkaResult<T>,
    ) -> Result<T, Error> {
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let error = match ask(left) {
                Ok(answer) => return Ok(answer),
                Err(error) => failed(topic, &error),
            };
            if error.kind != ErrorKind::Transient || Instant::now() >= until {
                return Err(error);
            }
            // Nothing is assigned: this only waits.
            drop(self.consumer.poll(POLL));
        }
    }

    /// Reads every record that `topic` holds now. Returns their number.
    ///
    /// # Errors
    /// The cluster does not answer in time, or the end was not reached in time.
    pub fn read(
        &self,
        topic: &str,
        deadline: Duration,
        mut each: impl FnMut(Seen),
    ) -> Result<u64, Error> {
        let until = Instant::now() + deadline;
        let mut list = TopicPartitionList::new();
        let mut ends = BTreeMap::new();
        for lane in self.progress(topic, deadline)? {
            if lane.start < lane.end {
                ends.insert(lane.partition, lane.end);
                list.add_partition_offset(topic, lane.partition, Offset::Offset(lane.start))
                    .map_err(|error| failed(topic, &error))?;
            }
        }
        self.consumer
            .assign(&list)
            .map_err(|error| failed(topic, &error))?;
        let mut count = 0;
        let result = loop {
            if ends.is_empty() {
                break Ok(count);
            }
            if Instant::now() >= until {
                let detail = format!("{topic} could not be read to its end in time");
                break Err(Error {
                    kind: ErrorKind::Transient,
                    detail,
                });
            }
            match self.consumer.poll(POLL) {
                Some(Ok(record)) => {
                    let partition = record.partition();
                    let Some(end) = ends.get(&partition).copied() else {
                        continue;
                    };
                    if record.offset() < end {
                        count += 1;
                        each(seen(&record));
                    }
                    if record.offset() + 1 >= end {
                        ends.remove(&partition);
                    }
                }
                // The log ends in something that is no record, such as a transaction's marker.
                Some(Err(KafkaError::PartitionEOF(partition))) => drop(ends.remove(&partition)),
                // The client's to get over; the deadline bounds it.
                Some(Err(_)) | None => {}
            }
        };
        let nothing = TopicPartitionList::new();
        self.consumer
            .assign(&nothing)
            .map_err(|error| failed(topic, &error))?;
        result
    }
}

impl std::fmt::Debug for Witness {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Witness").finish_non_exhaustive()
    }
}

fn seen(record: &rdkafka::message::BorrowedMessage<'_>) -> Seen {
    let headers = record.headers().map_or_else(Vec::new, |headers| {
        headers
            .iter()
            .map(|header| (header.key.to_owned(), header.value.map(<[u8]>::to_vec)))
            .collect()
    });
    Seen {
        partition: record.partition(),
        offset: record.offset(),
        key: record.key().map(<[u8]>::to_vec),
        value: record.payload().map(<[u8]>::to_vec),
        headers,
    }
}

fn failed(topic: &str, error: &KafkaError) -> Error {
    error::mapped(error, &format!("asking about {topic}"))
}

#[cfg(test)]
mod tests {
    use rdkafka::consumer::CommitMode;

    use super::*;
    use crate::broker::kafka::{
        bulk::{Acks, Bulk, Record},
        embedded::{Embedded, Options},
    };

    const DEADLINE: Duration = Duration::from_secs(20);

    fn setting(records: usize) -> (Embedded, Cluster) {
        let topics = vec![("orders".to_owned(), 2)];
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
        let headers = [
            ("h".to_owned(), Some(b"1".to_vec())),
            ("h".to_owned(), Some(Vec::new())),
        ];
        for number in 0..records {
            let value = number.to_string();
            bulk.send(&Record {
                topic: "orders",
                partition: Some(i32::from(number >= 3)),
                key: Some(b""),
                value: (number > 0).then_some(value.as_bytes()),
                headers: &headers,
                ..Record::default()
            });
        }
        assert_eq!(bulk.finish(|_| {}).failed, 0);
        (broker, cluster)
    }

    #[test]
    fn records_are_read_byte_for_byte_up_to_the_end() {
        let (_broker, cluster) = setting(10);
        let witness = Witness::new(&cluster, "g").unwrap();
        for _ in 0..2 {
            let mut seen = Vec::new();
            let count = witness
                .read("orders", DEADLINE, |record| seen.push(record))
                .unwrap();
            assert_eq!((count, seen.len()), (10, 10));
            seen.sort_by_key(|record| (record.partition, record.offset));
            assert_eq!(
                seen[0],
                Seen {
                    partition: 0,
                    offset: 0,
                    key: Some(Vec::new()),
                    value: None,
                    headers: vec![
                        ("h".to_owned(), Some(b"1".to_vec())),
                        ("h".to_owned(), Some(Vec::new())),
                    ],
                }
            );
            assert_eq!(seen[9].value.as_deref(), Some(b"9".as_slice()));
        }
    }

    #[test]
    fn empty_topic_is_read_at_once() {
        let (_broker, cluster) = setting(0);
        let witness = Witness::new(&cluster, "g").unwrap();
        assert_eq!(witness.read("orders", DEADLINE, |_| {}).unwrap(), 0);
    }

    #[test]
    fn progress_shows_log_ends_and_committed_positions() {
        let (_broker, cluster) = setting(10);
        let witness = Witness::new(&cluster, "g").unwrap();
        let mut list = TopicPartitionList::new();
        list.add_partition_offset("orders", 1, Offset::Offset(4))
            .unwrap();
        witness.consumer.commit(&list, CommitMode::Sync).unwrap();
        let lane = |partition, end, committed| Progress {
            partition,
            start: 0,
            end,
            committed,
        };
        assert_eq!(
            witness.progress("orders", DEADLINE).unwrap(),
            [lane(0, 3, None), lane(1, 7, Some(4))]
        );
    }

    #[test]
    fn dead_cluster_is_an_error_within_the_deadline() {
        let (broker, cluster) = setting(0);
        broker.set_reachable(false).unwrap();
        let witness = Witness::new(&cluster, "g").unwrap();
        witness
            .progress("orders", Duration::from_millis(300))
            .unwrap_err();
    }
}
