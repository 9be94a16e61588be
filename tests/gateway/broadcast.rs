//! Broadcast: every subscriber gets every record and answers for it.

use std::{collections::BTreeMap, time::Duration};

use ackgate_proto::v1::{LaneEventKind, Outcome};
use tonic::Code;

use crate::{
    commit::shows,
    support::{
        Case, Gateway, Outgoing, Received, Stage, Stream, Subscription, Topic, cases, connection,
        reason, throughout,
    },
};

pub(crate) fn cases() -> Vec<Case> {
    cases![
        both: slowest_subscriber_holds_the_floor_over_a_restart,
            stuck_subscriber_is_cut_off_alone_and_returns_to_what_it_owes,
            nobody_listening_is_not_an_acknowledgement,
            stream_that_stops_reading_leaves_the_connection_to_its_neighbour;
        embedded: failure_comes_again_only_to_who_failed,
            rejection_is_one_dead_letter_with_its_counts,
            lost_subscriber_is_counted_out_after_its_grace,
            goodbye_leaves_what_is_owed_to_the_others;
    ]
}

const QUIET: Duration = Duration::from_millis(700);

/// A broadcast whose first fetch waits for so many subscribers.
fn broadcast(stage: &Stage, topic: &Topic, subscribers: u32) -> Subscription {
    stage
        .subscription(topic)
        .set("delivery", "\"broadcast\"")
        .in_lane_order()
        .set("min_subscribers", &subscribers.to_string())
}

async fn numbers(stage: &Stage, topic: &Topic, count: usize) {
    let records = (0..count).map(|n| Outgoing::value(0, format!("{n}")));
    stage.broker.produce(&topic.name, records).await;
}

async fn attach(gateway: &Gateway, name: &str) -> Stream {
    let mut open = Stream::hello("orders");
    open.subscriber_id = name.to_owned();
    Stream::open(gateway.address, open).await
}

fn offsets(records: &[Received]) -> Vec<i64> {
    records.iter().map(|record| record.offset).collect()
}

// FC-69, L2.
async fn slowest_subscriber_holds_the_floor_over_a_restart(stage: Stage) {
    let topic = stage.topic("orders", 1).await;
    numbers(&stage, &topic, 10).await;
    let mut gateway = stage.gateway(&[broadcast(&stage, &topic, 2)]).await;
    let mut fast = attach(&gateway, "fast").await;
    let mut slow = attach(&gateway, "slow").await;
    let all = fast.records(10).await;
    fast.answer_all(&all, Outcome::Acked).await;
    let all = slow.records(10).await;
    assert_eq!(offsets(&all), (0..10).collect::<Vec<_>>());
    slow.answer_all(&all[..4], Outcome::Acked).await;
    shows(&stage, &topic, 4).await;

    gateway.kill_and_restart().await;
    let mut fast = attach(&gateway, "fast").await;
    let mut slow = attach(&gateway, "slow").await;
    let again = slow.records(6).await;
    assert_eq!(offsets(&again), (4..10).collect::<Vec<_>>());
    slow.answer_all(&again, Outcome::Acked).await;
    // What was acked above the position is known to nobody after a crash.
    let repeated = fast.records(6).await;
    fast.answer_all(&repeated, Outcome::Acked).await;
    shows(&stage, &topic, 10).await;
}

