//! Exactly once: under `read_committed` each dead letter is there once, and if and only
//! if what the group has committed says that its record is settled.

mod kafka;
mod scene;

use std::{collections::BTreeMap, time::Duration};

use ackgate_proto::v1::Outcome;
use futures::future::join_all;

use self::scene::Scene;
use crate::support::{Case, Gateway, Outgoing, Stage, Subscriber, Topic, cases, eventually};

pub(crate) fn cases() -> Vec<Case> {
    cases![
        kafka: killed_at_any_step_each_dead_letter_is_there_exactly_once,
               a_transaction_left_open_ends_by_itself_and_no_position_is_guessed,
               a_member_that_slept_through_its_session_commits_nothing,
               partitions_that_move_repeat_no_dead_letter,
               a_transaction_that_timed_out_is_made_again,
               a_letter_too_large_for_its_topic_goes_without_its_value;
    ]
}

/// Every step of a transaction.
const STEPS: [&str; 5] = [
    "transaction.begun",
    "transaction.produced",
    "transaction.offsets-sent",
    "transaction.committing",
    "transaction.committed",
];

// L3: killed between any two steps.
async fn killed_at_any_step_each_dead_letter_is_there_exactly_once(stage: Stage) {
    join_all(STEPS.into_iter().map(|step| killed_at(&stage, step))).await;
}

async fn killed_at(stage: &Stage, step: &str) {
    let scene = Scene::new(stage, step, 1).await;
    scene.produce(4).await;
    // The next start of the same gateway ends what this one leaves open.
    let id = format!("\"{}\"", stage.named(step));
    let subscription = scene
        .subscription()
        .set("dead_letter.transactional_id", &id)
        .set("dead_letter.transaction_timeout", "\"60s\"");
    let mut gateway = Gateway::start_to_end_at(stage, &[subscription], "", step).await;
    let mut stream = gateway.open().await;
    let records = stream.records(4).await;
    // Above the floor: settled by the map alone. The answer may never come.
    stream.tell(&records[2], Outcome::Rejected).await;
    gateway.dies().await;

    gateway.restart().await;
    let mut stream = gateway.open().await;
    let first = stream.records(3).await;
    let (committed, letters) = scene.look().await;
    let is_settled = committed[&0].settles(2);
    assert_eq!(letters.len(), usize::from(is_settled), "{step}");
    assert_eq!(is_settled, step == "transaction.committed", "{step}");
    let again = if is_settled {
        Vec::new()
    } else {
        stream.records(1).await
    };
    for record in first.iter().chain(&again) {
        let outcome = if record.offset % 3 == 0 {
            Outcome::Acked
        } else {
            Outcome::Rejected
        };
        stream
            .answer_all(std::slice::from_ref(record), outcome)
            .await;
    }
    scene.ends(4).await;
    stream.close().await;
}

// L3: each start has an id of its own, so nobody ends the transaction but Kafka.
async fn a_transaction_left_open_ends_by_itself_and_no_position_is_guessed(stage: Stage) {
    let scene = Scene::new(&stage, "open", 1).await;
    scene.produce(4).await;
    let subscription = scene
        .subscription()
        .set("start", "\"latest\"")
        .set("dead_letter.transaction_timeout", "\"2s\"")
        .set("content.check", "\"none\"");
    // The first one commits where reading begins.
    let step = "transaction.committing:2";
    let mut gateway = Gateway::start_to_end_at(&stage, &[subscription], "", step).await;
    let mut stream = gateway.open().await;
    // The lane begins at the end, and its start is committed before it is read.
    eventually("a record comes", async || {
        scene.produce(1).await;
        let got = stream.within(Duration::from_millis(500)).await;
        match got.first() {
            Some(record) => {
                stream.tell(record, Outcome::Rejected).await;
                Ok(())
            }
            None => Err("none".to_owned()),
        }
    })
    .await;
    gateway.dies().await;
    gateway.restart().await;
    let mut stream = gateway.open().await;
    let again = stream.record().await;
    assert!(again.offset >= 4, "what was before the start: {again:?}");
    stream.close().await;
}

