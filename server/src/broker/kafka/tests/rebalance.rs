//! Lanes that move between members.

use std::time::Duration;

use ackgate_lane::{Generation, Position};
use rdkafka::Offset;

use super::support::{Member, committed, fill, mock, restless, subscription};
use crate::{
    broker::{Assigned, Commit, ErrorKind, Event},
    config::{StartAt, Subscription},
};

const TOPIC: &str = "orders";
const GROUP: &str = "group";
const LANES: usize = 4;
const PARTITIONS: i32 = 4;

/// Follows a member until `count` of its lanes are gone, committing `position`
/// for each lane that goes. `None` if the broker refused a commit because of the
/// rebalance, as the mock cluster does now and then and Apache Kafka does not.
async fn give_up(member: &mut Member, count: usize, position: u64) -> Option<Vec<Generation>> {
    let mut gone = Vec::new();
    let mut confirmed = 0;
    let mut refused = false;
    while gone.len() < count {
        match member.event().await {
            Event::Revoking {
                generations,
                lost,
                reply,
            } => {
                assert!(!lost);
                let commits = generations.iter().map(|generation| Commit {
                    generation: *generation,
                    position: Position::new(position),
                    serial: 1,
                    metadata: None,
                    letters: Vec::new(),
                });
                reply.send(commits.collect()).unwrap();
            }
            Event::Committed { commit, result } => {
                if let Err(error) = result {
                    assert_eq!(error.kind, ErrorKind::Transient, "{error}");
                    refused = true;
                }
                assert_eq!(commit.position.get(), position);
                confirmed += 1;
            }
            Event::Revoked(generations) => {
                gone.extend(generations);
                assert_eq!(
                    confirmed,
                    gone.len(),
                    "commits are answered before lanes are gone"
                );
            }
            _ => {}
        }
    }
    (!refused).then_some(gone)
}

/// Two members share a topic of four partitions, then the second leaves. `false` if
/// the broker refused a commit because of the rebalance.
#[allow(clippy::too_many_lines, reason = "one story, told in order")]
pub(super) async fn move_lanes(
    bootstrap: &str,
    topic: &str,
    mut subscription: Subscription,
    eager: bool,
) -> bool {
    for partition in 0..PARTITIONS {
        fill(bootstrap, topic, partition, 0..10).await;
    }
    if eager {
        let strategy = (
            "partition.assignment.strategy".to_owned(),
            "range".to_owned(),
        );
        subscription.consumer_properties.push(strategy);
    }
    let mut first = Member::join(bootstrap, &subscription);
    let lanes = first.lanes(LANES).await;
    let mut second = Member::join(bootstrap, &subscription);

    // An eager group gives up everything and gets its half back.
    let leaving = if eager { LANES } else { LANES / 2 };
    let (gone, taken) = tokio::join!(give_up(&mut first, leaving, 6), second.lanes(LANES / 2));
    let Some(gone) = gone else {
        first.close().await;
        second.close().await;
        return false;
    };
    for lane in &taken {
        assert_eq!(
            lane.start.unwrap().get(),
            6,
            "the last commit came before the move"
        );
        assert!(lane.committed);
        assert!(lanes.iter().all(|old| old.generation != lane.generation));
    }
    let late = first.commit(gone[0], 9).await.unwrap_err();
    assert_eq!(
        late.kind,
        ErrorKind::Fenced,
        "a lane that is gone is not committed"
    );
    for lane in &taken {
        let at = committed(
            bootstrap,
            &subscription.group,
            topic,
            lane.partition.partition,
        );
        assert_eq!(at, Offset::Offset(6));
        second.grant(lane.generation, 4);
    }
    assert_eq!(
        second.offsets(8).await.iter().sum::<u64>(),
        2 * (6 + 7 + 8 + 9)
    );
    give_back(first, second, &taken).await
}

/// When the second leaves, the first has everything again, and can read it.
async fn give_back(mut first: Member, mut second: Member, taken: &[Assigned]) -> bool {
    let left = async {
        second.consumer.close();
        let gone = give_up(&mut second, LANES / 2, 8).await;
        second
            .until(|event| matches!(event, Event::Closed).then_some(()))
            .await;
        gone
    };
    let (gone, back) = tokio::join!(left, async {
        let mut back = Vec::new();
        while back.len() < LANES / 2 {
            match first.event().await {
                Event::Revoking { reply, .. } => reply.send(Vec::new()).unwrap(),
                Event::Assigned(lanes) => {
                    back.extend(lanes.into_iter().filter(|lane| {
                        taken.iter().any(|moved| moved.partition == lane.partition)
                    }));
                }
                _ => {}
            }
        }
        back
    });
    if gone.is_none() {
        first.close().await;
        return false;
    }
    for lane in back {
        assert_eq!(lane.start.unwrap().get(), 8);
        first.grant(lane.generation, 2);
    }
    assert_eq!(first.offsets(4).await.iter().sum::<u64>(), 2 * (8 + 9));
    true
}

#[tokio::test]
async fn lanes_move_with_their_last_commit() {
    for _ in 0..5 {
        let mock = mock(TOPIC, PARTITIONS);
        let subscription = restless(subscription(&[TOPIC], GROUP, StartAt::Earliest));
        if move_lanes(&mock.bootstrap_servers(), TOPIC, subscription, false).await {
            return;
        }
    }
    panic!("five groups in a row had a commit refused");
}

#[tokio::test]
async fn driver_that_never_replies_delays_a_rebalance_and_does_not_stop_it() {
    let mock = mock(TOPIC, 2);
    let bootstrap = mock.bootstrap_servers();
    let mut subscription = restless(subscription(&[TOPIC], GROUP, StartAt::Earliest));
    subscription.revoke_drain = Duration::ZERO;
    let mut first = Member::join(&bootstrap, &subscription);
    let lanes = first.lanes(2).await;
    let mut second = Member::join(&bootstrap, &subscription);
    let mut replies = Vec::new();
    let silent = first.until(|event| match event {
        Event::Revoking { reply, .. } => {
            replies.push(reply);
            None
        }
        Event::Revoked(generations) => Some(generations),
        _ => None,
    });
    let (gone, taken) = tokio::join!(silent, second.lanes(1));
    assert!(lanes.iter().any(|lane| gone.contains(&lane.generation)));
    assert_eq!(taken.len(), 1);
    assert!(
        replies[0].send(Vec::new()).is_err(),
        "a late reply is told that it is late"
    );
}
