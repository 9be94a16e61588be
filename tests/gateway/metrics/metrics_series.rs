//! How many series there are is up to the configuration (FC-104).

use std::time::Duration;

use ackgate_proto::v1::{Credit, Outcome};
use futures::future::join_all;
use tonic::transport::Channel;

use super::{
    gateway,
    scrape::{Scrape, becomes},
};
use crate::support::{Case, Outgoing, Stage, Stream, cases, connection, throughout};

pub(super) fn cases() -> Vec<Case> {
    cases![
        embedded: series_do_not_grow_with_subscribers_keys_and_reasons,
            lanes_beyond_the_most_are_summed,
            ad_hoc_subscriptions_are_one_whatever_their_topics_and_groups;
    ]
}

const PARTITIONS: i32 = 4;
const SUBSCRIBERS: usize = 1_000;
const RECORDS: usize = 100_000;
const AT_A_TIME: usize = 100;
const EACH: usize = RECORDS / SUBSCRIBERS;

// FC-104.
async fn series_do_not_grow_with_subscribers_keys_and_reasons(stage: Stage) {
    let topic = stage.topic("orders", PARTITIONS as u16).await;
    let subscription = stage.subscription(&topic);
    let top = "log.filter = \"error\"\n";
    let (gateway, admin) = gateway(&stage, &[subscription], top).await;
    // One is always there, so that the lanes are.
    let mut open = Stream::hello("orders");
    open.credit = None;
    open.subscriber_id = "one-that-stays".to_owned();
    let _stays = Stream::open(gateway.address, open).await;
    for partition in 0..PARTITIONS {
        stage.produce_to(&topic, partition, &["first"]).await;
    }
    let mut first = gateway.open().await;
    let records = first.records(PARTITIONS as usize).await;
    first.answer_all(&records, Outcome::Acked).await;
    first.close().await;
    let mut before = Scrape::default();
    for partition in 0..PARTITIONS {
        let lane = &[("partition", partition.to_string())];
        let lane = lane
            .each_ref()
            .map(|(label, value)| (*label, value.as_str()));
        for name in [
            "ackgate_lane_committed_position",
            "ackgate_lane_head_position",
        ] {
            before = becomes(admin, name, &lane, |at| at == Some(1.0)).await;
        }
    }
    let records = (0..RECORDS).map(|n| {
        let partition = n as i32 % PARTITIONS;
        Outgoing::value(partition, "x").keyed(format!("key-{}", n % 10_000))
    });
    stage.broker.produce(&topic.name, records).await;

    let mut connections = Vec::new();
    for _ in 0..5 {
        let connection = connection(gateway.address).await;
        connections.push(connection.expect("the gateway listens"));
    }
    let mut taken = 0;
    for round in 0..SUBSCRIBERS / AT_A_TIME {
        let all = (0..AT_A_TIME).map(|n| {
            let connection = connections[n % connections.len()].clone();
            let number = round * AT_A_TIME + n;
            takes_its_part(connection, number)
        });
        taken += join_all(all).await.iter().sum::<usize>();
    }
    assert_eq!(taken, RECORDS);
    let acked = &[("kind", "acked")][..];
    let expected = (RECORDS - SUBSCRIBERS) as f64 + f64::from(PARTITIONS);
    let verdicts = "ackgate_verdicts_total";
    let after = becomes(admin, verdicts, acked, |count| count == Some(expected)).await;
    let (before, keys) = (before.keys(), after.keys());
    let new: Vec<_> = keys.difference(&before).collect();
    let gone: Vec<_> = before.difference(&keys).collect();
    assert_eq!(keys.len(), before.len(), "new {new:?}, gone {gone:?}");
    for word in ["random-", "one-that-stays", "key-", "reason 1", "code-"] {
        assert!(!after.text.contains(word), "{word} is told");
    }
}

