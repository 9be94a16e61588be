//! [`Push`]: sends metrics to a receiver of OTLP, again and again.
//!
//! **Invariants**: one export at a time, each within a bounded time; one that fails is
//! forgotten, since the next says all of it again. A receiver that is not there is told as an
//! episode: once when it begins, once in a while as long as it lasts, once when it is over.

use std::{
    error::Error as _,
    sync::atomic::Ordering,
    time::{Duration, Instant, SystemTime},
};

use opentelemetry_proto::tonic::collector::metrics::v1::metrics_service_client::MetricsServiceClient;
use tokio::{
    task::JoinHandle,
    time::{MissedTickBehavior, interval, timeout},
};
use tonic::{
    Request, Status,
    metadata::{Ascii, MetadataKey, MetadataValue},
    transport::{Certificate, Channel, ClientTlsConfig, Endpoint},
};

use super::{
    gather::Source,
    otlp::{Span, request},
};
use crate::{
    config::{Otlp, Telemetry},
    telemetry::{cause::cause, episode::Episode},
};

/// The longest a connection, and an export, may take.
const CONNECTED_WITHIN: Duration = Duration::from_secs(5);
const EXPORTED_WITHIN: Duration = Duration::from_secs(10);

/// The last export, when the gateway stops, may not keep it.
const LAST_WITHIN: Duration = Duration::from_secs(3);

/// Sends metrics until it is dropped.
#[derive(Debug)]
pub struct Push {
    sender: Sender,
    task: JoinHandle<()>,
}

/// What is sent with every export.
type Headers = Vec<(MetadataKey<Ascii>, MetadataValue<Ascii>)>;

/// What an export is made of.
#[derive(Clone, Debug)]
struct Sender {
    source: Source,
    client: MetricsServiceClient<Channel>,
    headers: Headers,
    from: Vec<(&'static str, String)>,
    endpoint: String,
}

impl Push {
    /// Begins to send, if metrics are to be sent. Never waits. Must be called within a tokio
    /// runtime.
    ///
    /// # Errors
    /// The receiver's address or its authorities cannot be used, in words.
    pub fn begin(telemetry: &Telemetry, source: &Source) -> Result<Option<Self>, String> {
        let Some(otlp) = telemetry.otlp.as_ref().filter(|otlp| otlp.metrics) else {
            return Ok(None);
        };
        let sender = Sender {
            source: source.clone(),
            client: MetricsServiceClient::new(channel(otlp)?),
            headers: headers(otlp)?,
            from: vec![
                ("service.name", telemetry.service_name.clone()),
                ("service.instance.id", telemetry.instance.clone()),
                ("service.version", env!("CARGO_PKG_VERSION").to_owned()),
            ],
            endpoint: otlp.endpoint.clone(),
        };
        let task = tokio::spawn(sender.clone().run(otlp.metrics_interval));
        Ok(Some(Self { sender, task }))
    }

    /// Sends what was counted last. Takes three seconds at most.
    pub async fn end(mut self) {
        self.task.abort();
        if timeout(LAST_WITHIN, self.sender.export()).await.is_err() {
            tracing::warn!("the last metrics were not sent in time");
        }
    }
}

impl Drop for Push {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Sender {
    async fn run(mut self, every: Duration) {
        let mut due = interval(every);
        due.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // The first one is at once, when there is nothing to tell yet.
        due.tick().await;
        let mut failures = Episode::new();
        loop {
            due.tick().await;
            match self.export().await {
                Ok(()) => {
                    if let Some(count) = failures.over() {
                        tracing::info!(endpoint = self.endpoint, count, "metrics are sent again");
                    }
                }
                Err(status) => {
                    // What a receiver says itself may repeat what it was sent.
                    if let Some(count) = failures.again(Instant::now()) {
                        tracing::warn!(
                            endpoint = self.endpoint,
                            reason = %status.code(),
                            error = status.source().map(cause),
                            count,
                            "metrics could not be sent to telemetry.otlp.endpoint, and are sent \
                             again when the next are due"
                        );
                    }
                }
            }
        }
    }

    async fn export(&mut self) -> Result<(), Status> {
        let picture = self.source.picture().await;
        let span = Span {
            started: self.source.started,
            now: SystemTime::now(),
        };
        let mut message = Request::new(request(&picture, &self.from, span));
        for (name, value) in &self.headers {
            message.metadata_mut().insert(name.clone(), value.clone());
        }
        let exported = timeout(EXPORTED_WITHIN, self.client.export(message)).await;
        let exported = exported.unwrap_or_else(|_elapsed| {
            Err(Status::deadline_exceeded(format!(
                "no answer within {EXPORTED_WITHIN:?}"
            )))
        });
        let count = match &exported {
            Ok(_) => &self.source.exports.sent,
            Err(_) => &self.source.exports.failed,
        };
        count.fetch_add(1, Ordering::Relaxed);
        let response = exported?.into_inner();
        if let Some(partly) = response
            .partial_success
            .filter(|it| it.rejected_data_points > 0)
        {
            tracing::debug!(
                points = partly.rejected_data_points,
                "the receiver of metrics refused a part of them"
            );
        }
        Ok(())
    }
}

fn channel(otlp: &Otlp) -> Result<Channel, String> {
    let endpoint =
        Endpoint::from_shared(otlp.endpoint.clone()).map_err(|error| error.to_string())?;
    let endpoint = endpoint.connect_timeout(CONNECTED_WITHIN);
    let endpoint = if otlp.is_secure() {
        let tls = match &otlp.ca {
            Some(ca) => ClientTlsConfig::new().ca_certificate(Certificate::from_pem(ca)),
            None => ClientTlsConfig::new().with_native_roots(),
        };
        endpoint
            .tls_config(tls)
            .map_err(|error| error.to_string())?
    } else {
        endpoint
    };
    Ok(endpoint.connect_lazy())
}

fn headers(otlp: &Otlp) -> Result<Headers, String> {
    let each = otlp.headers.iter().map(|(name, value)| {
        let wrong = || format!("the header {name} cannot be sent");
        let key = MetadataKey::from_bytes(name.as_str().as_bytes()).map_err(|_| wrong())?;
        let mut value = MetadataValue::try_from(value.as_bytes()).map_err(|_| wrong())?;
        value.set_sensitive(true);
        Ok((key, value))
    });
    each.collect()
}

#[cfg(test)]
mod tests {
    use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;

    use super::*;

    #[tokio::test]
    async fn absent_receiver_is_told_with_its_cause_once() {
        let closed = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = closed.local_addr().expect("its address");
        drop(closed);
        let endpoint = Endpoint::from_shared(format!("http://{address}")).expect("an address");
        let mut client = MetricsServiceClient::new(endpoint.connect_lazy());
        let asked = client.export(ExportMetricsServiceRequest::default()).await;
        let status = asked.expect_err("nobody listens");
        let told = status.source().map(cause).expect("a cause");
        assert!(told.contains("Connection refused"), "{told}");
        assert_eq!(told.matches("tcp connect error").count(), 1, "{told}");
    }
}
