//! Streams that break, and subscribers that come back for what they work on.

use ackgate_lane::ResumeResult::{self, Kept, Lost, Settled};

use super::{logged::Log, *};

/// A resumable peer that has records 0 to `count - 1` of one lane.
async fn working(broker: &Memory, handle: &Handle, count: u64) -> (Peer, u64) {
    broker.append(0, 0..count);
    let wish = Wish {
        resumable: true,
        ..Wish::new(1, "billing")
    };
    let mut peer = Peer::open(handle, wish).await.expect("it may attach");
    let got = peer.records(usize::try_from(count).expect("few")).await;
    (peer, got[0].lane)
}

async fn breaks(peer: &Peer) {
    let lost = Input::Detach(peer.session, Departure::Lost);
    peer.tell(lost).await;
}

fn held(first: u64, last: u64) -> Held {
    Held {
        topic: "orders".to_owned(),
        partition: 0,
        epoch: 1,
        range: OffsetRange::inclusive(Offset::new(first), Offset::new(last)),
        offsets: (
            i64::try_from(first).unwrap_or(i64::MAX),
            i64::try_from(last).unwrap_or(i64::MAX),
        ),
        delivery: None,
    }
}

fn back(peer: &Peer, session: u64, held: Vec<Held>) -> Wish {
    Wish {
        resumable: true,
        resume: Some(Manifest {
            token: peer.accepted.token.clone().expect("a token"),
            held,
        }),
        ..Wish::new(session, "billing")
    }
}

fn answers(peer: &Peer) -> Vec<(i64, i64, ResumeResult, u64)> {
    let plain = |one: &Resumed| (one.first, one.last, one.result, one.lane);
    peer.accepted.resumed.iter().map(plain).collect()
}

