//! What a commit carries beside its position, and when.

use ackgate_lane::{CommitOutcome, DeadLetterOutcome, Position, SeekOutcome, Verdict};

use super::{tried, writing};
use crate::support::{A, failed_for, in_lane_order, policy, range};

#[test]
fn what_is_settled_above_the_floor_is_committed_at_the_next_tick_at_the_same_position() {
    let mut bench = writing(policy());
    bench
        .fetched(0, 9)
        .deliver(A, 0, 9)
        .ack(A, 2, 3)
        .ack(A, 5, 5);
    assert_eq!(bench.commits_until(999), []);
    assert_eq!(bench.commits_until(1000), [0]);
    let map = bench.map().expect("a map");
    assert_eq!(map.settled, [range(2, 3), range(5, 5)]);
    assert_eq!(
        map.counters,
        [tried(0, 1, 0, 1), tried(4, 4, 0, 1), tried(6, 9, 0, 1)]
    );
    assert_eq!(bench.commits_until(60_000 - 31_000), [], "never unchanged");
}

#[test]
fn a_failure_is_committed_although_nothing_has_settled_and_a_hand_over_alone_is_not() {
    let mut bench = writing(policy());
    bench.fetched(0, 9).deliver(A, 0, 9);
    assert_eq!(bench.commits_until(5000), []);
    bench.applied(A, 4, 4, failed_for(9000));
    assert_eq!(bench.commits_until(6000), [0]);
    let map = bench.map().expect("a map");
    assert!(map.counters.contains(&tried(4, 4, 1, 1)), "{map:?}");
}

/// FC-78: commits are coalesced, maps included.
#[test]
fn at_most_one_commit_an_interval_whatever_settles() {
    let mut bench = writing(policy());
    let mut commits = 0;
    for step in 0..500_u64 {
        let first = step * 20;
        bench
            .fetched(first, first + 19)
            .deliver(A, first, first + 19);
        bench
            .ack(A, first + 10, first + 19)
            .ack(A, first, first + 9);
        commits += bench.commits_until(step * 10).len();
    }
    commits += bench.commits_until(6000).len();
    assert!(commits <= 6, "{commits} commits in 5 s");
    assert_eq!(bench.lane.snapshot().committed, Some(Position::new(10_000)));
}

/// FC-10: the series never goes back, and a late lower answer changes nothing.
#[test]
fn l1_the_committed_series_never_decreases_while_a_dead_letter_is_awaited() {
    let mut bench = writing(policy());
    bench.fetched(5, 7).deliver(A, 5, 7);
    bench.applied(A, 5, 5, Verdict::Rejected).ack(A, 6, 7);
    assert_eq!(bench.commits_until(2000), [5], "for its map alone");
    bench.dead_letter(5, DeadLetterOutcome::Stored);
    assert_eq!(bench.commits_until(4000), [8]);
    bench.committed(5, CommitOutcome::Done);
    assert_eq!(bench.lane.snapshot().committed, Some(Position::new(8)));
}

#[test]
fn in_lane_order_provisional_acks_are_not_in_the_map() {
    let mut bench = writing(in_lane_order());
    bench
        .fetched(0, 9)
        .deliver(A, 0, 9)
        .ack(A, 0, 0)
        .ack(A, 4, 9);
    assert_eq!(bench.commits_until(1000), [1]);
    assert_eq!(bench.map().expect("a map").settled, []);
    bench
        .applied(A, 1, 1, failed_for(100))
        .until(1100)
        .sought(SeekOutcome::Done);
    bench.quiet().fetched(1, 9);
    assert_eq!(
        bench.ready_range(),
        Some((1, 1)),
        "the failed one has other numbers"
    );
}
