//! Reading within grants, committing, seeking and leaving.

use std::time::{Duration, Instant};

use ackgate_lane::{Generation, Position};
use rdkafka::Offset;

use super::support::{
    Member, commit, committed, fetched, fill, mock, restless, subscription, values,
};
use crate::{
    broker::{Commit, ErrorKind, Event},
    config::StartAt,
};

const TOPIC: &str = "orders";
const GROUP: &str = "group";

#[tokio::test]
async fn records_are_fetched_within_grants_only() {
    let mock = mock(TOPIC, 1);
    let bootstrap = mock.bootstrap_servers();
    fill(&bootstrap, TOPIC, 0, 0..100).await;
    let mut member = Member::join(
        &bootstrap,
        &subscription(&[TOPIC], GROUP, StartAt::Earliest),
    );
    let lane = member.lane().await;
    assert!(
        member.quiet(Duration::from_millis(500)).await,
        "nothing is granted"
    );

    member.grant(lane.generation, 10);
    let chunk = member.chunk().await;
    assert_eq!(chunk.generation, lane.generation);
    assert_eq!(chunk.seek, 0);
    let mut seen = values(&chunk);
    while seen.len() < 10 {
        seen.extend(values(&member.chunk().await));
    }
    let expected: Vec<String> = (0..10).map(|value: u64| value.to_string()).collect();
    assert_eq!(seen, expected);
    assert!(
        member.quiet(Duration::from_millis(500)).await,
        "the grant is used up"
    );

    member.grant(lane.generation, 5);
    assert_eq!(member.offsets(5).await, [10, 11, 12, 13, 14]);
    member.close().await;
}

#[tokio::test]
async fn grant_in_bytes_is_overshot_by_one_record_at_most() {
    let mock = mock(TOPIC, 1);
    let bootstrap = mock.bootstrap_servers();
    fill(&bootstrap, TOPIC, 0, 0..10).await;
    let mut member = Member::join(
        &bootstrap,
        &subscription(&[TOPIC], GROUP, StartAt::Earliest),
    );
    let lane = member.lane().await;
    member.consumer.grant(lane.generation, 10, 1);
    assert_eq!(member.offsets(1).await, [0]);
    assert!(member.quiet(Duration::from_millis(500)).await);
    member.consumer.grant(lane.generation, 0, 1);
    assert_eq!(
        member.offsets(1).await,
        [1],
        "records granted before still count"
    );
    member.close().await;
}

#[tokio::test]
async fn withdrawn_grant_fetches_nothing_that_comes_later() {
    let mock = mock(TOPIC, 1);
    let bootstrap = mock.bootstrap_servers();
    fill(&bootstrap, TOPIC, 0, 0..1).await;
    let subscription = subscription(&[TOPIC], GROUP, StartAt::Earliest);
    let mut member = Member::join(&bootstrap, &subscription);
    let lane = member.lane().await;
    member.grant(lane.generation, 10);
    assert_eq!(member.offsets(1).await, [0], "the grant has arrived");
    member.consumer.withdraw(lane.generation);
    fill(&bootstrap, TOPIC, 0, 1..10).await;
    assert!(member.quiet(Duration::from_millis(500)).await);
    member.close().await;
}

#[tokio::test]
async fn records_that_come_while_a_lane_is_empty_are_fetched() {
    let mock = mock(TOPIC, 1);
    let bootstrap = mock.bootstrap_servers();
    let mut member = Member::join(
        &bootstrap,
        &subscription(&[TOPIC], GROUP, StartAt::Earliest),
    );
    let lane = member.lane().await;
    member.grant(lane.generation, 100);
    for round in 0..5 {
        fill(&bootstrap, TOPIC, 0, round..round + 1).await;
        assert_eq!(member.offsets(1).await, [round]);
    }
    member.close().await;
}

#[tokio::test]
async fn full_events_queue_delays_records_and_loses_none() {
    let mock = mock(TOPIC, 4);
    let bootstrap = mock.bootstrap_servers();
    for partition in 0..4 {
        fill(&bootstrap, TOPIC, partition, 0..50).await;
    }
    let subscription = subscription(&[TOPIC], GROUP, StartAt::Earliest);
    let mut member = Member::with_queue(&bootstrap, &subscription, 1);
    let lanes = member.lanes(4).await;
    for lane in &lanes {
        // One record at a time, so that there are far more chunks than room.
        for _ in 0..50 {
            member.consumer.grant(lane.generation, 1, 1 << 20);
        }
    }
    let mut seen = vec![Vec::new(); 4];
    while seen.iter().map(Vec::len).sum::<usize>() < 200 {
        let chunk = member.chunk().await;
        let at = lanes
            .iter()
            .position(|lane| lane.generation == chunk.generation)
            .unwrap();
        seen[at].extend(chunk.records.iter().map(|record| record.offset));
    }
    for offsets in seen {
        assert_eq!(offsets, (0..50).collect::<Vec<u64>>());
    }
    member.close().await;
}