#[tokio::test(start_paused = true)]
async fn l10_what_a_subscriber_names_is_kept_over_a_broken_stream() {
    let broker = Memory::default();
    let handle = start(&broker, Order::None);
    let (mut peer, lane) = working(&broker, &handle, 10).await;
    peer.settle(lane, 0, 1, Verdict::Acked).await;
    let mut other = Peer::attach(&handle, 7, 100).await;
    breaks(&peer).await;
    assert!(other.is_quiet(Duration::from_secs(20)).await, "L10");
    let wish = back(&peer, 2, vec![held(0, 3), held(6, 6), held(40, 50)]);
    let mut again = Peer::open(&handle, wish).await.expect("it is back");
    assert_eq!(
        answers(&again),
        [
            (0, 1, Settled, 0),
            (2, 3, Kept, lane),
            (6, 6, Kept, lane),
            (40, 50, Lost, 0)
        ]
    );
    assert_eq!(again.accepted.subscriber, peer.accepted.subscriber);
    let elsewhere = other.records(5).await;
    assert_eq!(offsets(&elsewhere), [4, 5, 7, 8, 9], "L6: not named, lost");
    assert!(elsewhere.iter().all(|got| got.delivery == 2));
    assert!(again.settle(lane, 2, 3, Verdict::Acked).await.is_empty());
    assert!(again.settle(lane, 6, 6, Verdict::Acked).await.is_empty());
    assert!(other.settle(lane, 4, 9, Verdict::Acked).await.len() <= 1);
    eventually(&broker, "the end", |state| {
        state.committed.get(&0) == Some(&10)
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn credit_counts_what_was_kept() {
    let broker = Memory::default();
    let handle = start(&broker, Order::None);
    let (peer, lane) = working(&broker, &handle, 10).await;
    broker.append(0, 10..30);
    breaks(&peer).await;
    let wish = Wish {
        records: 10,
        ..back(&peer, 2, vec![held(0, 7)])
    };
    let mut again = Peer::open(&handle, wish).await.expect("it is back");
    assert_eq!(again.records(2).await.len(), 2, "L8: eight are kept");
    assert!(again.is_quiet(Duration::from_secs(5)).await, "L8");
    again.settle(lane, 0, 7, Verdict::Acked).await;
    assert_eq!(again.records(8).await.len(), 8);
}

#[tokio::test(start_paused = true)]
async fn what_waits_longer_than_the_grace_is_lost_and_the_token_worth_nothing() {
    let broker = Memory::default();
    let handle = start(&broker, Order::None);
    let (peer, lane) = working(&broker, &handle, 4).await;
    let mut other = Peer::attach(&handle, 7, 100).await;
    // Deadlines (30 s) go on: extended, so that only the grace can end.
    let all = held(0, 3).range.expect("a run");
    peer.tell(Input::Extend {
        session: peer.session,
        sequence: 1,
        targets: vec![(lane, all)],
        refused: Vec::new(),
        by: Duration::from_secs(300),
        confirm: false,
        ticket: None,
    })
    .await;
    breaks(&peer).await;
    assert!(other.is_quiet(Duration::from_secs(29)).await);
    assert_eq!(other.records(4).await.len(), 4);
    let wish = back(&peer, 2, vec![held(0, 3)]);
    let again = Peer::open(&handle, wish).await.expect("as somebody new");
    assert_eq!(answers(&again), [(0, 3, Lost, 0)]);
}

#[tokio::test(start_paused = true)]
async fn log_says_that_what_is_out_comes_again_only_where_something_is() {
    let (log, _until_the_end) = Log::begin();
    // The deadline is 30 s, and so is the grace.
    for (extended, told) in [(false, false), (true, true)] {
        let broker = Memory::default();
        let handle = start(&broker, Order::None);
        let (peer, lane) = working(&broker, &handle, 1).await;
        if extended {
            peer.tell(Input::Extend {
                session: peer.session,
                sequence: 1,
                targets: vec![(lane, OffsetRange::one(Offset::new(0)))],
                refused: Vec::new(),
                by: Duration::from_secs(300),
                confirm: false,
                ticket: None,
            })
            .await;
        }
        tokio::time::sleep(Duration::from_secs(15)).await;
        breaks(&peer).await;
        tokio::time::sleep(Duration::from_secs(35)).await;
        let text = log.text();
        assert!(text.contains("subscriber lost"), "{text}");
        let says = text.contains("what is out is delivered again");
        assert_eq!(says, told, "{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn stream_that_did_not_ask_for_it_is_lost_at_once() {
    let broker = Memory::default();
    broker.append(0, 0..4);
    let handle = start(&broker, Order::None);
    let mut peer = Peer::open(&handle, Wish::new(1, "billing"))
        .await
        .expect("it may attach");
    assert_eq!(peer.accepted.token, None);
    peer.records(4).await;
    let mut other = Peer::attach(&handle, 7, 100).await;
    breaks(&peer).await;
    let begun = Instant::now();
    assert_eq!(other.records(4).await.len(), 4);
    assert!(begun.elapsed() < Duration::from_secs(1));
}

#[tokio::test(start_paused = true)]
async fn name_without_the_token_keeps_nothing() {
    let broker = Memory::default();
    let handle = start(&broker, Order::None);
    let (peer, _) = working(&broker, &handle, 4).await;
    breaks(&peer).await;
    let mut wish = back(&peer, 2, vec![held(0, 3)]);
    if let Some(manifest) = &mut wish.resume {
        manifest.token = "0123456789abcdef0123456789abcdef".to_owned();
    }
    let mut again = Peer::open(&handle, wish).await.expect("it goes on as new");
    assert_eq!(answers(&again), [(0, 3, Lost, 0)]);
    let got = again.records(4).await;
    assert!(got.iter().all(|got| got.delivery == 2), "{got:?}");
    assert_ne!(again.accepted.token, peer.accepted.token);
}

#[tokio::test(start_paused = true)]
async fn token_takes_the_place_of_a_stream_that_the_gateway_takes_for_live() {
    let broker = Memory::default();
    let handle = start(&broker, Order::None);
    let (mut peer, lane) = working(&broker, &handle, 4).await;
    let wish = back(&peer, 2, vec![held(1, 2)]);
    let mut again = Peer::open(&handle, wish).await.expect("it takes over");
    assert_eq!(peer.cut.try_recv(), Ok(End::Superseded));
    assert_eq!(answers(&again), [(1, 2, Kept, lane)]);
    assert_eq!(offsets(&again.records(2).await), [0, 3]);
    assert!(again.settle(lane, 0, 3, Verdict::Acked).await.is_empty());
    // It may break and come back as often as it likes, also if it never heard of
    // having come back.
    breaks(&again).await;
}

#[tokio::test(start_paused = true)]
async fn verdict_of_the_older_stream_counts_for_the_kept_delivery_only() {
    let broker = Memory::default();
    let handle = start(&broker, Order::None);
    let (peer, lane) = working(&broker, &handle, 2).await;
    breaks(&peer).await;
    let wish = back(&peer, 2, vec![held(0, 0)]);
    let mut again = Peer::open(&handle, wish).await.expect("it is back");
    let got = again.records(1).await;
    assert_eq!((got[0].offset, got[0].delivery), (1, 2));
    again.sequence += 1;
    let verdict = |offset, delivery| LaneVerdict {
        lane,
        target: Target {
            range: OffsetRange::one(Offset::new(offset)),
            delivery: Some(delivery),
        },
        verdict: Verdict::Acked,
        code: String::new(),
        reason: String::new(),
    };
    again
        .tell(Input::Settle {
            session: again.session,
            sequence: again.sequence,
            verdicts: vec![verdict(0, 1), verdict(1, 1)],
            refused: Vec::new(),
            confirm: Confirm::Applied,
            ticket: None,
        })
        .await;
    let Outbound::Settled { answers, .. } = again.next().await else {
        panic!("an answer is due")
    };
    let results: Vec<_> = answers.iter().map(|one| (one.first, one.result)).collect();
    assert_eq!(results, [(1, Ok(VerdictResult::Stale))], "L4");
}

#[tokio::test(start_paused = true)]
async fn answers_that_would_not_fit_are_not_given_and_their_runs_are_lost() {
    let broker = Memory::default();
    let handle = start(&broker, Order::None);
    let (mut peer, lane) = working(&broker, &handle, 90).await;
    // Every other one is decided: the answer to one run would have 90 parts.
    for offset in (0..90).step_by(2) {
        peer.settle(lane, offset, offset, Verdict::Rejected).await;
    }
    breaks(&peer).await;
    let wish = Wish {
        max_message_bytes: 4096,
        ..back(&peer, 2, vec![held(80, 89), held(0, 79)])
    };
    let mut again = Peer::open(&handle, wish).await.expect("it is back");
    let bytes = again.accepted.resumed.len() * (48 + "orders".len());
    assert!(bytes <= 2048, "{bytes}");
    assert_eq!(again.records(1).await[0].delivery, 2);
}

#[tokio::test(start_paused = true)]
async fn nobody_is_remembered_who_has_nothing_out() {
    let broker = Memory::default();
    let handle = start(&broker, Order::None);
    let (mut peer, lane) = working(&broker, &handle, 1).await;
    peer.settle(lane, 0, 0, Verdict::Acked).await;
    breaks(&peer).await;
    let wish = back(&peer, 2, vec![held(0, 0)]);
    let again = Peer::open(&handle, wish).await.expect("as somebody new");
    assert_eq!(answers(&again), [(0, 0, Lost, 0)]);
    assert_ne!(again.accepted.subscriber, peer.accepted.subscriber);
}

#[tokio::test(start_paused = true)]
async fn stop_does_not_wait_for_those_that_are_away() {
    let broker = Memory::default();
    let mut handle = start(&broker, Order::None);
    let (peer, _) = working(&broker, &handle, 4).await;
    breaks(&peer).await;
    let begun = Instant::now();
    peer.tell(Input::Stop(Duration::from_secs(20))).await;
    tokio::time::timeout(LONG, handle.stopped())
        .await
        .expect("stopped in time");
    assert!(begun.elapsed() < Duration::from_secs(5));
    let passed = |state: &mut BrokerState| state.commits.iter().any(|(_, to)| *to > 0);
    assert!(!broker.with(passed), "L6");
}

#[tokio::test(start_paused = true)]
async fn lane_that_moved_meanwhile_has_nothing_to_keep() {
    let broker = Memory::default();
    let handle = start(&broker, Order::None);
    let (peer, lane) = working(&broker, &handle, 4).await;
    breaks(&peer).await;
    broker.rebalance(false);
    tokio::time::sleep(Duration::from_secs(8)).await;
    let wish = back(&peer, 2, vec![held(0, 3)]);
    let mut again = Peer::open(&handle, wish).await.expect("it is back");
    assert_eq!(answers(&again), [(0, 3, Lost, 0)]);
    let got = again.records(4).await;
    assert_ne!(got[0].lane, lane);
}
