//! Exactly once: a dead letter is there if and only if what was committed says that its
//! record is settled.

use super::*;
use crate::broker::Outgoing;

fn exactly_once(broker: &Memory, order: Order) -> Handle {
    let mut subscription = configured(order);
    subscription.policy.exactly_once = true;
    start_with(broker, subscription)
}

/// A peer that has `count` records of one lane.
async fn holding(broker: &Memory, count: u64) -> (Handle, Peer, u64) {
    broker.append(0, 0..count);
    let handle = exactly_once(broker, Order::None);
    let mut peer = Peer::attach(&handle, 1, 100).await;
    let got = peer.records(usize::try_from(count).expect("few")).await;
    (handle, peer, got[0].lane)
}

fn header(letter: &Outgoing, name: &str) -> Option<String> {
    let name = format!("ackgate.dead-letter.{name}");
    let found = letter.headers.iter().find(|(key, _)| *key == name)?;
    Some(String::from_utf8_lossy(found.1.as_ref()?).into_owned())
}

/// Offsets of the dead letters, after a look at whether each is true.
fn letters(broker: &Memory) -> Vec<u64> {
    broker.with(|state| {
        assert_eq!(state.untrue_letters, [0; 0], "L3");
        let offsets = state.letters.iter().map(|letter| header(letter, "offset"));
        offsets
            .map(|offset| offset.expect("an offset").parse().expect("a number"))
            .collect()
    })
}

#[tokio::test(start_paused = true)]
async fn l3_a_dead_letter_is_stored_with_the_commit_of_its_record_and_not_before() {
    let broker = Memory::default();
    let (_handle, mut peer, lane) = holding(&broker, 10).await;
    broker.with(|state| state.commits_fail = true);
    peer.settle(lane, 3, 4, Verdict::Rejected).await;
    tokio::time::sleep(LONG).await;
    assert_eq!(letters(&broker), [0; 0]);
    broker.with(|state| state.commits_fail = false);
    eventually(&broker, "the letters", |state| state.letters.len() == 2).await;
    assert_eq!(letters(&broker), [3, 4]);
    peer.settle(lane, 0, 2, Verdict::Acked).await;
    peer.settle(lane, 5, 9, Verdict::Acked).await;
    eventually(&broker, "the end", |state| {
        state.committed.get(&0) == Some(&10)
    })
    .await;
    assert_eq!(letters(&broker), [3, 4]);
    let cause = broker.with(|state| header(&state.letters[0], "cause"));
    assert_eq!(cause.as_deref(), Some("rejected"));
}

#[tokio::test(start_paused = true)]
async fn letters_that_cannot_be_stored_hold_their_record_and_nothing_else() {
    let broker = Memory::default();
    let (_handle, mut peer, lane) = holding(&broker, 10).await;
    broker.with(|state| state.letters_fail = true);
    peer.settle(lane, 3, 3, Verdict::Rejected).await;
    peer.settle(lane, 0, 2, Verdict::Acked).await;
    eventually(&broker, "what else there is", |state| {
        state.committed.get(&0) == Some(&3)
    })
    .await;
    let is_held = |news: &LaneNotice| news.kind == NoticeKind::Held;
    assert!(peer.is_quiet(Duration::from_secs(1)).await);
    assert!(peer.news.iter().any(is_held), "{:?}", peer.news);
    peer.settle(lane, 4, 9, Verdict::Acked).await;
    broker.with(|state| state.letters_fail = false);
    eventually(&broker, "the end", |state| {
        state.committed.get(&0) == Some(&10)
    })
    .await;
    assert_eq!(letters(&broker), [3]);
    assert!(peer.is_quiet(Duration::from_secs(1)).await);
    let recovered = |news: &LaneNotice| news.kind == NoticeKind::Recovered;
    assert!(peer.news.iter().any(recovered), "{:?}", peer.news);
}

#[tokio::test(start_paused = true)]
async fn a_letter_too_large_for_its_topic_goes_without_its_value() {
    let broker = Memory::default();
    broker.append_sized(0, 0..3, 3000);
    broker.with(|state| state.letters_limit = Some(2500));
    let handle = exactly_once(&broker, Order::None);
    let mut peer = Peer::attach(&handle, 1, 100).await;
    let lane = peer.records(3).await[0].lane;
    peer.settle(lane, 0, 1, Verdict::Rejected).await;
    peer.settle(lane, 2, 2, Verdict::Acked).await;
    eventually(&broker, "the end", |state| {
        state.committed.get(&0) == Some(&3)
    })
    .await;
    let mut stored = letters(&broker);
    stored.sort_unstable();
    assert_eq!(stored, [0, 1]);
    broker.with(|state| {
        for letter in &state.letters {
            assert_eq!(letter.value, None);
            assert!(header(letter, "value-omitted").is_some());
        }
    });
}

