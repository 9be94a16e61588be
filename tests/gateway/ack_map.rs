//! What is settled above the committed position survives the gateway.

use std::time::Duration;

use ackgate_proto::v1::{Confirm, Open, Outcome, Verdict};
use rdkafka::{
    ClientConfig, Offset, TopicPartitionList,
    consumer::{BaseConsumer, CommitMode, Consumer as _},
};
use tokio::task::spawn_blocking;

use crate::support::{
    Case, Gateway, Outgoing, Received, Stage, Stream, Subscription, Topic, cases, eventually,
};

pub(crate) fn cases() -> Vec<Case> {
    cases![
        kafka: killed_gateway_delivers_only_what_was_not_settled,
               durable_answers_survive_a_kill,
               strange_metadata_breaks_no_assignment,
               attempts_go_on_over_kills;
    ]
}

/// A member that was killed is missed soon.
fn subscription(stage: &Stage, topic: &Topic) -> Subscription {
    stage
        .subscription(topic)
        .consumer_property("session.timeout.ms", "6000")
}

async fn durable(gateway: &Gateway) -> Stream {
    let open = Open {
        confirm: Confirm::Durable.into(),
        ..Stream::hello("orders")
    };
    Stream::open(gateway.address, open).await
}

fn postponed(record: &Received) -> Verdict {
    Verdict {
        retry_after: Some(prost_types::Duration {
            seconds: 3600,
            nanos: 0,
        }),
        ..record.verdict(Outcome::Failed)
    }
}

fn offsets(records: &[Received]) -> Vec<i64> {
    let mut offsets: Vec<i64> = records.iter().map(|record| record.offset).collect();
    offsets.sort_unstable();
    offsets
}

async fn produce(stage: &Stage, topic: &Topic, count: usize) {
    let records = (0..count).map(|n| Outgoing::value(0, format!("order {n}")));
    stage.broker.produce(&topic.name, records).await;
}

async fn killed_gateway_delivers_only_what_was_not_settled(stage: Stage) {
    const ACKED: usize = 5_000;
    const LEFT: usize = 100;
    let topic = stage.topic("orders", 1).await;
    produce(&stage, &topic, 1 + ACKED + LEFT).await;
    let mut gateway = stage.gateway(&[subscription(&stage, &topic)]).await;
    let mut stream = gateway.open().await;
    let failed = stream.record().await;
    assert_eq!(stream.settle(vec![postponed(&failed)]).await.answers, []);
    for _ in 0..ACKED / 500 {
        let mut records = stream.records(500).await;
        // Out of order: the odd ones backwards, then the even ones.
        records.sort_by_key(|record| (record.offset % 2 == 0, -record.offset));
        stream.answer_all(&records, Outcome::Acked).await;
    }
    let left = offsets(&stream.records(LEFT).await);
    // A commit that is asked for after all that: then no interval is left out.
    stream.credit(0, 0).await;
    produce(&stage, &topic, 1).await;
    let mut later = durable(&gateway).await;
    let last = later.record().await;
    later.ack(&last).await;

    gateway.kill_and_restart().await;
    let shown = {
        let (kafka, group) = (stage.broker.tools(), stage.group());
        let name = topic.name.clone();
        spawn_blocking(move || kafka.describe(&group, &name)).await
    };
    let end = (1 + ACKED + LEFT + 1) as i64;
    assert_eq!(
        shown.unwrap()[&0],
        (Some(0), end),
        "the floor, for Kafka's own tool"
    );
    let mut stream = gateway.open().await;
    let records = stream.records(1 + LEFT).await;
    let expected: Vec<i64> = [0].into_iter().chain(left).collect();
    assert_eq!(offsets(&records), expected);
    assert!(
        records.iter().all(|record| record.delivery == 2),
        "their numbers go on"
    );
    assert_eq!(
        records
            .iter()
            .find(|record| record.offset == 0)
            .map(|r| r.attempt),
        Some(2)
    );
    assert!(stream.within(Duration::from_secs(2)).await.is_empty());
    stream.answer_all(&records, Outcome::Acked).await;
    stage.commits(&topic, 0, end).await;
}

