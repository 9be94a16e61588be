//! `GET /v1/traces`: the last spans as OTLP in JSON.
//!
//! **Boundary**: reads what a query asks for and writes what the ring has; where it listens
//! and who may ask is the admin listener's affair. **Invariant**: however many ask and
//! however slowly they read, [`ANSWERS`] are made or held at a time.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use axum::{
    Router,
    extract::{Query, State},
    http::{StatusCode, header},
    response::{IntoResponse, Response},
    routing::get,
};
use opentelemetry::TraceId;
use opentelemetry_sdk::Resource;
use tokio::sync::Semaphore;

use super::{
    Filter, Ring,
    answer::{Answer, body},
};

/// Spans of one answer where no limit is given.
const LIMIT: usize = 1000;

/// The highest limit.
const MAX_LIMIT: usize = 10_000;

/// Bytes of spans in one answer.
const MAX_BYTES: usize = 8 << 20;

/// Answers at a time, until they are read.
const ANSWERS: usize = 2;

/// How long a request waits for its turn.
const WAIT: Duration = Duration::from_secs(2);

/// How long an answer waits to be read.
const READ_WITHIN: Duration = Duration::from_secs(30);

/// How many spans an answer had no room for.
const LEFT_OUT: &str = "ackgate-spans-left-out";

/// What answers are made from.
#[derive(Clone, Debug)]
struct Source {
    /// `None`: nothing is kept.
    ring: Option<Arc<Ring>>,
    resource: Resource,
    places: Arc<Semaphore>,
}

/// What is asked for.
#[derive(Debug, PartialEq)]
struct Asked {
    filter: Filter,
    limit: usize,
}

/// Serves `/v1/traces` from `ring`, as of `resource`.
pub fn routes(ring: Option<Arc<Ring>>, resource: Resource) -> Router {
    let places = Arc::new(Semaphore::new(ANSWERS));
    Router::new()
        .route("/v1/traces", get(traces))
        .with_state(Source {
            ring,
            resource,
            places,
        })
}

async fn traces(State(of): State<Source>, Query(query): Query<Vec<(String, String)>>) -> Response {
    let asked = match asked(&query, SystemTime::now()) {
        Ok(asked) => asked,
        Err(why) => return (StatusCode::BAD_REQUEST, why).into_response(),
    };
    let Some(ring) = of.ring else {
        let why = "no spans are kept: telemetry.traces.keep is 0\n";
        return (StatusCode::NOT_FOUND, why).into_response();
    };
    let place = tokio::time::timeout(WAIT, of.places.acquire_owned()).await;
    let Ok(Ok(place)) = place else {
        let why = format!("{ANSWERS} requests for traces are under way: try again\n");
        return (StatusCode::SERVICE_UNAVAILABLE, why).into_response();
    };
    // Thousands of spans take their time, whether or not somebody still waits for them.
    let resource = of.resource;
    let written = tokio::task::spawn_blocking(move || {
        let spans = ring.last(asked.limit, &asked.filter);
        Answer::write(&spans, &resource, MAX_BYTES).map(|answer| (answer, place))
    });
    match written.await {
        Ok(Ok((Answer { json, left_out }, place))) => {
            let headers = [
                (header::CONTENT_TYPE, "application/json".to_owned()),
                (header::CONTENT_LENGTH, json.len().to_string()),
            ];
            let left_out = (left_out > 0).then(|| [(LEFT_OUT, left_out.to_string())]);
            (headers, left_out, body(json, place, READ_WITHIN)).into_response()
        }
        Ok(Err(_)) | Err(_) => {
            let why = "the spans could not be written\n";
            (StatusCode::INTERNAL_SERVER_ERROR, why).into_response()
        }
    }
}

/// Reads a query; `Err` says in words what is wrong with it.
fn asked(query: &[(String, String)], now: SystemTime) -> Result<Asked, String> {
    let mut filter = Filter::default();
    let mut limit = None;
    for (name, value) in query {
        let is_first = match name.as_str() {
            "subscription" => filter.subscription.replace(text(name, value)?).is_none(),
            "topic" => filter.topic.replace(text(name, value)?).is_none(),
            "trace_id" => filter.trace.replace(trace(value)?).is_none(),
            "since" => filter.since.replace(since(value, now)?).is_none(),
            "limit" => limit.replace(number(value)?).is_none(),
            _ => {
                return Err(format!(
                    "{:?} is not a parameter: subscription, topic, trace_id, since and limit are\n",
                    shown(name)
                ));
            }
        };
        if !is_first {
            return Err(format!("{name} is given twice\n"));
        }
    }
    let limit = limit.unwrap_or(LIMIT);
    Ok(Asked { filter, limit })
}