// FC-70, L14.
async fn stuck_subscriber_is_cut_off_alone_and_returns_to_what_it_owes(stage: Stage) {
    let topic = stage.topic("orders", 1).await;
    numbers(&stage, &topic, 100).await;
    let subscription = broadcast(&stage, &topic, 3)
        .set("window.records", "20")
        .set("slow_subscriber", "\"fail\"")
        .set("slow_after", "\"3s\"");
    let gateway = stage.gateway(&[subscription]).await;
    let mut healthy = [attach(&gateway, "a").await, attach(&gateway, "b").await];
    let mut stuck = attach(&gateway, "stuck").await;

    let three = stuck.records(20).await;
    stuck.answer_all(&three[..3], Outcome::Acked).await;
    let mut got: [BTreeMap<i64, u32>; 2] = [BTreeMap::new(), BTreeMap::new()];
    // The window reaches from what is owed, 3, to 22.
    for _ in 0..23 {
        for (stream, got) in healthy.iter_mut().zip(&mut got) {
            let record = stream.record().await;
            *got.entry(record.offset).or_default() += 1;
            stream.ack(&record).await;
        }
    }
    let status = stuck.status().await;
    assert_eq!(status.code(), Code::ResourceExhausted, "{status:?}");
    assert_eq!(reason(&status), "SLOW_SUBSCRIBER");
    shows(&stage, &topic, 3).await;
    let waits = healthy[0]
        .event("says who is waited for", |event| {
            event.kind == i32::from(LaneEventKind::Held) && event.detail.contains("stuck")
        })
        .await;
    assert_eq!((waits.first_offset, waits.last_offset), (Some(3), Some(22)));
    for stream in &mut healthy {
        assert_eq!(stream.within(QUIET).await.len(), 0, "L14");
    }
    shows(&stage, &topic, 3).await;

    let mut back = attach(&gateway, "stuck").await;
    let owed = back.records(20).await;
    assert_eq!(offsets(&owed), (3..23).collect::<Vec<_>>());
    back.answer_all(&owed, Outcome::Acked).await;
    let mut seen = offsets(&owed);
    while seen.len() < 97 {
        let record = back.record().await;
        seen.push(record.offset);
        back.ack(&record).await;
        for (stream, got) in healthy.iter_mut().zip(&mut got) {
            let record = stream.record().await;
            *got.entry(record.offset).or_default() += 1;
            stream.ack(&record).await;
        }
    }
    assert_eq!(seen, (3..100).collect::<Vec<_>>());
    for got in got {
        let once: BTreeMap<i64, u32> = (0..100).map(|offset| (offset, 1)).collect();
        assert_eq!(got, once, "L14: each record comes once");
    }
    shows(&stage, &topic, 100).await;
}

// FC-42, L6, L13.
async fn nobody_listening_is_not_an_acknowledgement(stage: Stage) {
    let topic = stage.topic("orders", 1).await;
    let gateway = stage.gateway(&[broadcast(&stage, &topic, 1)]).await;
    attach(&gateway, "first").await.close().await;
    numbers(&stage, &topic, 5).await;
    throughout(
        "nobody is there",
        Duration::from_secs(2),
        async || match stage.committed(&topic, 0).await {
            None | Some(0) => Ok(()),
            seen => Err(format!("{seen:?}")),
        },
    )
    .await;
    let mut second = attach(&gateway, "second").await;
    let all = second.records(5).await;
    assert_eq!(offsets(&all), [0, 1, 2, 3, 4]);
    second.answer_all(&all, Outcome::Acked).await;
    shows(&stage, &topic, 5).await;
}

// L14.
async fn failure_comes_again_only_to_who_failed(stage: Stage) {
    let topic = stage.topic("orders", 1).await;
    numbers(&stage, &topic, 5).await;
    let gateway = stage.gateway(&[broadcast(&stage, &topic, 2)]).await;
    let mut healthy = attach(&gateway, "healthy").await;
    let mut failing = attach(&gateway, "failing").await;
    let all = healthy.records(5).await;
    healthy.answer_all(&all, Outcome::Acked).await;
    let all = failing.records(5).await;
    failing.answer_all(&all[..2], Outcome::Acked).await;
    failing.fail(&all[2]).await;
    let again = failing.records(3).await;
    assert_eq!(offsets(&again), [2, 3, 4]);
    assert!(again.iter().all(|one| one.delivery == 2), "{again:?}");
    assert_eq!(healthy.within(QUIET).await.len(), 0);
    failing.answer_all(&again, Outcome::Acked).await;
    stage.commits(&topic, 0, 5).await;
}

