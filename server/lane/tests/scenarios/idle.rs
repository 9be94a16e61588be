//! A lane that nobody serves.

use ackgate_lane::{Policy, Window};

use crate::support::{A, Bench, policy};

#[test]
fn l13_with_no_subscriber_nothing_spins_and_fetching_ends_at_the_window() {
    let mut bench = Bench::new(Policy {
        window: Window {
            records: 10,
            span: 100,
        },
        ..policy()
    });
    assert_eq!(bench.lane.room(), 10);
    bench.fetched(0, 9);
    assert_eq!((bench.lane.room(), bench.lane.poll_timeout()), (0, None));
    bench.until(1_000_000);
    assert_eq!(bench.effects(), []);
}

#[test]
fn l13_after_the_last_subscriber_has_gone_nothing_spins() {
    let mut bench = Bench::new(policy());
    bench.fetched(0, 9).deliver(A, 0, 9).lost(A).quiet();
    assert_eq!(bench.lane.poll_timeout(), None);
    assert_eq!(bench.until(1_000_000).effects(), []);
}

#[test]
fn room_is_what_the_window_leaves_in_records_and_in_span() {
    let mut bench = Bench::new(Policy {
        window: Window {
            records: 10,
            span: 12,
        },
        ..policy()
    });
    bench.fetched(0, 5).deliver(A, 0, 5);
    assert_eq!(bench.lane.room(), 4);
    bench.ack(A, 1, 5);
    assert_eq!(bench.lane.room(), 6, "the span from the floor ends at 12");
    bench.fetched(9, 9);
    assert_eq!(bench.lane.room(), 2);
    bench.ack(A, 0, 0);
    assert_eq!((bench.floor(), bench.lane.room()), (9, 9));
}
