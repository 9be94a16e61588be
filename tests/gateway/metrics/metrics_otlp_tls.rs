//! Metrics and spans over TLS: to a receiver whose authority is known, and to one whose is not.

use std::{fs, net::SocketAddr};

use super::{gateway, receiver::Receiver, scrape::becomes};
use crate::support::{Authority, Case, Gateway, Stage, cases, eventually};

pub(super) fn cases() -> Vec<Case> {
    cases![
        embedded: metrics_and_spans_reach_a_receiver_with_tls_with_their_headers,
            receiver_of_an_unknown_authority_is_told_with_what_to_do_and_counted;
    ]
}

const SECRET: &str = "Bearer not-to-be-shown";

/// A gateway that trusts an authority, and has settled a record with all of its spans.
async fn sends(stage: &Stage, to: SocketAddr, trusted: &Authority) -> (Gateway, SocketAddr) {
    let topic = stage.topic("orders", 1).await;
    stage.produce(&topic, &["1"]).await;
    let headers = format!("authorization: {SECRET}\n");
    fs::write(stage.folder().join("headers"), headers).unwrap();
    let top = format!(
        "telemetry.otlp.endpoint = \"https://{to}\"\n\
         telemetry.otlp.ca_file = {:?}\n\
         telemetry.otlp.headers_file = \"headers\"\n\
         telemetry.otlp.metrics_interval = \"1s\"\n\
         telemetry.traces.sample = 1.0\n",
        trusted.certificate()
    );
    let (gateway, admin) = gateway(stage, &[stage.subscription(&topic)], &top).await;
    let mut stream = gateway.open().await;
    let records = stream.records(1).await;
    stream.ack(&records[0]).await;
    stream.close().await;
    (gateway, admin)
}

async fn metrics_and_spans_reach_a_receiver_with_tls_with_their_headers(stage: Stage) {
    let authority = Authority::new(stage.folder(), "collector-ca");
    let (receiver, address) = Receiver::secure(&authority.signs(&["127.0.0.1"])).await;
    let (gateway, admin) = sends(&stage, address, &authority).await;
    let (metrics, spans) = eventually("metrics and spans come", async || {
        let (metrics, spans) = (receiver.last(), receiver.spans());
        let seen = (metrics.is_some(), spans.is_some());
        metrics.zip(spans).ok_or_else(|| format!("{seen:?}"))
    })
    .await;
    for headers in [metrics.0, spans.0] {
        let sent = headers.get("authorization").map(|it| it.to_str().unwrap());
        assert_eq!(sent, Some(SECRET));
    }
    assert!(!spans.1.resource_spans.is_empty());
    for name in ["ackgate_otlp_exports_total", "ackgate_otlp_spans_total"] {
        let sent = &[("outcome", "sent")];
        becomes(admin, name, sent, |count| count >= Some(1.0)).await;
    }
    assert!(!gateway.log().contains("not-to-be-shown"));
}

async fn receiver_of_an_unknown_authority_is_told_with_what_to_do_and_counted(stage: Stage) {
    let authority = Authority::new(stage.folder(), "collector-ca");
    let other = Authority::new(stage.folder(), "other-ca");
    let (receiver, address) = Receiver::secure(&authority.signs(&["127.0.0.1"])).await;
    let (gateway, admin) = sends(&stage, address, &other).await;
    for (name, outcome) in [
        ("ackgate_otlp_exports_total", "failed"),
        ("ackgate_otlp_spans_total", "lost"),
    ] {
        let lost = &[("outcome", outcome)];
        becomes(admin, name, lost, |count| count >= Some(2.0)).await;
    }
    for complaint in [
        "metrics could not be sent",
        "spans do not reach the collector and are lost",
    ] {
        gateway.logs(complaint).await;
        let log = gateway.log();
        let mut lines = log.lines().filter(|line| line.contains(complaint));
        let line = lines.next().unwrap_or_default();
        assert!(
            line.contains("telemetry.otlp.ca_file must have the authority"),
            "{line}"
        );
        assert_eq!(lines.next(), None, "an episode");
    }
    assert!(receiver.last().is_none() && receiver.spans().is_none());
    assert!(!gateway.log().contains("not-to-be-shown"));
}
