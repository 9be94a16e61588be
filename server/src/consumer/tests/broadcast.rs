//! Every subscriber gets every record.

use ackgate_lane::Sharing;

use super::*;

const GRACE: Duration = Duration::from_secs(300);

/// A broadcast that begins when `members` are attached.
fn broadcast(broker: &Memory, members: u32, change: impl FnOnce(&mut Subscription)) -> Handle {
    let mut subscription = configured(Order::Lane { skip_acked: false });
    subscription.delivery = Delivery::Broadcast(Sharing {
        cut_off_after: None,
        absent_grace: GRACE,
    });
    subscription.min_subscribers = members;
    change(&mut subscription);
    start_with(broker, subscription)
}

fn log(records: u64) -> Memory {
    let broker = Memory::default();
    broker.append(0, 0..records);
    broker
}

/// The next news of that kind, as (first, last) and words; other messages pass.
async fn news(peer: &mut Peer, kind: NoticeKind, of: &str) -> (Option<(u64, u64)>, String) {
    loop {
        match tokio::time::timeout(GRACE * 2, peer.inbox.recv()).await {
            Ok(Some(Outbound::Lane(news))) if news.kind == kind && news.detail.contains(of) => {
                let range = news.range.map(|r| (r.first().get(), r.last().get()));
                return (range, news.detail);
            }
            Ok(Some(_)) => {}
            other => panic!("{other:?}"),
        }
    }
}

async fn gone(peer: &Peer, how: Departure) {
    peer.tell(Input::Detach(peer.session, how)).await;
}

