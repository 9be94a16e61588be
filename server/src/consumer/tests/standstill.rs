//! Dead letters that cannot be written, and breakers.

use ackgate_lane::{Breaker, OnUnwritten, Ratio, Sharing};

use super::*;

fn unwritten(on_unwritten: OnUnwritten) -> Subscription {
    let mut subscription = configured(Order::None);
    subscription.policy.on_unwritten = on_unwritten;
    subscription
}

fn with_breaker(run: Option<u32>, ratio: Option<Ratio>) -> Subscription {
    let mut subscription = configured(Order::None);
    subscription.policy.breaker = Breaker { run, ratio };
    subscription
}

/// News of lanes until one of `kind`; records are passed over.
async fn news(peer: &mut Peer, kind: NoticeKind) -> LaneNotice {
    loop {
        if let Some(at) = peer.news.iter().position(|news| news.kind == kind) {
            return peer.news.remove(at);
        }
        let next = tokio::time::timeout(LONG, peer.inbox.recv()).await;
        if let Outbound::Lane(news) = next.expect("news in time").expect("an open outbox") {
            peer.news.push(news);
        }
    }
}

async fn lane(handle: &Handle, partition: i32) -> ShownLane {
    let shown = handle.show().await.expect("it runs");
    let mut lanes = shown.lanes.into_iter();
    let lane = lanes.find(|lane| lane.label.partition == partition);
    lane.expect("an assigned lane")
}

