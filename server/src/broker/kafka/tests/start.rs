//! Where groups without committed positions begin.

use std::time::Duration;

use super::support::{Member, commit, fill, mock, subscription};
use crate::{
    broker::{ErrorKind, Event},
    config::StartAt,
};

const TOPIC: &str = "orders";
const GROUP: &str = "group";

#[tokio::test]
async fn earliest_begins_at_the_oldest_record() {
    let mock = mock(TOPIC, 1);
    let bootstrap = mock.bootstrap_servers();
    fill(&bootstrap, TOPIC, 0, 0..5).await;
    let mut member = Member::join(
        &bootstrap,
        &subscription(&[TOPIC], GROUP, StartAt::Earliest),
    );
    let lane = member.lane().await;
    assert_eq!(lane.start.unwrap().get(), 0);
    assert!(!lane.committed);
    member.grant(lane.generation, 10);
    assert_eq!(member.offsets(5).await, [0, 1, 2, 3, 4]);
    member.close().await;
}

#[tokio::test]
async fn latest_begins_at_the_end() {
    let mock = mock(TOPIC, 1);
    let bootstrap = mock.bootstrap_servers();
    fill(&bootstrap, TOPIC, 0, 0..5).await;
    let mut member = Member::join(&bootstrap, &subscription(&[TOPIC], GROUP, StartAt::Latest));
    let lane = member.lane().await;
    assert_eq!(lane.start.unwrap().get(), 5);
    assert!(!lane.committed);
    member.grant(lane.generation, 10);
    fill(&bootstrap, TOPIC, 0, 5..7).await;
    assert_eq!(member.offsets(2).await, [5, 6]);
    member.close().await;
}

#[tokio::test]
async fn committed_position_goes_before_any_start() {
    for start in [StartAt::Latest, StartAt::Timestamp(0), StartAt::Fail] {
        let mock = mock(TOPIC, 1);
        let bootstrap = mock.bootstrap_servers();
        fill(&bootstrap, TOPIC, 0, 0..5).await;
        commit(&bootstrap, GROUP, TOPIC, 0, 2);
        let mut member = Member::join(&bootstrap, &subscription(&[TOPIC], GROUP, start));
        let lane = member.lane().await;
        assert_eq!(lane.start.unwrap().get(), 2, "{start:?}");
        assert!(lane.committed);
        member.grant(lane.generation, 10);
        assert_eq!(member.offsets(3).await, [2, 3, 4], "{start:?}");
        member.close().await;
    }
}

#[tokio::test]
async fn fail_holds_the_lane_and_reads_nothing() {
    let mock = mock(TOPIC, 2);
    let bootstrap = mock.bootstrap_servers();
    fill(&bootstrap, TOPIC, 0, 0..5).await;
    fill(&bootstrap, TOPIC, 1, 0..5).await;
    commit(&bootstrap, GROUP, TOPIC, 1, 4);
    let mut member = Member::join(&bootstrap, &subscription(&[TOPIC], GROUP, StartAt::Fail));
    let lanes = member.lanes(2).await;
    assert_eq!(lanes[0].start, None);
    let (failed, error) = member
        .until(|event| match event {
            Event::LaneFailed { generation, error } => Some((generation, error)),
            _ => None,
        })
        .await;
    assert_eq!(failed, lanes[0].generation);
    assert_eq!(error.kind, ErrorKind::Operator);
    assert!(
        error.detail.contains("topic orders, partition 0"),
        "{}",
        error.detail
    );
    member.grant(lanes[0].generation, 10);
    member.grant(lanes[1].generation, 10);
    assert_eq!(member.offsets(1).await, [4], "the other lane goes on");
    assert!(member.quiet(Duration::from_millis(500)).await);
    member.close().await;
}

#[tokio::test]
async fn position_beyond_the_log_begins_a_new_lane_at_the_oldest_record() {
    let mock = mock(TOPIC, 1);
    let bootstrap = mock.bootstrap_servers();
    fill(&bootstrap, TOPIC, 0, 0..5).await;
    commit(&bootstrap, GROUP, TOPIC, 0, 1000);
    let mut member = Member::join(&bootstrap, &subscription(&[TOPIC], GROUP, StartAt::Latest));
    let old = member.lane().await;
    assert_eq!(old.start.unwrap().get(), 1000);
    member.grant(old.generation, 10);
    let gone = member
        .until(|event| match event {
            Event::Revoked(generations) => Some(generations),
            _ => None,
        })
        .await;
    assert_eq!(gone, [old.generation]);
    let lane = member.lane().await;
    assert_ne!(lane.generation, old.generation);
    assert_eq!((lane.start.unwrap().get(), lane.committed), (0, false));
    assert!(lane.anew.unwrap().contains("position 1000"));
    member.grant(lane.generation, 10);
    assert_eq!(member.offsets(5).await, [0, 1, 2, 3, 4]);
    member.close().await;
}

#[tokio::test]
async fn partition_without_a_position_in_a_topic_that_is_read_begins_at_its_oldest_record() {
    let mock = mock(TOPIC, 2);
    let bootstrap = mock.bootstrap_servers();
    fill(&bootstrap, TOPIC, 0, 0..5).await;
    fill(&bootstrap, TOPIC, 1, 0..5).await;
    commit(&bootstrap, GROUP, TOPIC, 0, 4);
    let mut member = Member::join(&bootstrap, &subscription(&[TOPIC], GROUP, StartAt::Latest));
    let lanes = member.lanes(2).await;
    let starts: Vec<u64> = lanes.iter().map(|l| l.start.unwrap().get()).collect();
    assert_eq!(starts, [4, 0]);
    assert!(lanes[0].committed && !lanes[1].committed);
    member.close().await;
}

#[tokio::test]
async fn what_was_committed_beside_the_position_is_read_at_the_next_assignment() {
    let mock = mock(TOPIC, 1);
    let bootstrap = mock.bootstrap_servers();
    fill(&bootstrap, TOPIC, 0, 0..5).await;
    let subscription = subscription(&[TOPIC], GROUP, StartAt::Earliest);
    let (metadata, position) = (Some("some text"), 2);
    let mut member = Member::join(&bootstrap, &subscription);
    let lane = member.lane().await;
    member
        .commit_with(lane.generation, position, metadata)
        .await
        .unwrap();
    member.close().await;
    let mut member = Member::join(&bootstrap, &subscription);
    let lane = member.lane().await;
    assert_eq!(lane.start.unwrap().get(), position);
    assert_eq!(lane.metadata.as_deref(), metadata);
    member.close().await;
}