#[tokio::test]
async fn commit_lands_and_is_read_back() {
    let mock = mock(TOPIC, 2);
    let bootstrap = mock.bootstrap_servers();
    fill(&bootstrap, TOPIC, 1, 0..10).await;
    let subscription = restless(subscription(&[TOPIC], GROUP, StartAt::Earliest));
    let mut member = Member::join(&bootstrap, &subscription);
    let lane = member.lanes(2).await.remove(1);
    member.commit(lane.generation, 7).await.unwrap();
    assert_eq!(committed(&bootstrap, GROUP, TOPIC, 1), Offset::Offset(7));
    assert_eq!(
        committed(&bootstrap, GROUP, TOPIC, 0),
        Offset::Invalid,
        "nothing was asked"
    );
    member.close().await;

    let mut member = Member::join(&bootstrap, &subscription);
    let lane = member.lanes(2).await.remove(1);
    assert!(lane.committed);
    assert_eq!(lane.start.unwrap().get(), 7);
    member.grant(lane.generation, 10);
    assert_eq!(member.offsets(3).await, [7, 8, 9]);
    member.close().await;
}

#[tokio::test]
async fn nothing_is_committed_that_was_not_asked_for() {
    let mock = mock(TOPIC, 1);
    let bootstrap = mock.bootstrap_servers();
    fill(&bootstrap, TOPIC, 0, 0..10).await;
    let mut member = Member::join(
        &bootstrap,
        &subscription(&[TOPIC], GROUP, StartAt::Earliest),
    );
    let lane = member.lane().await;
    member.grant(lane.generation, 10);
    member.offsets(10).await;
    member.close().await;
    assert_eq!(committed(&bootstrap, GROUP, TOPIC, 0), Offset::Invalid);
}

#[tokio::test]
async fn commit_of_a_lane_that_is_not_owned_is_fenced() {
    let mock = mock(TOPIC, 1);
    let bootstrap = mock.bootstrap_servers();
    commit(&bootstrap, GROUP, TOPIC, 0, 3);
    let mut member = Member::join(
        &bootstrap,
        &subscription(&[TOPIC], GROUP, StartAt::Earliest),
    );
    let lane = member.lane().await;
    let other = Generation(lane.generation.0 + 1_000_000);
    assert_eq!(
        member.commit(other, 9).await.unwrap_err().kind,
        ErrorKind::Fenced
    );
    assert_eq!(
        member.seek(other, 9, 1).await.unwrap_err().kind,
        ErrorKind::Fenced
    );
    assert_eq!(committed(&bootstrap, GROUP, TOPIC, 0), Offset::Offset(3));
    member.close().await;
}

#[tokio::test]
async fn seek_reads_again_and_drops_what_was_fetched_before() {
    let mock = mock(TOPIC, 1);
    let bootstrap = mock.bootstrap_servers();
    fill(&bootstrap, TOPIC, 0, 0..100).await;
    let mut member = Member::join(
        &bootstrap,
        &subscription(&[TOPIC], GROUP, StartAt::Earliest),
    );
    let lane = member.lane().await;
    // One byte lets one record through, and nine granted ones are left.
    member.consumer.grant(lane.generation, 10, 1);
    member.offsets(1).await;
    // The rest is prefetched by now or soon; none of it may come after the seek.
    member.seek(lane.generation, 3, 1).await.unwrap();
    member.grant(lane.generation, 0);
    assert!(
        member.quiet(Duration::from_millis(300)).await,
        "a seek voids grants"
    );
    member.grant(lane.generation, 5);
    let chunk = member.chunk().await;
    assert_eq!(chunk.seek, 1);
    assert_eq!(chunk.records[0].offset, 3);
    member.seek(lane.generation, 99, 2).await.unwrap();
    member.grant(lane.generation, 5);
    let chunk = member
        .until(|event| fetched(event).filter(|chunk| chunk.seek == 2))
        .await;
    assert_eq!(chunk.records[0].offset, 99);
    member.close().await;
}

