//! What `/metrics` says of records, lanes, sessions and publishers.

use std::time::Duration;

use ackgate_proto::v1::{Outcome, PublishBatchRequest, SettleRequest};

use super::{
    gateway,
    scrape::{Scrape, becomes, get},
};
use crate::support::{Case, Outgoing, Pulling, Stage, calls, cases, record};

pub(super) fn cases() -> Vec<Case> {
    cases![
        both: scrape_tells_what_became_of_each_record_and_a_lane_that_goes_takes_its_series_along;
        embedded: sessions_and_published_records_are_counted,
            cluster_that_goes_away_is_told_while_nobody_subscribes,
            both_text_formats_are_served_to_whoever_asks_for_them;
        kafka: markers_at_the_end_of_a_log_are_no_lag;
    ]
}

async fn scrape_tells_what_became_of_each_record_and_a_lane_that_goes_takes_its_series_along(
    stage: Stage,
) {
    let topic = stage.topic("orders", 2).await;
    let dead = stage.topic("dead", 1).await;
    stage
        .produce_to(&topic, 0, &["fine", "late", "bad", "never"])
        .await;
    let subscription = stage
        .subscription(&topic)
        .dead_letter(&dead)
        .max_attempts(2)
        .linger(Duration::from_millis(100));
    let (gateway, admin) = gateway(&stage, &[subscription], "").await;
    let before = Scrape::of(admin).await;
    let of = &[("subscription", "orders"), ("cluster", "main")][..];
    assert_eq!(before.value("ackgate_fetched_records_total", of), Some(0.0));
    assert_eq!(before.named("ackgate_lane_lag_records").count(), 0);

    let mut stream = gateway.open().await;
    let records = stream.records(4).await;
    stream.ack(&records[0]).await;
    stream.fail(&records[1]).await;
    stream.reject(&records[2]).await;
    stream.fail(&records[3]).await;
    for again in stream.records(2).await {
        let outcome = match again.text() {
            "late" => Outcome::Acked,
            _ => Outcome::Failed,
        };
        stream.answer_all(&[again], outcome).await;
    }
    stage.holds(&dead, 2).await;
    stage.commits(&topic, 0, 4).await;

    let lane = &[("topic", topic.name.as_str()), ("partition", "0")][..];
    becomes(admin, "ackgate_lane_lag_records", lane, |lag| {
        lag == Some(0.0)
    })
    .await;
    let committed = "ackgate_lane_committed_position";
    let scrape = becomes(admin, committed, lane, |at| at == Some(4.0)).await;
    all_is_told(&scrape, of, lane);
    // Kafka's client tells once a second.
    let received = "ackgate_kafka_received_bytes_total";
    becomes(admin, received, of, |bytes| bytes > Some(0.0)).await;
    let up = [of, &[("state", "up")]].concat();
    becomes(admin, "ackgate_kafka_brokers", &up, |up| up >= Some(1.0)).await;

    stream.close().await;
    let joined = "ackgate_subscription_joined";
    let after = becomes(admin, joined, of, |joined| joined == Some(0.0)).await;
    assert!(
        after
            .keys()
            .iter()
            .all(|key| !key.starts_with("ackgate_lane_")),
        "lanes that are gone have series: {}",
        after.text
    );
    let acked = [of, &[("kind", "acked")]].concat();
    assert_eq!(after.value("ackgate_verdicts_total", &acked), Some(2.0));
}

/// What became of the records, and what is there now.
fn all_is_told(scrape: &Scrape, of: &[(&str, &str)], lane: &[(&str, &str)]) {
    let value = |name: &str, label: (&str, &str)| {
        let value = scrape.value(name, &[of, &[label]].concat());
        value.unwrap_or_else(|| panic!("{name} {label:?} is missing in {}", scrape.text))
    };
    let of_all = |name: &str| value(name, ("cluster", "main"));
    assert_eq!(of_all("ackgate_fetched_records_total"), 4.0);
    assert_eq!(of_all("ackgate_delivered_records_total"), 6.0);
    assert_eq!(of_all("ackgate_redelivered_records_total"), 2.0);
    for (kind, count) in [
        ("acked", 2.0),
        ("rejected", 1.0),
        ("failed", 3.0),
        ("released", 0.0),
    ] {
        assert_eq!(
            value("ackgate_verdicts_total", ("kind", kind)),
            count,
            "{kind}"
        );
    }
    assert_eq!(value("ackgate_delivery_attempts_bucket", ("le", "1")), 4.0);
    assert_eq!(of_all("ackgate_delivery_attempts_count"), 6.0);
    assert_eq!(of_all("ackgate_verdict_duration_seconds_count"), 6.0);
    assert!(of_all("ackgate_commit_duration_seconds_count") >= 1.0);
    assert!(value("ackgate_commits_total", ("outcome", "done")) >= 1.0);
    for (cause, outcome, count) in [
        ("rejected", "stored", 1.0),
        ("attempts-exhausted", "stored", 1.0),
        ("oversize", "stored", 0.0),
        ("rejected", "discarded", 0.0),
    ] {
        let labels = [of, &[("cause", cause), ("outcome", outcome)]].concat();
        let value = scrape.value("ackgate_dead_letters_total", &labels);
        assert_eq!(value, Some(count), "{cause} {outcome}");
    }
    assert_eq!(of_all("ackgate_subscription_joined"), 1.0);
    assert_eq!(of_all("ackgate_subscription_reachable"), 1.0);
    assert_eq!(of_all("ackgate_lanes"), 2.0);
    assert_eq!(value("ackgate_subscribers", ("state", "taking")), 1.0);
    assert_eq!(scrape.value("ackgate_lane_lag_seconds", lane), Some(0.0));
    assert_eq!(scrape.value("ackgate_lane_floor_position", lane), Some(4.0));
    assert_eq!(scrape.value("ackgate_lane_head_position", lane), Some(4.0));
    let labels = &[("kind", "stream")][..];
    assert_eq!(scrape.value("ackgate_sessions", labels), Some(1.0));
}

