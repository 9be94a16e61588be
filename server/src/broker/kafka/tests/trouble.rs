//! Clusters that do not answer, topics that do not exist, commits that fail.

use ackgate_lane::Position;
use rdkafka::{mocking::MockCluster, types::RDKafkaApiKey, types::RDKafkaRespErr};

use super::support::{Member, Mock, fill, mock, restless, subscription};
use crate::{
    broker::{Assigned, ClusterState, Commit, ErrorKind, Event},
    config::StartAt,
};

const TOPIC: &str = "orders";
const GROUP: &str = "group";

async fn state(member: &mut Member) -> ClusterState {
    member
        .until(|event| {
            if let Event::Cluster(state) = event {
                Some(state)
            } else {
                None
            }
        })
        .await
}

#[tokio::test]
async fn unreachable_cluster_is_told_and_then_that_it_answers() {
    let mock = mock(TOPIC, 1);
    let bootstrap = mock.bootstrap_servers();
    fill(&bootstrap, TOPIC, 0, 0..1).await;
    mock.broker_down(1).unwrap();
    let mut member = Member::join(
        &bootstrap,
        &subscription(&[TOPIC], GROUP, StartAt::Earliest),
    );
    let ClusterState::Unreachable { detail } = state(&mut member).await else {
        panic!("the broker is down");
    };
    assert!(detail.contains("127.0.0.1"), "{detail}");
    mock.broker_up(1).unwrap();
    assert_eq!(state(&mut member).await, ClusterState::Reachable);
    let lane = member.lane().await;
    member.grant(lane.generation, 1);
    assert_eq!(member.offsets(1).await, [0]);

    // And the same again while lanes are assigned.
    mock.broker_down(1).unwrap();
    assert!(matches!(
        state(&mut member).await,
        ClusterState::Unreachable { .. }
    ));
    mock.broker_up(1).unwrap();
    assert_eq!(state(&mut member).await, ClusterState::Reachable);
    fill(&bootstrap, TOPIC, 0, 1..2).await;
    member.grant(lane.generation, 10);
    // On a slow machine the session may have ended meanwhile: then the lane comes
    // anew, and is read from its beginning.
    loop {
        match member.event().await {
            Event::Assigned(lanes) => {
                for lane in lanes {
                    member.grant(lane.generation, 10);
                }
            }
            Event::Fetched(chunk) if chunk.records.iter().any(|record| record.offset == 1) => break,
            _ => {}
        }
    }
    member.close().await;
}

#[tokio::test]
async fn consumer_of_a_cluster_that_never_answers_closes() {
    // Nobody listens on the discard port.
    let subscription = subscription(&[TOPIC], GROUP, StartAt::Earliest);
    let mut member = Member::join("127.0.0.1:9", &subscription);
    assert!(matches!(
        state(&mut member).await,
        ClusterState::Unreachable { .. }
    ));
    member.close().await;
}

#[tokio::test]
async fn missing_topic_is_named_and_found_once_it_exists() {
    let mock: Mock = MockCluster::new(1).unwrap();
    mock.topic_error(
        "absent",
        RDKafkaRespErr::RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART,
    )
    .unwrap();
    let bootstrap = mock.bootstrap_servers();
    let mut member = Member::join(
        &bootstrap,
        &subscription(&["absent"], GROUP, StartAt::Earliest),
    );
    let detail = member
        .until(|event| match event {
            Event::Cluster(ClusterState::Unreachable { detail }) => Some(detail),
            _ => None,
        })
        .await;
    assert!(detail.contains("absent"), "{detail}");
    mock.topic_error("absent", RDKafkaRespErr::RD_KAFKA_RESP_ERR_NO_ERROR)
        .unwrap();
    assert_eq!(state(&mut member).await, ClusterState::Reachable);
    member.close().await;
}

