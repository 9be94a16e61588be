//! A receiver of OTLP: what a collector would get.

use std::{
    fs,
    net::SocketAddr,
    sync::{Arc, Mutex},
};

use opentelemetry_proto::tonic::{
    collector::{
        metrics::v1::{
            ExportMetricsServiceRequest, ExportMetricsServiceResponse,
            metrics_service_server::{MetricsService, MetricsServiceServer},
        },
        trace::v1::{
            ExportTraceServiceRequest, ExportTraceServiceResponse,
            trace_service_server::{TraceService, TraceServiceServer},
        },
    },
    common::v1::{KeyValue, any_value},
    metrics::v1::Metric,
};
use tokio::net::TcpListener;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::{
    Request, Response, Status,
    metadata::MetadataMap,
    transport::{self, Server, ServerTlsConfig},
};

use crate::support::Identity;

/// What has come so far. Clones are one.
#[derive(Clone, Debug, Default)]
pub(super) struct Receiver {
    got: Arc<Mutex<Vec<(MetadataMap, ExportMetricsServiceRequest)>>>,
    traces: Arc<Mutex<Vec<(MetadataMap, ExportTraceServiceRequest)>>>,
    /// It takes what comes and never answers.
    hangs: bool,
}

#[tonic::async_trait]
impl TraceService for Receiver {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        let headers = request.metadata().clone();
        self.traces
            .lock()
            .unwrap()
            .push((headers, request.into_inner()));
        if self.hangs {
            std::future::pending::<()>().await;
        }
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

#[tonic::async_trait]
impl MetricsService for Receiver {
    async fn export(
        &self,
        request: Request<ExportMetricsServiceRequest>,
    ) -> Result<Response<ExportMetricsServiceResponse>, Status> {
        let headers = request.metadata().clone();
        self.got
            .lock()
            .unwrap()
            .push((headers, request.into_inner()));
        if self.hangs {
            std::future::pending::<()>().await;
        }
        Ok(Response::new(ExportMetricsServiceResponse::default()))
    }
}

impl Receiver {
    /// Listens there, until the test ends.
    pub(super) fn start(address: SocketAddr) -> Self {
        let receiver = Self::default();
        let service = MetricsServiceServer::new(receiver.clone());
        let service = service.max_decoding_message_size(64 << 20);
        let serving = Server::builder().add_service(service).serve(address);
        tokio::spawn(async move { serving.await.expect("the receiver listens") });
        receiver
    }

    /// Listens with TLS, for metrics and traces, until the test ends.
    pub(super) async fn secure(identity: &Identity) -> (Self, SocketAddr) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let receiver = Self::default();
        let [certificate, key] =
            [&identity.certificate, &identity.key].map(|file| fs::read(file).unwrap());
        let tls = ServerTlsConfig::new().identity(transport::Identity::from_pem(certificate, key));
        let metrics = MetricsServiceServer::new(receiver.clone());
        let serving = Server::builder()
            .tls_config(tls)
            .unwrap()
            .add_service(metrics.max_decoding_message_size(64 << 20))
            .add_service(TraceServiceServer::new(receiver.clone()))
            .serve_with_incoming(TcpListenerStream::new(listener));
        tokio::spawn(serving);
        (receiver, address)
    }

    /// Takes metrics and traces until the test ends, and never answers.
    pub(super) async fn hanging() -> (Self, SocketAddr) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let receiver = Self {
            hangs: true,
            ..Self::default()
        };
        let metrics = MetricsServiceServer::new(receiver.clone());
        let serving = Server::builder()
            .add_service(metrics.max_decoding_message_size(64 << 20))
            .add_service(TraceServiceServer::new(receiver.clone()))
            .serve_with_incoming(TcpListenerStream::new(listener));
        tokio::spawn(serving);
        (receiver, address)
    }

    /// The first spans, with their headers.
    pub(super) fn spans(&self) -> Option<(MetadataMap, ExportTraceServiceRequest)> {
        self.traces.lock().unwrap().first().cloned()
    }

    /// The last export, with its headers.
    pub(super) fn last(&self) -> Option<(MetadataMap, ExportMetricsServiceRequest)> {
        self.got.lock().unwrap().last().cloned()
    }
}

/// A metric of an export.
pub(super) fn metric(export: &ExportMetricsServiceRequest, name: &str) -> Option<Metric> {
    let scopes = export
        .resource_metrics
        .iter()
        .flat_map(|it| &it.scope_metrics);
    let mut metrics = scopes.flat_map(|scope| &scope.metrics);
    metrics.find(|metric| metric.name == name).cloned()
}

/// An attribute's text.
pub(super) fn attribute<'a>(attributes: &'a [KeyValue], name: &str) -> Option<&'a str> {
    let found = attributes.iter().find(|one| one.key == name)?;
    if let any_value::Value::StringValue(text) = found.value.as_ref()?.value.as_ref()? {
        Some(text)
    } else {
        None
    }
}