/// L12
async fn durable_answers_survive_a_kill(stage: Stage) {
    let topic = stage.topic("orders", 1).await;
    produce(&stage, &topic, 300).await;
    let mut gateway = stage.gateway(&[subscription(&stage, &topic)]).await;
    let mut confirmed: Vec<i64> = Vec::new();
    for life in 0..3 {
        let mut stream = durable(&gateway).await;
        let open = 300 - confirmed.len();
        let records = stream.records(open).await;
        let again: Vec<i64> = offsets(&records)
            .into_iter()
            .filter(|offset| confirmed.contains(offset))
            .collect();
        assert!(
            again.is_empty(),
            "confirmed as durable and delivered again: {again:?}"
        );
        // Killed in the same moment as the last answer has come.
        for part in records[1 + life..].chunks(7).take(9) {
            stream.answer_all(part, Outcome::Acked).await;
            confirmed.extend(part.iter().map(|record| record.offset));
        }
        gateway.kill_and_restart().await;
    }
    let mut stream = durable(&gateway).await;
    let records = stream.records(300 - confirmed.len()).await;
    assert!(
        offsets(&records)
            .iter()
            .all(|offset| !confirmed.contains(offset))
    );
    stream.answer_all(&records, Outcome::Acked).await;
    // The last durable answer is the commit of everything.
    assert_eq!(stage.committed(&topic, 0).await, Some(300));
}

/// Commits for a group without members, as other software would.
async fn commit_by_hand(stage: &Stage, topic: &Topic, group: &str, position: i64, text: &str) {
    let bootstrap = stage.broker.bootstrap();
    let (topic, group, text) = (topic.name.clone(), group.to_owned(), text.to_owned());
    let commit = move || {
        let consumer: BaseConsumer = ClientConfig::new()
            .set("bootstrap.servers", bootstrap)
            .set("group.id", group)
            .set("enable.auto.commit", "false")
            .create()
            .unwrap();
        let mut list = TopicPartitionList::new();
        let mut element = list.add_partition(&topic, 0);
        element.set_offset(Offset::Offset(position)).unwrap();
        element.set_metadata(&text);
        consumer.commit(&list, CommitMode::Sync).unwrap();
    };
    spawn_blocking(commit).await.unwrap();
}

async fn strange_metadata_breaks_no_assignment(stage: Stage) {
    let topic = stage.topic("orders", 1).await;
    produce(&stage, &topic, 20).await;
    let strange = [
        ("foreign", "{\"connector\": \"sink\", \"task\": 3}"),
        // "ag", version 1 and no more; then a version 9 of whatever length.
        ("truncated", "YWcB"),
        ("newer", "YWcJCQkJCQkJCQkJCQkJ"),
        ("corrupt", "YWcBAAAAAAAKAQAA"),
    ];
    let mut subscriptions = Vec::new();
    for (name, text) in strange {
        let group = stage.named(name);
        commit_by_hand(&stage, &topic, &group, 5, text).await;
        subscriptions.push(Subscription::new(name, &topic.name, &group));
    }
    let gateway = stage.gateway(&subscriptions).await;
    for (name, _) in strange {
        let mut stream = Stream::open(gateway.address, Stream::hello(name)).await;
        let records = stream.records(15).await;
        assert_eq!(offsets(&records), (5..20).collect::<Vec<_>>(), "{name}");
        stream.answer_all(&records, Outcome::Acked).await;
        let group = stage.named(name);
        eventually(&format!("{name} is committed"), async || {
            let committed = stage.broker.committed(&group, &topic.name).await;
            if committed.get(&0) == Some(&20) {
                Ok(())
            } else {
                Err(format!("{committed:?}"))
            }
        })
        .await;
    }
    assert_eq!(
        gateway.log().matches("metadata is not used").count(),
        strange.len()
    );
}

/// FC-34
async fn attempts_go_on_over_kills(stage: Stage) {
    let topic = stage.topic("orders", 1).await;
    let dead = stage.topic("dead", 1).await;
    stage.produce(&topic, &["poison", "fine"]).await;
    let subscription = subscription(&stage, &topic)
        .max_attempts(3)
        .backoff(Duration::from_millis(100))
        .dead_letter(&dead);
    let mut gateway = stage.gateway(&[subscription]).await;
    for attempt in 1..=3 {
        let mut stream = durable(&gateway).await;
        let records = stream.records(if attempt == 1 { 2 } else { 1 }).await;
        assert_eq!((records[0].offset, records[0].attempt), (0, attempt));
        assert_eq!(records[0].delivery, attempt);
        if attempt == 1 {
            stream.ack(&records[1]).await;
        }
        if attempt < 3 {
            stream.settle(vec![postponed(&records[0])]).await;
            gateway.kill_and_restart().await;
        } else {
            stream.fail(&records[0]).await;
        }
    }
    let letters = stage.holds(&dead, 1).await;
    let header = |name: &str| letters[0].header(&format!("ackgate.dead-letter.{name}"));
    assert_eq!(header("cause"), Some("attempts-exhausted"));
    assert_eq!(header("attempts"), Some("3"));
    stage.commits(&topic, 0, 2).await;
}
