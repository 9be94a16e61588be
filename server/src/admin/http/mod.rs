//! What the admin address answers over HTTP: pages for people, probes and collectors,
//! beside the gRPC service on the same port.
//!
//! Boundary: which paths there are, who may ask for them, and how long an answer may take.
//! What a page says is made by whoever owns it: each has a function of its own that returns
//! a [`Router`], merged in [`router`].

mod guard;
mod health;
mod ready;
#[cfg(test)]
mod tests;

use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};

use axum::{
    Router,
    extract::Request,
    http::{Method, StatusCode, Uri, header},
    middleware::{Next, from_fn, from_fn_with_state},
    response::{IntoResponse as _, Response},
};
use tonic::{Status, service::Routes};

pub(crate) use self::guard::Names;
use crate::{
    health::View,
    registry::Registry,
    telemetry::{metrics, traces::Traces},
};

/// The longest an answer may take: what gathers from all subscriptions has given up before.
const ANSWERS_WITHIN: Duration = Duration::from_secs(10);

/// Every path, and what is there. For those who look for one; a test keeps it true.
pub(crate) const PATHS: &[(&str, &str)] = &[
    (
        "/healthz",
        "whether this process lives, as JSON; always 200",
    ),
    (
        "/metrics",
        "metrics in Prometheus' text format or OpenMetrics",
    ),
    (
        "/readyz",
        "whether the gateway can serve, and what keeps it from that, as JSON or text; 200 or 503",
    ),
    (
        TRACES,
        "the last spans, as OTLP in JSON; ?subscription=, topic, trace_id, since, limit",
    ),
];

/// Has something to show only where spans are kept.
const TRACES: &str = "/v1/traces";

/// What the pages are made of. Clones are one.
#[derive(Clone, Debug)]
pub(crate) struct Parts {
    /// The subscriptions that run.
    pub(crate) registry: Registry,
    /// When the gateway began.
    pub(crate) started: Instant,
    /// Where metrics come from.
    pub(crate) metrics: metrics::Source,
    /// What clusters have answered.
    pub(crate) health: View,
    /// What has the spans.
    pub(crate) traces: Traces,
}

/// The pages, without what every request passes.
fn pages(parts: &Parts) -> Router {
    Router::new()
        .merge(health::routes(parts))
        .merge(parts.traces.routes())
        .merge(metrics::routes(&parts.metrics))
        .merge(ready::routes(parts))
}

/// Everything that the admin address answers: `services` over gRPC, and the pages. Only
/// requests to one of `names` are answered.
pub(crate) fn router(parts: &Parts, services: Routes, names: Names) -> Router {
    let pages = pages(parts).layer(from_fn(in_time));
    let services = services.into_axum_router();
    let keeps_spans = parts.traces.is_kept();
    let lost = async move |request: Request| lost(&request, keeps_spans);
    services
        .merge(pages)
        .fallback(lost)
        .method_not_allowed_fallback(refused)
        .layer(from_fn_with_state(names, guard::guard))
}

/// The paths that have something to show.
fn offered(keeps_spans: bool) -> impl Iterator<Item = (&'static str, &'static str)> {
    let all = PATHS.iter().copied();
    all.filter(move |(path, _)| keeps_spans || *path != TRACES)
}

/// Every page of the admin address that has something to show, as a person may follow it.
#[must_use]
pub(crate) fn pages_at(address: SocketAddr, keeps_spans: bool) -> String {
    let pages: Vec<String> = offered(keeps_spans)
        .map(|(path, _)| format!("http://{address}{path}"))
        .collect();
    pages.join(" ")
}

/// An answer is there in time, or is that there is none: what asks for the gateway's state
/// should not be kept from it by its own question.
async fn in_time(request: Request, next: Next) -> Response {
    match tokio::time::timeout(ANSWERS_WITHIN, next.run(request)).await {
        Ok(response) => response,
        Err(_elapsed) => {
            let text = format!("no answer within {ANSWERS_WITHIN:?}: try again\n");
            (StatusCode::SERVICE_UNAVAILABLE, text).into_response()
        }
    }
}

/// There is nothing at this path.
fn lost(request: &Request, keeps_spans: bool) -> Response {
    let content = request.headers().get(header::CONTENT_TYPE);
    if content.is_some_and(|content| content.as_bytes().starts_with(b"application/grpc")) {
        // A service that is not here.
        return Status::unimplemented("").into_http::<axum::body::Body>();
    }
    let mut text = String::from("There is nothing here. There are:\n");
    for (path, what) in offered(keeps_spans) {
        text.push_str(&format!("  {path:<12} {what}\n"));
    }
    text.push_str("and ackgate.v1.AdminService over gRPC.\n");
    (StatusCode::NOT_FOUND, text).into_response()
}

/// There is something at this path, and it cannot be asked so.
async fn refused(method: Method, uri: Uri) -> Response {
    let text = format!(
        "{} is read with GET; {method} means nothing here.\n",
        uri.path()
    );
    (StatusCode::METHOD_NOT_ALLOWED, text).into_response()
}