async fn shows(handle: &Handle, what: &str, holds: impl Fn(&ShownLane) -> bool) {
    let end = Instant::now() + LONG;
    loop {
        let lane = lane(handle, 0).await;
        if holds(&lane) {
            return;
        }
        assert!(Instant::now() < end, "not in time: {what}: {lane:?}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// FC-45.
#[tokio::test(start_paused = true)]
async fn blocked_lane_waits_while_others_flow_and_goes_on_by_itself() {
    let broker = Memory::default();
    broker.append(0, 0..50);
    broker.append(1, 0..50);
    broker.with(|state| state.letters_fail_of = Some(0));
    let handle = start(&broker, Order::None);
    let mut peer = Peer::attach(&handle, 1, 10).await;
    let mut blocked = None;
    let mut flowed = 0;
    while flowed < 50 {
        for got in peer.batch().await {
            let of = lane(&handle, 0).await.label.lane;
            if got.lane != of {
                flowed += 1;
                peer.say(got, Verdict::Acked).await;
            } else if blocked.is_none() {
                blocked = Some(got);
                peer.say(got, Verdict::Rejected).await;
            } else {
                peer.say(got, Verdict::Acked).await;
            }
        }
    }
    let refused = blocked.expect("one was rejected").offset;
    let held = news(&mut peer, NoticeKind::Held).await;
    assert_eq!(held.lane.partition, 0);
    assert_eq!(held.detail, "dead letter not written: as told");
    assert_eq!(held.range.map(|range| range.first().get()), Some(refused));
    assert!(peer.is_quiet(Duration::from_secs(20)).await, "it waits");
    let shown = lane(&handle, 0).await;
    let standstill = shown.standstill.expect("it stands still");
    assert_eq!(standstill.why, Why::DeadLetter);
    assert_eq!(shown.lane.dead_lettering, 1);
    assert_eq!(lane(&handle, 1).await.standstill, None);
    assert!(broker.with(|state| state.letters_tried) > 10, "it is tried");
    assert!(broker.with(|state| state.committed.get(&0).copied().unwrap_or(0)) <= refused);
    broker.with(|state| state.letters_fail_of = None);
    news(&mut peer, NoticeKind::Recovered).await;
    while broker.with(|state| state.committed.get(&0) != Some(&50)) {
        let got = peer.batch_within(Duration::from_secs(5)).await;
        peer.ack(&got).await;
    }
    assert_eq!(broker.with(|state| state.letters.len()), 1);
    assert_eq!(lane(&handle, 0).await.standstill, None);
}

#[tokio::test(start_paused = true)]
async fn parked_record_keeps_the_commit_and_the_lane_goes_on() {
    let broker = Memory::default();
    broker.append(0, 0..30);
    broker.with(|state| state.letters_fail = true);
    let handle = start_with(&broker, unwritten(OnUnwritten::Park { tries: 3 }));
    let mut peer = Peer::attach(&handle, 1, 5).await;
    let mut seen = 0;
    while seen < 30 {
        for got in peer.batch().await {
            seen += 1;
            let refused = got.offset == 2;
            let verdict = if refused {
                Verdict::Rejected
            } else {
                Verdict::Acked
            };
            peer.say(got, verdict).await;
        }
    }
    shows(&handle, "the record set aside", |lane| {
        lane.lane.parked == 1 && lane.lane.unsettled == 1 && lane.standstill.is_none()
    })
    .await;
    assert_eq!(handle.counts().parked, 1);
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(
        broker.with(|state| state.committed.get(&0).copied()),
        Some(2),
        "L2"
    );
    assert_eq!(handle.counts().parked, 1, "it is told once");
    broker.with(|state| state.letters_fail = false);
    eventually(&broker, "it is written after all", |state| {
        state.letters.len() == 1 && state.committed.get(&0) == Some(&30)
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn discarded_record_settles_without_a_copy_and_is_counted() {
    let broker = Memory::default();
    broker.append(0, 0..10);
    broker.with(|state| state.letters_fail = true);
    let handle = start_with(&broker, unwritten(OnUnwritten::Discard { tries: 4 }));
    let mut peer = Peer::attach(&handle, 1, 100).await;
    let lane = peer.records(10).await[0].lane;
    peer.settle(lane, 0, 1, Verdict::Rejected).await;
    peer.settle(lane, 2, 9, Verdict::Acked).await;
    eventually(&broker, "all of it is settled", |state| {
        state.committed.get(&0) == Some(&10)
    })
    .await;
    assert_eq!(handle.counts().discarded, 2);
    assert_eq!(
        broker.with(|state| (state.letters_tried, state.letters.len())),
        (8, 0)
    );
}

#[tokio::test(start_paused = true)]
async fn l3_rebalance_while_blocked_is_quick_and_the_record_comes_again() {
    let broker = Memory::default();
    broker.append(0, 0..4);
    broker.with(|state| state.letters_fail = true);
    let handle = start(&broker, Order::None);
    let mut peer = Peer::attach(&handle, 1, 100).await;
    let lane = peer.records(4).await[0].lane;
    peer.settle(lane, 0, 1, Verdict::Acked).await;
    peer.settle(lane, 2, 2, Verdict::Rejected).await;
    peer.settle(lane, 3, 3, Verdict::Acked).await;
    news(&mut peer, NoticeKind::Held).await;
    let before = Instant::now();
    broker.rebalance(false);
    let again = peer.records(1).await;
    assert!(
        before.elapsed() <= Duration::from_secs(6),
        "the drain's time"
    );
    assert_eq!(offsets(&again), [2], "exactly what was not settled");
    assert_eq!(
        broker.with(|state| state.committed.get(&0).copied()),
        Some(2)
    );
    broker.with(|state| state.letters_fail = false);
    peer.settle(again[0].lane, 2, 2, Verdict::Rejected).await;
    eventually(&broker, "the letter", |state| {
        state.letters.len() == 1 && state.committed.get(&0) == Some(&4)
    })
    .await;
}

/// FC-54.
#[tokio::test(start_paused = true)]
async fn breaker_stops_a_lane_whose_records_are_all_rejected_until_it_is_reset() {
    let broker = Memory::default();
    broker.append(0, 0..300);
    broker.append(1, 0..1);
    let handle = start_with(&broker, with_breaker(Some(100), None));
    let mut peer = Peer::attach(&handle, 1, 20).await;
    loop {
        let got = peer.batch_within(Duration::from_secs(2)).await;
        if got.is_empty() {
            break;
        }
        for got in got {
            peer.say(got, Verdict::Rejected).await;
        }
    }
    let held = news(&mut peer, NoticeKind::Held).await;
    assert_eq!(
        held.detail,
        "breaker open: 100 records given up one after another"
    );
    let of = |partition: i32| {
        broker.with(|state| {
            let partition = partition.to_string();
            let is_of = |letter: &&crate::broker::Outgoing| {
                letter.headers.iter().any(|(name, value)| {
                    name == "ackgate.dead-letter.partition"
                        && value.as_deref() == Some(partition.as_bytes())
                })
            };
            state.letters.iter().filter(is_of).count()
        })
    };
    assert_eq!((of(0), of(1)), (100, 1), "the other lane is not concerned");
    let elsewhere = Lanes {
        topic: Some("orders".to_owned()),
        partition: Some(7),
    };
    let nothing = handle.reset_breakers(elsewhere).await.expect("it runs");
    assert_eq!((nothing.meant, nothing.closed.len()), (0, 0));
    let reset = handle.reset_breakers(Lanes::default()).await;
    let reset = reset.expect("it runs");
    assert_eq!((reset.meant, reset.closed.len()), (2, 1));
    let before = &reset.closed[0];
    let told = before.standstill.as_ref().map(|standstill| standstill.why);
    assert_eq!((before.label.partition, told), (0, Some(Why::Breaker)));
    let waited = usize::try_from(before.lane.dead_lettering).expect("few");
    assert!(waited <= 20, "no more than was out");
    news(&mut peer, NoticeKind::Recovered).await;
    let again = handle.reset_breakers(Lanes::default()).await;
    assert_eq!(again.expect("it runs").closed.len(), 0, "it is closed");
    // Both what was given up meanwhile and what comes now.
    while broker.with(|state| state.committed.get(&0) != Some(&300)) {
        let got = peer.batch_within(Duration::from_secs(5)).await;
        peer.ack(&got).await;
    }
    assert_eq!(of(0), 100 + waited);
}

#[tokio::test(start_paused = true)]
async fn breaker_by_ratio_stops_a_broadcast_for_everybody() {
    let broker = Memory::default();
    broker.append(0, 0..100);
    let ratio = Ratio { part: 500, of: 10 };
    let mut subscription = with_breaker(None, Some(ratio));
    subscription.delivery = Delivery::Broadcast(Sharing {
        cut_off_after: None,
        absent_grace: LONG,
    });
    subscription.min_subscribers = 2;
    let handle = start_with(&broker, subscription);
    let mut one = Peer::attach(&handle, 1, 1).await;
    let mut two = Peer::attach(&handle, 2, 1).await;
    loop {
        let got = one.batch_within(Duration::from_secs(2)).await;
        let also = two.batch_within(Duration::from_secs(2)).await;
        assert_eq!(got, also);
        let Some(got) = got.first() else { break };
        // One of them rejects every second record, which is enough.
        let verdict = if got.offset % 2 == 0 {
            Verdict::Acked
        } else {
            Verdict::Rejected
        };
        one.say(*got, verdict).await;
        two.say(*got, Verdict::Acked).await;
    }
    let held = news(&mut two, NoticeKind::Held).await;
    assert_eq!(
        held.detail,
        "breaker open: 5 of the last 10 records given up"
    );
    assert_eq!(broker.with(|state| state.letters.len()), 5);
}

// FC-53: one producer for as long as the driver lives is what `Parts` holds.
#[tokio::test(start_paused = true)]
async fn outage_is_waited_out_within_the_window_and_everything_is_written_once() {
    let broker = Memory::default();
    broker.append_sized(0, 0..1000, 1000);
    broker.with(|state| state.letters_fail = true);
    let handle = start(&broker, Order::None);
    let mut peer = Peer::attach(&handle, 1, 50).await;
    let recovery = Instant::now() + Duration::from_secs(60);
    let mut most = (0, 0);
    while broker.with(|state| state.committed.get(&0) != Some(&1000)) {
        if Instant::now() > recovery {
            broker.with(|state| state.letters_fail = false);
        }
        for got in peer.batch_within(Duration::from_secs(1)).await {
            peer.say(got, Verdict::Rejected).await;
        }
        let lane = lane(&handle, 0).await;
        most = most.max((lane.lane.unsettled, lane.retained));
        assert!(
            Instant::now() < recovery + LONG * 10,
            "not written: {lane:?}"
        );
    }
    assert!(most.0 <= 100 && most.1 <= 1 << 20, "{most:?}");
    let mut letters: Vec<_> = broker.with(|state| {
        let values = state.letters.iter().map(|letter| letter.value.clone());
        values.collect()
    });
    letters.sort();
    letters.dedup();
    assert_eq!(
        (letters.len(), broker.with(|state| state.letters.len())),
        (1000, 1000)
    );
}

/// L3: a letter for which the producer had no room has not been tried.
#[tokio::test(start_paused = true)]
async fn record_whose_letter_waits_for_room_is_not_discarded() {
    let broker = Memory::default();
    broker.append(0, 0..2);
    broker.with(|state| state.letters_full = true);
    let handle = start_with(&broker, unwritten(OnUnwritten::Discard { tries: 1 }));
    let mut peer = Peer::attach(&handle, 1, 5).await;
    let lane = peer.records(2).await[0].lane;
    peer.settle(lane, 0, 1, Verdict::Rejected).await;
    assert!(peer.is_quiet(Duration::from_secs(60)).await);
    assert_eq!(broker.with(|state| state.committed.get(&0).copied()), None);
    broker.with(|state| state.letters_full = false);
    eventually(&broker, "the end", |state| {
        state.committed.get(&0) == Some(&2)
    })
    .await;
    assert_eq!(broker.with(|state| state.letters.len()), 2);
    assert_eq!(handle.counts().discarded, 0);
}