/// The consumer's thread waits for the last words, and the commit is made meanwhile.
#[tokio::test(start_paused = true)]
async fn a_revoke_waits_until_it_is_known_whether_letters_are_stored() {
    let broker = Memory::default();
    let (_handle, mut peer, lane) = holding(&broker, 10).await;
    broker.with(|state| state.commits_hang = true);
    peer.settle(lane, 0, 0, Verdict::Rejected).await;
    peer.settle(lane, 1, 9, Verdict::Acked).await;
    broker.rebalance(false);
    assert!(peer.is_quiet(Duration::from_secs(2)).await);
    broker.hang_no_more();
    eventually(&broker, "the last commit", |state| {
        state.committed.get(&0) == Some(&10)
    })
    .await;
    assert_eq!(letters(&broker), [0]);
    assert!(peer.is_quiet(LONG).await, "nothing comes again");
}

/// L3: what was given up in the revoke itself travels too, and the revoke waits for that
/// and no longer.
#[tokio::test(start_paused = true)]
async fn a_record_rejected_while_its_lane_is_revoked_is_dead_lettered_once() {
    let broker = Memory::default();
    let (_handle, mut peer, lane) = holding(&broker, 3).await;
    let begin = Instant::now();
    broker.rebalance(false);
    assert!(peer.is_quiet(Duration::from_secs(1)).await);
    peer.settle(lane, 0, 2, Verdict::Rejected).await;
    eventually(&broker, "the last commit", |state| {
        state.committed.get(&0) == Some(&3)
    })
    .await;
    assert_eq!(letters(&broker), [0, 1, 2]);
    assert!(begin.elapsed() < Duration::from_secs(2));
    assert!(peer.is_quiet(LONG).await, "nothing comes again");
}

#[tokio::test(start_paused = true)]
async fn a_lane_that_is_lost_with_letters_under_way_delivers_their_records_again() {
    let broker = Memory::default();
    let (_handle, mut peer, lane) = holding(&broker, 3).await;
    broker.with(|state| state.commits_hang = true);
    peer.settle(lane, 0, 2, Verdict::Rejected).await;
    broker.rebalance(true);
    let again = peer.records(3).await;
    assert_eq!(offsets(&again), [0, 1, 2]);
    broker.hang_no_more();
    peer.settle(again[0].lane, 0, 2, Verdict::Rejected).await;
    eventually(&broker, "the letters", |state| {
        state.committed.get(&0) == Some(&3)
    })
    .await;
    assert_eq!(letters(&broker), [0, 1, 2], "the fenced commit stored none");
}

#[tokio::test(start_paused = true)]
async fn a_stop_takes_waiting_letters_along() {
    let broker = Memory::default();
    let (mut handle, mut peer, lane) = holding(&broker, 5).await;
    broker.with(|state| state.letters_fail = true);
    peer.settle(lane, 1, 1, Verdict::Rejected).await;
    tokio::time::sleep(Duration::from_secs(3)).await;
    broker.with(|state| state.letters_fail = false);
    peer.tell(Input::Stop(Duration::from_secs(10))).await;
    peer.settle(lane, 0, 0, Verdict::Rejected).await;
    peer.settle(lane, 2, 4, Verdict::Acked).await;
    tokio::time::timeout(LONG, handle.stopped())
        .await
        .expect("stopped in time");
    let committed = broker.with(|state| state.committed.get(&0).copied());
    let mut stored = letters(&broker);
    stored.sort_unstable();
    assert_eq!((committed, stored), (Some(5), vec![0, 1]));
}

#[tokio::test(start_paused = true)]
async fn l12_a_durable_rejection_is_answered_once_its_letter_is_stored() {
    let broker = Memory::default();
    let (_handle, mut peer, lane) = holding(&broker, 5).await;
    broker.with(|state| state.letters_fail = true);
    peer.declare(lane, 2, 2, Verdict::Rejected, Confirm::Durable)
        .await;
    assert!(peer.is_quiet(Duration::from_secs(5)).await);
    broker.with(|state| state.letters_fail = false);
    assert_eq!(peer.answer().await, []);
    assert_eq!(letters(&broker), [2]);
}

#[tokio::test(start_paused = true)]
async fn in_lane_order_letters_are_stored_in_order_and_each_once() {
    let broker = Memory::default();
    broker.append(0, 0..9);
    let handle = exactly_once(&broker, Order::Lane { skip_acked: false });
    let mut peer = Peer::attach(&handle, 1, 100).await;
    let lane = peer.records(9).await[0].lane;
    peer.settle(lane, 5, 5, Verdict::Rejected).await;
    peer.settle(lane, 0, 2, Verdict::Rejected).await;
    peer.settle(lane, 3, 4, Verdict::Acked).await;
    peer.settle(lane, 6, 8, Verdict::Acked).await;
    eventually(&broker, "the end", |state| {
        state.committed.get(&0) == Some(&9)
    })
    .await;
    assert_eq!(letters(&broker), [0, 1, 2, 5]);
}
