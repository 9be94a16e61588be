//! Leaving the group and stopping.

use super::*;

#[tokio::test(start_paused = true)]
async fn stop_waits_for_verdicts_commits_and_leaves() {
    let broker = Memory::default();
    broker.append(0, 0..5);
    let mut handle = start(&broker, Order::None);
    let mut peer = Peer::attach(&handle, 1, 100).await;
    let lane = peer.records(5).await[0].lane;
    peer.tell(Input::Stop(Duration::from_secs(10))).await;
    assert!(matches!(peer.next().await, Outbound::Drain(..)));
    peer.settle(lane, 0, 4, Verdict::Acked).await;
    assert!(matches!(
        peer.next().await,
        Outbound::End(End::ShuttingDown)
    ));
    tokio::time::timeout(LONG, handle.stopped())
        .await
        .expect("stopped in time");
    assert_eq!(
        broker.with(|state| state.committed.get(&0).copied()),
        Some(5)
    );
}

#[tokio::test(start_paused = true)]
async fn stop_ends_at_its_deadline_with_a_stuck_subscriber() {
    let broker = Memory::default();
    broker.append(0, 0..5);
    let mut handle = start(&broker, Order::None);
    let mut peer = Peer::attach(&handle, 1, 100).await;
    let lane = peer.records(5).await[0].lane;
    peer.settle(lane, 0, 1, Verdict::Acked).await;
    let begun = Instant::now();
    peer.tell(Input::Stop(Duration::from_secs(10))).await;
    tokio::time::timeout(LONG, handle.stopped())
        .await
        .expect("stopped in time");
    assert!(begun.elapsed() < Duration::from_secs(11));
    assert_eq!(
        broker.with(|state| state.committed.get(&0).copied()),
        Some(2),
        "the floor"
    );
}

#[tokio::test(start_paused = true)]
async fn group_is_left_after_the_linger_and_joined_again_without_loss() {
    let broker = Memory::default();
    broker.append(0, 0..4);
    let handle = start(&broker, Order::None);
    let mut first = Peer::attach(&handle, 1, 100).await;
    let lane = first.records(4).await[0].lane;
    first.settle(lane, 0, 1, Verdict::Acked).await;
    first
        .tell(Input::Detach(first.session, Departure::Closed))
        .await;
    assert!(matches!(first.next().await, Outbound::End(End::Closed)));
    tokio::time::sleep(2 * LONG).await;
    assert_eq!(
        broker.with(|state| state.committed.get(&0).copied()),
        Some(2)
    );
    let mut second = Peer::attach(&handle, 2, 100).await;
    assert_eq!(offsets(&second.records(2).await), [2, 3]);
    assert_eq!(broker.with(|state| state.joins), 2);
}

/// A subscriber that gives its next verdict only after the last one is durable.
#[tokio::test(start_paused = true)]
async fn verdicts_become_durable_one_after_the_other_while_a_stop_waits() {
    let broker = Memory::default();
    broker.append(0, 0..5);
    let mut handle = start(&broker, Order::None);
    let mut peer = Peer::attach(&handle, 1, 100).await;
    let lane = peer.records(5).await[0].lane;
    let begun = Instant::now();
    peer.tell(Input::Stop(Duration::from_secs(10))).await;
    for offset in [1, 0, 2, 4, 3] {
        peer.declare(lane, offset, offset, Verdict::Acked, Confirm::Durable)
            .await;
        loop {
            match peer.next().await {
                Outbound::Drain(..) => {}
                Outbound::Settled { answers, .. } => {
                    assert_eq!(answers, [], "offset {offset}");
                    break;
                }
                other @ (Outbound::Batch(_)
                | Outbound::Drawn(_)
                | Outbound::Lane(_)
                | Outbound::End(_)) => {
                    panic!("no answer for offset {offset}: {other:?}")
                }
            }
        }
    }
    assert!(begun.elapsed() < Duration::from_secs(2));
    tokio::time::timeout(LONG, handle.stopped())
        .await
        .expect("stopped in time");
    assert!(begun.elapsed() < Duration::from_secs(2));
    assert_eq!(
        broker.with(|state| state.committed.get(&0).copied()),
        Some(5)
    );
}
