//! The words in which the rest of the gateway speaks of Kafka, and the traits
//! behind which every broker stands. Calls on them never block; answers come back
//! as [`Event`]s on one bounded queue.
//!
//! Boundary: no rdkafka type leaves `broker/kafka/`.

use std::{fmt, future::Future, pin::Pin, sync::Arc, time::Duration};

use ackgate_lane::{Generation, OffsetRange, Position};
use bytes::Bytes;
use tokio::sync::mpsc;

use crate::telemetry::traces::Polled;

pub mod kafka;
#[cfg(test)]
pub(crate) mod memory;
mod stats;
mod write;

pub use stats::{ClientStats, Head};
pub use write::{Answers, Receipt, Unwritten, Why, Write};

/// A topic and one of its partitions.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TopicPartition {
    /// Shared by all partitions of the topic.
    pub topic: Arc<str>,
    /// 0 or more.
    pub partition: i32,
}

/// A lane that Kafka gave to this gateway.
#[derive(Clone, Debug)]
pub struct Assigned {
    /// Which.
    pub partition: TopicPartition,
    /// Unique over all assignments of this process.
    pub generation: Generation,
    /// Where reading begins; `None` if that is known only from the first record.
    pub start: Option<Position>,
    /// Whether `start` is a committed position.
    pub committed: bool,
    /// The metadata that was committed with it, as it was read; anybody's. `None` if it
    /// is empty.
    pub metadata: Option<Arc<str>>,
    /// Why the log is not the one that was read before, in words: the topic was made
    /// anew, or its log truncated. All that was known of the lane is void then, and
    /// `start` is its oldest record.
    pub anew: Option<String>,
}

/// Records of one lane, drained from its queue in one go and encoded once.
#[derive(Clone, Debug)]
pub struct Chunk {
    /// Whose assignment fetched them.
    pub generation: Generation,
    /// Number of the seek after which they were fetched; 0 before the first.
    pub seek: u64,
    /// The records in offset order, at least one.
    pub records: Vec<RecordIndex>,
    /// The encoded records back to back, each as field key of
    /// [`ackgate_proto::RECORD_TAG`], length and `ackgate.v1.Record`.
    pub bytes: Bytes,
    /// What is to be told of the fetch, if anything: its traced records, and when it was.
    pub polled: Option<Box<Polled>>,
}

/// Where one record lies in its chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordIndex {
    /// The record's offset.
    pub offset: u64,
    /// A number that records of equal keys share; `None` for a null key. Two keys
    /// may share one by chance: they are kept in order with each other then.
    pub key: Option<u64>,
    /// The record's timestamp, in milliseconds since the Unix epoch; 0 if it has none.
    pub timestamp_ms: i64,
    /// Where its bytes end in the chunk; they begin where the previous one's end.
    pub end: u32,
}

/// A position to commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Commit {
    /// The lane's assignment.
    pub generation: Generation,
    /// The next offset to read.
    pub position: Position,
    /// Number of the request within its lane, for the answer.
    pub serial: u64,
    /// Text to be kept with the position; without it Kafka keeps none.
    pub metadata: Option<Arc<str>>,
    /// Exactly once: dead letters that are stored if and only if the position is. A
    /// partition beyond those of the topic stands for its remainder by their number.
    pub letters: Vec<Outgoing>,
}

