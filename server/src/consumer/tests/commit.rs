//! What is committed, and what waits for its dead letter.

use super::*;
use crate::broker::{self, ErrorKind, Event};

#[tokio::test(start_paused = true)]
async fn acked_records_are_committed_and_nothing_is_fetched_before_a_subscriber_comes() {
    let broker = Memory::default();
    broker.append(0, 0..10);
    let handle = start(&broker, Order::None);
    tokio::time::sleep(LONG).await;
    assert_eq!(
        broker.with(|state| (state.joins, state.fetched)),
        (0, 0),
        "L13"
    );
    let mut peer = Peer::attach(&handle, 1, 100).await;
    let got = peer.records(10).await;
    assert_eq!(offsets(&got), (0..10).collect::<Vec<_>>());
    assert!(
        peer.settle(got[0].lane, 0, 9, Verdict::Acked)
            .await
            .is_empty()
    );
    eventually(&broker, "the commit", |state| {
        state.committed.get(&0) == Some(&10)
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn commit_waits_for_the_oldest_unsettled_record() {
    let broker = Memory::default();
    broker.append(0, 10..13);
    let handle = start(&broker, Order::None);
    let mut peer = Peer::attach(&handle, 1, 100).await;
    let lane = peer.records(3).await[0].lane;
    peer.settle(lane, 10, 10, Verdict::Acked).await;
    peer.settle(lane, 12, 12, Verdict::Acked).await;
    peer.settle(
        lane,
        11,
        11,
        Verdict::Failed {
            retry_after: Some(LONG / 2),
        },
    )
    .await;
    eventually(&broker, "the floor", |state| {
        state.committed.get(&0) == Some(&11)
    })
    .await;
    let again = peer.records(1).await;
    assert_eq!((again[0].offset, again[0].delivery), (11, 2));
    peer.settle(lane, 11, 11, Verdict::Acked).await;
    eventually(&broker, "the end", |state| {
        state.committed.get(&0) == Some(&13)
    })
    .await;
    assert_eq!(
        broker.with(|state| state.commits.clone()),
        [(0, 11), (0, 13)],
        "L1, L2"
    );
}

#[tokio::test(start_paused = true)]
async fn rejected_record_holds_the_floor_until_its_dead_letter_is_stored() {
    let broker = Memory::default();
    broker.append(0, 0..3);
    broker.with(|state| state.letters_fail = true);
    let handle = start(&broker, Order::None);
    let mut peer = Peer::attach(&handle, 1, 100).await;
    let lane = peer.records(3).await[0].lane;
    peer.settle(lane, 0, 0, Verdict::Rejected).await;
    peer.settle(lane, 1, 2, Verdict::Acked).await;
    tokio::time::sleep(LONG).await;
    let commits = broker.with(|state| state.commits.clone());
    assert!(
        commits.iter().all(|commit| *commit == (0, 0)),
        "L3: only what is settled above is told: {commits:?}"
    );
    broker.with(|state| state.letters_fail = false);
    eventually(&broker, "the end", |state| {
        state.committed.get(&0) == Some(&3)
    })
    .await;
    let letters = broker.with(|state| state.letters.clone());
    assert_eq!(letters.len(), 1);
    let header = |name: &str| {
        let name = format!("ackgate.dead-letter.{name}");
        let value = letters[0].headers.iter().find(|(key, _)| *key == name);
        value
            .and_then(|(_, value)| value.clone())
            .map(|v| String::from_utf8_lossy(&v).into_owned())
    };
    let expected = [
        ("topic", "orders"),
        ("partition", "0"),
        ("offset", "0"),
        ("timestamp", "1700000000000"),
        ("group", "billing"),
        ("subscription", "orders"),
        ("cause", "rejected"),
        ("code", "code"),
        ("reason", "reason"),
        ("attempts", "1"),
        ("deliveries", "1"),
        ("subscriber", "peer-1"),
        ("dedupe-id", "billing/orders/0/0"),
    ];
    for (name, value) in expected {
        assert_eq!(header(name).as_deref(), Some(value), "{name}");
    }
    assert!(header("first-delivery").is_some() && header("last-delivery").is_some());
    assert_eq!(letters[0].value.as_deref(), Some("value 0".as_bytes()));
}

#[tokio::test(start_paused = true)]
async fn commit_that_failed_is_tried_again() {
    let broker = Memory::default();
    broker.append(0, 0..4);
    broker.with(|state| state.commits_fail = true);
    let handle = start(&broker, Order::None);
    let mut peer = Peer::attach(&handle, 1, 100).await;
    let lane = peer.records(4).await[0].lane;
    peer.settle(lane, 0, 3, Verdict::Acked).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert!(broker.with(|state| state.commits.is_empty()));
    broker.with(|state| state.commits_fail = false);
    eventually(&broker, "the end", |state| {
        state.committed.get(&0) == Some(&4)
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn lane_that_cannot_be_read_is_not_recovered_by_a_dead_letter() {
    let broker = Memory::default();
    broker.append(0, 0..2);
    broker.with(|state| state.letters_fail = true);
    let handle = start(&broker, Order::None);
    let mut peer = Peer::attach(&handle, 1, 100).await;
    let lane = peer.records(2).await[0].lane;
    peer.settle(lane, 0, 0, Verdict::Rejected).await;
    assert!(peer.is_quiet(Duration::from_secs(2)).await);
    let held = |peer: &Peer, kind| peer.news.iter().filter(|news| news.kind == kind).count();
    assert_eq!(
        held(&peer, NoticeKind::Held),
        1,
        "no dead letter is written"
    );
    broker.tell(0, |generation, _| Event::LaneFailed {
        generation,
        error: broker::Error {
            kind: ErrorKind::Operator,
            detail: "not authorized".to_owned(),
        },
    });
    assert!(peer.is_quiet(Duration::from_secs(2)).await);
    assert_eq!(held(&peer, NoticeKind::Held), 2, "{:?}", peer.news);
    broker.with(|state| state.letters_fail = false);
    peer.settle(lane, 1, 1, Verdict::Acked).await;
    eventually(&broker, "what it has is still settled", |state| {
        state.letters.len() == 1 && state.committed.get(&0) == Some(&2)
    })
    .await;
    assert!(peer.is_quiet(Duration::from_secs(2)).await);
    assert_eq!(held(&peer, NoticeKind::Recovered), 0, "{:?}", peer.news);
    assert!(handle.show().await.expect("it runs").lanes[0].unreadable);
}
