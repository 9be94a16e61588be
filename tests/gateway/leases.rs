//! Lanes that belong to one subscriber at a time, and holders that fall silent or die.

use std::time::Duration;

use ackgate_proto::v1::{LaneEventKind, Outcome, VerdictResult};

use crate::support::{Case, Stage, Subscriber, Subscription, Topic, cases, eventually};

pub(crate) fn cases() -> Vec<Case> {
    cases![
        both: killed_holder_of_a_lane_is_followed_in_order_after_the_lease;
        embedded: silent_holder_of_a_lane_is_fenced;
    ]
}

/// A subscription in lane order with short leases, which a slow machine still renews.
fn leased(stage: &Stage, topic: &Topic) -> Subscription {
    stage
        .subscription(topic)
        .in_lane_order()
        .set("lease.duration", "\"5s\"")
        .set("lease.beat", "\"500ms\"")
}

// L9.
async fn killed_holder_of_a_lane_is_followed_in_order_after_the_lease(stage: Stage) {
    let topic = stage.topic("orders", 1).await;
    stage.produce(&topic, &["0", "1", "2", "3", "4", "5"]).await;
    let gateway = stage.gateway(&[leased(&stage, &topic)]).await;
    let mut holder = Subscriber::start(gateway.address, &["--verdict", "none", "--credit", "4"]);
    let mut printed = 0;
    eventually("the holder has records", async || {
        printed += holder.take().len();
        if printed == 4 {
            Ok(())
        } else {
            Err(format!("{printed}"))
        }
    })
    .await;
    let mut standby = gateway.open().await;
    let _beats = standby.beats(Duration::from_millis(500));
    standby
        .event("the lane is another's", |event| {
            event.kind() == LaneEventKind::Standby
        })
        .await;
    // Longer than its lease: it beats, so it keeps the lane.
    let quiet = standby.within(Duration::from_secs(8)).await;
    assert_eq!(quiet.len(), 0, "L9");
    holder.kill();
    let records = standby.records(6).await;
    let offsets: Vec<_> = records.iter().map(|one| one.offset).collect();
    assert_eq!(offsets, [0, 1, 2, 3, 4, 5]);
    standby
        .event("the lane is its own", |event| {
            event.kind() == LaneEventKind::Leased
        })
        .await;
    standby.answer_all(&records, Outcome::Acked).await;
    stage.commits(&topic, 0, 6).await;
}

// FC-16, L4.
async fn silent_holder_of_a_lane_is_fenced(stage: Stage) {
    let topic = stage.topic("orders", 1).await;
    stage.produce(&topic, &["0", "1"]).await;
    let gateway = stage.gateway(&[leased(&stage, &topic)]).await;
    let mut silent = gateway.open().await;
    let beats = silent.beats(Duration::from_millis(500));
    let old = silent.records(2).await;
    beats.abort();
    let settings = silent.opened.clone().and_then(|opened| opened.settings);
    let beat = settings.and_then(|settings| settings.lease_beat);
    assert_eq!(beat.map(|beat| beat.nanos), Some(500_000_000));
    let mut standby = gateway.open().await;
    let _beats = standby.beats(Duration::from_millis(500));
    let records = standby.records(2).await;
    assert_ne!(records[0].lane, old[0].lane);
    standby.answer_all(&records, Outcome::Acked).await;
    stage.commits(&topic, 0, 2).await;
    let verdicts = old
        .iter()
        .map(|one| one.verdict(Outcome::Rejected))
        .collect();
    let answers = silent.settle(verdicts).await.answers;
    assert!(
        answers.len() == 2
            && answers
                .iter()
                .all(|answer| answer.result() == VerdictResult::Fenced),
        "{answers:?}"
    );
}
