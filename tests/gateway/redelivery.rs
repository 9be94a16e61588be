//! Which records come again, when, and what that costs them.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use ackgate_proto::v1::{LaneEventKind, Outcome};
use prost_types::Duration as Wire;
use tokio::time::sleep;

use crate::support::{Case, Outgoing, Stage, Stream, cases};

pub(crate) fn cases() -> Vec<Case> {
    cases![
        both: failed_record_comes_again_and_is_settled_later,
            lost_stream_gives_its_records_to_another,
            end_of_input_without_close_is_a_loss,
            failure_in_lane_order_rewinds_the_lane;
        embedded: retry_after_wins_over_the_backoff,
            unanswered_record_expires,
            deadline_starts_at_the_hand_over,
            released_record_comes_at_once_and_uses_no_attempt,
            close_releases_what_is_out,
            last_failed_attempt_settles_at_once,
            attempts_are_counted_for_each_record,
            waiting_lane_does_not_stop_the_others;
    ]
}

// FC-03.
async fn failed_record_comes_again_and_is_settled_later(stage: Stage) {
    let topic = stage.topic("orders", 1).await;
    stage.produce(&topic, &["a", "b", "c"]).await;
    let gateway = stage.gateway(&[stage.subscription(&topic)]).await;
    let mut stream = gateway.open().await;
    let records = stream.records(3).await;
    stream.ack(&records[0]).await;
    stream.fail(&records[1]).await;
    stream.ack(&records[2]).await;

    let again = stream.record().await;
    assert_eq!((again.offset, again.attempt, again.text()), (1, 2, "b"));
    stream.ack(&again).await;
    stage.commits(&topic, 0, 3).await;
}

// L10: never before its time.
async fn retry_after_wins_over_the_backoff(stage: Stage) {
    let topic = stage.topic("orders", 1).await;
    stage.produce(&topic, &["a"]).await;
    let gateway = stage.gateway(&[stage.subscription(&topic)]).await;
    let mut stream = gateway.open().await;
    let mut failed = stream.record().await.verdict(Outcome::Failed);
    failed.retry_after = Some(Wire {
        seconds: 2,
        nanos: 0,
    });
    let before = Instant::now();
    assert_eq!(stream.settle(vec![failed]).await.answers, []);
    stream.record().await;
    assert!(
        before.elapsed() >= Duration::from_secs(2),
        "too early: {:?}",
        before.elapsed()
    );
}

async fn unanswered_record_expires(stage: Stage) {
    let topic = stage.topic("orders", 1).await;
    stage.produce(&topic, &["a"]).await;
    let subscription = stage
        .subscription(&topic)
        .ack_deadline(Duration::from_millis(300));
    let gateway = stage.gateway(&[subscription]).await;
    let mut stream = gateway.open().await;
    stream.record().await;
    let again = stream.record().await;
    assert_eq!((again.offset, again.attempt, again.delivery), (0, 2, 2));
}

// FC-29.
async fn deadline_starts_at_the_hand_over(stage: Stage) {
    let topic = stage.topic("orders", 1).await;
    stage.produce(&topic, &["0", "1", "2", "3", "4"]).await;
    let subscription = stage
        .subscription(&topic)
        .ack_deadline(Duration::from_secs(3));
    let gateway = stage.gateway(&[subscription]).await;
    let mut open = Stream::hello("orders");
    open.credit.as_mut().unwrap().records = 1;
    let mut stream = Stream::open(gateway.address, open).await;
    for offset in 0..5 {
        let record = stream.record().await;
        assert_eq!(
            (record.offset, record.attempt, record.delivery),
            (offset, 1, 1)
        );
        // The work: all five together take longer than one deadline.
        sleep(Duration::from_millis(800)).await;
        stream.ack(&record).await;
    }
    stage.commits(&topic, 0, 5).await;
}

async fn released_record_comes_at_once_and_uses_no_attempt(stage: Stage) {
    let topic = stage.topic("orders", 1).await;
    stage.produce(&topic, &["a"]).await;
    let subscription = stage.subscription(&topic).backoff(Duration::from_secs(600));
    let gateway = stage.gateway(&[subscription]).await;
    let mut stream = gateway.open().await;
    let record = stream.record().await;
    stream.answer_all(&[record], Outcome::Released).await;
    let again = stream.record().await;
    assert_eq!((again.offset, again.attempt, again.delivery), (0, 1, 2));
}

// FC-41, L6.
async fn lost_stream_gives_its_records_to_another(stage: Stage) {
    let topic = stage.topic("orders", 1).await;
    stage
        .produce(&topic, &["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"])
        .await;
    let gateway = stage.gateway(&[stage.subscription(&topic)]).await;
    let mut first = gateway.open().await;
    assert_eq!(first.records(10).await.len(), 10);
    drop(first);

    let mut second = gateway.open().await;
    let again = second.records(10).await;
    assert_eq!(
        again.iter().map(|one| one.offset).collect::<Vec<_>>(),
        (0..10).collect::<Vec<_>>()
    );
    assert!(
        again
            .iter()
            .all(|one| (one.attempt, one.delivery) == (1, 2)),
        "{again:?}"
    );
    assert!(matches!(stage.committed(&topic, 0).await, None | Some(0)));
    second.answer_all(&again, Outcome::Acked).await;
    stage.commits(&topic, 0, 10).await;
}

