//! The pages as they are asked for over HTTP: paths, methods and who may ask.

use std::sync::Arc;

use axum::{
    body::Body,
    http::{Request, header},
};
use tower::ServiceExt as _;

use super::*;
use crate::{
    broker,
    config::Subscription,
    consumer::Budget,
    registry::{Made, Make, Source},
    telemetry::traces::Traces,
};

/// Nobody asks for a subscription.
#[derive(Debug)]
struct Nothing;

impl Make for Nothing {
    fn make(&self, _: &Subscription, _: Source) -> Result<Made, broker::Error> {
        panic!("there is no subscription")
    }
}

/// The pages of a gateway without subscriptions.
fn pages() -> Router {
    let registry = Registry::start(
        Vec::new(),
        None,
        &[],
        Budget::new(1 << 20),
        Duration::from_secs(10),
        Arc::new(Nothing),
    );
    let registry = registry.expect("nothing is refused");
    let parts = Parts {
        registry: registry.clone(),
        started: Instant::now(),
        traces: Traces::quiet(),
        metrics: metrics::Source {
            registry,
            desk: crate::publish::Desk::closed(),
            gate: crate::session::Gate::default(),
            health: View::unasked(&["main"]).0,
            started: std::time::SystemTime::now(),
            max_lanes: 10,
            exports: Arc::default(),
            spans: Arc::default(),
        },
        health: View::unasked(&["main"]).0,
    };
    let names = Names::of("127.0.0.1".parse().unwrap());
    router(&parts, Routes::default(), names)
}

struct Answer {
    status: StatusCode,
    headers: axum::http::HeaderMap,
    text: String,
}

async fn ask(method: &str, path: &str, headers: &[(&str, &str)]) -> Answer {
    let mut request = Request::builder().method(method).uri(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request.body(Body::empty()).unwrap();
    let response = pages().oneshot(request).await.unwrap();
    let (parts, body) = response.into_parts();
    let bytes = axum::body::to_bytes(body, 1 << 20).await.unwrap();
    Answer {
        status: parts.status,
        headers: parts.headers,
        text: String::from_utf8(bytes.to_vec()).unwrap(),
    }
}

#[tokio::test]
async fn every_path_that_is_told_of_is_there_and_answers_get_and_head() {
    for (path, _) in PATHS {
        let got = ask("GET", path, &[]).await;
        assert!(
            got.status.is_success() || got.status == StatusCode::SERVICE_UNAVAILABLE,
            "{path}: {}",
            got.status
        );
        let head = ask("HEAD", path, &[]).await;
        assert_eq!(
            (head.status, head.text.as_str()),
            (got.status, ""),
            "{path}"
        );
        let post = ask("POST", path, &[]).await;
        assert_eq!(post.status, StatusCode::METHOD_NOT_ALLOWED, "{path}");
        assert!(post.headers.contains_key(header::ALLOW), "{path}");
        assert!(post.text.contains(path), "{}", post.text);
    }
}

#[tokio::test]
async fn whoever_is_lost_is_told_what_there_is() {
    let answer = ask("GET", "/metricz", &[]).await;
    assert_eq!(answer.status, StatusCode::NOT_FOUND);
    for (path, what) in PATHS {
        assert!(answer.text.contains(path) && answer.text.contains(what));
    }
}

#[test]
fn traces_are_offered_where_they_are_kept() {
    let address = "127.0.0.1:7655".parse().unwrap();
    assert!(pages_at(address, true).contains(TRACES));
    assert!(!pages_at(address, false).contains(TRACES));
    let told = |keeps_spans| offered(keeps_spans).count();
    assert_eq!((told(true), told(false)), (PATHS.len(), PATHS.len() - 1));
}

#[tokio::test]
async fn a_service_that_is_not_here_is_told_as_grpc_tells_it() {
    let headers = [("content-type", "application/grpc")];
    let answer = ask("POST", "/ackgate.v1.GatewayService/Subscribe", &headers).await;
    assert_eq!(answer.status, StatusCode::OK);
    assert_eq!(answer.headers["grpc-status"], "12");
}

#[tokio::test]
async fn answers_are_not_kept_guessed_at_or_shown_elsewhere() {
    for path in ["/healthz", "/nothing"] {
        let answer = ask("GET", path, &[]).await;
        assert_eq!(answer.headers[header::CACHE_CONTROL], "no-store");
        assert_eq!(answer.headers[header::X_CONTENT_TYPE_OPTIONS], "nosniff");
        assert!(answer.headers.contains_key(header::CONTENT_SECURITY_POLICY));
        let origins = header::ACCESS_CONTROL_ALLOW_ORIGIN;
        assert!(!answer.headers.contains_key(origins));
    }
}

#[tokio::test]
async fn a_name_that_is_not_this_machines_gets_nothing() {
    for path in ["/healthz", "/ackgate.v1.AdminService/ListLanes"] {
        let answer = ask("GET", path, &[("host", "example.org")]).await;
        assert_eq!(answer.status, StatusCode::FORBIDDEN, "{path}");
    }
}

#[tokio::test]
async fn process_that_lives_says_so() {
    let answer = ask("GET", "/healthz", &[]).await;
    assert_eq!(answer.status, StatusCode::OK);
    assert_eq!(answer.headers[header::CONTENT_TYPE], "application/json");
    let said: serde_json::Value = serde_json::from_str(&answer.text).unwrap();
    assert_eq!(said["status"], "alive");
}

#[tokio::test]
async fn gateway_whose_clusters_have_not_answered_is_not_ready() {
    let answer = ask("GET", "/readyz", &[]).await;
    assert_eq!(answer.status, StatusCode::SERVICE_UNAVAILABLE);
    let said: serde_json::Value = serde_json::from_str(&answer.text).unwrap();
    assert_eq!(said["status"], "not ready");
    assert_eq!(said["reasons"][0]["kind"], "cluster-not-asked");
    assert_eq!(said["reasons"][0]["cluster"], "main");
}
