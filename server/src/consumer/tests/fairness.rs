//! Lanes and subscribers that must not wait for each other, and the budgets of each.

use ackgate_lane::Sharing;

use super::*;

/// Sets the bytes of a peer's credit apart from its records.
async fn attach(handle: &Handle, number: u64, records: u64, bytes: u64) -> Peer {
    let peer = Peer::attach(handle, number, 0).await;
    peer.grant(records, bytes).await;
    peer
}

/// A record nearly as large as the whole credit waits in one lane, another lane has
/// small ones without end: what each ack frees would go to those.
#[tokio::test(start_paused = true)]
async fn a_record_as_large_as_the_credit_does_not_starve_behind_a_busy_lane() {
    for large in [900, 5000] {
        let broker = Memory::default();
        broker.append_sized(0, 0..500, 80);
        broker.append(1, []);
        let handle = start(&broker, Order::None);
        let mut peer = attach(&handle, 1, 50, 1000).await;
        let mut open = peer.batch().await;
        broker.append_sized(1, 0..1, large);
        let mut answered = 0;
        let busy = open[0].lane;
        while open.iter().all(|got| got.lane == busy) {
            assert!(
                answered < 100,
                "{large}: starved behind {answered} small ones"
            );
            let got = open.remove(0);
            peer.ack(&[got]).await;
            answered += 1;
            open.extend(peer.batch_within(Duration::from_millis(10)).await);
        }
        peer.ack(&open).await;
        let more = peer.batch().await;
        assert!(
            more.iter().all(|got| got.lane == busy),
            "the busy lane goes on"
        );
    }
}

/// Making room has an end: a subscriber that answers nothing is not kept from the
/// other lanes for ever.
#[tokio::test(start_paused = true)]
async fn a_subscriber_makes_room_for_a_large_record_for_a_bounded_time() {
    let broker = Memory::default();
    broker.append_sized(0, 0..3, 80);
    broker.append(1, []);
    let handle = start(&broker, Order::None);
    let mut peer = attach(&handle, 1, 50, 1000).await;
    let open = peer.records(3).await;
    broker.append_sized(1, 0..1, 2000);
    assert!(peer.is_quiet(Duration::from_secs(1)).await);
    assert!(handle.show().await.expect("it runs").subscribers[0].reserved);
    // It works on, so that nothing expires.
    let range = OffsetRange::inclusive(Offset::new(0), Offset::new(2)).expect("a run");
    let (session, lane) = (peer.session, open[0].lane);
    peer.tell(Input::Extend {
        session,
        sequence: 9,
        targets: vec![(lane, range)],
        refused: Vec::new(),
        by: Duration::from_secs(600),
        confirm: false,
        ticket: None,
    })
    .await;
    broker.append_sized(0, 3..4, 80);
    let got = peer.batch_within(Duration::from_secs(35)).await;
    assert_eq!(
        offsets(&got),
        [3],
        "small ones go on at the latest after a deadline"
    );
    peer.ack(&got).await;
    peer.ack(&open).await;
    assert_ne!(
        peer.records(1).await[0].lane,
        lane,
        "and the large one is not lost"
    );
}

