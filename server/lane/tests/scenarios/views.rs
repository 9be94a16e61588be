//! What an operator sees.

use ackgate_lane::{Hold, Offset};

use crate::support::{A, Bench, at, failed_for, policy};

#[test]
fn a_snapshot_counts_what_is_out_delayed_and_unsettled() {
    let mut bench = Bench::starting(policy(), Some(3), true);
    bench
        .fetched(3, 12)
        .deliver(A, 3, 7)
        .ack(A, 3, 4)
        .applied(A, 5, 5, failed_for(5000));
    let snapshot = bench.lane.snapshot();
    assert_eq!(snapshot.floor.map(|position| position.get()), Some(5));
    assert_eq!(snapshot.committed.map(|position| position.get()), Some(3));
    assert_eq!(snapshot.next.map(|position| position.get()), Some(13));
    assert_eq!(
        (snapshot.unsettled, snapshot.in_flight, snapshot.delayed),
        (8, 2, 1)
    );
    assert_eq!(snapshot.hold, None);
}

#[test]
fn a_lane_that_only_waits_for_a_retry_says_so_with_its_end() {
    let mut bench = Bench::new(policy());
    bench
        .fetched(0, 0)
        .deliver(A, 0, 0)
        .applied(A, 0, 0, failed_for(10_000));
    let hold = Hold::Backoff {
        offset: Offset::new(0),
        until: at(10_000),
    };
    assert_eq!(bench.lane.snapshot().hold, Some(hold));
    bench.fetched(1, 1);
    assert_eq!(bench.lane.snapshot().hold, None);
}