#[tokio::test]
async fn seek_right_after_the_assignment_is_done() {
    let mock = mock(TOPIC, 1);
    let bootstrap = mock.bootstrap_servers();
    fill(&bootstrap, TOPIC, 0, 0..10).await;
    let mut member = Member::join(&bootstrap, &subscription(&[TOPIC], GROUP, StartAt::Latest));
    let lane = member.lane().await;
    member.seek(lane.generation, 4, 1).await.unwrap();
    member.grant(lane.generation, 100);
    assert_eq!(member.offsets(6).await, [4, 5, 6, 7, 8, 9]);
    member.close().await;
}

#[tokio::test]
async fn close_revokes_commits_and_ends() {
    let mock = mock(TOPIC, 1);
    let bootstrap = mock.bootstrap_servers();
    let mut member = Member::join(
        &bootstrap,
        &subscription(&[TOPIC], GROUP, StartAt::Earliest),
    );
    let lane = member.lane().await;
    let begin = Instant::now();
    member.consumer.close();
    let last = Commit {
        generation: lane.generation,
        position: Position::new(5),
        serial: 1,
        metadata: None,
        letters: Vec::new(),
    };
    let mut steps = Vec::new();
    loop {
        match member.event().await {
            Event::Revoking { lost, reply, .. } => {
                assert!(!lost);
                reply.send(vec![last.clone()]).unwrap();
                steps.push("revoking");
            }
            Event::Committed { commit, result } => {
                assert_eq!(commit, last);
                result.unwrap();
                steps.push("committed");
            }
            Event::Revoked(_) => steps.push("revoked"),
            Event::Closed => break,
            _ => {}
        }
    }
    assert_eq!(steps, ["revoking", "committed", "revoked"]);
    assert!(
        begin.elapsed() < Duration::from_secs(10),
        "{:?}",
        begin.elapsed()
    );
    assert_eq!(committed(&bootstrap, GROUP, TOPIC, 0), Offset::Offset(5));
}

#[tokio::test]
async fn dropped_handle_closes_the_consumer() {
    let mock = mock(TOPIC, 1);
    let bootstrap = mock.bootstrap_servers();
    let (sender, mut events) = tokio::sync::mpsc::channel(16);
    let connect = crate::broker::kafka::KafkaConnect::new(
        &super::support::cluster(&bootstrap),
        &subscription(&[TOPIC], GROUP, StartAt::Earliest),
    );
    drop(crate::broker::Connect::consume(&connect, sender).unwrap());
    let mut last = None;
    while let Some(event) = tokio::time::timeout(super::support::PATIENCE, events.recv())
        .await
        .expect("an end in time")
    {
        last = Some(event);
    }
    assert!(matches!(last, Some(Event::Closed)));
}

// A lane that is granted nothing leaves its records in the queue while statistics
// already tell the log's end: it must not be told before them.
#[tokio::test]
async fn end_of_the_log_is_told_after_the_records_before_it() {
    let mock = mock(TOPIC, 1);
    let bootstrap = mock.bootstrap_servers();
    let mut member = Member::join(
        &bootstrap,
        &subscription(&[TOPIC], GROUP, StartAt::Earliest),
    );
    let lane = member.lane().await;
    member.grant(lane.generation, 100);
    let end = |event| match event {
        Event::AtEnd { position, .. } => Some(position.get()),
        _ => None,
    };
    assert_eq!(member.until(end).await, 0);
    member.consumer.withdraw(lane.generation);
    fill(&bootstrap, TOPIC, 0, 0..10).await;
    let head = |event| match event {
        Event::Heads(heads) => heads.first().map(|head| head.end.get()),
        Event::AtEnd { position, .. } => panic!("{position} is told before its records"),
        _ => None,
    };
    while member.until(head).await < 10 {}
    let mut contacts = 0;
    member
        .until(|event| {
            assert!(!matches!(event, Event::AtEnd { .. }), "{event:?}");
            contacts += u32::from(matches!(event, Event::Contact { .. }));
            (contacts == 3).then_some(())
        })
        .await;
    member.grant(lane.generation, 100);
    assert_eq!(member.offsets(10).await.len(), 10);
    assert_eq!(member.until(end).await, 10);
    member.close().await;
}
