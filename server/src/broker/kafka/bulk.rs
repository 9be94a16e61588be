//! Writes many records fast: batched, with bounded memory and one report for
//! each record. For `ackgate pub`, `demo` and `bench`; dead letters have a
//! producer of their own.
//!
//! Every call blocks: use it on a thread that may wait. Reports come in while it
//! is called, on the calling thread.
//!
//! Invariant: each record sent is counted exactly once, as written or as failed.

use std::{
    fmt,
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use rdkafka::{
    ClientContext, Message as _,
    error::{KafkaError, RDKafkaErrorCode},
    producer::{BaseProducer, BaseRecord, DeliveryResult, Producer as _, ProducerContext},
};

use super::{error, headers, settings};
use crate::{
    broker::{Error, ErrorKind, Why},
    config::Cluster,
};

/// Time for a record to be confirmed, tries included.
pub const DELIVERY_TIMEOUT: Duration = Duration::from_secs(30);

/// How much longer than [`DELIVERY_TIMEOUT`] a report is waited for.
const REPORT_SLACK: Duration = Duration::from_secs(10);

/// How long reports are waited for at a time, once there is nothing else to do.
const SERVE: Duration = Duration::from_millis(10);

/// Time for a topic that was just created to be known to every broker.
const NEWS: Duration = Duration::from_secs(2);

/// Time for the client's complaints to come in before they are quoted.
const COMPLAINTS: Duration = Duration::from_millis(50);

/// Records between two looks at the reports while there is room for more.
const SERVE_EVERY: u64 = 1024;

/// Where the cluster's properties say nothing else. Memory is bounded by the queue.
const DEFAULTS: [(&str, &str); 3] = [
    ("linger.ms", "5"),
    ("queue.buffering.max.messages", "100000"),
    ("queue.buffering.max.kbytes", "65536"),
];

/// When Kafka's confirmation counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Acks {
    /// When all in-sync replicas have the record; written once even if retried.
    #[default]
    All,
    /// When the partition's leader has it.
    Leader,
}

/// A record to write, borrowed for the time of the call.
#[derive(Clone, Copy, Debug, Default)]
pub struct Record<'a> {
    /// Where to.
    pub topic: &'a str,
    /// `None`: by key, or anywhere.
    pub partition: Option<i32>,
    /// `None` is Kafka's null.
    pub key: Option<&'a [u8]>,
    /// `None` is Kafka's null.
    pub value: Option<&'a [u8]>,
    /// In order, repeats kept; a value of `None` is Kafka's null.
    pub headers: &'a [(String, Option<Vec<u8>>)],
    /// Milliseconds since the Unix epoch; `None`: now.
    pub timestamp_ms: Option<i64>,
}

/// A record that was not written, or whose writing nobody confirmed.
#[derive(Clone, Debug)]
pub struct Failure {
    /// Which: records are numbered from 0 in the order they were sent, unless the sender
    /// numbered it.
    pub number: u64,
    /// Whether it may be written all the same.
    pub is_unknown: bool,
    /// Why.
    pub error: Error,
}

/// What has become of the records so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Handed over.
    pub sent: u64,
    /// Confirmed.
    pub written: u64,
    /// Refused, or not confirmed in time.
    pub failed: u64,
}

/// Writes many records.
pub struct Bulk {
    producer: BaseProducer<Reports>,
    sent: u64,
}

/// What the delivery reports said; filled on the thread that serves them.
#[derive(Default)]
struct Reports {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    written: u64,
    failed: u64,
    /// Not yet taken by the owner; at most what the producer's queue holds.
    failures: Vec<Failure>,
    /// The client's last complaint about the cluster, which says why records time out.
    trouble: Option<String>,
}

