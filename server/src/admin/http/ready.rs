//! `/readyz`: whether the gateway can serve, and what keeps it from that, lane by lane.
//!
//! | status | answer | when |
//! |---|---|---|
//! | `ready` | 200 | nothing of the below |
//! | `degraded` | 200 | something does not work, and taking the gateway out of service would not help: a lane is stalled or held, one cluster of several is away, a consumer is in trouble |
//! | `not ready` | 503 | no cluster answers, or none has yet; the gateway stops; a group has put this gateway out |

mod gather;
mod page;
#[cfg(test)]
mod tests;

use axum::{
    Router,
    extract::RawQuery,
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::IntoResponse as _,
    routing::get,
};

use super::Parts;
use crate::telemetry::page::{Shared, Text};

/// Reasons in one answer; beyond them they are counted.
const MOST_REASONS: usize = 1000;

/// How ready the gateway is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Status {
    Ready,
    Degraded,
    NotReady,
}

impl Status {
    const fn word(self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::Degraded => "degraded",
            Self::NotReady => "not ready",
        }
    }

    const fn code(self) -> StatusCode {
        match self {
            Self::Ready | Self::Degraded => StatusCode::OK,
            Self::NotReady => StatusCode::SERVICE_UNAVAILABLE,
        }
    }
}

/// One thing that is told.
#[derive(Clone, Debug)]
struct Finding {
    /// What follows from it; `Ready`: nothing, it is told to those who want all.
    status: Status,
    /// A word of a closed set.
    kind: &'static str,
    cluster: Option<String>,
    subscription: Option<String>,
    lane: Option<(String, i32)>,
    offset: Option<u64>,
    /// In milliseconds since the Unix epoch.
    since_ms: Option<i64>,
    text: String,
}

impl Finding {
    fn new(status: Status, kind: &'static str, text: impl Into<String>) -> Self {
        Self {
            status,
            kind,
            cluster: None,
            subscription: None,
            lane: None,
            offset: None,
            since_ms: None,
            text: text.into(),
        }
    }
}

/// What was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Wish {
    /// Text for people rather than JSON.
    text: bool,
    /// Also what waits in the ordinary way.
    verbose: bool,
}

impl Wish {
    /// `Err` says in words what is wrong with the query.
    fn of(query: Option<&str>, headers: &HeaderMap) -> Result<Self, String> {
        let verbose = verbose(query.unwrap_or_default())?;
        let accept = headers.get(header::ACCEPT).and_then(|it| it.to_str().ok());
        let accept = accept.unwrap_or_default();
        let place = |word| accept.find(word).unwrap_or(usize::MAX);
        let json = place("json");
        let text = place("text/").min(if verbose { usize::MAX - 1 } else { usize::MAX });
        Ok(Self {
            text: text < json,
            verbose,
        })
    }
}

/// Whether all is wanted: `verbose` alone, or with a value that says so.
fn verbose(query: &str) -> Result<bool, String> {
    let mut verbose = None;
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        if name != "verbose" {
            let name = shown(name);
            return Err(format!("{name:?} is not a parameter: verbose is\n"));
        }
        let wanted = match value {
            "" | "true" | "1" => true,
            "false" | "0" => false,
            _ => {
                let value = shown(value);
                return Err(format!(
                    "verbose must be true or false, or without a value, and is {value:?}\n"
                ));
            }
        };
        if verbose.replace(wanted).is_some() {
            return Err("verbose is given twice\n".to_owned());
        }
    }
    Ok(verbose.unwrap_or(false))
}

/// The beginning of what a client said.
fn shown(text: &str) -> &str {
    text.get(..text.floor_char_boundary(100))
        .unwrap_or_default()
}

/// The page. Must be called within a runtime.
pub(super) fn routes(parts: &Parts) -> Router {
    let parts = parts.clone();
    // Each time all subscriptions are asked.
    let page = Shared::new(move |wish| {
        let parts = parts.clone();
        async move { written(gather::findings(&parts).await, wish) }
    });
    let readyz = async move |RawQuery(query): RawQuery, headers: HeaderMap| match Wish::of(
        query.as_deref(),
        &headers,
    ) {
        Ok(wish) => page.ask(wish).await,
        Err(why) => (StatusCode::BAD_REQUEST, why).into_response(),
    };
    Router::new().route("/readyz", get(readyz))
}

fn written(mut findings: Vec<Finding>, wish: Wish) -> Text {
    let status = findings.iter().map(|it| it.status).max();
    let status = status.unwrap_or(Status::Ready);
    findings.retain(|it| wish.verbose || it.status > Status::Ready);
    // The weightiest first; else in the order in which they were found.
    findings.sort_by_key(|it| std::cmp::Reverse(it.status));
    let more = findings.len().saturating_sub(MOST_REASONS);
    findings.truncate(MOST_REASONS);
    let (content_type, text) = if wish.text {
        let text = page::text(status, &findings, more);
        ("text/plain; charset=utf-8", Ok(text))
    } else {
        let page = page::Page::new(status, &findings, more);
        ("application/json", serde_json::to_string(&page))
    };
    let (status, text) = match text {
        Ok(text) => (status.code(), text),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
    };
    Text {
        status,
        content_type: HeaderValue::from_static(content_type),
        text,
    }
}