// L3.
async fn rejection_is_one_dead_letter_with_its_counts(stage: Stage) {
    let topic = stage.topic("orders", 1).await;
    let dead = stage.topic("dead", 1).await;
    numbers(&stage, &topic, 2).await;
    let subscription = broadcast(&stage, &topic, 3).dead_letter(&dead);
    let gateway = stage.gateway(&[subscription]).await;
    for (name, outcome) in [
        ("a", Outcome::Acked),
        ("b", Outcome::Rejected),
        ("c", Outcome::Rejected),
    ] {
        // All three are attached before the first gets anything.
        let mut stream = attach(&gateway, name).await;
        tokio::spawn(async move {
            let all = stream.records(2).await;
            stream.answer_all(&all[..1], outcome).await;
            stream.answer_all(&all[1..], Outcome::Acked).await;
            let _until_the_end = stream.status().await;
        });
    }
    stage.commits(&topic, 0, 2).await;
    let letter = stage.holds(&dead, 1).await.remove(0);
    let header = |name: &str| {
        let header = letter.header(&format!("ackgate.dead-letter.{name}"));
        header.map(str::to_owned)
    };
    assert_eq!(header("counts").as_deref(), Some("acked=1 rejected=2"));
    assert_eq!(header("cause").as_deref(), Some("rejected"));
    let subscriber = header("subscriber");
    assert!(["b", "c"].contains(&subscriber.as_deref().unwrap_or_default()));
}

// L6.
async fn lost_subscriber_is_counted_out_after_its_grace(stage: Stage) {
    let topic = stage.topic("orders", 1).await;
    numbers(&stage, &topic, 5).await;
    let subscription = broadcast(&stage, &topic, 2).set("absent_grace", "\"2s\"");
    let gateway = stage.gateway(&[subscription]).await;
    let mut stays = attach(&gateway, "stays").await;
    let mut crashes = attach(&gateway, "crashes").await;
    let all = stays.records(5).await;
    stays.answer_all(&all, Outcome::Acked).await;
    let all = crashes.records(5).await;
    crashes.answer_all(&all[..1], Outcome::Acked).await;
    drop(crashes);
    let kinds = [LaneEventKind::Held, LaneEventKind::Recovered];
    for kind in kinds {
        let event = stays
            .event("is about the one that crashed", |event| {
                event.kind == i32::from(kind) && event.detail.contains("subscriber crashes")
            })
            .await;
        assert_eq!((event.first_offset, event.last_offset), (Some(1), Some(4)));
    }
    stage.commits(&topic, 0, 5).await;
}

async fn goodbye_leaves_what_is_owed_to_the_others(stage: Stage) {
    let topic = stage.topic("orders", 1).await;
    numbers(&stage, &topic, 5).await;
    let gateway = stage.gateway(&[broadcast(&stage, &topic, 2)]).await;
    let mut stays = attach(&gateway, "stays").await;
    let mut leaves = attach(&gateway, "leaves").await;
    let all = stays.records(5).await;
    leaves.records(5).await;
    leaves.close().await;
    stays.answer_all(&all, Outcome::Acked).await;
    stage.commits(&topic, 0, 5).await;
    assert_eq!(stays.within(QUIET).await.len(), 0);
}

// FC-73, L14: two subscribers of one connection, of which one stops reading.
async fn stream_that_stops_reading_leaves_the_connection_to_its_neighbour(stage: Stage) {
    let topic = stage.topic("orders", 1).await;
    let wide = vec![b'x'; 64 * 1024];
    let records = (0..60).map(|_| Outgoing::value(0, wide.clone()));
    stage.broker.produce(&topic.name, records).await;
    let gateway = stage.gateway(&[broadcast(&stage, &topic, 2)]).await;
    let shared = connection(gateway.address).await.expect("it listens");
    let open = |name: &str| {
        let mut open = Stream::hello("orders");
        open.subscriber_id = name.to_owned();
        open
    };
    // It has credit for everything, and takes nothing off its stream after `Opened`.
    let stuck = Stream::open_over(shared.clone(), open("stuck")).await;
    let mut reads = Stream::open_over(shared, open("reads")).await;
    // More than the stream of the stuck one takes, less than what the lane retains.
    for offset in 0..60 {
        let record = reads.record().await;
        assert_eq!(record.offset, offset);
        reads.ack(&record).await;
    }
    assert_ne!(stage.committed(&topic, 0).await, Some(60), "L2");
    drop(stuck);
}
