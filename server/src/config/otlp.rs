//! How the gateway names itself in telemetry, and where it sends it.

use std::{fmt, time::Duration};

use axum::http::{HeaderName, HeaderValue};

/// What telemetry says of the gateway, and where it goes by itself.
#[derive(Clone, Debug)]
pub struct Telemetry {
    /// The name of the service.
    pub service_name: String,
    /// Tells this gateway from others of the service.
    pub instance: String,
    /// The most lanes that have metrics of their own.
    pub max_lanes: usize,
    /// Where it is sent over OTLP; `None`: nowhere.
    pub otlp: Option<Otlp>,
}

/// A receiver of OTLP over gRPC.
#[derive(Clone)]
pub struct Otlp {
    /// `http://host:port` or `https://host:port`.
    pub endpoint: String,
    /// Sent with every request. Their values are secret.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// Authorities of the receiver's certificate, as PEM; `None`: those of the system.
    pub ca: Option<Vec<u8>>,
    /// Whether spans are sent.
    pub traces: bool,
    /// Whether metrics are sent.
    pub metrics: bool,
    /// How often metrics are.
    pub metrics_interval: Duration,
}

impl Otlp {
    /// Whether it is spoken to over TLS.
    #[must_use]
    pub fn is_secure(&self) -> bool {
        self.endpoint.starts_with("https://")
    }
}

impl fmt::Debug for Otlp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.headers.iter().map(|(name, _)| name.as_str()).collect();
        f.debug_struct("Otlp")
            .field("endpoint", &self.endpoint)
            .field("headers", &names)
            .field("ca", &self.ca.is_some())
            .field("traces", &self.traces)
            .field("metrics", &self.metrics)
            .field("metrics_interval", &self.metrics_interval)
            .finish()
    }
}
