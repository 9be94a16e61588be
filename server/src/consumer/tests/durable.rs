//! Answers that wait until what they confirm is durable.

use tokio::sync::Semaphore;

use super::{
    ack_map::{NEVER, kill},
    *,
};

/// A peer that has `count` records of one lane, while no commit succeeds.
async fn uncommitted(count: u64) -> (Memory, Handle, Peer, u64) {
    let broker = Memory::default();
    broker.append(0, 0..count);
    broker.with(|state| state.commits_fail = true);
    let handle = start(&broker, Order::None);
    let wish = Wish {
        resumable: true,
        ..Wish::new(1, "peer-1")
    };
    let mut peer = Peer::open(&handle, wish).await.expect("it may attach");
    let got = peer.records(usize::try_from(count).expect("few")).await;
    (broker, handle, peer, got[0].lane)
}

/// L12: what was confirmed as durable is not delivered again, whatever else is lost.
#[tokio::test(start_paused = true)]
async fn l12_a_durable_answer_comes_after_its_commit_and_survives_a_kill() {
    let (broker, handle, mut peer, lane) = uncommitted(20).await;
    peer.declare(lane, 5, 9, Verdict::Acked, Confirm::Durable)
        .await;
    assert!(
        peer.is_quiet(Duration::from_secs(5)).await,
        "L12: no commit has succeeded"
    );
    broker.with(|state| state.commits_fail = false);
    assert_eq!(peer.answer().await, []);
    let covered = broker.with(|state| state.commits.last().copied());
    assert_eq!(covered, Some((0, 0)), "by the map alone");
    peer.settle(lane, 12, 12, Verdict::Acked).await;
    kill(&broker, handle, peer).await;

    let handle = start(&broker, Order::None);
    let mut peer = Peer::attach(&handle, 2, 100).await;
    let got = offsets(&peer.records(15).await);
    assert!(
        got.iter().all(|offset| !(5..10).contains(offset)),
        "{got:?}"
    );
    assert!(got.contains(&12), "it was never confirmed as durable");
}

#[tokio::test(start_paused = true)]
async fn a_durable_answer_does_not_wait_for_the_tick() {
    let broker = Memory::default();
    broker.append(0, 0..20);
    let handle = start(&broker, Order::None);
    let mut peer = Peer::attach(&handle, 1, 100).await;
    let lane = peer.records(20).await[0].lane;
    let begin = Instant::now();
    for first in [0, 10] {
        peer.declare(lane, first, first + 4, Verdict::Acked, Confirm::Durable)
            .await;
        assert_eq!(peer.answer().await, []);
    }
    peer.declare(lane, 7, 7, NEVER, Confirm::Durable).await;
    assert_eq!(peer.answer().await, []);
    assert!(begin.elapsed() < Duration::from_millis(500));
    // A repeat is told as one, and only once what it repeats is durable.
    peer.declare(lane, 0, 4, Verdict::Acked, Confirm::Durable)
        .await;
    let answers = peer.answer().await;
    assert_eq!(answers.len(), 1);
    assert_eq!(answers[0].result, Ok(VerdictResult::Duplicate));
}

#[tokio::test(start_paused = true)]
async fn a_durable_rejection_waits_for_its_dead_letter() {
    let broker = Memory::default();
    broker.append(0, 0..3);
    broker.with(|state| state.letters_fail = true);
    let handle = start(&broker, Order::None);
    let mut peer = Peer::attach(&handle, 1, 100).await;
    let lane = peer.records(3).await[0].lane;
    peer.declare(lane, 1, 1, Verdict::Rejected, Confirm::Durable)
        .await;
    assert!(peer.is_quiet(Duration::from_secs(5)).await, "L3");
    broker.with(|state| state.letters_fail = false);
    assert_eq!(peer.answer().await, []);
    assert_eq!(broker.with(|state| state.letters.len()), 1);
}