/// A subscriber of its own name takes some records, refuses one for a reason of its own, acks
/// the others and leaves. How many it took.
async fn takes_its_part(connection: Channel, number: usize) -> usize {
    let mut open = Stream::hello("orders");
    open.subscriber_id = format!("random-{:08x}", number.wrapping_mul(0x9e37_79b9));
    open.credit = Some(Credit {
        records: EACH as u32,
        bytes: 1 << 20,
    });
    let mut stream = Stream::open_over(connection, open).await;
    let records = stream.records(EACH).await;
    let acks = records.iter().map(|record| record.verdict(Outcome::Acked));
    let mut verdicts: Vec<_> = acks.collect();
    let mut refused = records[0].verdict(Outcome::Rejected);
    refused.reason = format!("reason {number}");
    refused.code = format!("code-{number}");
    verdicts[0] = refused;
    let settled = stream.settle(verdicts).await;
    assert_eq!(settled.answers, []);
    stream.close().await;
    records.len()
}

async fn lanes_beyond_the_most_are_summed(stage: Stage) {
    let topic = stage.topic("orders", 5).await;
    for partition in 0..5 {
        stage.produce_to(&topic, partition, &["1", "2"]).await;
    }
    let top = "telemetry.metrics.max_lanes = 2\n";
    let (gateway, admin) = gateway(&stage, &[stage.subscription(&topic)], top).await;
    let mut stream = gateway.open().await;
    let records = stream.records(10).await;
    let unsettled = "ackgate_lane_unsettled_records";
    let other = &[("topic", topic.name.as_str()), ("partition", "other")][..];
    let scrape = becomes(admin, unsettled, other, |sum| sum == Some(6.0)).await;
    assert_eq!(scrape.named(unsettled).count(), 3);
    assert_eq!(scrape.value(unsettled, &[("partition", "1")]), Some(2.0));
    assert_eq!(scrape.named("ackgate_lane_floor_position").count(), 2);
    stream.answer_all(&records, Outcome::Acked).await;
    becomes(admin, unsettled, other, |sum| sum == Some(0.0)).await;
}

async fn ad_hoc_subscriptions_are_one_whatever_their_topics_and_groups(stage: Stage) {
    let mut topics = Vec::new();
    for name in ["a", "b", "c"] {
        let topic = stage.topic(name, 1).await;
        stage.produce(&topic, &["1"]).await;
        topics.push(topic);
    }
    let own = stage.named("");
    let top = format!(
        "ad_hoc.clusters = [\"main\"]\n\
         ad_hoc.topics = [\"{own}*\"]\n\
         ad_hoc.groups = [\"{own}*\"]\n\
         ad_hoc.template.start = \"earliest\"\n\
         ad_hoc.template.order = \"none\"\n\
         ad_hoc.template.on_reject = \"drop\"\n\
         ad_hoc.template.linger = \"100ms\"\n\
         ad_hoc.template.consumer.\"session.timeout.ms\" = \"6000\"\n"
    );
    let (gateway, admin) = gateway(&stage, &[], &top).await;
    let before = Scrape::of(admin).await;
    let of = &[("subscription", "(ad hoc)"), ("cluster", "main")][..];
    let fetched = "ackgate_fetched_records_total";
    assert_eq!(before.value(fetched, of), Some(0.0), "{}", before.text);
    let mut streams = Vec::new();
    for topic in &topics {
        let mut open = Stream::hello("");
        open.ad_hoc = Some(ackgate_proto::v1::AdHoc {
            cluster: "main".to_owned(),
            topics: vec![topic.name.clone()],
            group: stage.named(&topic.name),
            ..ackgate_proto::v1::AdHoc::default()
        });
        let mut stream = Stream::open(gateway.address, open).await;
        let record = stream.record().await;
        stream.ack(&record).await;
        streams.push(stream);
    }
    let during = becomes(admin, fetched, of, |count| count == Some(3.0)).await;
    let lanes: Vec<_> = during.named("ackgate_lane_lag_records").collect();
    assert_eq!(lanes.len(), 1, "{lanes:?}");
    assert!(lanes[0].0.contains("topic=\"(ad hoc)\""), "{lanes:?}");
    for topic in &topics {
        assert!(!during.text.contains(&topic.name), "{}", topic.name);
    }
    // What was counted outlives those that counted it.
    for stream in streams {
        stream.close().await;
    }
    let joined = "ackgate_subscription_joined";
    becomes(admin, joined, of, |joined| joined == Some(0.0)).await;
    throughout(
        "counts go on",
        Duration::from_secs(2),
        async || match Scrape::of(admin).await.value(fetched, of) {
            Some(3.0) => Ok(()),
            other => Err(format!("{other:?}")),
        },
    )
    .await;
}
