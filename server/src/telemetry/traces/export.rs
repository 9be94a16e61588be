//! Spans on their way to a receiver of OTLP.
//!
//! **Invariant**: whoever ends a span never waits for it: the SDK's processor has a queue of
//! its own, drops what finds no room there, and sends from a thread of its own.

use std::{
    error::Error,
    fmt,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use axum::http::HeaderMap;
use opentelemetry_otlp::{SpanExporter, WithExportConfig as _, WithTonicConfig as _};
use opentelemetry_sdk::{
    Resource,
    error::OTelSdkResult,
    trace::{self, BatchConfigBuilder, BatchSpanProcessor, SpanData, SpanProcessor as _},
};
use tonic::{
    metadata::MetadataMap,
    transport::{Certificate, ClientTlsConfig, Endpoint},
};

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

/// Characters of an error in the log.
const LONGEST_ERROR: usize = 300;

/// Begins to send. Must be called within a tokio runtime; nothing is connected yet.
///
/// # Errors
/// The endpoint or its authorities are not what they should be, in words.
pub fn export(to: &Collector<'_>, resource: &Resource) -> Result<BatchSpanProcessor, String> {
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
        lost: AtomicU64::new(0),
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

/// Says in the log when spans begin to get lost, and when they no longer do.
#[derive(Debug)]
struct Telling<E> {
    exporter: E,
    /// Spans since they last arrived.
    lost: AtomicU64,
}

impl<E: trace::SpanExporter> Telling<E> {
    fn tell(&self, spans: u64, result: &OTelSdkResult) {
        match result {
            Ok(()) => {
                let lost = self.lost.swap(0, Ordering::Relaxed);
                if lost > 0 {
                    tracing::info!(spans = lost, "spans reach the collector again");
                }
            }
            Err(error) => {
                if self.lost.fetch_add(spans, Ordering::Relaxed) == 0 {
                    // What a collector says is not this gateway's own text.
                    let error = error.to_string();
                    let printable = error.chars().filter(|it| !it.is_control());
                    let error: String = printable.take(LONGEST_ERROR).collect();
                    tracing::warn!(error, "spans do not reach the collector and are lost");
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
