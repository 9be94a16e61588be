//! Spans on their way to a receiver of OTLP.
//!
//! **Invariant**: whoever ends a span never waits for it: the SDK's processor has a queue of
//! its own, drops what finds no room there, and sends from a thread of its own.

use std::{
    error::Error,
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use axum::http::HeaderMap;
use opentelemetry_otlp::{SpanExporter, WithExportConfig as _, WithTonicConfig as _};
use opentelemetry_sdk::{
    Resource,
    error::OTelSdkResult,
    trace::{self, BatchConfigBuilder, BatchSpanProcessor, SpanData, SpanProcessor as _},
};
use parking_lot::Mutex;
use tonic::{
    metadata::MetadataMap,
    transport::{Certificate, ClientTlsConfig, Endpoint},
};

use crate::telemetry::{cause::cause, episode::Episode};

/// A receiver of OTLP over gRPC. Its headers are secret.
#[derive(Clone)]
pub struct Collector<'a> {
    /// `http://host:port` or `https://host:port`.
    pub endpoint: &'a str,
    /// Sent with every request.
    pub headers: HeaderMap,
    /// Authorities of its certificate, as PEM; `None`: those of the system.
    pub ca: Option<&'a [u8]>,
}

/// Spans that wait, and how many go together.
const QUEUE: usize = 8192;
const BATCH: usize = 512;

/// How long the first of them waits for others.
const DELAY: Duration = Duration::from_secs(1);

/// How long one attempt may take, connecting included.
const TIMEOUT: Duration = Duration::from_secs(10);

/// What became of spans that were to be sent.
#[derive(Debug, Default)]
pub struct Spans {
    /// The receiver has them.
    pub(in crate::telemetry) sent: AtomicU64,
    /// It did not take them.
    pub(in crate::telemetry) lost: AtomicU64,
}

/// Begins to send, and to count that in `spans`. Must be called within a tokio runtime;
/// nothing is connected yet.
///
/// # Errors
/// The endpoint or its authorities are not what they should be, in words.
pub fn export(
    to: &Collector<'_>,
    resource: &Resource,
    spans: &Arc<Spans>,
) -> Result<BatchSpanProcessor, String> {
    let wrong = |error: &dyn Error| error.to_string();
    let endpoint = Endpoint::from_shared(to.endpoint.to_owned()).map_err(|error| wrong(&error))?;
    let mut endpoint = endpoint.timeout(TIMEOUT).connect_timeout(TIMEOUT);
    if to.endpoint.starts_with("https://") {
        let tls = ClientTlsConfig::new();
        let tls = match to.ca {
            Some(ca) => tls.ca_certificate(Certificate::from_pem(ca)),
            None => tls.with_native_roots(),
        };
        endpoint = endpoint.tls_config(tls).map_err(|error| wrong(&error))?;
    }
    let exporter = SpanExporter::builder()
        .with_tonic()
        .with_channel(endpoint.connect_lazy())
        .with_metadata(MetadataMap::from_headers(to.headers.clone()))
        .with_timeout(TIMEOUT)
        .build()
        .map_err(|error| wrong(&error))?;
    let exporter = Telling {
        exporter,
        endpoint: to.endpoint.to_owned(),
        spans: Arc::clone(spans),
        losses: Mutex::default(),
    };
    let config = BatchConfigBuilder::default()
        .with_max_queue_size(QUEUE)
        .with_max_export_batch_size(BATCH)
        .with_scheduled_delay(DELAY)
        .build();
    let mut processor = BatchSpanProcessor::builder(exporter)
        .with_batch_config(config)
        .build();
    processor.set_resource(resource);
    Ok(processor)
}

/// Says in the log when spans begin to get lost, how many have been since, and when they no
/// longer do.
#[derive(Debug)]
struct Telling<E> {
    exporter: E,
    endpoint: String,
    spans: Arc<Spans>,
    losses: Mutex<Losses>,
}

/// Batches that were lost one after another.
#[derive(Debug, Default)]
struct Losses {
    episode: Episode,
    /// The spans in them.
    spans: u64,
}

impl Losses {
    /// One more batch is lost; how many were, and the spans in them, if it is time to tell.
    fn again(&mut self, spans: u64, now: Instant) -> Option<(u64, u64)> {
        self.spans = self.spans.saturating_add(spans);
        let count = self.episode.again(now)?;
        Some((count, self.spans))
    }

    /// A batch has arrived; what was lost before it, if anything was.
    fn over(&mut self) -> Option<(u64, u64)> {
        let count = self.episode.over()?;
        Some((count, std::mem::take(&mut self.spans)))
    }
}

impl<E: trace::SpanExporter> Telling<E> {
    fn tell(&self, spans: u64, result: &OTelSdkResult) {
        let endpoint = &self.endpoint;
        match result {
            Ok(()) => {
                self.spans.sent.fetch_add(spans, Ordering::Relaxed);
                let over = self.losses.lock().over();
                if let Some((count, spans)) = over {
                    tracing::info!(endpoint, count, spans, "spans reach the collector again");
                }
            }
            Err(error) => {
                self.spans.lost.fetch_add(spans, Ordering::Relaxed);
                let due = self.losses.lock().again(spans, Instant::now());
                if let Some((count, spans)) = due {
                    tracing::warn!(
                        endpoint,
                        error = cause(error),
                        count,
                        spans,
                        "spans do not reach the collector and are lost"
                    );
                }
            }
        }
    }
}

impl<E: trace::SpanExporter> trace::SpanExporter for Telling<E> {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let spans = batch.len() as u64;
        let result = self.exporter.export(batch).await;
        self.tell(spans, &result);
        result
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.exporter.shutdown_with_timeout(timeout)
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.exporter.force_flush()
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.exporter.set_resource(resource);
    }
}

impl fmt::Debug for Collector<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.headers.keys().map(|name| name.as_str()).collect();
        f.debug_struct("Collector")
            .field("endpoint", &self.endpoint)
            .field("headers", &names)
            .field("ca", &self.ca.is_some())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_are_told_at_once_then_with_their_sum_and_when_they_are_over() {
        let begin = Instant::now();
        let at = |seconds| begin + Duration::from_secs(seconds);
        let mut losses = Losses::default();
        assert_eq!(losses.over(), None);
        assert_eq!(losses.again(512, at(0)), Some((1, 512)));
        assert_eq!(losses.again(512, at(1)), None);
        assert_eq!(losses.again(100, at(31)), Some((3, 1124)));
        assert_eq!(losses.again(1, at(32)), None);
        assert_eq!(losses.over(), Some((4, 1125)));
        assert_eq!(losses.again(7, at(33)), Some((1, 7)), "another episode");
    }
}
