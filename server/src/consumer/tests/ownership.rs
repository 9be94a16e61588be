//! Subscribers and lanes that come and go.

use super::*;

#[tokio::test(start_paused = true)]
async fn lost_subscriber_leaves_its_records_to_the_next_and_commits_nothing() {
    let broker = Memory::default();
    broker.append(0, 0..5);
    let handle = start(&broker, Order::None);
    let mut first = Peer::attach(&handle, 1, 100).await;
    first.records(5).await;
    first
        .tell(Input::Detach(first.session, Departure::Lost))
        .await;
    let mut second = Peer::attach(&handle, 2, 100).await;
    let again = second.records(5).await;
    assert!(again.iter().all(|got| got.delivery == 2));
    assert!(broker.with(|state| state.commits.is_empty()), "L6");
    let answers = repeated(&mut second, again[0].lane).await;
    assert_eq!(answers, [Ok(VerdictResult::Duplicate)]);
}

/// Acks through `second`, then once more: the answers to the repeat.
async fn repeated(second: &mut Peer, lane: u64) -> Vec<Result<VerdictResult, &'static str>> {
    assert!(second.settle(lane, 0, 4, Verdict::Acked).await.is_empty());
    let again = second.settle(lane, 0, 4, Verdict::Acked).await;
    again.into_iter().map(|answer| answer.result).collect()
}

#[tokio::test(start_paused = true)]
async fn revoke_waits_for_verdicts_commits_the_floor_and_fences_what_comes_later() {
    let broker = Memory::default();
    broker.append(0, 0..10);
    let handle = start(&broker, Order::None);
    let mut peer = Peer::attach(&handle, 1, 100).await;
    let old = peer.records(10).await[0].lane;
    broker.rebalance(false);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(
        peer.settle(old, 0, 7, Verdict::Acked).await.is_empty(),
        "verdicts count in a drain"
    );
    eventually(&broker, "the last commit", |state| {
        state.committed.get(&0) == Some(&8)
    })
    .await;
    let again = peer.records(2).await;
    assert_eq!(offsets(&again), [8, 9], "exactly what was not settled");
    assert_ne!(again[0].lane, old);
    let late = peer.settle(old, 8, 9, Verdict::Acked).await;
    assert_eq!(
        late.first().map(|answer| answer.result),
        Some(Ok(VerdictResult::Fenced)),
        "L4"
    );
    assert_eq!(
        broker.with(|state| state.committed.get(&0).copied()),
        Some(8)
    );
}

#[tokio::test(start_paused = true)]
async fn two_subscribers_share_the_records_and_each_gets_its_own() {
    let broker = Memory::default();
    broker.append(0, 0..10);
    let handle = start(&broker, Order::None);
    let mut one = Peer::attach(&handle, 1, 5).await;
    let mut two = Peer::attach(&handle, 2, 5).await;
    let (first, second) = (one.records(5).await, two.records(5).await);
    let all: BTreeSet<u64> = offsets(&first)
        .into_iter()
        .chain(offsets(&second))
        .collect();
    assert_eq!(all.len(), 10);
    let theirs = second[0];
    let answers = one
        .settle(theirs.lane, theirs.offset, theirs.offset, Verdict::Acked)
        .await;
    assert_eq!(
        answers.first().map(|answer| answer.result),
        Some(Ok(VerdictResult::Unknown))
    );
}