/// What a consumer tells.
#[derive(Debug)]
pub enum Event {
    /// Lanes have come. May be empty.
    Assigned(Vec<Assigned>),
    /// Lanes must go. The consumer waits, for a bounded time, until `reply` has
    /// been given the positions to commit before it lets go.
    Revoking {
        /// Which.
        generations: Vec<Generation>,
        /// Kafka has already given them to others: nothing can be committed.
        lost: bool,
        /// Takes the last commits. Dropping it means there are none.
        reply: std::sync::mpsc::SyncSender<Vec<Commit>>,
    },
    /// The lanes have gone.
    Revoked(Vec<Generation>),
    /// Records, within what was granted.
    Fetched(Chunk),
    /// Everything readable in the lane's log has been fetched, or never will be: below
    /// `position` nothing exists that was not told since the seek. Told when the end
    /// has moved.
    AtEnd {
        /// The lane's assignment.
        generation: Generation,
        /// Number of the last seek.
        seek: u64,
        /// The end of what can be read.
        position: Position,
    },
    /// The log of a lane begins at `oldest` now: what lies below and was not fetched
    /// is gone. Reading goes on there.
    Gone {
        /// The lane's assignment.
        generation: Generation,
        /// Number of the last seek.
        seek: u64,
        /// The first offset that may still exist.
        oldest: Position,
    },
    /// Ends of the lanes' logs, as far as they have changed.
    Heads(Vec<Head>),
    /// How the client library is doing. About once a second.
    Client(Box<ClientStats>),
    /// How much librdkafka may hold of records that are not told yet. Told when it is
    /// planned, before there are lanes.
    Prefetch {
        /// Over all lanes.
        bytes: u64,
    },
    /// The group's coordinator answered, for the last time so long ago. Told about
    /// once a second, and not at all while nothing is known.
    Contact {
        /// Since the last answer.
        age: Duration,
    },
    /// A commit was answered. Of one with letters only once it is known for certain
    /// whether Kafka has it; if that does not come to be known while the lane is
    /// assigned, never.
    Committed {
        /// What was to be committed.
        commit: Commit,
        /// How it went.
        result: Result<(), Error>,
    },
    /// A seek was answered.
    Sought {
        /// The lane's assignment.
        generation: Generation,
        /// The seek's number.
        seek: u64,
        /// How it went.
        result: Result<(), Error>,
    },
    /// A lane cannot be read until an operator acts; other lanes go on.
    LaneFailed {
        /// The lane's assignment.
        generation: Generation,
        /// Why.
        error: Error,
    },
    /// The connection to the cluster changed; sent on changes only.
    Cluster(ClusterState),
    /// The consumer has left its group and is gone. Last event.
    Closed,
}

/// How the cluster is, seen from a consumer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClusterState {
    /// It answers.
    Reachable,
    /// It does not; connecting goes on for ever.
    Unreachable {
        /// In words, without secrets.
        detail: String,
    },
    /// The consumer failed fatally and is built again after a pause.
    Rebuilding {
        /// In words, without secrets.
        detail: String,
    },
}

/// What an error asks of its receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// Try again later.
    Transient,
    /// Not tried, since too much waits already: try again later.
    Full,
    /// This lane is no longer ours.
    Fenced,
    /// The record is too large for the topic, or the metadata of a commit for the broker.
    TooLarge,
    /// The letter of this index in its commit is too large for its topic; nothing is
    /// stored.
    LetterTooLarge(usize),
    /// An operator must act: a topic is missing, access is denied.
    Operator,
}

/// A broker's refusal.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{detail}")]
pub struct Error {
    /// What to do about it.
    pub kind: ErrorKind,
    /// In words, without secrets; names topic and partition where they exist.
    pub detail: String,
}

/// One member of a consumer group.
///
/// Grants are the back-pressure: a lane's queue is polled only within them, so
/// that what is not granted stays in the broker's client or on the broker.
pub trait Consumer: Send + Sync + fmt::Debug {
    /// Allows `records` and `bytes` more to be fetched; a chunk may overshoot the
    /// bytes by one record.
    fn grant(&self, generation: Generation, records: u32, bytes: u64);
    /// Takes back what is granted and not fetched.
    fn withdraw(&self, generation: Generation);
    /// Commits positions of lanes that are assigned now; others are answered as fenced.
    /// Only consumers of subscriptions with `exactly_once` take letters.
    fn commit(&self, commits: Vec<Commit>);
    /// Moves a lane. What it granted before is void; chunks carry `seek` from then on.
    fn seek(&self, generation: Generation, to: Position, seek: u64);
    /// Leaves the group and ends with [`Event::Closed`], at most a bounded time later.
    fn close(&self);
}

