//! Lanes move between gateways: nothing is skipped, nothing is rewound, and what
//! comes too late is told so.

use std::{collections::BTreeSet, time::Duration};

use ackgate_proto::v1::{LaneEventKind, Outcome, VerdictResult};
use tokio::time::{Instant, timeout};

use crate::support::{
    Broker, Case, Outgoing, Received, Stage, Stream, Subscriber, Topic, cases, eventually,
    throughout,
};

pub(crate) fn cases() -> Vec<Case> {
    cases![
        both: verdict_after_the_lane_has_gone_is_fenced,
            revoke_commits_only_what_is_settled;
        kafka: drain_at_revoke_is_bounded,
            joining_and_leaving_neither_skips_nor_rewinds,
            lane_that_returns_keeps_what_it_fetched_when_others_move,
            rebalance_between_attempts_is_no_exhaustion,
            nothing_from_before_a_seek_follows_it;
    ]
}

/// Fills each partition with the numbers from 0 on.
async fn fill(stage: &Stage, topic: &Topic, partitions: i32, records: usize) {
    for partition in 0..partitions {
        let records = (0..records).map(|n| Outgoing::value(partition, format!("{n}")));
        stage.broker.produce(&topic.name, records).await;
    }
}

/// Waits until a lane of the stream has gone, and says which partition's.
async fn loses_a_lane(stream: &mut Stream) -> i32 {
    let revoked = LaneEventKind::Revoked;
    stream
        .event("takes a lane away", |event| event.kind() == revoked)
        .await
        .partition
}

/// Whether the partition is committed at or beyond a position.
async fn reached(stage: &Stage, topic: &Topic, partition: i32, position: i64) {
    eventually(
        &format!("partition {partition} reaches {position}"),
        async || {
            let seen = stage.committed(topic, partition).await;
            if seen >= Some(position) {
                Ok(())
            } else {
                Err(format!("{seen:?}"))
            }
        },
    )
    .await;
}

// FC-16, L4.
async fn verdict_after_the_lane_has_gone_is_fenced(stage: Stage) {
    let topic = stage.topic("orders", 2).await;
    fill(&stage, &topic, 2, 10).await;
    let subscription = stage
        .subscription(&topic)
        .revoke_drain(Duration::from_millis(200));
    let one = stage.gateway(std::slice::from_ref(&subscription)).await;
    let mut late = one.open().await;
    let held = late.records(20).await;

    let other = stage.gateway(&[subscription]).await;
    let mut prompt = other.open().await;
    let moved = loses_a_lane(&mut late).await;
    let again = prompt.records(10).await;
    assert!(
        again.iter().all(|record| record.partition == moved),
        "{again:?}"
    );
    prompt.answer_all(&again, Outcome::Acked).await;
    stage.commits(&topic, moved, 10).await;

    let stale: Vec<&Received> = held
        .iter()
        .filter(|record| record.partition == moved)
        .collect();
    let settled = late.settle(vec![stale[5].verdict(Outcome::Acked)]).await;
    assert_eq!(settled.answers.len(), 1, "{settled:?}");
    assert_eq!(settled.answers[0].result(), VerdictResult::Fenced);
    throughout(
        "a late ack commits nothing",
        Duration::from_secs(3),
        async || {
            let seen = stage.committed(&topic, moved).await;
            if seen == Some(10) {
                Ok(())
            } else {
                Err(format!("{seen:?}"))
            }
        },
    )
    .await;
}

// FC-18.
async fn revoke_commits_only_what_is_settled(stage: Stage) {
    let topic = stage.topic("orders", 4).await;
    fill(&stage, &topic, 4, 100).await;
    let subscription = stage
        .subscription(&topic)
        .revoke_drain(Duration::from_millis(200));
    let one = stage.gateway(std::slice::from_ref(&subscription)).await;
    let mut open = Stream::hello("orders");
    // Most of what the gateway has fetched is still in it when its lanes go.
    open.credit.as_mut().unwrap().records = 40;
    let mut first = Stream::open(one.address, open).await;
    let received = first.records(40).await;
    let mut acked: BTreeSet<(i32, i64)> = BTreeSet::new();
    for partition in 0..4 {
        if let Some(record) = received.iter().find(|record| record.partition == partition) {
            first.ack(record).await;
            acked.insert((partition, record.offset));
        }
    }

    let other = stage.gateway(&[subscription]).await;
    let mut second = other.open().await;
    let moved = loses_a_lane(&mut first).await;
    let floor = i64::from(acked.contains(&(moved, 0)));
    let seen = stage.committed(&topic, moved).await.unwrap_or(0);
    match stage.broker {
        Broker::Kafka(_) => assert_eq!(seen, floor, "what partition {moved} is committed at"),
        // It may give a member up that is late to rejoin, and take no commit from it.
        Broker::Embedded(_) => assert!(
            seen <= floor,
            "partition {moved} was committed past its floor: {seen} > {floor}"
        ),
    }

    // Everything is received by one or the other.
    drop(first);
    drop(one);
    while acked.len() < 400 {
        let record = second.record().await;
        second.ack(&record).await;
        acked.insert((record.partition, record.offset));
    }
    for partition in 0..4 {
        stage.commits(&topic, partition, 100).await;
    }
}

