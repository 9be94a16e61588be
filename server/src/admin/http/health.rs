//! `/healthz`: whether the process lives.

use axum::{Json, Router, routing::get};
use serde_json::json;

use super::Parts;

/// The pages of this file.
pub(super) fn routes(parts: &Parts) -> Router {
    let started = parts.started;
    let healthz = async move || {
        Json(json!({
            "status": "alive",
            "version": env!("CARGO_PKG_VERSION"),
            "uptime_seconds": started.elapsed().as_secs(),
        }))
    };
    Router::new().route("/healthz", get(healthz))
}