/// Makes consumers for one subscription.
pub trait Connect: Send + Sync + fmt::Debug {
    /// Starts a member of the subscription's group. Never waits for the cluster.
    ///
    /// # Errors
    /// The client library refuses the settings.
    fn consume(&self, events: mpsc::Sender<Event>) -> Result<Box<dyn Consumer>, Error>;

    /// How long the group keeps a member of which it hears nothing; for ever where
    /// nothing else is said.
    fn session(&self) -> Duration {
        Duration::from_secs(365 * 24 * 3600)
    }
}

/// A record to write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outgoing {
    /// Where to.
    pub topic: String,
    /// `None`: by key, or anywhere.
    pub partition: Option<i32>,
    /// `None` is Kafka's null.
    pub key: Option<Bytes>,
    /// `None` is Kafka's null.
    pub value: Option<Bytes>,
    /// In order, repeats kept.
    pub headers: Vec<(String, Option<Bytes>)>,
    /// Milliseconds since the Unix epoch; `None`: now.
    pub timestamp_ms: Option<i64>,
}

/// Where a record was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placed {
    /// The partition.
    pub partition: i32,
    /// The offset.
    pub offset: i64,
}

/// The answer of [`Producer::produce`], to be awaited.
pub type Produced = Pin<Box<dyn Future<Output = Result<Placed, Error>> + Send>>;

/// The answer of [`Producer::flushed`], to be awaited.
pub type Flushed = Pin<Box<dyn Future<Output = Result<(), Error>> + Send>>;

/// The answer of [`Producer::partitions`], to be awaited.
pub type Partitions = Pin<Box<dyn Future<Output = Result<Option<u32>, Error>> + Send>>;

/// The answer of [`Producer::largest`], to be awaited.
pub type Largest = Pin<Box<dyn Future<Output = Option<u64>> + Send>>;

/// Writes records with acks=all and idempotence.
pub trait Producer: Send + Sync + fmt::Debug {
    /// Enqueues a record and resolves when Kafka has confirmed or refused it, at
    /// most the delivery timeout later.
    fn produce(&self, record: Outgoing) -> Produced;

    /// How many partitions a topic has, as it was learned lately; `None`: it does not
    /// matter here. Resolves at most a few seconds later.
    ///
    /// # Errors
    /// It could not be learned: no broker answers, or there is no such topic.
    fn partitions(&self, _topic: &str) -> Partitions {
        Box::pin(std::future::ready(Ok(None)))
    }

    /// The bytes that a topic takes in one batch; `None`: not known. Resolves at most a
    /// few seconds later.
    fn largest(&self, _topic: &str) -> Largest {
        Box::pin(std::future::ready(None))
    }

    /// Resolves once every record has its answer, at most `timeout` later; then with an
    /// error.
    fn flushed(&self, timeout: Duration) -> Flushed;
}

/// The end of a range of records.
#[must_use]
pub fn runs(records: &[RecordIndex]) -> Vec<OffsetRange> {
    use ackgate_lane::Offset;
    let mut runs: Vec<OffsetRange> = Vec::new();
    for record in records {
        let offset = Offset::new(record.offset);
        match runs.last_mut() {
            Some(run) if run.end().offset() == offset => {
                if let Some(longer) = OffsetRange::inclusive(run.first(), offset) {
                    *run = longer;
                }
            }
            _ => runs.push(OffsetRange::one(offset)),
        }
    }
    runs
}

/// The partition in a topic of `count` partitions that stands for `source`.
#[must_use]
pub fn modulo(source: i32, count: u32) -> i32 {
    let count = i32::try_from(count).unwrap_or(i32::MAX).max(1);
    source.rem_euclid(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partition_is_the_records_own_or_wraps_around() {
        for (source, count, expected) in [(0, 1, 0), (2, 4, 2), (5, 4, 1), (7, 1, 0), (3, 0, 0)] {
            assert_eq!(modulo(source, count), expected, "{source} of {count}");
        }
    }
}