async fn committed(broker: &Memory, position: u64) {
    eventually(broker, "the commit", |state| {
        state.committed.get(&0) == Some(&position)
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn all_get_everything_and_the_slowest_decides_what_is_committed() {
    // FC-69
    let broker = log(10);
    let handle = broadcast(&broker, 2, |_| {});
    let mut fast = Peer::attach(&handle, 1, 100).await;
    let mut slow = Peer::attach(&handle, 2, 100).await;
    let lane = fast.records(10).await[0].lane;
    assert_eq!(
        offsets(&slow.records(10).await),
        (0..10).collect::<Vec<_>>()
    );
    assert!(fast.settle(lane, 0, 9, Verdict::Acked).await.is_empty());
    assert!(slow.settle(lane, 0, 3, Verdict::Acked).await.is_empty());
    committed(&broker, 4).await;
    assert!(fast.is_quiet(LONG / 3).await);
    slow.settle(lane, 4, 9, Verdict::Acked).await;
    committed(&broker, 10).await;
    assert_eq!(broker.with(|state| state.fetched), 10, "read once for all");
}

#[tokio::test(start_paused = true)]
async fn a_failure_comes_again_to_who_failed_and_to_nobody_else() {
    let broker = log(10);
    let handle = broadcast(&broker, 2, |_| {});
    let mut healthy = Peer::attach(&handle, 1, 100).await;
    let mut failing = Peer::attach(&handle, 2, 100).await;
    let lane = healthy.records(10).await[0].lane;
    failing.records(10).await;
    healthy.settle(lane, 0, 9, Verdict::Acked).await;
    failing.settle(lane, 0, 4, Verdict::Acked).await;
    failing
        .settle(lane, 5, 5, Verdict::Failed { retry_after: None })
        .await;
    let again = failing.records(5).await;
    assert_eq!(offsets(&again), [5, 6, 7, 8, 9]);
    assert!(again.iter().all(|got| got.delivery == 2), "{again:?}");
    assert!(healthy.is_quiet(LONG / 3).await, "L14");
    failing.settle(lane, 5, 9, Verdict::Acked).await;
    committed(&broker, 10).await;
    assert_eq!(broker.with(|state| state.fetched), 10, "from memory");
}

#[tokio::test(start_paused = true)]
async fn a_lost_subscriber_that_returns_gets_what_it_owes_and_is_waited_for_aloud() {
    let broker = log(10);
    let handle = broadcast(&broker, 2, |_| {});
    let mut here = Peer::attach(&handle, 1, 100).await;
    let mut lost = Peer::attach_as(&handle, 2, "audit", 100).await;
    let lane = here.records(10).await[0].lane;
    lost.records(10).await;
    here.settle(lane, 0, 9, Verdict::Acked).await;
    lost.settle(lane, 0, 3, Verdict::Acked).await;
    gone(&lost, Departure::Lost).await;
    let (range, words) = news(&mut here, NoticeKind::Held, "gone").await;
    assert_eq!(range, Some((4, 9)));
    assert!(
        words.contains("audit") && words.contains("6 records"),
        "{words}"
    );
    committed(&broker, 4).await;
    tokio::time::sleep(GRACE - LONG).await;
    let mut back = Peer::attach_as(&handle, 3, "audit", 100).await;
    assert_eq!(offsets(&back.records(6).await), [4, 5, 6, 7, 8, 9]);
    let (range, _) = news(&mut here, NoticeKind::Recovered, "audit").await;
    assert_eq!(range, Some((4, 9)));
    // The first session is over: what still comes from it reaches nobody.
    gone(&lost, Departure::Lost).await;
    back.settle(lane, 4, 9, Verdict::Acked).await;
    committed(&broker, 10).await;
    assert!(here.is_quiet(LONG / 3).await, "L14");
}

#[tokio::test(start_paused = true)]
async fn a_lost_subscriber_that_stays_away_is_counted_out_and_told() {
    let broker = log(10);
    let handle = broadcast(&broker, 2, |_| {});
    let mut here = Peer::attach(&handle, 1, 100).await;
    let mut lost = Peer::attach(&handle, 2, 100).await;
    let lane = here.records(10).await[0].lane;
    lost.records(10).await;
    here.settle(lane, 0, 9, Verdict::Acked).await;
    lost.settle(lane, 0, 3, Verdict::Acked).await;
    gone(&lost, Departure::Lost).await;
    committed(&broker, 4).await;
    let (range, words) = news(&mut here, NoticeKind::Recovered, "in time").await;
    assert_eq!(range, Some((4, 9)), "{words}");
    assert!(words.contains("peer-2"), "{words}");
    committed(&broker, 10).await;
}

#[tokio::test(start_paused = true)]
async fn with_nobody_left_nothing_is_passed() {
    // FC-42
    let broker = log(5);
    let handle = broadcast(&broker, 2, |subscription| subscription.linger = GRACE * 10);
    let mut one = Peer::attach(&handle, 1, 100).await;
    let mut two = Peer::attach(&handle, 2, 100).await;
    one.records(5).await;
    two.records(5).await;
    gone(&one, Departure::Closed).await;
    gone(&two, Departure::Lost).await;
    broker.append(0, 5..10);
    tokio::time::sleep(GRACE * 2).await;
    let (fetched, commits) = broker.with(|state| (state.fetched, state.commits.clone()));
    let passed = commits.iter().find(|(_, position)| *position > 0);
    assert_eq!((fetched, passed), (5, None), "L6, L13");
    let mut new = Peer::attach(&handle, 3, 100).await;
    let got = new.records(10).await;
    assert_eq!(offsets(&got), (0..10).collect::<Vec<_>>());
    new.settle(got[0].lane, 0, 9, Verdict::Acked).await;
    committed(&broker, 10).await;
}

#[tokio::test(start_paused = true)]
async fn one_rejection_is_one_dead_letter_with_the_counts_and_who_it_was() {
    let broker = log(1);
    let handle = broadcast(&broker, 3, |_| {});
    let mut peers = Vec::new();
    for number in 1..=3 {
        peers.push(Peer::attach(&handle, number, 100).await);
    }
    let mut lane = 0;
    for peer in &mut peers {
        lane = peer.records(1).await[0].lane;
    }
    peers[1].settle(lane, 0, 0, Verdict::Rejected).await;
    peers[0].settle(lane, 0, 0, Verdict::Acked).await;
    assert!(broker.with(|state| state.letters.is_empty()));
    // The last one fails first, which must not take the place of the rejection.
    let failed = Verdict::Failed { retry_after: None };
    peers[2].settle(lane, 0, 0, failed).await;
    peers[2].records(1).await;
    peers[2].settle(lane, 0, 0, Verdict::Acked).await;
    committed(&broker, 1).await;
    let letters = broker.with(|state| state.letters.clone());
    assert_eq!(letters.len(), 1);
    let header = |name: &str| {
        let key = format!("{}{name}", crate::headers::DEAD_LETTER);
        let found = letters[0].headers.iter().find(|(of, _)| *of == key);
        let value = found.and_then(|(_, value)| value.clone());
        value.map(|value| String::from_utf8_lossy(&value).into_owned())
    };
    assert_eq!(header("counts").as_deref(), Some("acked=2 rejected=1"));
    assert_eq!(header("subscriber").as_deref(), Some("peer-2"));
    assert_eq!(header("cause").as_deref(), Some("rejected"));
    assert_eq!(header("reason").as_deref(), Some("reason"));
    assert_eq!(header("attempts").as_deref(), Some("1"));
}

#[tokio::test(start_paused = true)]
async fn who_keeps_the_window_full_is_cut_off_alone_and_returns_to_its_debts() {
    // FC-70
    let broker = log(1_000);
    let handle = broadcast(&broker, 2, |subscription| {
        subscription.delivery = Delivery::Broadcast(Sharing {
            cut_off_after: Some(LONG),
            absent_grace: GRACE,
        });
    });
    let mut fast = Peer::attach(&handle, 1, 1_000).await;
    let mut stuck = Peer::attach_as(&handle, 2, "stuck", 0).await;
    let lane = fast.records(100).await[0].lane;
    fast.settle(lane, 0, 99, Verdict::Acked).await;
    assert!(fast.is_quiet(LONG / 2).await, "the window is full");
    let end = tokio::time::timeout(LONG, &mut stuck.cut).await;
    assert_eq!(end.expect("in time"), Ok(End::Slow));
    assert_eq!(broker.with(|state| state.commits.clone()), [], "L6");
    let mut back = Peer::attach_as(&handle, 3, "stuck", 1_000).await;
    assert_eq!(back.records(100).await.len(), 100);
    back.settle(lane, 0, 99, Verdict::Acked).await;
    // Both go on together; the healthy one gets nothing a second time.
    let next = fast.records(100).await;
    assert_eq!((next[0].offset, next[0].delivery), (100, 1), "L14");
    assert_eq!(back.records(1).await[0].offset, 100);
}

#[tokio::test(start_paused = true)]
async fn a_window_full_of_bytes_is_as_full() {
    let broker = log(20_000);
    let handle = broadcast(&broker, 2, |subscription| {
        subscription.delivery = Delivery::Broadcast(Sharing {
            cut_off_after: Some(LONG),
            absent_grace: GRACE,
        });
        subscription.policy.window.records = 20_000;
        subscription.policy.window.span = 20_000;
        subscription.window_bytes = 1 << 17;
    });
    let fast = Peer::attach(&handle, 1, 0).await;
    let mut stuck = Peer::attach(&handle, 2, 1).await;
    stuck.records(1).await;
    let end = tokio::time::timeout(LONG * 2, &mut stuck.cut).await;
    assert_eq!(end.expect("in time"), Ok(End::Slow));
    drop(fast);
}

#[tokio::test(start_paused = true)]
async fn a_name_is_attached_once() {
    let broker = log(5);
    let handle = broadcast(&broker, 1, |_| {});
    let mut first = Peer::attach_as(&handle, 1, "audit", 100).await;
    let second = Peer::open(&handle, Wish::new(2, "audit")).await;
    assert_eq!(second.err(), Some(Refusal::InUse));
    first.tell(Input::Detach(Session(2), Departure::Lost)).await;
    assert_eq!(first.records(5).await.len(), 5, "the first one stays");
}

/// A broken stream is gone on with first, and then, for much longer, what it owes waits.
#[tokio::test(start_paused = true)]
async fn what_is_in_hand_outlives_a_broken_stream_and_what_is_owed_the_grace() {
    let broker = log(6);
    let handle = broadcast(&broker, 1, |subscription| subscription.linger = GRACE * 10);
    let resumable = |session, resume| Wish {
        resumable: true,
        resume,
        ..Wish::new(session, "audit")
    };
    let mut peer = Peer::open(&handle, resumable(1, None))
        .await
        .expect("it may");
    let lane = peer.records(6).await[0].lane;
    gone(&peer, Departure::Lost).await;
    let held = Held {
        topic: "orders".to_owned(),
        partition: 0,
        epoch: 1,
        range: OffsetRange::inclusive(Offset::new(0), Offset::new(3)),
        offsets: (0, 3),
        delivery: None,
    };
    let manifest = Manifest {
        token: peer.accepted.token.clone().expect("a token"),
        held: vec![held],
    };
    let back = resumable(2, Some(manifest.clone()));
    let mut back = Peer::open(&handle, back).await.expect("it is back");
    let answers: Vec<_> = back
        .accepted
        .resumed
        .iter()
        .map(|one| (one.first, one.last, one.result, one.lane))
        .collect();
    assert_eq!(answers, [(0, 3, ackgate_lane::ResumeResult::Kept, lane)]);
    // In lane order what was not named comes again once the rest is answered.
    assert!(back.settle(lane, 0, 3, Verdict::Acked).await.is_empty());
    assert_eq!(offsets(&back.records(2).await), [4, 5]);
    gone(&back, Departure::Lost).await;
    tokio::time::sleep(GRACE / 2).await;
    let late = resumable(3, Some(manifest));
    let mut late = Peer::open(&handle, late).await.expect("it is back");
    assert_eq!(
        late.accepted.resumed[0].result,
        ackgate_lane::ResumeResult::Lost
    );
    assert_eq!(late.accepted.subscriber, peer.accepted.subscriber);
    assert_eq!(offsets(&late.records(2).await), [4, 5], "what it owes");
    late.settle(lane, 4, 5, Verdict::Acked).await;
    committed(&broker, 6).await;
}

#[tokio::test(start_paused = true)]
async fn a_revoke_takes_what_is_out_back_from_everybody() {
    let broker = log(5);
    let handle = broadcast(&broker, 2, |_| {});
    let mut one = Peer::attach(&handle, 1, 5).await;
    let mut two = Peer::attach(&handle, 2, 5).await;
    let lane = one.records(5).await[0].lane;
    two.records(5).await;
    one.settle(lane, 0, 4, Verdict::Acked).await;
    two.settle(lane, 0, 1, Verdict::Acked).await;
    broker.rebalance(false);
    // The next assignment knows the committed position alone; the credit is free again.
    let again = two.records(3).await;
    assert_eq!(offsets(&again), [2, 3, 4]);
    assert_eq!(offsets(&one.records(3).await), [2, 3, 4]);
    assert_eq!(
        broker.with(|state| state.committed.get(&0).copied()),
        Some(2)
    );
    let fenced = two.settle(lane, 2, 2, Verdict::Acked).await;
    assert_eq!(fenced[0].result, Ok(VerdictResult::Fenced), "L4");
}