// FC-21.
async fn drain_at_revoke_is_bounded(stage: Stage) {
    let topic = stage.topic("orders", 2).await;
    fill(&stage, &topic, 2, 10).await;
    let subscription = stage
        .subscription(&topic)
        .revoke_drain(Duration::from_secs(3));
    let one = stage.gateway(std::slice::from_ref(&subscription)).await;
    let mut first = one.open().await;
    let held = first.records(20).await;
    let other = stage.gateway(&[subscription]).await;
    let mut second = other.open().await;

    let revoking = LaneEventKind::Revoking;
    let moved = first
        .event("begins to take a lane away", |event| {
            event.kind() == revoking
        })
        .await
        .partition;
    let lane: Vec<Received> = held
        .iter()
        .filter(|record| record.partition == moved)
        .cloned()
        .collect();
    first.answer_all(&lane[..8], Outcome::Acked).await;
    // 8 and 9 are never answered: the lane goes all the same.
    assert_eq!(loses_a_lane(&mut first).await, moved);
    let again = second.records(2).await;
    assert_eq!(
        again.iter().map(|one| one.offset).collect::<Vec<_>>(),
        [8, 9]
    );
    assert_eq!(stage.committed(&topic, moved).await, Some(8));
}

// FC-20.
async fn joining_and_leaving_neither_skips_nor_rewinds(stage: Stage) {
    const RECORDS: usize = 2_500;
    const CHANGES: usize = 3;
    let topic = stage.topic("orders", 4).await;
    let subscription = stage
        .subscription(&topic)
        .linger(Duration::from_millis(100));
    let one = stage.gateway(std::slice::from_ref(&subscription)).await;
    let mut stays = Subscriber::start(one.address, &[]);
    let mut acked: BTreeSet<(i32, i64)> = BTreeSet::new();
    let mut highest = [0; 4];

    for change in 0..CHANGES {
        let other = stage.gateway(std::slice::from_ref(&subscription)).await;
        let mut comes = Subscriber::start(other.address, &[]);
        fill(&stage, &topic, 4, RECORDS).await;
        let end = Instant::now() + Duration::from_secs(3);
        while Instant::now() < end {
            let committed = stage.broker.committed(&stage.group(), &topic.name).await;
            for (partition, position) in committed {
                let before = &mut highest[partition as usize];
                assert!(
                    position >= *before,
                    "partition {partition} went back in change {change}"
                );
                *before = position;
            }
        }
        other.terminate();
        let left = comes.end();
        timeout(Duration::from_secs(30), left).await.ok();
        acked.extend(comes.take().iter().map(|one| (one.partition, one.offset)));
    }

    let end = (CHANGES * RECORDS) as i64;
    for partition in 0..4 {
        reached(&stage, &topic, partition, end).await;
    }
    acked.extend(stays.take().iter().map(|one| (one.partition, one.offset)));
    let all = (0..4).flat_map(|partition| (0..end).map(move |offset| (partition, offset)));
    let skipped: Vec<_> = all.filter(|one| !acked.contains(one)).collect();
    assert!(skipped.is_empty(), "never received: {skipped:?}");
}

