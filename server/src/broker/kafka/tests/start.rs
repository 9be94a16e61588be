//! Where groups without committed positions begin.

use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
    time::Duration,
};

use rdkafka::types::{RDKafkaApiKey, RDKafkaRespErr};

use super::support::{Member, commit, fill, mock, restless, subscription};
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

// Whatever comes while the lane is away is not passed over, and nothing older comes in.
#[tokio::test]
async fn lane_of_which_nothing_was_committed_comes_back_where_it_began() {
    let mock = mock(TOPIC, 1);
    let bootstrap = mock.bootstrap_servers();
    fill(&bootstrap, TOPIC, 0, 0..5).await;
    let subscription = restless(subscription(&[TOPIC], GROUP, StartAt::Latest));
    let mut member = Member::join(&bootstrap, &subscription);
    let lane = member.lane().await;
    assert_eq!(lane.start.unwrap().get(), 5);
    fill(&bootstrap, TOPIC, 0, 5..7).await;
    mock.request_errors(
        RDKafkaApiKey::Heartbeat,
        &[RDKafkaRespErr::RD_KAFKA_RESP_ERR_UNKNOWN_MEMBER_ID],
    );
    let again = member.lane().await;
    assert_ne!(again.generation, lane.generation);
    assert_eq!((again.start.unwrap().get(), again.committed), (5, false));
    assert_eq!(again.anew, None);
    member.grant(again.generation, 10);
    assert_eq!(member.offsets(2).await, [5, 6]);
    member.close().await;
}

#[tokio::test]
async fn lanes_of_an_eager_group_go_on_where_they_stand_while_another_begins_anew() {
    let mock = mock(TOPIC, 2);
    let bootstrap = mock.bootstrap_servers();
    fill(&bootstrap, TOPIC, 0, 0..5).await;
    fill(&bootstrap, TOPIC, 1, 0..5).await;
    commit(&bootstrap, GROUP, TOPIC, 0, 1000);
    commit(&bootstrap, GROUP, TOPIC, 1, 1);
    let mut subscription = subscription(&[TOPIC], GROUP, StartAt::Latest);
    let strategy = ("partition.assignment.strategy".into(), "range".into());
    subscription.consumer_properties.push(strategy);
    let mut member = Member::join(&bootstrap, &subscription);
    let lanes = member.lanes(2).await;
    member.grant(lanes[1].generation, 2);
    assert_eq!(member.offsets(2).await, [1, 2]);
    member.grant(lanes[0].generation, 10);
    let lane = member.lane().await;
    assert_eq!(
        (lane.partition.partition, lane.start.unwrap().get()),
        (0, 0)
    );
    assert!(lane.anew.is_some());
    member.grant(lanes[1].generation, 10);
    assert_eq!(member.offsets(2).await, [3, 4]);
    member.grant(lane.generation, 10);
    assert_eq!(member.offsets(5).await, [0, 1, 2, 3, 4]);
    assert!(member.quiet(Duration::from_millis(500)).await);
    member.close().await;
}

/// Commits with metadata of any bytes for a group without members: librdkafka and
/// rdkafka take text only, other programs do not.
fn commit_bytes(bootstrap: &str, position: i64, metadata: &[u8]) {
    let text = |bytes: &[u8], out: &mut Vec<u8>| {
        out.extend(i16::try_from(bytes.len()).unwrap().to_be_bytes());
        out.extend(bytes);
    };
    // OffsetCommit, version 2, with a number and no client id.
    let mut request = vec![0, 8, 0, 2, 0, 0, 0, 1, 0xff, 0xff];
    text(GROUP.as_bytes(), &mut request);
    request.extend((-1_i32).to_be_bytes());
    text(b"", &mut request);
    request.extend((-1_i64).to_be_bytes());
    request.extend(1_i32.to_be_bytes());
    text(TOPIC.as_bytes(), &mut request);
    request.extend(1_i32.to_be_bytes());
    request.extend(0_i32.to_be_bytes());
    request.extend(position.to_be_bytes());
    text(metadata, &mut request);
    let mut broker = TcpStream::connect(bootstrap).unwrap();
    let size = u32::try_from(request.len()).unwrap();
    broker.write_all(&size.to_be_bytes()).unwrap();
    broker.write_all(&request).unwrap();
    let mut size = [0; 4];
    broker.read_exact(&mut size).unwrap();
    let mut answer = vec![0; usize::try_from(u32::from_be_bytes(size)).unwrap()];
    broker.read_exact(&mut answer).unwrap();
    assert_eq!(answer[answer.len() - 2..], [0, 0], "the commit is taken");
}

#[tokio::test]
async fn metadata_that_is_no_text_is_strange_and_not_taken_for_none() {
    let mock = mock(TOPIC, 1);
    let bootstrap = mock.bootstrap_servers();
    fill(&bootstrap, TOPIC, 0, 0..5).await;
    commit_bytes(&bootstrap, 2, b"ag\xff\xfe");
    let mut member = Member::join(
        &bootstrap,
        &subscription(&[TOPIC], GROUP, StartAt::Earliest),
    );
    let lane = member.lane().await;
    assert_eq!((lane.start.unwrap().get(), lane.committed), (2, true));
    assert_eq!(lane.metadata.as_deref(), Some("\u{fffd}"));
    member.grant(lane.generation, 10);
    assert_eq!(member.offsets(3).await, [2, 3, 4]);
    member.close().await;
}
