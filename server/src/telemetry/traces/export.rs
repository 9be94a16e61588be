//! The receiver of OTLP that spans go to, and how it is reached.

use std::{error::Error, fmt, sync::Arc, time::Duration};

use axum::http::HeaderMap;
use opentelemetry_otlp::{SpanExporter, WithExportConfig as _, WithTonicConfig as _};
use opentelemetry_sdk::Resource;
use tonic::{
    metadata::MetadataMap,
    transport::{Certificate, ClientTlsConfig, Endpoint},
};

use super::outlet::{Outlet, Spans};

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

/// How long one attempt may take, connecting included.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Begins to send, and to count that in `spans`. Must be called within a tokio runtime;
/// nothing is connected yet.
///
/// # Errors
/// The endpoint or its authorities are not what they should be, in words.
pub fn export(
    to: &Collector<'_>,
    resource: &Resource,
    spans: &Arc<Spans>,
) -> Result<Outlet, String> {
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
    Ok(Outlet::begin(
        exporter,
        to.endpoint.to_owned(),
        resource,
        spans,
    ))
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
