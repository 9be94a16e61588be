//! Reads a topic from its beginning to where it ended when the reading began, for the
//! commands that look at dead letters. Partitions are assigned, not subscribed: no group
//! is joined, nothing is committed, and nothing of a group appears on the cluster.
//!
//! Every call blocks. Only what is committed is seen, and offsets with gaps end as they
//! should: where a log ends is told by the client, not counted.

use std::{
    fmt,
    ops::ControlFlow,
    time::{Duration, Instant},
};

use ackgate_proto::v1;
use prost::Message as _;
use rdkafka::{
    ClientContext, Message as _, Offset, TopicPartitionList,
    config::RDKafkaLogLevel,
    consumer::{BaseConsumer, Consumer as _, ConsumerContext},
    error::{IsError, KafkaError, RDKafkaErrorCode},
};

use super::{
    Probe,
    client_log::{Origin, log},
    encode::Encoder,
    error, settings,
};
use crate::{
    broker::{Error, ErrorKind},
    config::Cluster,
};

/// Longest wait for one record before the caller is asked whether to go on.
const POLL: Duration = Duration::from_millis(100);

/// How long nothing may come before the reading is given up. A partition that has lost
/// its leader gets another one sooner than this.
const PATIENCE: Duration = Duration::from_secs(60);

/// Never joined: the client library assigns nothing without a name of a group.
const GROUP: &str = "ackgate-dlq";

/// One partition as it was when the reading began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Log {
    /// Its number.
    pub partition: i32,
    /// Offset of its oldest record, or its end.
    pub start: i64,
    /// The offset that the next record would have had.
    pub end: i64,
}

/// Reads one topic.
pub struct Scan {
    consumer: BaseConsumer<Quiet>,
    topic: String,
    logs: Vec<Log>,
}

impl Scan {
    /// Looks where each partition of `topic` begins and ends, within `timeout`.
    ///
    /// # Errors
    /// The cluster does not answer in time, or has no such topic.
    pub fn new(cluster: &Cluster, topic: &str, timeout: Duration) -> Result<Self, Error> {
        let mut config = settings::probe(cluster);
        config
            .set("group.id", GROUP)
            .set("enable.auto.commit", "false")
            .set("enable.auto.offset.store", "false")
            .set("allow.auto.create.topics", "false")
            .set("auto.offset.reset", "earliest")
            .set("isolation.level", "read_committed")
            .set("enable.partition.eof", "true")
            .set("queued.max.messages.kbytes", "16384")
            .set("fetch.queue.backoff.ms", "5")
            // The end of a log behind a marker is told with the answer to a fetch of nothing.
            .set("fetch.wait.max.ms", "20");
        let consumer: BaseConsumer<Quiet> = config
            .create_with_context(Quiet)
            .map_err(|error| error::mapped(&error, "settings of the client"))?;
        let until = Instant::now() + timeout;
        // Says in words why nobody answers, if so.
        Probe::new(cluster, timeout)?.brokers()?;
        let left = || until.saturating_duration_since(Instant::now());
        let mut logs = Vec::new();
        for partition in partitions(&consumer, topic, left())? {
            let (start, end) = consumer
                .fetch_watermarks(topic, partition, left())
                .map_err(|error| error::mapped(&error, &format!("{topic}/{partition}")))?;
            logs.push(Log {
                partition,
                start,
                end,
            });
        }
        Ok(Self {
            consumer,
            topic: topic.to_owned(),
            logs,
        })
    }

    /// The partitions, in order of their numbers.
    #[must_use]
    pub fn logs(&self) -> &[Log] {
        &self.logs
    }

    /// Offsets from the oldest records to the ends, gaps included.
    #[must_use]
    pub fn span(&self) -> u64 {
        let spans = self.logs.iter().map(|log| log.end - log.start);
        spans.filter_map(|span| u64::try_from(span).ok()).sum()
    }