#[tokio::test]
async fn refused_commit_is_answered_and_the_next_one_goes_through() {
    let mock = mock(TOPIC, 1);
    let bootstrap = mock.bootstrap_servers();
    let mut member = Member::join(
        &bootstrap,
        &subscription(&[TOPIC], GROUP, StartAt::Earliest),
    );
    let lane = member.lane().await;
    mock.request_errors(
        RDKafkaApiKey::OffsetCommit,
        &[RDKafkaRespErr::RD_KAFKA_RESP_ERR_REBALANCE_IN_PROGRESS],
    );
    let error = member.commit(lane.generation, 1).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Transient);
    assert!(error.detail.contains(TOPIC), "{}", error.detail);
    member.commit(lane.generation, 1).await.unwrap();
    member.close().await;
}

/// Commits position 7 of two lanes at once, the first with the larger metadata: how
/// both went, in order.
async fn commit_sizes(member: &mut Member, lanes: &[Assigned]) -> Vec<Option<ErrorKind>> {
    let texts = ["larger", "small"];
    let commits = texts.iter().zip(lanes).map(|(text, lane)| Commit {
        generation: lane.generation,
        position: Position::new(7),
        serial: 1,
        metadata: Some((*text).into()),
        letters: Vec::new(),
    });
    member.consumer.commit(commits.collect());
    let mut answers = Vec::new();
    while answers.len() < texts.len() {
        let answer = member.until(|event| match event {
            Event::Committed { commit, result } => Some((commit.generation, result)),
            _ => None,
        });
        answers.push(answer.await);
    }
    answers.sort_by_key(|(generation, _)| *generation);
    let generations: Vec<_> = answers.iter().map(|(generation, _)| *generation).collect();
    let asked: Vec<_> = lanes.iter().map(|lane| lane.generation).collect();
    assert_eq!(generations, asked, "each is answered once");
    answers
        .into_iter()
        .map(|(_, result)| result.err().map(|error| error.kind))
        .collect()
}

// Metadata of a size that no broker has taken yet goes alone, so that its refusal is
// its lane's and nobody else's.
#[tokio::test]
async fn refused_metadata_is_its_own_lanes_trouble_and_a_refused_group_is_everybodys() {
    let mock = mock(TOPIC, 2);
    let bootstrap = mock.bootstrap_servers();
    let mut member = Member::join(
        &bootstrap,
        &subscription(&[TOPIC], GROUP, StartAt::Earliest),
    );
    let lanes = member.lanes(2).await;
    for (error, first, second) in [
        (
            RDKafkaRespErr::RD_KAFKA_RESP_ERR_REBALANCE_IN_PROGRESS,
            Some(ErrorKind::Transient),
            Some(ErrorKind::Transient),
        ),
        (
            RDKafkaRespErr::RD_KAFKA_RESP_ERR_OFFSET_METADATA_TOO_LARGE,
            Some(ErrorKind::TooLarge),
            None,
        ),
    ] {
        mock.request_errors(RDKafkaApiKey::OffsetCommit, &[error]);
        assert_eq!(commit_sizes(&mut member, &lanes).await, [first, second]);
    }
    assert_eq!(commit_sizes(&mut member, &lanes).await, [None, None]);
    member.close().await;
}

#[tokio::test]
async fn lost_assignment_is_told_as_lost_and_comes_again() {
    let mock = mock(TOPIC, 1);
    let bootstrap = mock.bootstrap_servers();
    fill(&bootstrap, TOPIC, 0, 0..1).await;
    let subscription = restless(subscription(&[TOPIC], GROUP, StartAt::Earliest));
    let mut member = Member::join(&bootstrap, &subscription);
    let lane = member.lane().await;
    mock.request_errors(
        RDKafkaApiKey::Heartbeat,
        &[RDKafkaRespErr::RD_KAFKA_RESP_ERR_UNKNOWN_MEMBER_ID],
    );
    let lost = member
        .until(|event| match event {
            Event::Revoking {
                generations, lost, ..
            } => {
                assert_eq!(generations, [lane.generation]);
                Some(lost)
            }
            _ => None,
        })
        .await;
    assert!(lost);
    let again = member.lane().await;
    assert!(again.generation > lane.generation);
    member.grant(again.generation, 1);
    assert_eq!(member.offsets(1).await, [0]);
    member.close().await;
}