/// A name; an empty one is nobody's.
fn text(name: &str, value: &str) -> Result<String, String> {
    if value.is_empty() {
        return Err(format!("{name} must be a name, and is \"\"\n"));
    }
    Ok(value.to_owned())
}

fn trace(text: &str) -> Result<TraceId, String> {
    let digits = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let id = digits.then(|| TraceId::from_hex(text).ok()).flatten();
    let id = id.filter(|id| *id != TraceId::INVALID);
    id.ok_or_else(|| {
        let text = shown(text);
        format!("trace_id must be 32 hexadecimal digits, not all zero, and is {text:?}\n")
    })
}

fn number(text: &str) -> Result<usize, String> {
    let number = text.parse().ok();
    let number = number.filter(|number| (1..=MAX_LIMIT).contains(number));
    number.ok_or_else(|| {
        let text = shown(text);
        format!("limit must be a number from 1 to {MAX_LIMIT}, and is {text:?}\n")
    })
}

/// A time: RFC 3339, seconds since 1970, or so long ago.
fn since(text: &str, now: SystemTime) -> Result<SystemTime, String> {
    let seconds = || {
        let seconds = text.parse::<f64>().ok()?;
        let after = Duration::try_from_secs_f64(seconds).ok()?;
        SystemTime::UNIX_EPOCH.checked_add(after)
    };
    let ago = || {
        let ago = humantime::parse_duration(text).ok()?;
        // Whatever is kept is younger.
        let then = now.checked_sub(ago).unwrap_or(SystemTime::UNIX_EPOCH);
        Some(then.max(SystemTime::UNIX_EPOCH))
    };
    let time = humantime::parse_rfc3339_weak(text).ok();
    time.or_else(seconds).or_else(ago).ok_or_else(|| {
        let text = shown(text);
        format!(
            "since must be a time such as 2026-01-31T12:00:00Z, seconds since 1970, or how long \
             ago, such as 5m, and is {text:?}\n"
        )
    })
}

