//! Metrics as whoever scrapes sees them, and as a receiver of OTLP gets them.

mod metrics_otlp;
mod metrics_otlp_tls;
mod metrics_scraped;
mod metrics_series;
mod receiver;
mod scrape;

use std::net::SocketAddr;

use crate::support::{Case, Gateway, Stage, Subscription, free_port};

pub(crate) fn cases() -> Vec<Case> {
    let cases = [
        metrics_scraped::cases(),
        metrics_series::cases(),
        metrics_otlp::cases(),
        metrics_otlp_tls::cases(),
    ];
    cases.into_iter().flatten().collect()
}

/// A gateway with an address for operators, and that address.
async fn gateway(
    stage: &Stage,
    subscriptions: &[Subscription],
    top: &str,
) -> (Gateway, SocketAddr) {
    let admin = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let top = format!("admin.address = \"{admin}\"\n{top}");
    (Gateway::start_with(stage, subscriptions, &top).await, admin)
}
