//! What a driver counts, and how far it says that its lanes are behind.

use ackgate_lane::{Cause, Generation, Position};

use super::*;
use crate::broker::{Event, Head};

async fn measured(handle: &Handle) -> Measured {
    handle.measure().await.expect("a running driver")
}

/// The log of partition 0 ends there, and may be read up to there.
fn head(broker: &Memory, end: u64, readable: u64) {
    let of = |generation: Generation, _| {
        Event::Heads(vec![Head {
            generation,
            end: Position::new(end),
            readable: Position::new(readable),
        }])
    };
    broker.tell(0, of);
}

/// Waits until the only lane is as it should be.
async fn lane_becomes(handle: &Handle, holds: impl Fn(&MeasuredLane) -> bool) -> MeasuredLane {
    let end = Instant::now() + LONG;
    loop {
        let lanes = measured(handle).await.lanes;
        if let Some(lane) = lanes.first().filter(|lane| holds(lane)) {
            return lane.clone();
        }
        assert!(Instant::now() < end, "not in time: {lanes:?}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

fn letters(meter: &Meter, cause: Cause, outcome: LetterOutcome) -> u64 {
    let mut of = meter
        .letters()
        .filter(|it| (it.0, it.1) == (cause, outcome));
    of.next().map_or(0, |it| it.2)
}

#[tokio::test(start_paused = true)]
async fn every_record_is_counted_on_its_way_and_at_its_end() {
    let broker = Memory::default();
    broker.append_sized(0, 0..6, 100);
    broker.with(|state| state.letters_fail = true);
    let handle = start(&broker, Order::None);
    let mut peer = Peer::attach(&handle, 1, 100).await;
    let lane = peer.records(6).await[0].lane;
    tokio::time::sleep(Duration::from_millis(40)).await;
    peer.settle(lane, 0, 2, Verdict::Acked).await;
    peer.settle(lane, 3, 3, Verdict::Failed { retry_after: None })
        .await;
    peer.settle(lane, 0, 0, Verdict::Acked).await;
    peer.settle(lane + 99, 0, 0, Verdict::Acked).await;
    let again = peer.records(1).await;
    assert_eq!((again[0].offset, again[0].delivery), (3, 2));
    peer.settle(lane, 3, 3, Verdict::Acked).await;
    peer.settle(lane, 4, 4, Verdict::Rejected).await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    broker.with(|state| state.letters_fail = false);
    // The last one expires, comes again, and is acked.
    let last = peer.records(1).await;
    assert_eq!((last[0].offset, last[0].delivery), (5, 2));
    peer.settle(lane, 5, 5, Verdict::Acked).await;
    eventually(&broker, "the end", |state| {
        state.committed.get(&0) == Some(&6)
    })
    .await;
    lane_becomes(&handle, |lane| lane.committed == Some(6)).await;
    let measured = measured(&handle).await;
    let meter = &measured.meter;
    assert_eq!(meter.fetched.records, 6);
    assert!(meter.fetched.bytes > 600, "{:?}", meter.fetched);
    assert_eq!(meter.delivered.records, 8);
    assert_eq!(meter.redelivered, 2);
    assert_eq!(meter.attempts.counts[..3], [6, 2, 0]);
    let answered = &meter.answered;
    assert_eq!(
        (answered.acked, answered.rejected, answered.failed),
        (5, 1, 1)
    );
    assert_eq!(answered.times.count(), 7);
    assert!(
        answered.times.total >= Duration::from_millis(3 * 40 + 40),
        "{answered:?}"
    );
    assert_eq!(meter.problems.of(Problem::Duplicate), 1);
    assert_eq!(meter.problems.of(Problem::Unknown), 1);
    assert_eq!(meter.ended.of(Ended::Verdict), 7);
    assert_eq!(meter.ended.of(Ended::Expired), 1);
    assert_eq!(letters(meter, Cause::Rejected, LetterOutcome::Stored), 1);
    assert!(letters(meter, Cause::Rejected, LetterOutcome::Failed) >= 1);
    assert_eq!(letters(meter, Cause::Content, LetterOutcome::Stored), 0);
    assert!(meter.commits.of(CommitResult::Done) >= 1);
    assert_eq!(
        meter.commit_times.count(),
        meter.commits.of(CommitResult::Done)
    );
    assert!(meter.commit_batches >= 1);
    assert_eq!(meter.rebalances.of(Rebalance::Assigned), 1);
    assert_eq!((measured.taking, measured.paused), (1, 0));
    assert_eq!((measured.credit.records, measured.out.records), (100, 0));
}

#[tokio::test(start_paused = true)]
async fn commits_that_fail_and_positions_that_move_are_told_apart() {
    let broker = Memory::default();
    broker.append(0, 0..4);
    let handle = start(&broker, Order::None);
    let mut peer = Peer::attach(&handle, 1, 100).await;
    let lane = peer.records(4).await[0].lane;
    peer.settle(lane, 0, 1, Verdict::Acked).await;
    lane_becomes(&handle, |lane| lane.committed == Some(2)).await;
    broker.with(|state| state.commits_fail = true);
    peer.settle(lane, 2, 3, Verdict::Acked).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    broker.with(|state| state.commits_fail = false);
    lane_becomes(&handle, |lane| lane.committed == Some(4)).await;
    let meter = measured(&handle).await.meter;
    assert_eq!(meter.commits.of(CommitResult::Done), 2);
    assert!(meter.commits.of(CommitResult::Failed) >= 1, "{meter:?}");
    assert_eq!(meter.committed_offsets, 4, "from where reading began");
}

// FC-06: markers at the end of a log are no lag, once it has been read to its end.
#[tokio::test(start_paused = true)]
async fn lag_is_exact_at_the_end_an_upper_bound_before_and_never_negative() {
    let broker = Memory::default();
    broker.append(0, 0..10);
    let handle = start(&broker, Order::None);
    // It takes two records, so the others are fetched and wait.
    let mut peer = Peer::attach(&handle, 1, 2).await;
    let lane = peer.records(2).await[0].lane;
    head(&broker, 14, 12);
    let behind = lane_becomes(&handle, |lane| lane.head == Some(14)).await;
    assert_eq!(behind.unsettled, 10);
    assert_eq!(behind.lag_records, 12, "two more may be records");
    assert!(behind.lag > Duration::from_secs(1), "by their timestamp");
    peer.settle(lane, 0, 1, Verdict::Acked).await;
    for offset in (2..10).step_by(2) {
        peer.records(2).await;
        peer.settle(lane, offset, offset + 1, Verdict::Acked).await;
    }
    let left = lane_becomes(&handle, |lane| lane.unsettled == 0).await;
    assert_eq!(left.lag_records, 2);
    tokio::time::sleep(Duration::from_secs(3)).await;
    let left = lane_becomes(&handle, |_| true).await;
    assert!(left.lag >= Duration::from_secs(3), "since it was heard of");
    // What was left were markers.
    broker.with(|state| state.ends.insert(0, 12));
    let done = lane_becomes(&handle, |lane| lane.lag_records == 0).await;
    assert_eq!((done.lag, done.stood), (Duration::ZERO, Duration::ZERO));
    assert_eq!(done.floor, Some(12));
    head(&broker, 11, 11);
    let done = lane_becomes(&handle, |lane| lane.head == Some(12)).await;
    assert_eq!(
        done.floor, done.head,
        "an old end is not below what was read"
    );
    assert_eq!(done.lag_records, 0, "and no lag below zero");
}

#[tokio::test(start_paused = true)]
async fn floor_stands_since_it_last_moved_and_a_way_back_counts_nothing_twice() {
    let broker = Memory::default();
    broker.append(0, 0..6);
    let handle = start(&broker, Order::Lane { skip_acked: false });
    let mut peer = Peer::attach(&handle, 1, 100).await;
    let lane = peer.records(6).await[0].lane;
    tokio::time::sleep(Duration::from_secs(4)).await;
    let stood = lane_becomes(&handle, |_| true).await;
    assert!(stood.stood >= Duration::from_secs(4), "{stood:?}");
    peer.settle(lane, 0, 0, Verdict::Acked).await;
    let moved = lane_becomes(&handle, |lane| lane.floor == Some(1)).await;
    assert!(moved.stood < Duration::from_secs(1), "{moved:?}");
    let long = Some(Duration::from_secs(20));
    peer.settle(lane, 1, 1, Verdict::Failed { retry_after: long })
        .await;
    head(&broker, 6, 6);
    let back = lane_becomes(&handle, |lane| lane.head == Some(6)).await;
    assert_eq!(back.lag_records, 5, "{back:?}");
    peer.records(5).await;
    let again = lane_becomes(&handle, |lane| lane.out == 5).await;
    assert_eq!(again.lag_records, 5, "{again:?}");
    assert!(
        again.lag > Duration::from_secs(60),
        "by the timestamp: {again:?}"
    );
    let meter = measured(&handle).await.meter;
    assert_eq!(meter.seeks.of(SeekReason::Failure), 1);
    assert_eq!(meter.ended.of(Ended::Rewound), 4);
}

#[tokio::test(start_paused = true)]
async fn lane_that_goes_has_no_numbers_and_counts_outlive_the_driver() {
    let broker = Memory::default();
    broker.append(0, 0..3);
    let mut handle = start(&broker, Order::None);
    let mut peer = Peer::attach(&handle, 1, 100).await;
    let lane = peer.records(3).await[0].lane;
    peer.settle(lane, 0, 2, Verdict::Acked).await;
    assert_eq!(measured(&handle).await.lanes.len(), 1);
    peer.leave(Departure::Closed).await;
    tokio::time::timeout(LONG * 2, handle.away())
        .await
        .expect("it leaves its group");
    assert!(measured(&handle).await.lanes.is_empty());
    assert!(handle.last().is_none());
    handle
        .send(Input::Stop(Duration::ZERO))
        .await
        .expect("a running driver");
    handle.stopped().await;
    assert!(handle.measure().await.is_err());
    let last = handle.last().expect("its last counts");
    assert_eq!(last.answered.acked, 3);
    assert_eq!(last.rebalances.of(Rebalance::Assigned), 1);
}

#[tokio::test(start_paused = true)]
async fn lane_that_stands_says_why_and_what_was_given_up_without_a_copy_is_counted() {
    let broker = Memory::default();
    broker.append(0, 0..3);
    broker.with(|state| state.letters_fail = true);
    let handle = start(&broker, Order::None);
    let mut peer = Peer::attach(&handle, 1, 100).await;
    let lane = peer.records(3).await[0].lane;
    peer.settle(lane, 0, 0, Verdict::Rejected).await;
    let held = lane_becomes(&handle, |lane| lane.held.is_some()).await;
    assert_eq!(held.held, Some(HeldBy::DeadLetter));
    broker.with(|state| state.letters_fail = false);
    lane_becomes(&handle, |lane| lane.held.is_none()).await;

    let dropping = Memory::default();
    dropping.append(0, 0..1);
    let mut subscription = configured(Order::None);
    subscription.policy.on_reject = OnReject::Drop;
    let handle = start_with(&dropping, subscription);
    let mut peer = Peer::attach(&handle, 1, 100).await;
    let lane = peer.records(1).await[0].lane;
    peer.settle(lane, 0, 0, Verdict::Rejected).await;
    let meter = measured(&handle).await.meter;
    assert_eq!(letters(&meter, Cause::Rejected, LetterOutcome::Dropped), 1);
}