/// The beginning of what a client said.
fn shown(text: &str) -> &str {
    text.get(..text.floor_char_boundary(100))
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use axum::{body::Body, http::Request};
    use tower::ServiceExt as _;

    use super::{
        super::{Operation, Tracer},
        *,
    };

    fn now() -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000)
    }

    fn read(query: &[(&str, &str)]) -> Result<Asked, String> {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        asked(&query.iter().map(owned).collect::<Vec<_>>(), now())
    }

    fn since(text: &str) -> u64 {
        let since = read(&[("since", text)]).unwrap().filter.since.unwrap();
        since
            .duration_since(SystemTime::UNIX_EPOCH)
            .unwrap()
            .as_secs()
    }

    #[test]
    fn query_is_read() {
        let asked = read(&[
            ("subscription", "shop"),
            ("topic", "orders"),
            ("trace_id", "0AF7651916cd43dd8448eb211c80319c"),
            ("limit", "7"),
        ])
        .unwrap();
        assert_eq!(asked.filter.subscription.as_deref(), Some("shop"));
        assert_eq!(asked.filter.topic.as_deref(), Some("orders"));
        let trace = asked.filter.trace.unwrap().to_string();
        assert_eq!(
            (trace.as_str(), asked.limit),
            ("0af7651916cd43dd8448eb211c80319c", 7)
        );
        assert_eq!(read(&[]).unwrap().limit, LIMIT);
        assert_eq!(since("5m"), 1_800_000_000 - 300);
        assert_eq!(since("1799999999.5"), 1_799_999_999);
        assert_eq!(since("2027-01-15T08:00:00Z"), 1_800_000_000);
        assert_eq!(since("100years"), 0);
    }

    #[test]
    fn query_that_is_wrong_is_refused_in_words() {
        let zeros = "0".repeat(32);
        let cases = [
            (vec![("trace", "1")], "is not a parameter"),
            (vec![("trace_id", "1")], "32 hexadecimal digits"),
            (vec![("trace_id", zeros.as_str())], "not all zero"),
            (
                vec![("trace_id", "+f7651916cd43dd8448eb211c80319c0")],
                "32 hexadecimal",
            ),
            (vec![("limit", "0")], "from 1 to 10000"),
            (vec![("limit", "10001")], "from 1 to 10000"),
            (vec![("limit", "many")], "is \"many\""),
            (vec![("topic", "")], "topic must be a name, and is \"\""),
            (vec![("subscription", "")], "subscription must be a name"),
            (vec![("trace_id", "")], "is \"\""),
            (vec![("limit", "")], "is \"\""),
            (vec![("since", "")], "is \"\""),
            (vec![("since", "yesterday")], "such as 5m"),
            (vec![("since", "-5")], "such as 5m"),
            (vec![("since", "1e300")], "such as 5m"),
            (vec![("topic", "a"), ("topic", "b")], "topic is given twice"),
        ];
        for (query, part) in cases {
            let why = read(&query).unwrap_err();
            assert!(why.contains(part), "{query:?}: {why}");
        }
    }

    async fn get(router: &Router, uri: &str) -> (StatusCode, String) {
        let request = Request::get(uri).body(Body::empty()).unwrap();
        let response = router.clone().oneshot(request).await.unwrap();
        let status = response.status();
        let body = axum::body::to_bytes(response.into_body(), 1 << 20)
            .await
            .unwrap();
        (status, String::from_utf8(body.to_vec()).unwrap())
    }

    #[tokio::test]
    async fn spans_come_as_otlp_in_json() {
        let ring = Arc::new(Ring::new(10));
        let tracer = Tracer::to_ring(&ring, "shop", "billing", 1.0);
        let mut span = tracer
            .begin(Operation::Poll, Some("orders"), now())
            .unwrap();
        span.set("messaging.kafka.offset", 7);
        let (trace, id) = (span.context().trace_id(), span.context().span_id());
        tracer.end(span, now() + Duration::from_millis(1));
        let resource = Resource::builder_empty()
            .with_service_name("ackgate")
            .build();
        let router = routes(Some(Arc::clone(&ring)), resource.clone());
        let (status, body) = get(&router, "/v1/traces?since=1799999999").await;
        assert_eq!(status, StatusCode::OK);
        let json: serde_json::Value = serde_json::from_str(&body).unwrap();
        let resource_spans = &json["resourceSpans"][0];
        let attribute = &resource_spans["resource"]["attributes"][0];
        assert_eq!(attribute["key"], "service.name");
        assert_eq!(attribute["value"]["stringValue"], "ackgate");
        let scope = &resource_spans["scopeSpans"][0];
        assert_eq!(scope["scope"]["name"], "ackgate");
        let span = &scope["spans"][0];
        assert_eq!(span["name"], "poll orders");
        assert_eq!(span["traceId"], trace.to_string(), "in hexadecimal digits");
        assert_eq!(span["spanId"], id.to_string());
        assert_eq!(span["kind"], 3, "client");
        assert_eq!(span["startTimeUnixNano"], "1800000000000000000");
        assert_eq!(span["endTimeUnixNano"], "1800000000001000000");
        let (status, body) = get(&router, "/v1/traces?since=soon").await;
        assert_eq!(status, StatusCode::BAD_REQUEST);
        assert!(body.starts_with("since must be"), "{body}");
        let (_, body) = get(&router, "/v1/traces?subscription=none").await;
        let nothing = serde_json::from_str::<serde_json::Value>(&body).unwrap();
        assert_eq!(nothing, serde_json::json!({ "resourceSpans": [] }));
        let (status, body) = get(&routes(None, resource), "/v1/traces").await;
        assert_eq!(status, StatusCode::NOT_FOUND);
        assert!(body.contains("telemetry.traces.keep"), "{body}");
    }

    #[tokio::test(start_paused = true)]
    async fn few_answers_are_held_at_a_time_and_others_are_told_so() {
        let ring = Arc::new(Ring::new(1000));
        let tracer = Tracer::to_ring(&ring, "shop", "billing", 1.0);
        for _ in 0..1000 {
            let span = tracer.begin(Operation::Poll, Some("orders"), now());
            tracer.end(span.unwrap(), now());
        }
        let router = routes(Some(ring), Resource::builder_empty().build());
        let ask = || {
            let request = Request::get("/v1/traces").body(Body::empty()).unwrap();
            router.clone().oneshot(request)
        };
        let mut held = Vec::new();
        for _ in 0..ANSWERS {
            held.push(ask().await.unwrap());
        }
        assert!(held.iter().all(|answer| answer.status() == StatusCode::OK));
        let (status, why) = get(&router, "/v1/traces").await;
        assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(why, "2 requests for traces are under way: try again\n");
        held.pop();
        let (status, _) = get(&router, "/v1/traces").await;
        assert_eq!(status, StatusCode::OK, "its turn comes");
        held.push(ask().await.unwrap());
        tokio::time::sleep(READ_WITHIN).await;
        let (status, _) = get(&router, "/v1/traces").await;
        assert_eq!(status, StatusCode::OK, "who does not read waits for nobody");
        assert_eq!(held.len(), ANSWERS);
    }
}
