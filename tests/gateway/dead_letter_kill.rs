//! The gateway killed between any two steps of a dead letter's path: nothing is lost,
//! and what is written twice can be told.

use std::collections::BTreeSet;

use ackgate_proto::v1::Outcome;
use futures::future::join_all;

use crate::support::{Case, Gateway, Stage, cases, eventually};

pub(crate) fn cases() -> Vec<Case> {
    cases![
        kafka: killed_at_any_step_it_loses_nothing_and_repeats_can_be_told;
    ]
}

/// Every step, with how many copies there may be in the end.
const STEPS: [(&str, usize); 6] = [
    ("dead-letter.before-write", 1),
    ("dead-letter.enqueued", 2),
    ("dead-letter.confirmed", 2),
    ("dead-letter.settled", 2),
    ("commit.before", 2),
    ("commit.done", 1),
];

// L3, L2, FC-47.
async fn killed_at_any_step_it_loses_nothing_and_repeats_can_be_told(stage: Stage) {
    let steps = STEPS.into_iter();
    join_all(steps.map(|(step, most)| killed_at(&stage, step, most))).await;
}

async fn killed_at(stage: &Stage, step: &str, most: usize) {
    let topic = stage.topic(&format!("orders-{step}"), 1).await;
    let dead = stage.topic(&format!("dead-{step}"), 1).await;
    let group = stage.named(&format!("group-{step}"));
    let committed = async || {
        let committed = stage.broker.committed(&group, &topic.name).await;
        committed.get(&0).copied().unwrap_or(0)
    };
    stage.produce(&topic, &["bad"]).await;
    let subscription = stage.subscription(&topic).dead_letter(&dead);
    let subscription = subscription.set("group", &format!("\"{group}\""));
    let mut gateway = Gateway::start_to_die_at(stage, &[subscription], "", step).await;
    let mut stream = gateway.open().await;
    let record = stream.record().await;
    // The answer may never come.
    stream.tell(&record, Outcome::Rejected).await;
    gateway.dies().await;

    let copies = stage.broker.read(&dead.name).await.len();
    let before = committed().await;
    assert!(
        before == 0 || copies == 1,
        "{step}: {before} is committed, and there are {copies} copies"
    );

    gateway.restart().await;
    let mut stream = gateway.open().await;
    if before == 0 {
        let again = stream.record().await;
        assert_eq!(again.offset, record.offset, "{step}");
        stream.reject(&again).await;
    }
    eventually(
        &format!("{step}: 1 is committed"),
        async || match committed().await {
            1 => Ok(()),
            position => Err(position.to_string()),
        },
    )
    .await;
    let letters = stage.broker.read(&dead.name).await;
    assert!((1..=most).contains(&letters.len()), "{step}: {letters:?}");
    let ids: BTreeSet<_> = letters
        .iter()
        .map(|letter| letter.header("ackgate.dead-letter.dedupe-id"))
        .collect();
    assert!(
        ids.len() == 1 && !ids.contains(&None),
        "{step}: {letters:?}"
    );
    stream.close().await;
}
