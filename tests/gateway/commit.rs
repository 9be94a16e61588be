//! What is committed: the lowest unsettled offset of each lane, and nothing else.

use std::{collections::BTreeSet, time::Duration};

use ackgate_proto::v1::Outcome;
use prost_types::Duration as Wire;

use crate::support::{Broker, Case, Stage, Topic, cases, eventually, throughout};

pub(crate) fn cases() -> Vec<Case> {
    cases![
        both: failed_offset_holds_the_committed_position_across_a_restart,
            acks_out_of_order_commit_only_the_contiguous_prefix,
            acked_lane_is_committed_at_its_log_end,
            nobody_listening_commits_nothing;
        embedded: refused_commit_is_tried_again;
    ]
}

/// What the group has committed on partition 0: said by Kafka's own tool where
/// there is one.
async fn shown(stage: &Stage, topic: &Topic) -> Option<i64> {
    match &stage.broker {
        Broker::Embedded(_) => stage.committed(topic, 0).await,
        Broker::Kafka(kafka) => {
            let (kafka, group, name) = (*kafka, stage.group(), topic.name.clone());
            let describe = tokio::task::spawn_blocking(move || kafka.describe(&group, &name));
            describe
                .await
                .unwrap()
                .get(&0)
                .and_then(|(committed, _)| *committed)
        }
    }
}

/// Waits until [`shown`] is this.
pub(crate) async fn shows(stage: &Stage, topic: &Topic, position: i64) {
    eventually(&format!("the group is shown at {position}"), async || {
        let seen = shown(stage, topic).await;
        if seen == Some(position) {
            Ok(())
        } else {
            Err(format!("{seen:?}"))
        }
    })
    .await;
}

// FC-01, L2.
async fn failed_offset_holds_the_committed_position_across_a_restart(stage: Stage) {
    let topic = stage.topic("orders", 1).await;
    let values: Vec<String> = (0..13).map(|n| n.to_string()).collect();
    let values: Vec<&str> = values.iter().map(String::as_str).collect();
    stage.produce(&topic, &values).await;
    let mut gateway = stage.gateway(&[stage.subscription(&topic)]).await;
    let mut stream = gateway.open().await;
    let records = stream.records(13).await;

    stream.answer_all(&records[..11], Outcome::Acked).await;
    let mut failed = records[11].verdict(Outcome::Failed);
    failed.retry_after = Some(Wire {
        seconds: 600,
        nanos: 0,
    });
    assert_eq!(stream.settle(vec![failed]).await.answers, []);
    stream.ack(&records[12]).await;

    shows(&stage, &topic, 11).await;
    throughout(
        "12 is acked and 11 is not",
        Duration::from_secs(2),
        async || {
            let seen = stage.committed(&topic, 0).await;
            if seen == Some(11) {
                Ok(())
            } else {
                Err(format!("{seen:?}"))
            }
        },
    )
    .await;

    gateway.kill_and_restart().await;
    let mut stream = gateway.open().await;
    let again = stream.record().await;
    assert_eq!(again.offset, 11, "what was not settled comes first");
    assert_eq!(shown(&stage, &topic).await, Some(11));
    stream.ack(&again).await;
    // 12 was settled before the crash, but only 11 was committed: it may repeat.
    for repeated in stream.within(Duration::from_secs(1)).await {
        assert_eq!(repeated.offset, 12);
        stream.ack(&repeated).await;
    }
    shows(&stage, &topic, 13).await;
}

// FC-02.
async fn acks_out_of_order_commit_only_the_contiguous_prefix(stage: Stage) {
    let topic = stage.topic("orders", 1).await;
    stage.produce(&topic, &["0", "1", "2", "3", "4"]).await;
    let mut gateway = stage.gateway(&[stage.subscription(&topic)]).await;
    let mut stream = gateway.open().await;
    let records = stream.records(5).await;
    let mut acked = BTreeSet::new();
    for at in [4, 2, 0, 3] {
        stream.ack(&records[at]).await;
        acked.insert(records[at].offset);
    }
    stage.commits(&topic, 0, 1).await;

    gateway.kill_and_restart().await;
    let mut stream = gateway.open().await;
    while acked.len() < 5 {
        let record = stream.record().await;
        stream.ack(&record).await;
        acked.insert(record.offset);
    }
    for record in stream.within(Duration::from_millis(500)).await {
        stream.ack(&record).await;
    }
    stage.commits(&topic, 0, 5).await;
}

// FC-11.
async fn acked_lane_is_committed_at_its_log_end(stage: Stage) {
    let topic = stage.topic("orders", 1).await;
    stage
        .produce(&topic, &["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"])
        .await;
    let mut gateway = stage.gateway(&[stage.subscription(&topic)]).await;
    let mut stream = gateway.open().await;
    let records = stream.records(10).await;
    stream.answer_all(&records, Outcome::Acked).await;
    shows(&stage, &topic, 10).await;

    gateway.kill_and_restart().await;
    let mut stream = gateway.open().await;
    // A record produced now is the first to come: nothing before it is repeated.
    stage.produce(&topic, &["10"]).await;
    assert_eq!(stream.record().await.offset, 10);
}

// FC-42, L13.
async fn nobody_listening_commits_nothing(stage: Stage) {
    let topic = stage.topic("orders", 1).await;
    let gateway = stage.gateway(&[stage.subscription(&topic)]).await;
    stage.produce(&topic, &["0", "1", "2", "3", "4"]).await;
    throughout(
        "nobody is there",
        Duration::from_secs(2),
        async || match stage.committed(&topic, 0).await {
            None | Some(0) => Ok(()),
            seen => Err(format!("{seen:?}")),
        },
    )
    .await;
    let offsets: Vec<i64> = gateway
        .open()
        .await
        .records(5)
        .await
        .iter()
        .map(|one| one.offset)
        .collect();
    assert_eq!(offsets, [0, 1, 2, 3, 4]);
}

async fn refused_commit_is_tried_again(stage: Stage) {
    use ackgate::broker::kafka::embedded::Refusable;

    let topic = stage.topic("orders", 1).await;
    stage.produce(&topic, &["0", "1"]).await;
    let gateway = stage.gateway(&[stage.subscription(&topic)]).await;
    let mut stream = gateway.open().await;
    let records = stream.records(2).await;
    stage.broker.faults().refuse(Refusable::Commit, 3).unwrap();
    stream.answer_all(&records, Outcome::Acked).await;
    stage.commits(&topic, 0, 2).await;
}