#[tokio::test(start_paused = true)]
async fn what_a_lost_lane_did_not_confirm_is_fenced_and_what_it_did_is_not() {
    for lost in [true, false] {
        let (broker, _handle, mut peer, lane) = uncommitted(10).await;
        peer.declare(lane, 2, 9, Verdict::Acked, Confirm::Durable)
            .await;
        assert!(peer.is_quiet(Duration::from_millis(100)).await);
        broker.with(|state| state.commits_fail = lost);
        broker.rebalance(lost);
        let answers = peer.answer().await;
        if lost {
            let [answer] = &answers[..] else {
                panic!("{answers:?}")
            };
            assert_eq!((answer.first, answer.last), (2, 9));
            assert_eq!(answer.result, Ok(VerdictResult::Fenced));
        } else {
            assert_eq!(answers, [], "the last commit covered it");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn in_lane_order_what_a_failure_voids_is_told_as_stale() {
    let broker = Memory::default();
    broker.append(0, 0..10);
    let handle = start(&broker, Order::Lane { skip_acked: false });
    let mut peer = Peer::attach(&handle, 1, 100).await;
    let lane = peer.records(10).await[0].lane;
    peer.declare(lane, 5, 9, Verdict::Acked, Confirm::Durable)
        .await;
    assert!(peer.is_quiet(Duration::from_secs(3)).await, "provisional");
    let durable = peer.sequence;
    peer.declare(lane, 2, 2, NEVER, Confirm::Problems).await;
    peer.sequence = durable;
    let answers = peer.answer().await;
    let [answer] = &answers[..] else {
        panic!("{answers:?}")
    };
    assert_eq!((answer.first, answer.last), (5, 9));
    assert_eq!(answer.result, Ok(VerdictResult::Stale));
}

#[tokio::test(start_paused = true)]
async fn a_stop_answers_who_waits_before_it_ends_the_session() {
    let (broker, _handle, mut peer, lane) = uncommitted(10).await;
    peer.declare(lane, 0, 9, Verdict::Acked, Confirm::Durable)
        .await;
    assert!(peer.is_quiet(Duration::from_millis(100)).await);
    broker.with(|state| state.commits_fail = false);
    peer.tell(Input::Stop(Duration::from_secs(5))).await;
    assert_eq!(peer.answer().await, []);
    assert_eq!(
        broker.with(|state| state.committed.get(&0).copied()),
        Some(10)
    );
}

/// A session answers for what it was told itself: its sequence numbers mean nothing in
/// the next one, even where that goes on as the same subscriber.
#[tokio::test(start_paused = true)]
async fn what_an_earlier_session_waited_for_is_not_told_to_the_next() {
    for (takeover, is_broken) in [(true, false), (false, false), (false, true)] {
        let (broker, handle, mut peer, lane) = uncommitted(10).await;
        peer.declare(lane, 0, 4, Verdict::Acked, Confirm::Durable)
            .await;
        assert!(peer.is_quiet(Duration::from_millis(100)).await);
        if is_broken {
            peer.leave(Departure::Lost).await;
        }
        let manifest = Manifest {
            token: peer.accepted.token.clone().expect("a token"),
            held: Vec::new(),
        };
        let next = Wish {
            takeover,
            // It pauses, so that nothing but an answer can come.
            records: 0,
            resume: (!takeover).then_some(manifest),
            ..Wish::new(2, "peer-1")
        };
        let mut next = Peer::open(&handle, next).await.expect("it goes on");
        assert_eq!(next.accepted.subscriber, peer.accepted.subscriber);
        broker.with(|state| state.commits_fail = false);
        assert!(next.is_quiet(LONG).await, "{takeover} {is_broken}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_repeat_is_confirmed_once_what_it_repeats_is_durable() {
    let (broker, _handle, mut peer, lane) = uncommitted(10).await;
    for _ in 0..2 {
        peer.declare(lane, 0, 4, Verdict::Acked, Confirm::Durable)
            .await;
    }
    assert!(peer.is_quiet(Duration::from_secs(5)).await, "L12");
    broker.with(|state| state.commits_fail = false);
    let answers = peer.answer().await;
    let results: Vec<_> = answers.iter().map(|answer| answer.result).collect();
    assert_eq!(results, [Ok(VerdictResult::Duplicate)]);
}

#[tokio::test(start_paused = true)]
async fn a_message_on_two_lanes_is_confirmed_once_both_are_durable() {
    let broker = Memory::default();
    broker.append(0, 0..3);
    broker.append(1, 0..3);
    broker.with(|state| state.letters_fail = true);
    let handle = start(&broker, Order::None);
    let mut peer = Peer::attach(&handle, 1, 100).await;
    let got = peer.records(6).await;
    let lanes: BTreeSet<u64> = got.iter().map(|got| got.lane).collect();
    let verdicts = [Verdict::Acked, Verdict::Rejected];
    let verdicts = lanes.into_iter().zip(verdicts);
    let verdicts = verdicts.map(|(lane, verdict)| LaneVerdict {
        lane,
        target: Target {
            range: OffsetRange::one(Offset::new(0)),
            delivery: None,
        },
        verdict,
        code: String::new(),
        reason: String::new(),
    });
    peer.sequence += 1;
    peer.tell(Input::Settle {
        session: peer.session,
        sequence: peer.sequence,
        verdicts: verdicts.collect(),
        refused: Vec::new(),
        confirm: Confirm::Durable,
        ticket: None,
    })
    .await;
    assert!(peer.is_quiet(Duration::from_secs(5)).await, "L3");
    broker.with(|state| state.letters_fail = false);
    assert_eq!(peer.answer().await, []);
}

#[tokio::test(start_paused = true)]
async fn what_was_given_back_on_a_lost_lane_is_fenced_too() {
    let (broker, _handle, mut peer, lane) = uncommitted(10).await;
    peer.declare(lane, 3, 3, NEVER, Confirm::Durable).await;
    broker.rebalance(true);
    let answers = peer.answer().await;
    let [answer] = &answers[..] else {
        panic!("{answers:?}")
    };
    assert_eq!((answer.first, answer.last), (3, 3));
    assert_eq!(answer.result, Ok(VerdictResult::Fenced));
}

/// What bounds the memory of answers that wait: each holds its place until it was read.
#[tokio::test(start_paused = true)]
async fn an_answer_holds_its_place_until_it_is_read() {
    for confirm in [Confirm::Applied, Confirm::Durable] {
        let (broker, _handle, mut peer, lane) = uncommitted(10).await;
        let places = Arc::new(Semaphore::new(1));
        let place = Arc::clone(&places).try_acquire_owned().expect("one");
        peer.tell(Input::Settle {
            session: peer.session,
            sequence: 1,
            verdicts: vec![LaneVerdict {
                lane,
                target: Target {
                    range: OffsetRange::one(Offset::new(0)),
                    delivery: None,
                },
                verdict: Verdict::Acked,
                code: String::new(),
                reason: String::new(),
            }],
            refused: Vec::new(),
            confirm,
            ticket: Some(Ticket::new(place)),
        })
        .await;
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert_eq!(places.available_permits(), 0, "{confirm:?}");
        broker.with(|state| state.commits_fail = false);
        let answer = peer.next().await;
        assert!(matches!(answer, Outbound::Settled { .. }), "{answer:?}");
        assert_eq!(places.available_permits(), 0, "{confirm:?}: it is not read");
        drop(answer);
        assert_eq!(places.available_permits(), 1, "{confirm:?}");
    }
}