/// One that works on for long cannot make room: another one has to.
#[tokio::test(start_paused = true)]
async fn another_subscriber_makes_room_where_one_does_not() {
    let broker = Memory::default();
    broker.append_sized(0, 0..3, 80);
    broker.append(1, []);
    let handle = start(&broker, Order::None);
    let mut busy = attach(&handle, 1, 3, 1000).await;
    let held = busy.records(3).await;
    let mut other = attach(&handle, 2, 50, 1000).await;
    broker.append_sized(0, 3..6, 80);
    let mut open = other.records(3).await;
    busy.grant(50, 1000).await;
    broker.append_sized(1, 0..1, 900);
    tokio::time::sleep(Duration::from_millis(50)).await;
    broker.append_sized(0, 6..400, 80);
    let lane = held[0].lane;
    let begun = Instant::now();
    while open.iter().all(|got| got.lane == lane) {
        assert!(begun.elapsed() < 3 * LONG, "starved");
        let range = OffsetRange::inclusive(
            Offset::new(held[0].offset),
            Offset::new(held[held.len() - 1].offset),
        );
        busy.tell(Input::Extend {
            session: busy.session,
            sequence: 9,
            targets: vec![(lane, range.expect("a run"))],
            refused: Vec::new(),
            by: Duration::from_secs(600),
            confirm: false,
            ticket: None,
        })
        .await;
        let got = open.remove(0);
        other.ack(&[got]).await;
        let more = other.batch_within(Duration::from_secs(1)).await;
        let is_early = begun.elapsed() < Duration::from_secs(5);
        assert!(!more.is_empty() || !is_early, "one is enough to make room");
        open.extend(more);
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}

/// Where each has its own copy nobody can make room for another one: of two that wait
/// for a large record, each has to.
#[tokio::test(start_paused = true)]
async fn a_subscriber_of_a_broadcast_makes_room_whatever_another_one_does() {
    for is_first in [true, false] {
        let broker = Memory::default();
        broker.append_sized(0, 0..3, 80);
        broker.append(1, []);
        let mut subscription = configured(Order::None);
        subscription.delivery = Delivery::Broadcast(Sharing {
            cut_off_after: None,
            absent_grace: LONG,
        });
        subscription.policy.window.records = 500;
        subscription.min_subscribers = 2;
        let handle = start_with(&broker, subscription);
        let mut two = vec![
            attach(&handle, 1, 50, 1000).await,
            attach(&handle, 2, 50, 1000).await,
        ];
        let mut busy = two.remove(usize::from(is_first));
        let mut open = busy.records(3).await;
        let lane = open[0].lane;
        // The other one has as many, and answers nothing.
        two[0].records(3).await;
        broker.append_sized(1, 0..1, 900);
        tokio::time::sleep(Duration::from_millis(50)).await;
        broker.append_sized(0, 3..400, 80);
        let mut answered = 0;
        while open.iter().all(|got| got.lane == lane) {
            assert!(answered < 100, "starved behind {answered} small ones");
            let got = open.remove(0);
            busy.ack(&[got]).await;
            answered += 1;
            open.extend(busy.batch_within(Duration::from_millis(10)).await);
        }
    }
}

/// With room for one record only, two lanes take turns.
#[tokio::test(start_paused = true)]
async fn lanes_take_turns_at_a_subscriber_with_a_single_place() {
    let broker = Memory::default();
    broker.append(0, 0..20);
    broker.append(1, 0..20);
    let handle = start(&broker, Order::None);
    let mut peer = Peer::attach(&handle, 1, 1).await;
    let mut lanes = Vec::new();
    for _ in 0..10 {
        let got = peer.batch().await;
        lanes.push(got[0].lane);
        // Both lanes have records by now.
        tokio::time::sleep(Duration::from_millis(100)).await;
        peer.ack(&got).await;
    }
    let turns = lanes.windows(2).filter(|two| two[0] != two[1]).count();
    assert!(turns >= 8, "{lanes:?}");
}

#[tokio::test(start_paused = true)]
async fn attempts_are_counted_for_each_record_and_lane_by_itself() {
    // FC-44
    let broker = Memory::default();
    for partition in 0..6 {
        broker.append(partition, 0..3);
    }
    let handle = start(&broker, Order::None);
    let mut peer = Peer::attach(&handle, 1, 100).await;
    let mut failures = 0;
    let mut acked = 0;
    while failures < 18 || acked < 12 {
        for got in peer.batch().await {
            if got.offset == 0 {
                failures += 1;
                let failed = Verdict::Failed { retry_after: None };
                peer.say(got, failed).await;
            } else {
                acked += 1;
                peer.ack(&[got]).await;
            }
        }
    }
    assert!(peer.is_quiet(LONG).await, "a nineteenth delivery");
    assert_eq!(broker.with(|state| state.letters.len()), 6);
    eventually(&broker, "all six lanes at their end", |state| {
        (0..6).all(|partition| state.committed.get(&partition) == Some(&3))
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_retry_in_one_lane_leaves_the_others_alone_and_is_shown() {
    // FC-68
    for order in [
        Order::None,
        Order::Key { share: 250 },
        Order::Lane { skip_acked: false },
    ] {
        let broker = Memory::default();
        broker.append(0, 0..1);
        broker.append(1, []);
        let handle = start(&broker, order);
        let mut peer = Peer::attach(&handle, 1, 1000).await;
        let first = peer.batch().await[0];
        let failing = first.lane;
        let retry_after = Some(Duration::from_secs(10));
        peer.say(first, Verdict::Failed { retry_after }).await;
        let begun = Instant::now();
        broker.append(1, 0..100);
        let mut settled = 0;
        while settled < 100 {
            let got = peer.batch().await;
            settled += got.len();
            peer.ack(&got).await;
        }
        assert!(begun.elapsed() < Duration::from_secs(1), "{order:?}");
        let shown = handle.show().await.expect("it runs");
        let lane = shown
            .lanes
            .iter()
            .find(|lane| lane.label.lane == failing)
            .expect("the lane");
        let Some(ackgate_lane::Hold::Backoff { offset, until }) = lane.lane.hold else {
            panic!("{order:?}: {:?}", lane.lane)
        };
        assert_eq!(offset, Offset::new(0));
        assert!(until.0 >= Duration::from_secs(10), "{until:?}");
        assert_eq!(peer.records(1).await[0].lane, failing);
        assert!(begun.elapsed() >= Duration::from_secs(10), "L10");
    }
}

#[tokio::test(start_paused = true)]
async fn budgets_are_kept_and_what_is_shown_is_true() {
    const LIMIT: u64 = 1 << 20;
    let broker = Memory::default();
    broker.append_sized(0, 0..5000, 1000);
    let handle = start(&broker, Order::None);
    let mut peer = attach(&handle, 1, 1000, 20_000).await;
    let open = peer.records(15).await;
    assert!(peer.is_quiet(Duration::from_secs(1)).await, "L8");
    let shown = handle.show().await.expect("it runs");
    let lane = &shown.lanes[0];
    assert_eq!(lane.limit, LIMIT);
    assert!(lane.retained + lane.granted <= LIMIT, "{lane:?}");
    // 100 records, the window, of a good 1,000 bytes.
    assert!((100_000..150_000).contains(&lane.retained), "{lane:?}");
    assert_eq!(lane.lane.unsettled, 100);
    assert_eq!(shown.gateway_used, lane.retained + lane.granted);
    assert_eq!(shown.gateway_limit, 1 << 30);
    let of = &shown.subscribers[0];
    assert_eq!((of.credit_records, of.credit_bytes), (1000, 20_000));
    assert_eq!(of.out_records, lane.lane.in_flight);
    assert_eq!(of.out_records, open.len() as u64);
    assert!(
        of.out_bytes <= of.credit_bytes && of.out_bytes >= 15_000,
        "{of:?}"
    );
    assert_eq!((of.outbox, of.outbox_limit), (0, OUTBOX));
    peer.leave(Departure::Lost).await;
    let shown = handle.show().await.expect("it runs");
    assert!(shown.subscribers.is_empty());
    assert_eq!(shown.lanes[0].lane.in_flight, 0);
}

/// The gateway's memory is spent: the lane says that it waits for it, and goes on once
/// there is some.
#[tokio::test(start_paused = true)]
async fn a_lane_that_waits_for_memory_says_so() {
    let broker = Memory::default();
    broker.append_sized(0, 0..2000, 10_000);
    let mut subscription = configured(Order::None);
    subscription.policy.window.records = 2000;
    let budget = Budget::new(1 << 20);
    let handle = spawn(Parts {
        subscription: Arc::new(subscription),
        connect: Arc::new(broker.clone()),
        producer: Some(Arc::new(broker.clone())),
        budget: budget.clone(),
        wall: Wall::system(),
        tracer: crate::telemetry::traces::Tracer::off(),
        stalled_after: STALLED_AFTER,
        origin: Instant::now(),
    });
    let mut peer = attach(&handle, 1, 2000, 64 << 20).await;
    let mut open = Vec::new();
    while let got @ [_, ..] = peer.batch_within(Duration::from_secs(2)).await.as_slice() {
        open.extend_from_slice(got);
    }
    let shown = handle.show().await.expect("it runs");
    let lane = &shown.lanes[0];
    assert!(lane.wants_memory && lane.lane.unsettled < 2000, "{lane:?}");
    assert!(shown.gateway_used <= (1 << 20) + 10_100, "{shown:?}");
    assert_eq!(shown.gateway_used, budget.used());
    let mut through = open.len();
    peer.ack(&open).await;
    while through < 2000 {
        let got = peer.batch().await;
        through += got.len();
        peer.ack(&got).await;
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    let shown = handle.show().await.expect("it runs");
    assert!(!shown.lanes[0].wants_memory, "{shown:?}");
}