    /// Gives the records of `log` to `each` in order, until there are no more or `each`
    /// breaks off; so it does where `each` is given `None`, which is when nothing has
    /// come for a moment. Whether the end was reached.
    ///
    /// # Errors
    /// The partition may not be read, or nothing comes for a minute.
    pub fn read(
        &self,
        log: Log,
        mut each: impl FnMut(Option<v1::Record>) -> ControlFlow<()>,
    ) -> Result<bool, Error> {
        if log.start >= log.end {
            return Ok(true);
        }
        self.assign(log)?;
        let mut encoder = Encoder::new();
        let mut since = Instant::now();
        loop {
            match self.consumer.poll(POLL) {
                Some(Ok(message)) if message.partition() == log.partition => {
                    since = Instant::now();
                    let offset = message.offset();
                    if offset >= log.end {
                        return Ok(true);
                    }
                    encoder.push(&message);
                    let record = encoder
                        .take()
                        .and_then(|(_, bytes)| v1::Batch::decode(bytes).ok()?.records.pop());
                    if record.is_some() && each(record).is_break() {
                        return Ok(false);
                    }
                    if offset + 1 >= log.end {
                        return Ok(true);
                    }
                }
                // Of the partition before.
                Some(Ok(_)) => {}
                Some(Err(KafkaError::PartitionEOF(partition))) => {
                    if partition == log.partition {
                        return Ok(true);
                    }
                }
                Some(Err(error)) => self.review(log, &error)?,
                None => {
                    if each(None).is_break() {
                        return Ok(false);
                    }
                }
            }
            if since.elapsed() >= PATIENCE {
                let lane = self.lane(log);
                return Err(error::transient(format!(
                    "reading {lane}: nothing has come for {} s",
                    PATIENCE.as_secs()
                )));
            }
        }
    }

    fn assign(&self, log: Log) -> Result<(), Error> {
        let mut list = TopicPartitionList::new();
        list.add_partition_offset(&self.topic, log.partition, Offset::Offset(log.start))
            .and_then(|()| self.consumer.assign(&list))
            .map_err(|error| error::mapped(&error, &format!("reading {}", self.lane(log))))
    }

    /// The client gets over most errors by itself.
    fn review(&self, log: Log, error: &KafkaError) -> Result<(), Error> {
        let mapped = error::mapped(error, &format!("reading {}", self.lane(log)));
        // No group is needed, so that one may not be used means nothing.
        let of_group = RDKafkaErrorCode::GroupAuthorizationFailed;
        let passes = error.rdkafka_error_code() == Some(of_group);
        if mapped.kind == ErrorKind::Operator && !passes {
            return Err(mapped);
        }
        Ok(())
    }

    fn lane(&self, log: Log) -> String {
        format!("{}/{}", self.topic, log.partition)
    }
}

impl fmt::Debug for Scan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scan")
            .field("topic", &self.topic)
            .field("logs", &self.logs)
            .finish_non_exhaustive()
    }
}

fn partitions(
    consumer: &BaseConsumer<Quiet>,
    topic: &str,
    timeout: Duration,
) -> Result<Vec<i32>, Error> {
    let metadata = consumer
        .fetch_metadata(Some(topic), timeout)
        .map_err(|error| error::mapped(&error, "no broker answers"))?;
    let found = metadata.topics().iter().find(|found| found.name() == topic);
    let refusal = found.and_then(rdkafka::metadata::MetadataTopic::error);
    if let Some(refusal) = refusal.filter(IsError::is_error) {
        return Err(error::coded(
            RDKafkaErrorCode::from(refusal),
            &format!("topic {topic}"),
        ));
    }
    let partitions = found.map(rdkafka::metadata::MetadataTopic::partitions);
    let mut partitions: Vec<i32> = partitions
        .unwrap_or_default()
        .iter()
        .map(rdkafka::metadata::MetadataPartition::id)
        .collect();
    if partitions.is_empty() {
        return Err(Error {
            kind: ErrorKind::Operator,
            detail: format!("there is no topic {topic}"),
        });
    }
    partitions.sort_unstable();
    Ok(partitions)
}

/// What goes wrong comes back from the calls.
struct Quiet;

impl ClientContext for Quiet {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, line: &str) {
        log(Origin::Reader, level, facility, line);
    }

    fn error(&self, _: KafkaError, _: &str) {}
}

impl ConsumerContext for Quiet {}
