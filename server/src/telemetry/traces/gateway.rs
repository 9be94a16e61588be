//! [`Traces`]: the traces of a gateway, from its configuration to where spans go.

use std::{sync::Arc, time::Duration};

use axum::Router;
use opentelemetry::KeyValue;
use opentelemetry_sdk::Resource;

use super::{
    Collector, Outlet, Ring, Sampler, Sampling, Spans, Tracer, export, names, routes, tracer::Out,
};
use crate::config;

/// What all parts of a gateway trace with. Clones are one.
#[derive(Clone, Debug)]
pub struct Traces {
    /// `None`: spans would go nowhere, so none is made.
    out: Option<Arc<Out>>,
    sampler: Sampler,
    resource: Resource,
    spans: Arc<Spans>,
}

impl Traces {
    /// As configured. Must be called within a tokio runtime.
    ///
    /// # Errors
    /// What is said of the collector cannot be used, in words.
    pub fn begin(traces: &config::Traces, telemetry: &config::Telemetry) -> Result<Self, String> {
        let resource = Resource::builder_empty()
            .with_service_name(telemetry.service_name.clone())
            .with_attributes([
                KeyValue::new(names::SERVICE_INSTANCE, telemetry.instance.clone()),
                KeyValue::new(names::SERVICE_VERSION, env!("CARGO_PKG_VERSION")),
            ])
            .build();
        let otlp = telemetry.otlp.as_ref().filter(|otlp| otlp.traces);
        let spans = Arc::new(Spans::default());
        let export = otlp.map(|otlp| {
            let collector = Collector {
                endpoint: &otlp.endpoint,
                headers: otlp.headers.iter().cloned().collect(),
                ca: otlp.ca.as_deref(),
            };
            export(&collector, &resource, &spans)
        });
        let export = export.transpose()?;
        Ok(Self {
            spans,
            ..Self::new(traces, resource, export)
        })
    }

    /// Spans go to the ring, if it has room for any, and to `export`. `resource` is who they
    /// are from.
    #[must_use]
    pub fn new(traces: &config::Traces, resource: Resource, export: Option<Outlet>) -> Self {
        let ring = (traces.keep > 0).then(|| Arc::new(Ring::new(traces.keep)));
        let goes_somewhere = ring.is_some() || export.is_some();
        Self {
            out: goes_somewhere.then(|| Arc::new(Out::new(ring, export))),
            sampler: Sampler::new(traces.sample, traces.trust_parent),
            resource,
            spans: Arc::default(),
        }
    }

    /// What became of spans that were to be sent.
    #[must_use]
    pub fn spans(&self) -> Arc<Spans> {
        Arc::clone(&self.spans)
    }

    /// Traces no record.
    #[cfg(test)]
    pub(crate) fn quiet() -> Self {
        let none = config::Traces {
            sample: 0.0,
            trust_parent: false,
            keep: 1,
        };
        Self::new(&none, Resource::builder_empty().build(), None)
    }

    /// Which records of a cluster are traced; `None`: none.
    #[must_use]
    pub fn sampling(&self, cluster: &str) -> Option<Sampling> {
        self.out.as_ref()?;
        Sampling::new(self.sampler, cluster)
    }

    /// The tracer of a subscription.
    #[must_use]
    pub fn tracer(&self, of: &config::Subscription) -> Tracer {
        self.out.as_ref().map_or_else(Tracer::off, |out| {
            let own = [
                (names::SUBSCRIPTION, of.name.as_str()),
                (names::GROUP, of.group.as_str()),
                (names::CLUSTER, of.cluster.as_str()),
            ];
            Tracer::new(out, self.sampler, own)
        })
    }

    /// Whether `/v1/traces` can show any span.
    #[must_use]
    pub fn is_kept(&self) -> bool {
        self.out.as_ref().is_some_and(|out| out.ring.is_some())
    }

    /// `/v1/traces` of this gateway.
    pub fn routes(&self) -> Router {
        let ring = self.out.as_ref().and_then(|out| out.ring.clone());
        routes(ring, self.resource.clone())
    }

    /// Exports what has ended, within `limit`.
    pub async fn shut_down(&self, limit: Duration) {
        let Some(out) = self.out.clone().filter(|out| out.export.is_some()) else {
            return;
        };
        let shutting = tokio::task::spawn_blocking(move || {
            out.export
                .as_ref()
                .map_or(Ok(()), |export| export.shut_down(limit))
        });
        // The SDK keeps to the limit by itself as a rule.
        match tokio::time::timeout(limit, shutting).await {
            Ok(Ok(Ok(()))) => {}
            Ok(Ok(Err(spans))) => {
                tracing::warn!(spans, "the last spans may not have reached the collector");
            }
            Ok(Err(_)) | Err(_) => {
                tracing::warn!("the last spans may not have reached the collector");
            }
        }
    }
}