// FC-17.
async fn lane_that_returns_keeps_what_it_fetched_when_others_move(stage: Stage) {
    let topic = stage.topic("orders", 2).await;
    let subscription = stage
        .subscription(&topic)
        .linger(Duration::from_millis(100))
        .revoke_drain(Duration::from_millis(200));
    let one = stage.gateway(std::slice::from_ref(&subscription)).await;
    let mut stream = one.open().await;
    // A lane goes to another gateway and comes back.
    let visit = async || {
        let other = stage.gateway(std::slice::from_ref(&subscription)).await;
        let mut guest = other.open().await;
        let assigned = LaneEventKind::Assigned;
        guest
            .event("gets a lane", |event| event.kind() == assigned)
            .await;
        let mut other = other;
        other.terminate();
        drop(guest);
        other.end().await;
    };
    stream
        .event("has both lanes", |event| event.partition == 1)
        .await;
    visit().await;
    let moved = loses_a_lane(&mut stream).await;
    // A stream without credit: the records stay in the gateway.
    stream.credit(0, 0).await;
    fill(&stage, &topic, 2, 10).await;
    stream.within(Duration::from_secs(2)).await;
    visit().await;
    stream.credit(1_000, 1 << 20).await;
    let mut seen = BTreeSet::new();
    while seen.len() < 20 {
        let record = stream.record().await;
        stream.settle(vec![record.verdict(Outcome::Acked)]).await;
        seen.insert((record.partition, record.offset));
    }
    assert!(seen.contains(&(moved, 9)));
    for partition in 0..2 {
        stage.commits(&topic, partition, 10).await;
    }
}

// FC-23.
async fn rebalance_between_attempts_is_no_exhaustion(stage: Stage) {
    let topic = stage.topic("orders", 2).await;
    let dead = stage.topic("dead", 1).await;
    fill(&stage, &topic, 2, 1).await;
    let subscription = stage
        .subscription(&topic)
        .dead_letter(&dead)
        .max_attempts(1_000)
        .set("max_deliveries", "1000")
        .backoff(Duration::from_millis(300))
        .revoke_drain(Duration::from_millis(200));
    let one = stage.gateway(std::slice::from_ref(&subscription)).await;
    let mut first = one.open().await;
    let mut failed = 0;
    while failed < 6 {
        let record = first.record().await;
        first.fail(&record).await;
        failed += 1;
    }
    let other = stage.gateway(&[subscription]).await;
    let mut second = other.open().await;
    let moved = loop {
        let lane = first
            .events
            .iter()
            .find(|event| event.kind() == LaneEventKind::Revoked && event.partition >= 0);
        if let Some(lane) = lane {
            break lane.partition;
        }
        for record in first.within(Duration::from_millis(100)).await {
            first.settle(vec![record.verdict(Outcome::Failed)]).await;
        }
    };
    for _ in 0..3 {
        let again = second.record().await;
        assert_eq!((again.partition, again.offset), (moved, 0));
        second.fail(&again).await;
    }
    assert!(stage.committed(&topic, moved).await.unwrap_or(0) == 0);
    assert_eq!(
        stage.broker.read(&dead.name).await,
        [],
        "nothing was given up"
    );
}

// FC-28.
async fn nothing_from_before_a_seek_follows_it(stage: Stage) {
    let topic = stage.topic("orders", 1).await;
    fill(&stage, &topic, 1, 60).await;
    let subscription = stage
        .subscription(&topic)
        .in_lane_order()
        .backoff(Duration::from_millis(100));
    let gateway = stage.gateway(&[subscription]).await;
    let mut open = Stream::hello("orders");
    open.credit.as_mut().unwrap().records = 10;
    let mut stream = Stream::open(gateway.address, open).await;
    // 3 to 12 are out, the rest is fetched; the failure of 3 seeks back to it.
    let first = stream.records(10).await;
    stream.answer_all(&first[..3], Outcome::Acked).await;
    stream.fail(&first[3]).await;
    // A pause while the seek is under way.
    stream.credit(0, 0).await;
    stream
        .event("goes back", |event| event.kind() == LaneEventKind::Rewound)
        .await;
    let between = stream.within(Duration::from_secs(1)).await;
    stream.credit(100, 1 << 20).await;
    let mut offsets: Vec<i64> = Vec::new();
    while offsets.last() != Some(&59) {
        let record = stream.record().await;
        stream.settle(vec![record.verdict(Outcome::Acked)]).await;
        offsets.push(record.offset);
    }
    // What was on its way when 3 failed may have come before the rewind, not after.
    let begin = between.len();
    assert!(begin <= 3, "{between:?}");
    assert_eq!(offsets, (3..60).collect::<Vec<_>>());
    stage.commits(&topic, 0, 60).await;
}
