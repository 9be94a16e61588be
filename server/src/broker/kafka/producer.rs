//! Writes records and waits for Kafka's word on each.
//!
//! Invariant: nothing that was accepted is thrown away silently. rdkafka purges
//! what is under way when a producer is dropped, so this one flushes first.

use std::{
    fmt,
    future::ready,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use bytes::Bytes;
use parking_lot::Mutex;
use rdkafka::{
    ClientConfig,
    error::{KafkaError, RDKafkaErrorCode},
    producer::{BaseRecord, Producer as _, ThreadedProducer},
};
use tokio::sync::oneshot;
use tracing::{error, warn};

mod reports;

pub(super) use self::reports::Waiting;
use self::reports::{Reports, unwritten};
use super::{alone::Alone, destination::Destinations, error as errors, headers, settings};
use crate::{
    broker::{
        Error, ErrorKind, Flushed, Largest, Outgoing, Partitions, Placed, Produced, Producer,
        Receipt, Unwritten, Write,
    },
    config::{Acks, Cluster, Publish},
    telemetry::troubles::{self, Trouble},
};

/// A producer: of dead letters with acks=all and idempotence, or of published records
/// as their publisher wants them.
pub struct KafkaProducer {
    inner: Arc<Inner>,
}

struct Inner {
    config: ClientConfig,
    /// Records of refused batches are sent again one by one.
    is_publishing: bool,
    client: Mutex<Client>,
    destinations: Destinations,
    /// A fatally failed client is being replaced.
    replacing: AtomicBool,
}

pub(super) type Client = Arc<ThreadedProducer<Reports>>;

/// What became of a record, in a while.
pub(super) type Delivery = oneshot::Receiver<Result<Placed, KafkaError>>;

impl KafkaProducer {
    /// A producer of dead letters on `cluster` with `properties` on top of the cluster's own.
    /// Asks no broker.
    ///
    /// # Errors
    /// librdkafka refuses the settings.
    pub fn new(cluster: &Cluster, properties: &[(String, String)]) -> Result<Self, Error> {
        Self::with(cluster, settings::producer(cluster, properties), false)
    }

    /// A producer of published records on `cluster`, each of which is answered `within`
    /// that time. Asks no broker; blocks for as long as the client library needs to read
    /// keys and certificates.
    ///
    /// # Errors
    /// librdkafka refuses the settings.
    pub fn publishing(
        cluster: &Cluster,
        publish: &Publish,
        acks: Acks,
        is_idempotent: bool,
        within: Duration,
    ) -> Result<Self, Error> {
        let config = settings::publisher(cluster, publish, acks, is_idempotent, within);
        Self::with(cluster, config, true)
    }

    /// Looks whether the client library knows the properties that producers of published
    /// records have, and takes their values. Makes nothing.
    ///
    /// # Errors
    /// It does not.
    pub fn check(cluster: &Cluster, publish: &Publish) -> Result<(), Error> {
        let acks = publish.acks;
        let is_idempotent = publish.is_idempotent(acks);
        let within = settings::DELIVERY_TIMEOUT;
        settings::publisher(cluster, publish, acks, is_idempotent, within)
            .create_native_config()
            .map(drop)
            .map_err(|error| errors::mapped(&error, "settings of the publishers' producers"))
    }

    fn with(cluster: &Cluster, config: ClientConfig, is_publishing: bool) -> Result<Self, Error> {
        let client = build(&config, is_publishing)
            .map_err(|error| errors::mapped(&error, "settings of the producer"))?;
        let inner = Inner {
            config,
            is_publishing,
            client: Mutex::new(client),
            destinations: Destinations::new(cluster),
            replacing: AtomicBool::new(false),
        };
        Ok(Self {
            inner: Arc::new(inner),
        })
    }

    /// Waits until every record has its answer, `timeout` at most. Blocks.
    ///
    /// # Errors
    /// Some records have no answer yet; they go on being tried.
    pub fn flush(&self, timeout: Duration) -> Result<(), Error> {
        let client = self.inner.client();
        flush(&client, timeout)
    }
}

#[cfg(test)]
impl KafkaProducer {
    pub(super) fn knows_nothing_of(&self, topic: &str) -> bool {
        self.inner.destinations.knows_nothing_of(topic)
    }
}

impl Producer for KafkaProducer {
    fn produce(&self, record: Outgoing) -> Produced {
        let client = self.inner.client();
        match enqueue(&client, &record) {
            Err(error) => {
                self.inner.replace_if_fatal(&error);
                self.inner.destinations.doubt(&record.topic, &error);
                let mut refusal = refusal(&error, &record.topic);
                if error.rdkafka_error_code() == Some(RDKafkaErrorCode::QueueFull) {
                    refusal.kind = ErrorKind::Full;
                }
                Box::pin(ready(Err(refusal)))
            }
            Ok(delivery) => {
                let inner = Arc::clone(&self.inner);
                Box::pin(async move {
                    match delivery.await {
                        Ok(Ok(placed)) => Ok(placed),
                        Ok(Err(error)) => {
                            inner.replace_if_fatal(&error);
                            inner.destinations.doubt(&record.topic, &error);
                            Err(refusal(&error, &record.topic))
                        }
                        Err(_) => {
                            let detail = "the producer was closed before Kafka answered";
                            Err(errors::transient(detail))
                        }
                    }
                })
            }
        }
    }

    fn partitions(&self, topic: &str) -> Partitions {
        let (inner, topic) = (Arc::clone(&self.inner), topic.to_owned());
        Box::pin(async move {
            let client = inner.client();
            let count = inner.destinations.partitions(client, topic).await;
            count.map(Some)
        })
    }

    fn largest(&self, topic: &str) -> Largest {
        let (inner, topic) = (Arc::clone(&self.inner), topic.to_owned());
        Box::pin(async move { inner.destinations.largest(topic).await })
    }

    fn flushed(&self, timeout: Duration) -> Flushed {
        self.inner.flushed(timeout)
    }
}

impl Write for KafkaProducer {
    fn enqueue(&self, record: &Outgoing, receipt: Receipt) -> Result<(), Receipt> {
        let client = self.inner.client();
        let Err((error, waiting)) = send(
            &client,
            record,
            Waiting::Receipt(receipt, record.timestamp_ms),
        ) else {
            return Ok(());
        };
        let Waiting::Receipt(receipt, _) = waiting else {
            return Ok(());
        };
        if error.rdkafka_error_code() == Some(RDKafkaErrorCode::QueueFull) {
            return Err(receipt);
        }
        receipt.answer(Err(untaken(&error, &client)));
        self.inner.replace_if_fatal(&error);
        Ok(())
    }

    fn flushed(&self, timeout: Duration) -> Flushed {
        self.inner.flushed(timeout)
    }
}

impl Inner {
    fn client(&self) -> Client {
        Arc::clone(&self.client.lock())
    }

    /// On a thread for blocking work. Cancelling it leaves the records under way.
    fn flushed(&self, timeout: Duration) -> Flushed {
        let client = self.client();
        Box::pin(async move {
            tokio::task::spawn_blocking(move || flush(&client, timeout))
                .await
                .unwrap_or_else(|error| {
                    Err(errors::transient(format!("flush ended early: {error}")))
                })
        })
    }

    /// An idempotent producer that failed fatally refuses everything for ever; a
    /// new one goes on. What was under way has been answered with errors.
    fn replace_if_fatal(self: &Arc<Self>, error: &KafkaError) {
        if !fatal(error) || self.replacing.swap(true, Ordering::AcqRel) {
            return;
        }
        if let Some(count) = troubles::again(Trouble::Producer) {
            warn!(%error, count, "a producer failed for good and is replaced");
        }
        let inner = Arc::clone(self);
        let spawned = thread::Builder::new()
            .name("kafka-producer".to_owned())
            .spawn(move || match build(&inner.config, inner.is_publishing) {
                Ok(next) => {
                    let former = std::mem::replace(&mut *inner.client.lock(), next);
                    inner.replacing.store(false, Ordering::Release);
                    drop(former);
                }
                Err(error) => {
                    if let Some(count) = troubles::again(Trouble::Producer) {
                        error!(%error, count, "a producer cannot be built");
                    }
                    inner.replacing.store(false, Ordering::Release);
                }
            });
        if spawned.is_err() {
            self.replacing.store(false, Ordering::Release);
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let client = self.client();
        if under_way(&client) == 0 {
            return;
        }
        // On a thread of its own, because this may run on one of the runtime's.
        let spawned = thread::Builder::new()
            .name("kafka-flush".to_owned())
            .spawn(move || {
                if let Err(error) = flush(&client, settings::DELIVERY_TIMEOUT) {
                    warn!(%error, "producer was dropped with records under way");
                }
            });
        if let Err(error) = spawned {
            error!(%error, "records under way are given up: there is no thread to flush them");
        }
    }
}

/// A client with these settings. Asks no broker.
pub(super) fn create(config: &ClientConfig) -> Result<Client, KafkaError> {
    build(config, false)
}

fn build(config: &ClientConfig, is_publishing: bool) -> Result<Client, KafkaError> {
    let alone = is_publishing.then(|| Alone::new(config));
    config.create_with_context(Reports { alone }).map(Arc::new)
}

/// The client that sends records of refused batches again, if there was one.
fn alone(client: &Client) -> Option<Client> {
    client.context().alone.as_ref().and_then(Alone::client)
}

fn under_way(client: &Client) -> i32 {
    client.in_flight_count() + alone(client).map_or(0, |alone| alone.in_flight_count())
}

fn flush(client: &Client, timeout: Duration) -> Result<(), Error> {
    let begin = Instant::now();
    let flushed = client.flush(timeout).and_then(|()| {
        // What was refused has been handed over by now.
        let left = timeout.saturating_sub(begin.elapsed());
        alone(client).map_or(Ok(()), |alone| alone.flush(left))
    });
    flushed.map_err(|_| {
        let count = under_way(client);
        errors::transient(format!("{count} records have no answer from Kafka yet"))
    })
}

/// Enqueues a record, to be answered through what is returned.
pub(super) fn enqueue(client: &Client, record: &Outgoing) -> Result<Delivery, KafkaError> {
    let (report, delivery) = oneshot::channel();
    match send(client, record, Waiting::Future(report)) {
        Ok(()) => Ok(delivery),
        Err((error, _)) => Err(error),
    }
}

/// Enqueues a record, or gives back who waits for it.
pub(super) fn send(
    client: &Client,
    record: &Outgoing,
    waiting: Waiting,
) -> Result<(), (KafkaError, Waiting)> {
    let outgoing = BaseRecord::<[u8], [u8], Box<Waiting>> {
        topic: &record.topic,
        partition: record.partition,
        payload: record.value.as_ref().map(Bytes::as_ref),
        key: record.key.as_ref().map(Bytes::as_ref),
        timestamp: record.timestamp_ms,
        headers: headers::owned(&record.headers),
        delivery_opaque: Box::new(waiting),
    };
    client
        .send(outgoing)
        .map_err(|(error, refused)| (error, *refused.delivery_opaque))
}

/// What a publisher is told of a record that the client did not take: it may have failed
/// for good.
fn untaken(error: &KafkaError, client: &Client) -> Unwritten {
    let said = unwritten(error);
    match client.client().fatal_error().filter(|_| fatal(error)) {
        Some((_, reason)) => Unwritten {
            detail: format!("the producer failed and is replaced: {reason}"),
            ..said
        },
        None => said,
    }
}

fn fatal(error: &KafkaError) -> bool {
    matches!(
        error.rdkafka_error_code(),
        Some(RDKafkaErrorCode::Fatal | RDKafkaErrorCode::Fenced)
    )
}

pub(super) fn refusal(error: &KafkaError, topic: &str) -> Error {
    let what = format!("write to topic {topic}");
    if matches!(error, KafkaError::Nul(_)) {
        let detail = format!("{what}: the name holds a NUL");
        return Error {
            kind: ErrorKind::Operator,
            detail,
        };
    }
    errors::mapped(error, &what)
}

impl fmt::Debug for KafkaProducer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The settings hold secrets.
        f.debug_struct("KafkaProducer").finish_non_exhaustive()
    }
}
