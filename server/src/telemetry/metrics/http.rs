//! `/metrics`.

use axum::{
    Router,
    http::{HeaderMap, HeaderValue, StatusCode, header::ACCEPT},
    routing::get,
};

use super::{gather::Source, text::Format};
use crate::telemetry::page::{Shared, Text};

/// The page of metrics. Must be called within a runtime.
pub fn routes(source: &Source) -> Router {
    let source = source.clone();
    // Each scrape asks all subscriptions.
    let page = Shared::new(move |format| {
        let source = source.clone();
        async move { written(&source, format).await }
    });
    let scrape = async move |headers: HeaderMap| {
        let accept = headers.get_all(ACCEPT).iter();
        let accept: Vec<&str> = accept.filter_map(|value| value.to_str().ok()).collect();
        page.ask(Format::accepted(&accept.join(","))).await
    };
    Router::new().route("/metrics", get(scrape))
}

async fn written(source: &Source, format: Format) -> Text {
    let content_type = HeaderValue::from_static(format.content_type());
    let (status, text) = match format.encode(source.picture().await) {
        Ok(text) => (StatusCode::OK, text),
        Err(error) => {
            tracing::error!(%error, "metrics could not be written");
            (StatusCode::INTERNAL_SERVER_ERROR, String::new())
        }
    };
    Text {
        status,
        content_type,
        text,
    }
}
