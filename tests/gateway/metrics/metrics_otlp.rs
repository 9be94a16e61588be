//! Metrics over OTLP: under the same names, to a receiver that may come late.

use std::{fs, net::SocketAddr};

use ackgate_proto::v1::Outcome;
use opentelemetry_proto::tonic::metrics::v1::{metric::Data, number_data_point};

use super::{
    gateway,
    receiver::{Receiver, attribute, metric},
    scrape::becomes,
};
use crate::support::{Case, Stage, cases, eventually, free_port};

pub(super) fn cases() -> Vec<Case> {
    cases![
        embedded: metrics_reach_a_receiver_that_comes_late_with_the_last_counts_at_the_end,
            gateway_stops_in_spite_of_a_receiver_that_hangs_and_says_what_it_could_not_send;
    ]
}

const SECRET: &str = "Bearer not-to-be-shown";

async fn metrics_reach_a_receiver_that_comes_late_with_the_last_counts_at_the_end(stage: Stage) {
    let topic = stage.topic("orders", 1).await;
    stage.produce(&topic, &["1", "2", "3"]).await;
    let receives = SocketAddr::from(([127, 0, 0, 1], free_port()));
    fs::write(
        stage.folder().join("headers"),
        format!("authorization: {SECRET}\n"),
    )
    .unwrap();
    let top = format!(
        "telemetry.otlp.endpoint = \"http://{receives}\"\n\
         telemetry.otlp.headers_file = \"headers\"\n\
         telemetry.otlp.metrics_interval = \"1s\"\n\
         telemetry.service_name = \"a gateway\"\n\
         telemetry.instance = \"one of them\"\n"
    );
    let (mut gateway, admin) = gateway(&stage, &[stage.subscription(&topic)], &top).await;
    // Nobody listens yet: that is counted, told once, and records go on.
    let mut stream = gateway.open().await;
    let records = stream.records(3).await;
    stream.answer_all(&records[..2], Outcome::Acked).await;
    let (exports, failed) = ("ackgate_otlp_exports_total", &[("outcome", "failed")][..]);
    becomes(admin, exports, failed, |count| count >= Some(3.0)).await;
    let complaint = "metrics could not be sent";
    assert_eq!(gateway.log().matches(complaint).count(), 1, "an episode");

    let receiver = Receiver::start(receives);
    let (headers, export) = eventually("an export comes", async || {
        receiver.last().ok_or_else(|| "nothing".to_owned())
    })
    .await;
    let sent = headers.get("authorization").map(|it| it.to_str().unwrap());
    assert_eq!(sent, Some(SECRET));
    let resource = export.resource_metrics[0].resource.clone().unwrap();
    for (name, value) in [
        ("service.name", "a gateway"),
        ("service.instance.id", "one of them"),
    ] {
        assert_eq!(attribute(&resource.attributes, name), Some(value));
    }
    assert!(attribute(&resource.attributes, "service.version").is_some());
    let lag = metric(&export, "ackgate_lane_lag_records").expect("a lane's metric");
    let Some(Data::Gauge(lag)) = lag.data else {
        panic!("{lag:?}");
    };
    let lane = &lag.data_points[0].attributes;
    assert_eq!(attribute(lane, "topic"), Some(topic.name.as_str()));
    gateway.logs("metrics are sent again").await;
    assert!(!gateway.log().contains("not-to-be-shown"));

    // What was counted last is sent when the gateway stops.
    stream.answer_all(&records[2..], Outcome::Acked).await;
    stream.close().await;
    gateway.terminate();
    assert!(gateway.end().await.success());
    let (_, last) = receiver.last().expect("an export");
    let verdicts = metric(&last, "ackgate_verdicts_total").expect("verdicts");
    let Some(Data::Sum(verdicts)) = verdicts.data else {
        panic!("{verdicts:?}");
    };
    assert!(verdicts.is_monotonic);
    let acked = verdicts
        .data_points
        .iter()
        .find(|point| attribute(&point.attributes, "kind") == Some("acked"));
    let acked = acked.expect("acked ones");
    assert_eq!(acked.value, Some(number_data_point::Value::AsInt(3)));
    assert!(acked.start_time_unix_nano > 0 && acked.start_time_unix_nano < acked.time_unix_nano);
}

async fn gateway_stops_in_spite_of_a_receiver_that_hangs_and_says_what_it_could_not_send(
    stage: Stage,
) {
    let topic = stage.topic("orders", 1).await;
    stage.produce(&topic, &["1"]).await;
    let (receiver, address) = Receiver::hanging().await;
    // Only the last metrics are sent.
    let top = format!(
        "telemetry.otlp.endpoint = \"http://{address}\"\n\
         telemetry.otlp.metrics_interval = \"1h\"\n\
         telemetry.traces.sample = 1.0\n"
    );
    let (mut gateway, _) = gateway(&stage, &[stage.subscription(&topic)], &top).await;
    let mut stream = gateway.open().await;
    let records = stream.records(1).await;
    stream.answer_all(&records, Outcome::Acked).await;
    stream.close().await;
    eventually("spans are on their way", async || {
        receiver.spans().ok_or_else(|| "nothing".to_owned())
    })
    .await;
    gateway.terminate();
    assert!(gateway.end().await.success());
    assert!(receiver.last().is_some(), "the last metrics were tried");
    let log = gateway.log();
    assert!(
        log.contains("the last metrics were not sent in time"),
        "{log}"
    );
    // One or the other, by how long the stop has taken: never silence.
    let told = [
        "the last spans may not have reached the collector",
        "spans do not reach the collector and are lost",
    ];
    assert!(told.iter().any(|line| log.contains(line)), "{log}");
}
