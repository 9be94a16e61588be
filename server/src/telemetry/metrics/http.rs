//! `/metrics`.

use std::sync::Arc;

use axum::{
    Router,
    extract::State,
    http::{
        HeaderMap, StatusCode,
        header::{ACCEPT, CONTENT_TYPE},
    },
    response::{IntoResponse as _, Response},
    routing::get,
};
use tokio::sync::Semaphore;

use super::{gather::Source, text::Format};

/// Scrapes at a time. Each asks all subscriptions, and none needs more than two collectors.
const SCRAPES: usize = 4;

/// The page of metrics.
pub fn routes(source: &Source) -> Router {
    let state = Scraped {
        source: source.clone(),
        places: Arc::new(Semaphore::new(SCRAPES)),
    };
    Router::new()
        .route("/metrics", get(scrape))
        .with_state(state)
}

#[derive(Clone, Debug)]
struct Scraped {
    source: Source,
    places: Arc<Semaphore>,
}

async fn scrape(State(of): State<Scraped>, headers: HeaderMap) -> Response {
    let Ok(_place) = of.places.try_acquire() else {
        let text = format!("{SCRAPES} scrapes are under way: try again\n");
        return (StatusCode::SERVICE_UNAVAILABLE, text).into_response();
    };
    let accept = headers.get_all(ACCEPT).iter();
    let accept: Vec<&str> = accept.filter_map(|value| value.to_str().ok()).collect();
    let format = Format::accepted(&accept.join(","));
    match format.encode(of.source.picture().await) {
        Ok(text) => ([(CONTENT_TYPE, format.content_type())], text).into_response(),
        Err(error) => {
            tracing::error!(%error, "metrics could not be written");
            StatusCode::INTERNAL_SERVER_ERROR.into_response()
        }
    }
}