// L6: a cancel and a half-close look the same on the wire.
async fn end_of_input_without_close_is_a_loss(stage: Stage) {
    let topic = stage.topic("orders", 1).await;
    stage.produce(&topic, &["a", "b"]).await;
    let gateway = stage.gateway(&[stage.subscription(&topic)]).await;
    let mut first = gateway.open().await;
    first.records(2).await;
    first.half_close();
    first.status().await;

    let again = gateway.open().await.records(2).await;
    assert!(
        again
            .iter()
            .all(|one| (one.attempt, one.delivery) == (1, 2)),
        "{again:?}"
    );
}

async fn close_releases_what_is_out(stage: Stage) {
    let topic = stage.topic("orders", 1).await;
    stage.produce(&topic, &["a", "b"]).await;
    let gateway = stage.gateway(&[stage.subscription(&topic)]).await;
    let mut first = gateway.open().await;
    let records = first.records(2).await;
    first.ack(&records[0]).await;
    first.close().await;

    let again = gateway.open().await.record().await;
    assert_eq!((again.offset, again.attempt), (1, 1));
}

// FC-35.
async fn last_failed_attempt_settles_at_once(stage: Stage) {
    let topic = stage.topic("orders", 1).await;
    let dead = stage.topic("dead", 1).await;
    stage.produce(&topic, &["a"]).await;
    let subscription = stage
        .subscription(&topic)
        .max_attempts(3)
        .backoff(Duration::from_secs(3_600))
        .dead_letter(&dead);
    let gateway = stage.gateway(&[subscription]).await;
    let mut stream = gateway.open().await;
    for attempt in 1..=3 {
        let record = stream.record().await;
        assert_eq!(record.attempt, attempt);
        let mut failed = record.verdict(Outcome::Failed);
        if attempt < 3 {
            failed.retry_after = Some(Wire {
                seconds: 0,
                nanos: 0,
            });
        }
        assert_eq!(stream.settle(vec![failed]).await.answers, []);
    }
    // Its delay would be an hour: only giving it up at once makes this pass.
    let letters = stage.holds(&dead, 1).await;
    assert_eq!(
        letters[0].header("ackgate.dead-letter.cause"),
        Some("attempts-exhausted")
    );
    stage.commits(&topic, 0, 1).await;
}

// FC-44.
async fn attempts_are_counted_for_each_record(stage: Stage) {
    let topic = stage.topic("orders", 6).await;
    let dead = stage.topic("dead", 1).await;
    for partition in 0..6 {
        stage
            .produce_to(&topic, partition, &["poison", "good"])
            .await;
    }
    let subscription = stage
        .subscription(&topic)
        .max_attempts(3)
        .dead_letter(&dead);
    let gateway = stage.gateway(&[subscription]).await;
    let mut stream = gateway.open().await;
    let mut deliveries: BTreeMap<(i32, i64), u32> = BTreeMap::new();
    for _ in 0..6 * (3 + 1) {
        let record = stream.record().await;
        *deliveries
            .entry((record.partition, record.offset))
            .or_default() += 1;
        if record.text() == "poison" {
            stream.fail(&record).await;
        } else {
            stream.ack(&record).await;
        }
    }
    for partition in 0..6 {
        assert_eq!(deliveries[&(partition, 0)], 3, "{deliveries:?}");
        assert_eq!(deliveries[&(partition, 1)], 1, "{deliveries:?}");
        stage.commits(&topic, partition, 2).await;
    }
    stage.holds(&dead, 6).await;
}

// FC-68.
async fn waiting_lane_does_not_stop_the_others(stage: Stage) {
    let topic = stage.topic("orders", 2).await;
    stage.produce_to(&topic, 0, &["waits"]).await;
    let gateway = stage.gateway(&[stage.subscription(&topic)]).await;
    let mut stream = gateway.open().await;
    let mut failed = stream.record().await.verdict(Outcome::Failed);
    failed.retry_after = Some(Wire {
        seconds: 3_600,
        nanos: 0,
    });
    assert_eq!(stream.settle(vec![failed]).await.answers, []);

    stage
        .broker
        .produce(
            &topic.name,
            (0..100).map(|n| Outgoing::value(1, format!("{n}"))),
        )
        .await;
    let records = stream.records(100).await;
    assert!(records.iter().all(|one| one.partition == 1));
    stream.answer_all(&records, Outcome::Acked).await;
    stage.commits(&topic, 1, 100).await;
}

// L9.
async fn failure_in_lane_order_rewinds_the_lane(stage: Stage) {
    let topic = stage.topic("orders", 1).await;
    stage.produce(&topic, &["0", "1", "2", "3", "4"]).await;
    let gateway = stage
        .gateway(&[stage.subscription(&topic).in_lane_order()])
        .await;
    let mut stream = gateway.open().await;
    let records = stream.records(5).await;
    stream.answer_all(&records[..2], Outcome::Acked).await;
    stream.fail(&records[2]).await;

    let rewound = LaneEventKind::Rewound;
    let event = stream
        .event("rewinds", |event| event.kind() == rewound)
        .await;
    // The failed record itself was answered: what is void begins above it.
    assert_eq!(event.first_offset, Some(3));
    let again = stream.records(3).await;
    let seen: Vec<_> = again
        .iter()
        .map(|one| (one.offset, one.text(), one.attempt))
        .collect();
    assert_eq!(seen, [(2, "2", 2), (3, "3", 1), (4, "4", 1)]);
    stream.answer_all(&again, Outcome::Acked).await;
    stage.commits(&topic, 0, 5).await;
}
