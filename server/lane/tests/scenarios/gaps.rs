//! Offsets that the log does not have, and records passed in twice.

use ackgate_lane::{Effect, VerdictResult::Applied};

use crate::support::{A, Bench, policy, range, settled};

#[test]
fn l7_holes_left_by_compaction_need_no_verdict() {
    let mut bench = Bench::new(policy());
    bench
        .fetched(0, 0)
        .fetched(3, 4)
        .fetched(9, 9)
        .deliver(A, 0, 9);
    let answers = bench.verdict(A, (0, 9), None, ackgate_lane::Verdict::Acked);
    assert_eq!(answers, [(0, 9, Applied)]);
    assert_eq!(bench.commits_until(2000), [10]);
    let snapshot = bench.lane.snapshot();
    assert_eq!((snapshot.unsettled, snapshot.hold), (0, None));
}

#[test]
fn a_ready_run_never_spans_a_gap() {
    let mut bench = Bench::new(policy());
    bench.fetched(0, 0).fetched(3, 4);
    assert_eq!(bench.ready_range(), Some((0, 0)));
    bench.deliver(A, 0, 0);
    assert_eq!(bench.ready_range(), Some((3, 4)));
}

#[test]
fn the_floor_passes_a_gap_at_once() {
    let mut bench = Bench::new(policy());
    bench
        .fetched(0, 0)
        .fetched(7, 7)
        .deliver(A, 0, 0)
        .ack(A, 0, 0);
    assert_eq!(bench.commits_until(1000), [7]);
}

#[test]
fn reading_may_begin_anywhere() {
    let mut bench = Bench::starting(policy(), None, false);
    assert_eq!(bench.lane.floor(), None);
    assert_eq!(bench.lane.room(), 2000);
    bench.fetched(1_000_000, 1_000_009);
    assert_eq!(bench.floor(), 1_000_000);
    bench
        .deliver(A, 1_000_000, 1_000_009)
        .ack(A, 1_000_000, 1_000_009);
    assert_eq!(bench.commits_until(1000), [1_000_010]);
}

#[test]
fn records_passed_in_twice_change_nothing() {
    let mut bench = Bench::new(policy());
    bench
        .fetched(0, 9)
        .deliver(A, 0, 7)
        .ack(A, 0, 1)
        .ack(A, 4, 5);
    let before = bench.quiet().lane.snapshot();
    bench.fetched(0, 9);
    assert_eq!(bench.lane.snapshot(), before);
    assert_eq!(
        bench.effects(),
        [
            Effect::Skipped { range: range(0, 1) },
            Effect::Skipped { range: range(4, 5) }
        ]
    );
    bench.fetched(8, 12);
    assert_eq!(bench.ready_range(), Some((8, 12)));
    bench
        .deliver(A, 8, 12)
        .ack(A, 8, 12)
        .ack(A, 2, 3)
        .quiet()
        .ack(A, 6, 7);
    assert_eq!(bench.effects()[1..], [settled(6, 7)]);
    assert_eq!(bench.floor(), 13);
}
