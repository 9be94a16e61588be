//! Offsets that the log does not have, and records passed in twice.

use ackgate_lane::{Effect, SeekOutcome, VerdictResult::Applied};

use crate::support::{A, Bench, failed_for, in_lane_order, policy, range, settled};

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

// FC-06.
#[test]
fn l7_the_log_end_moves_the_floor_past_trailing_markers_once_all_is_settled() {
    let mut bench = Bench::new(policy());
    bench.fetched(0, 4).end(6).deliver(A, 0, 4);
    assert_eq!(bench.floor(), 0);
    bench.ack(A, 1, 4);
    assert_eq!(bench.floor(), 0, "0 is not settled");
    bench.ack(A, 0, 0);
    assert_eq!(bench.commits_until(1000), [6]);
    // A later transaction is received in full.
    bench.quiet().fetched(6, 10).end(12);
    assert_eq!(bench.ready_range(), Some((6, 10)));
    bench.deliver(A, 6, 10).ack(A, 6, 10);
    assert_eq!(bench.commits_until(2000), [12]);
}

#[test]
fn the_log_end_alone_is_committed_where_nothing_was_received() {
    let mut bench = Bench::starting(policy(), Some(5), true);
    bench.end(6);
    assert_eq!(bench.commits_until(1000), [6]);
    assert_eq!(bench.end(6).end(3).commits_until(2000), [], "nothing new");
    assert_eq!(bench.floor(), 6);
}

#[test]
fn the_log_end_begins_a_lane_whose_start_is_not_known() {
    let mut bench = Bench::starting(policy(), None, false);
    bench.end(7);
    assert_eq!(bench.floor(), 7);
    assert_eq!(bench.commits_until(1000), [], "nothing has settled");
}

#[test]
fn l7_records_that_a_seek_does_not_find_before_the_log_end_are_lost() {
    let mut bench = Bench::new(in_lane_order());
    bench
        .fetched(0, 2)
        .deliver(A, 0, 2)
        .applied(A, 0, 0, failed_for(0));
    bench.quiet().end(9);
    assert_eq!(
        bench.floor(),
        0,
        "a lane that seeks has not read to the end"
    );
    bench.sought(SeekOutcome::Done).quiet().fetched(1, 1).end(9);
    let effects = bench.effects();
    assert!(effects.contains(&Effect::Lost { range: range(0, 0) }));
    assert!(effects.contains(&Effect::Lost { range: range(2, 2) }));
    assert_eq!(bench.floor(), 1);
    bench.deliver(A, 1, 1).ack(A, 1, 1);
    assert_eq!(bench.floor(), 9);
}

// FC-93.
#[test]
fn l7_what_retention_took_is_reported_exactly_and_committed_past() {
    let mut bench = Bench::starting(policy(), Some(100), true);
    bench.gone(500);
    assert_eq!(
        bench.effects(),
        [Effect::Lost {
            range: range(100, 499)
        }]
    );
    assert_eq!(bench.floor(), 500);
    assert_eq!(bench.commits_until(1000), [500]);
    bench.gone(500).gone(200);
    assert_eq!(bench.effects(), [], "told once");
}

#[test]
fn held_records_outlive_retention_and_hold_the_floor() {
    let mut bench = Bench::new(policy());
    bench.fetched(0, 9).deliver(A, 0, 9).quiet().gone(50);
    assert_eq!(
        bench.effects(),
        [Effect::Lost {
            range: range(10, 49)
        }]
    );
    assert_eq!(bench.floor(), 0);
    bench.fetched(50, 50).ack(A, 0, 9);
    assert_eq!(bench.floor(), 50);
}