async fn sessions_and_published_records_are_counted(stage: Stage) {
    let topic = stage.topic("orders", 1).await;
    let top = format!("clusters.main.publish.topics = [\"{}\"]", topic.name);
    let (gateway, admin) = gateway(&stage, &[stage.subscription(&topic)], &top).await;
    let mut foreign = record(&topic, "3");
    foreign.topic = "elsewhere".to_owned();
    let records = vec![record(&topic, "12345"), record(&topic, "2"), foreign];
    let batch = PublishBatchRequest {
        records,
        ..PublishBatchRequest::default()
    };
    let mut client = calls(gateway.address).await;
    client.publish_batch(batch).await.expect("it is answered");
    let scrape = Scrape::of(admin).await;
    let published = |outcome| {
        let labels = [("cluster", "main"), ("outcome", outcome)];
        scrape.value("ackgate_published_records_total", &labels)
    };
    assert_eq!(published("written"), Some(2.0));
    assert_eq!(published("refused"), Some(1.0));
    let of = &[("cluster", "main")][..];
    assert_eq!(scrape.value("ackgate_published_bytes_total", of), Some(6.0));
    assert_eq!(
        scrape.value("ackgate_publish_in_flight_bytes", of),
        Some(0.0)
    );

    let mut pulling = Pulling::at(gateway.address).await;
    let records = pulling.pull().await;
    let pulls = &[("kind", "pull")][..];
    becomes(admin, "ackgate_sessions", pulls, |count| count == Some(1.0)).await;
    let settle = SettleRequest {
        session: pulling.asks.session.clone(),
        verdicts: vec![records[0].verdict(Outcome::Acked)],
        close: true,
        ..SettleRequest::default()
    };
    client.settle(settle).await.expect("it is answered");
    becomes(admin, "ackgate_sessions", pulls, |count| count == Some(0.0)).await;
}

async fn cluster_that_goes_away_is_told_while_nobody_subscribes(stage: Stage) {
    let topic = stage.topic("orders", 1).await;
    let (_gateway, admin) = gateway(&stage, &[stage.subscription(&topic)], "").await;
    let (name, main) = ("ackgate_cluster_reachable", &[("cluster", "main")]);
    for (reachable, told) in [(true, 1.0), (false, 0.0), (true, 1.0)] {
        stage.broker.faults().set_reachable(reachable).unwrap();
        let scrape = becomes(admin, name, main, |value| value == Some(told)).await;
        let joined = scrape.value("ackgate_subscription_joined", main);
        assert_eq!(joined, Some(0.0), "only the gateway itself can know");
    }
}

async fn both_text_formats_are_served_to_whoever_asks_for_them(stage: Stage) {
    let topic = stage.topic("orders", 1).await;
    let (_gateway, admin) = gateway(&stage, &[stage.subscription(&topic)], "").await;
    let plain = Scrape::of(admin).await;
    assert_eq!(
        plain.content_type,
        "text/plain; version=0.0.4; charset=utf-8"
    );
    assert_eq!(
        plain
            .types
            .get("ackgate_verdicts_total")
            .map(String::as_str),
        Some("counter")
    );
    let open = "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3";
    let open = Scrape::accepting(admin, open).await;
    assert_eq!(
        open.content_type,
        "application/openmetrics-text; version=1.0.0; charset=utf-8"
    );
    assert!(open.text.ends_with("# EOF\n"));
    assert!(open.text.contains("# UNIT ackgate_fetched_bytes bytes\n"));
    // Bounds are written a little differently.
    let bare = |scrape: &Scrape| {
        let keys = scrape.keys().into_iter();
        keys.filter(|key| !key.contains("le=")).collect::<Vec<_>>()
    };
    assert_eq!(bare(&plain), bare(&open));
    let (head, _) = get(admin, "/metrics", "*/*").await;
    assert!(head.contains("no-store"), "{head}");
}

// FC-06.
async fn markers_at_the_end_of_a_log_are_no_lag(stage: Stage) {
    let topic = stage.topic("orders", 1).await;
    let (gateway, admin) = gateway(&stage, &[stage.subscription(&topic)], "").await;
    crate::log::in_transaction(&stage, &topic, 3).await;
    stage
        .broker
        .produce(&topic.name, [Outgoing::value(0, "plain")])
        .await;
    crate::log::in_transaction(&stage, &topic, 1).await;
    let lane = &[("topic", topic.name.as_str()), ("partition", "0")][..];
    let mut stream = gateway.open().await;
    let mut open = stream.records(5).await;
    let last = open.remove(4);
    stream.answer_all(&open, Outcome::Acked).await;
    // The marker behind it is known to be none once the end has been read.
    becomes(admin, "ackgate_lane_lag_records", lane, |lag| {
        lag == Some(1.0)
    })
    .await;
    stream.ack(&last).await;
    let lag = "ackgate_lane_lag_records";
    let scrape = becomes(admin, lag, lane, |lag| lag == Some(0.0)).await;
    assert_eq!(scrape.value("ackgate_lane_lag_seconds", lane), Some(0.0));
}
