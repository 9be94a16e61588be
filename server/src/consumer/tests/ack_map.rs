//! What is settled above the floor survives: maps in commits.

use super::*;

pub(super) const NEVER: Verdict = Verdict::Failed {
    retry_after: Some(Duration::from_secs(3600)),
};

/// Stops the driver as if the process had been killed: its sessions and its last
/// commits are gone.
pub(super) async fn kill(broker: &Memory, handle: Handle, peer: Peer) {
    let (committed, metadata) =
        broker.with(|state| (state.committed.clone(), state.metadata.clone()));
    handle
        .send(Input::Stop(Duration::ZERO))
        .await
        .expect("a running driver");
    drop(peer);
    let mut handle = handle;
    handle.stopped().await;
    broker.with(|state| (state.committed, state.metadata) = (committed, metadata));
}

#[tokio::test(start_paused = true)]
async fn settled_records_above_the_floor_are_not_delivered_again_after_a_restart() {
    let broker = Memory::default();
    broker.append(0, 0..50);
    let handle = start(&broker, Order::None);
    let mut peer = Peer::attach(&handle, 1, 100).await;
    let lane = peer.records(50).await[0].lane;
    peer.settle(lane, 3, 3, NEVER).await;
    peer.settle(lane, 0, 2, Verdict::Acked).await;
    peer.settle(lane, 4, 20, Verdict::Acked).await;
    peer.settle(lane, 30, 39, Verdict::Acked).await;
    eventually(&broker, "the commit", |state| {
        state.committed.get(&0) == Some(&3)
    })
    .await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    kill(&broker, handle, peer).await;

    let handle = start(&broker, Order::None);
    let mut peer = Peer::attach(&handle, 2, 100).await;
    let got = peer.records(1 + 9 + 10).await;
    let unsettled: Vec<u64> = [3].into_iter().chain(21..30).chain(40..50).collect();
    assert_eq!(offsets(&got), unsettled);
    // FC-34: the numbers go on.
    assert!(got.iter().all(|got| got.delivery == 2), "{got:?}");
    assert!(peer.is_quiet(Duration::from_secs(5)).await);
}

/// FC-34: three attempts in all, although the gateway is killed after each.
#[tokio::test(start_paused = true)]
async fn attempts_go_on_over_restarts_until_the_record_is_dead_lettered() {
    let broker = Memory::default();
    broker.append(0, 0..1);
    for life in 1..=3 {
        let handle = start(&broker, Order::None);
        let mut peer = Peer::attach(&handle, life, 100).await;
        let got = peer.records(1).await[0];
        assert_eq!(u64::from(got.delivery), life);
        let failed = Verdict::Failed {
            retry_after: Some(LONG),
        };
        peer.settle(got.lane, 0, 0, failed).await;
        if life < 3 {
            tokio::time::sleep(Duration::from_secs(2)).await;
            kill(&broker, handle, peer).await;
        } else {
            eventually(&broker, "the dead letter", |state| {
                state.letters.len() == 1 && state.committed.get(&0) == Some(&1)
            })
            .await;
        }
    }
    let letter = broker.with(|state| state.letters[0].clone());
    for (name, expected) in [("cause", "attempts-exhausted"), ("attempts", "3")] {
        let name = format!("ackgate.dead-letter.{name}");
        let value = letter.headers.iter().find(|(key, _)| *key == name);
        let value = value.and_then(|(_, value)| value.as_deref());
        assert_eq!(value, Some(expected.as_bytes()), "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn strange_metadata_breaks_no_assignment_and_everything_is_delivered() {
    for strange in ["\u{fffd}", "{\"sink\": 1}", "YWcB", "", "YWcJCQkJCQkJCQkJ"] {
        let broker = Memory::default();
        broker.append(0, 0..10);
        broker.with(|state| {
            state.committed.insert(0, 4);
            state.metadata.insert(0, Arc::from(strange));
        });
        let handle = start(&broker, Order::None);
        let mut peer = Peer::attach(&handle, 1, 100).await;
        let got = peer.records(6).await;
        assert_eq!(offsets(&got), (4..10).collect::<Vec<_>>(), "{strange:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_refused_size_costs_the_map_and_not_the_position() {
    let broker = Memory::default();
    broker.append(0, 0..90);
    broker.with(|state| state.metadata_limit = Some(40));
    let handle = start(&broker, Order::None);
    let mut peer = Peer::attach(&handle, 1, 100).await;
    let lane = peer.records(90).await[0].lane;
    peer.settle(lane, 0, 0, Verdict::Acked).await;
    for offset in (2..90).step_by(2) {
        peer.settle(lane, offset, offset, Verdict::Acked).await;
    }
    eventually(&broker, "the position", |state| {
        state.committed.get(&0) == Some(&1)
    })
    .await;
    for offset in (1..90).step_by(2) {
        peer.settle(lane, offset, offset, Verdict::Acked).await;
    }
    eventually(&broker, "the end", |state| {
        state.committed.get(&0) == Some(&90)
    })
    .await;
}