impl Bulk {
    /// Makes a producer. Does not wait for the cluster.
    ///
    /// # Errors
    /// The client library refuses the cluster's properties.
    pub fn new(cluster: &Cluster, acks: Acks) -> Result<Self, Error> {
        let mut config = settings::probe(cluster);
        for (name, value) in DEFAULTS {
            if config.get(name).is_none() {
                config.set(name, value);
            }
        }
        match acks {
            Acks::All => config.set("enable.idempotence", "true").set("acks", "all"),
            Acks::Leader => config.set("acks", "1"),
        };
        // After the properties: how long this file waits follows from it.
        config.set(
            "delivery.timeout.ms",
            DELIVERY_TIMEOUT.as_millis().to_string(),
        );
        let producer = config
            .create_with_context(Reports::default())
            .map_err(|error| error::mapped(&error, "settings of the producer"))?;
        Ok(Self { producer, sent: 0 })
    }

    /// Asks the cluster how many partitions a topic has; where the cluster creates
    /// topics on demand, this creates it.
    ///
    /// # Errors
    /// The cluster does not answer in time, or has no such topic.
    pub fn partitions(&self, topic: &str, deadline: Duration) -> Result<u32, Error> {
        let begun = Instant::now();
        let until = begun + deadline;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let metadata = self
                .producer
                .client()
                .fetch_metadata(Some(topic), left)
                .map_err(|error| {
                    self.serve(COMPLAINTS);
                    Error {
                        kind: ErrorKind::Transient,
                        detail: format!("the cluster does not answer: {}", self.why(&error)),
                    }
                })?;
            let Some(found) = metadata.topics().iter().find(|found| found.name() == topic) else {
                return Err(missing(topic, "the cluster does not name it"));
            };
            match found.error().map(RDKafkaErrorCode::from) {
                None => return Ok(u32::try_from(found.partitions().len()).unwrap_or(u32::MAX)),
                // Just created: its leaders are being chosen.
                Some(RDKafkaErrorCode::LeaderNotAvailable) if Instant::now() < until => {
                    self.serve(SERVE);
                }
                // Just created, and this broker has not heard of it yet.
                Some(RDKafkaErrorCode::UnknownTopicOrPartition)
                    if Instant::now() < until.min(begun + NEWS) =>
                {
                    self.serve(SERVE);
                }
                Some(code) => return Err(missing(topic, &code.to_string())),
            }
        }
    }

    /// Sends a record. Blocks while the queue of unconfirmed records is full (100,000
    /// records or 64 MiB). What goes wrong is found in [`Self::take_failures`].
    pub fn send(&mut self, record: &Record<'_>) {
        self.send_as(self.sent, record);
    }

    /// The same, with a number of the sender's own by which a failure names the record.
    pub fn send_as(&mut self, number: u64, record: &Record<'_>) {
        let sent = self.sent;
        self.sent += 1;
        // Numbers a machine word cannot hold are out of reach; the count would be
        // right even then, only the number shown would not.
        let mut message: BaseRecord<'_, [u8], [u8], usize> =
            BaseRecord::with_opaque_to(record.topic, usize::try_from(number).unwrap_or(usize::MAX));
        message.partition = record.partition;
        message.key = record.key;
        message.payload = record.value;
        message.headers = headers::owned(record.headers);
        message.timestamp = record.timestamp_ms;
        let until = Instant::now() + DELIVERY_TIMEOUT + REPORT_SLACK;
        let mut outcome = self.producer.send(message);
        while let Err((error, message)) = outcome {
            let full = error.rdkafka_error_code() == Some(RDKafkaErrorCode::QueueFull);
            if !full || Instant::now() >= until {
                let error = refused(record.topic, record.partition, &error, None);
                self.producer.context().failed(number, false, error);
                return;
            }
            self.serve(SERVE);
            outcome = self.producer.send(message);
        }
        if sent.is_multiple_of(SERVE_EVERY) {
            self.serve(Duration::ZERO);
        }
    }

    /// Lets reports come in for `wait`.
    pub fn serve(&self, wait: Duration) {
        self.producer.poll(wait);
    }

    /// Waits until every record is written or failed, at most the delivery timeout
    /// and ten seconds. Calls `progress` now and then.
    pub fn finish(&mut self, mut progress: impl FnMut(Count)) -> Count {
        let until = Instant::now() + DELIVERY_TIMEOUT + REPORT_SLACK;
        loop {
            let count = self.count();
            progress(count);
            if count.written + count.failed >= count.sent {
                return count;
            }
            if Instant::now() >= until {
                return self.give_up();
            }
            self.serve(SERVE);
        }
    }

    /// What has become of the records so far.
    #[must_use]
    pub fn count(&self) -> Count {
        let state = self.producer.context().state.lock();
        Count {
            sent: self.sent,
            written: state.written,
            failed: state.failed,
        }
    }

    /// The failures since the last call.
    pub fn take_failures(&mut self) -> Vec<Failure> {
        std::mem::take(&mut self.producer.context().state.lock().failures)
    }

    /// Declares failed what the client library owes a report for. It keeps its own
    /// timeout, so this is for a bug in it.
    fn give_up(&self) -> Count {
        let mut state = self.producer.context().state.lock();
        let open = self.sent.saturating_sub(state.written + state.failed);
        state.failed += open;
        let detail = format!("{open} records were never reported on");
        let error = Error {
            kind: ErrorKind::Transient,
            detail,
        };
        state.failures.push(Failure {
            number: u64::MAX,
            is_unknown: true,
            error,
        });
        Count {
            sent: self.sent,
            written: state.written,
            failed: state.failed,
        }
    }

    fn why(&self, error: &KafkaError) -> String {
        let trouble = self.producer.context().state.lock().trouble.clone();
        trouble.unwrap_or_else(|| error.to_string())
    }
}