#[tokio::test]
async fn fatal_error_builds_the_consumer_again() {
    let mock = mock(TOPIC, 1);
    let bootstrap = mock.bootstrap_servers();
    fill(&bootstrap, TOPIC, 0, 0..1).await;
    let mut subscription = restless(subscription(&[TOPIC], GROUP, StartAt::Earliest));
    // Only static members meet this error; librdkafka counts on it.
    let instance = ("group.instance.id".to_owned(), "one".to_owned());
    subscription.consumer_properties.push(instance);
    let mut member = Member::join(&bootstrap, &subscription);
    let lane = member.lane().await;
    mock.request_errors(
        RDKafkaApiKey::Heartbeat,
        &[RDKafkaRespErr::RD_KAFKA_RESP_ERR_FENCED_INSTANCE_ID],
    );
    let (mut rebuilding, mut revoked) = (false, false);
    let again = loop {
        match member.event().await {
            Event::Cluster(ClusterState::Rebuilding { detail }) => {
                assert!(!detail.is_empty());
                rebuilding = true;
            }
            Event::Revoked(generations) => {
                assert_eq!(generations, [lane.generation]);
                revoked = true;
            }
            Event::Assigned(mut lanes) if !lanes.is_empty() => break lanes.remove(0),
            _ => {}
        }
    };
    assert!(rebuilding && revoked);
    member.grant(again.generation, 1);
    assert_eq!(member.offsets(1).await, [0]);
    member.close().await;
}

#[tokio::test]
async fn topics_that_librdkafka_would_misread_are_refused() {
    for topic in ["", "a\0b", "^pattern", "a b"] {
        let (sender, _events) = tokio::sync::mpsc::channel(1);
        let connect = crate::broker::kafka::KafkaConnect::new(
            &super::support::cluster("127.0.0.1:9"),
            &subscription(&[topic], GROUP, StartAt::Earliest),
        );
        let error = crate::broker::Connect::consume(&connect, sender).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Operator, "{topic:?}");
    }
}

#[tokio::test]
async fn refused_setting_is_an_operator_error_without_its_value() {
    let mut subscription = subscription(&[TOPIC], GROUP, StartAt::Earliest);
    subscription.consumer_properties = vec![("session.timeout.ms".into(), "soon".into())];
    let (sender, _events) = tokio::sync::mpsc::channel(1);
    let connect = crate::broker::kafka::KafkaConnect::new(
        &super::support::cluster("127.0.0.1:9"),
        &subscription,
    );
    let error = crate::broker::Connect::consume(&connect, sender).unwrap_err();
    assert_eq!(error.kind, ErrorKind::Operator);
    assert!(
        error.detail.contains("session.timeout.ms"),
        "{}",
        error.detail
    );
}

// Statistics tell of partitions that nobody could count before.
#[tokio::test]
async fn topic_that_turns_out_to_be_large_is_read_with_smaller_limits() {
    const PARTITIONS: i32 = 60;
    const SHARE: u64 = 64 << 20;
    let mock = mock(TOPIC, PARTITIONS);
    let bootstrap = mock.bootstrap_servers();
    fill(&bootstrap, TOPIC, PARTITIONS - 1, 0..1).await;
    let unknown = RDKafkaRespErr::RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART;
    mock.topic_error(TOPIC, unknown).unwrap();
    let subscription = restless(subscription(&[TOPIC], GROUP, StartAt::Earliest));
    let mut member = Member::within(&bootstrap, &subscription, SHARE);
    let planned = |event| match event {
        Event::Prefetch { bytes } => Some(bytes),
        _ => None,
    };
    let none = member.until(planned).await;
    mock.topic_error(TOPIC, RDKafkaRespErr::RD_KAFKA_RESP_ERR_NO_ERROR)
        .unwrap();
    let planned = member.until(planned).await;
    assert!(none < planned && planned <= SHARE * 5 / 4, "{planned}");
    let lanes = member.lanes(PARTITIONS as usize).await;
    member.grant(lanes[PARTITIONS as usize - 1].generation, 1);
    assert_eq!(member.offsets(1).await, [0]);
    member.close().await;
}
