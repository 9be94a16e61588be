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
    time::Duration,
};

use bytes::Bytes;
use parking_lot::Mutex;
use rdkafka::{
    ClientConfig, ClientContext,
    config::RDKafkaLogLevel,
    error::{KafkaError, RDKafkaErrorCode},
    message::{Header, OwnedHeaders},
    producer::{FutureProducer, FutureRecord, Producer as _, future_producer::DeliveryFuture},
};
use tracing::{debug, error, warn};

use super::{error as errors, rebalance::log, settings};
use crate::{
    broker::{Error, ErrorKind, Flushed, Outgoing, Placed, Produced, Producer},
    config::Cluster,
};

/// An idempotent producer with acks=all.
pub struct KafkaProducer {
    inner: Arc<Inner>,
}

struct Inner {
    config: ClientConfig,
    client: Mutex<FutureProducer<Quiet>>,
    /// A fatally failed client is being replaced.
    replacing: AtomicBool,
}

impl KafkaProducer {
    /// A producer on `cluster` with `properties` on top of the cluster's own.
    /// Asks no broker.
    ///
    /// # Errors
    /// librdkafka refuses the settings.
    pub fn new(cluster: &Cluster, properties: &[(String, String)]) -> Result<Self, Error> {
        let config = settings::producer(cluster, properties);
        let client = config
            .create_with_context(Quiet)
            .map_err(|error| errors::mapped(&error, "settings of the producer"))?;
        let inner = Inner {
            config,
            client: Mutex::new(client),
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
        let client = self.inner.client.lock().clone();
        flush(&client, timeout)
    }
}

impl Producer for KafkaProducer {
    fn produce(&self, record: Outgoing) -> Produced {
        let client = self.inner.client.lock().clone();
        match enqueue(&client, &record) {
            Err(error) => {
                self.inner.replace_if_fatal(&error);
                Box::pin(ready(Err(refusal(&error, &record.topic))))
            }
            Ok(delivery) => {
                let inner = Arc::clone(&self.inner);
                Box::pin(async move {
                    match delivery.await {
                        Ok(Ok(placed)) => Ok(Placed {
                            partition: placed.partition,
                            offset: placed.offset,
                        }),
                        Ok(Err((error, _))) => {
                            inner.replace_if_fatal(&error);
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

    /// On a thread for blocking work. Cancelling it leaves the records under way.
    fn flushed(&self, timeout: Duration) -> Flushed {
        let client = self.inner.client.lock().clone();
        Box::pin(async move {
            tokio::task::spawn_blocking(move || flush(&client, timeout))
                .await
                .unwrap_or_else(|error| {
                    Err(errors::transient(format!("flush ended early: {error}")))
                })
        })
    }
}

impl Inner {
    /// An idempotent producer that failed fatally refuses everything for ever; a
    /// new one goes on. What was under way has been answered with errors.
    fn replace_if_fatal(self: &Arc<Self>, error: &KafkaError) {
        if !fatal(error) || self.replacing.swap(true, Ordering::AcqRel) {
            return;
        }
        warn!(%error, "producer failed fatally and is replaced");
        let inner = Arc::clone(self);
        let spawned = thread::Builder::new()
            .name("kafka-producer".to_owned())
            .spawn(move || match inner.config.create_with_context(Quiet) {
                Ok(next) => {
                    let former = std::mem::replace(&mut *inner.client.lock(), next);
                    inner.replacing.store(false, Ordering::Release);
                    drop(former);
                }
                Err(error) => {
                    error!(%error, "producer cannot be built");
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
        let client = self.client.lock().clone();
        if client.in_flight_count() == 0 {
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

fn flush(client: &FutureProducer<Quiet>, timeout: Duration) -> Result<(), Error> {
    client.flush(timeout).map_err(|_| {
        let count = client.in_flight_count();
        errors::transient(format!("{count} records have no answer from Kafka yet"))
    })
}

pub(super) fn enqueue(
    client: &FutureProducer<Quiet>,
    record: &Outgoing,
) -> Result<DeliveryFuture, KafkaError> {
    let mut headers = OwnedHeaders::new_with_capacity(record.headers.len());
    for (key, value) in &record.headers {
        headers = headers.insert(Header {
            key,
            value: value.as_deref(),
        });
    }
    let outgoing = FutureRecord {
        topic: &record.topic,
        partition: record.partition,
        payload: record.value.as_ref().map(Bytes::as_ref),
        key: record.key.as_ref().map(Bytes::as_ref),
        timestamp: record.timestamp_ms,
        headers: (!record.headers.is_empty()).then_some(headers),
    };
    client
        .send_result::<[u8], [u8]>(outgoing)
        .map_err(|(error, _)| error)
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

/// Errors reach whoever waits for a record; here they are for whoever debugs.
pub(super) struct Quiet;

impl ClientContext for Quiet {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, line: &str) {
        log(level, facility, line);
    }

    fn stats_raw(&self, _: &[u8]) {}

    fn error(&self, error: KafkaError, reason: &str) {
        debug!(%error, reason, "producer reports an error");
    }
}