impl fmt::Debug for Bulk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bulk")
            .field("count", &self.count())
            .finish_non_exhaustive()
    }
}

impl Reports {
    fn failed(&self, number: u64, is_unknown: bool, error: Error) {
        let mut state = self.state.lock();
        state.failed += 1;
        state.failures.push(Failure {
            number,
            is_unknown,
            error,
        });
    }
}

impl ClientContext for Reports {
    fn error(&self, _: KafkaError, reason: &str) {
        self.state.lock().trouble = Some(reason.to_owned());
    }
}

impl ProducerContext for Reports {
    type DeliveryOpaque = usize;

    fn delivery(&self, result: &DeliveryResult<'_>, number: usize) {
        match result {
            Ok(_) => self.state.lock().written += 1,
            Err((failed, record)) => {
                let trouble = self.state.lock().trouble.clone();
                let partition = Some(record.partition()).filter(|partition| *partition >= 0);
                let code = failed.rdkafka_error_code();
                let is_unknown = code.is_some_and(|code| error::why(code) == Why::TimedOut);
                let error = refused(record.topic(), partition, failed, trouble.as_deref());
                let number = u64::try_from(number).unwrap_or(u64::MAX);
                self.failed(number, is_unknown, error);
            }
        }
    }
}

fn missing(topic: &str, why: &str) -> Error {
    Error {
        kind: ErrorKind::Operator,
        detail: format!("topic {topic} cannot be used: {why}"),
    }
}

fn refused(
    topic: &str,
    partition: Option<i32>,
    error: &KafkaError,
    trouble: Option<&str>,
) -> Error {
    let code = error.rdkafka_error_code();
    let timed_out = code == Some(RDKafkaErrorCode::MessageTimedOut);
    let lane = partition.map_or_else(
        || topic.to_owned(),
        |partition| format!("{topic}/{partition}"),
    );
    let mut mapped = error::mapped(error, &lane);
    if let Some(trouble) = trouble.filter(|_| timed_out) {
        mapped.detail = format!("{}; {trouble}", mapped.detail);
    }
    mapped
}

#[cfg(test)]
mod tests;