// L3, L4: two gateways; the first one sleeps while it has letters under way.
async fn a_member_that_slept_through_its_session_commits_nothing(stage: Stage) {
    let scene = Scene::new(&stage, "zombie", 2).await;
    let subscription = scene.subscription().set("content.check", "\"json\"");
    let first = Gateway::start(&stage, std::slice::from_ref(&subscription)).await;
    let _one = Subscriber::start(first.address, &[]);
    scene.produce(600).await;
    eventually("the first is at work", async || {
        let (_, letters) = scene.look().await;
        if letters.is_empty() {
            Err("no letter".to_owned())
        } else {
            Ok(())
        }
    })
    .await;
    first.signal("STOP");
    let second = Gateway::start(&stage, &[subscription]).await;
    let _other = Subscriber::start(second.address, &[]);
    scene.ends(600).await;
    first.signal("CONT");
    scene.produce(600).await;
    // It goes on, with new lanes; what it had under way is void.
    eventually("everything is committed", async || {
        let (committed, _) = scene.look().await;
        if committed.values().all(|of| of.position >= 1200) {
            Ok(())
        } else {
            Err(format!("{committed:?}"))
        }
    })
    .await;
}

// L3: lanes go to gateways that come, and come back, all along.
async fn partitions_that_move_repeat_no_dead_letter(stage: Stage) {
    let scene = Scene::new(&stage, "moving", 4).await;
    let subscription = scene.subscription().set("content.check", "\"json\"");
    let first = Gateway::start(&stage, std::slice::from_ref(&subscription)).await;
    let _one = Subscriber::start(first.address, &[]);
    scene.produce(999).await;
    for _ in 0..2 {
        let mut second = Gateway::start(&stage, std::slice::from_ref(&subscription)).await;
        let _two = Subscriber::start(second.address, &[]);
        eventually("it has lanes", async || {
            if second.log().contains("lane assigned") {
                Ok(())
            } else {
                Err("none".to_owned())
            }
        })
        .await;
        scene.look().await;
        second.terminate();
        assert!(second.end().await.success());
    }
    scene.ends(999).await;
}

// L3: stopped with a transaction open, for longer than Kafka keeps it and for less than
// its session.
async fn a_transaction_that_timed_out_is_made_again(stage: Stage) {
    let scene = Scene::new(&stage, "slow", 1).await;
    let subscription = scene
        .subscription()
        .set("content.check", "\"json\"")
        .set("dead_letter.transaction_timeout", "\"1s\"")
        .consumer_property("session.timeout.ms", "45000");
    // The one with the first letters: nothing else settles while nobody answers.
    let point = "transaction.committing:1:stop";
    let gateway = Gateway::start_to_end_at(&stage, &[subscription], "", point).await;
    scene.produce(3000).await;
    let stream = gateway.open().await;
    let written = eventually("a transaction with letters is open", async || {
        match scene.ends_of_letters().await? {
            (0, end) if end > 0 => Ok(end),
            ends => Err(format!("{ends:?}")),
        }
    })
    .await;
    // It has stopped before it asked Kafka to commit; Kafka looks for transactions that
    // are too old every ten seconds.
    eventually("Kafka has ended it", async || {
        match scene.ends_of_letters().await? {
            (visible, end) if visible == end && end > written => Ok(()),
            ends => Err(format!("{ends:?}")),
        }
    })
    .await;
    let (committed, letters) = scene.look().await;
    assert!(letters.is_empty(), "not stopped: {committed:?} {letters:?}");
    gateway.signal("CONT");
    gateway
        .logs("it is not known whether a transaction was committed")
        .await;
    stream.close().await;
    let _subscriber = Subscriber::start(gateway.address, &[]);
    scene.ends(3000).await;
}

/// Bytes that nothing compresses.
fn noise(count: usize) -> Vec<u8> {
    let next = |state: &u64| {
        Some(
            state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1),
        )
    };
    std::iter::successors(Some(7_u64), next)
        .map(|state| (state >> 56) as u8)
        .take(count)
        .collect()
}

async fn a_letter_too_large_for_its_topic_goes_without_its_value(stage: Stage) {
    let mut scene = Scene::new(&stage, "large", 1).await;
    scene.dead = Topic {
        name: stage.named("small"),
    };
    let limit = Some(("max.message.bytes", "4000"));
    stage.broker.create(&scene.dead.name, 1, limit).await;
    let subscription = scene.subscription().set("content.check", "\"json\"");
    let gateway = Gateway::start(&stage, &[subscription]).await;
    let _subscriber = Subscriber::start(gateway.address, &[]);
    let value = |n: usize| match n {
        1 => noise(20_000),
        2 | 4 | 5 => noise(2_000),
        _ => b"{}".to_vec(),
    };
    let records = (0..7).map(|n| Outgoing::value(0, value(n)));
    stage.broker.produce(&scene.topic.name, records).await;
    scene.ends(7).await;
    let (_, letters) = scene.look().await;
    let sizes: BTreeMap<i64, usize> = letters.iter().map(|of| (of.1, of.2)).collect();
    assert_eq!(
        sizes,
        BTreeMap::from([(1, 0), (2, 2000), (4, 2000), (5, 2000)])
    );
}
