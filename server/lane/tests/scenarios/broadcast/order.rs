//! Lane order in a broadcast: each subscriber's own.

use ackgate_lane::{Cause, Effect, Order, Policy, Return, Verdict};

use super::support::{Bench, letter};
use crate::support::{A, B, failed_for, in_lane_order, policy, range, settled};

#[test]
fn l9_a_failure_voids_only_what_the_same_subscriber_has_above_it() {
    let mut bench = Bench::new(in_lane_order(), &[A, B]);
    bench.fetched(0, 9);
    bench.all_take(&[A, B]);
    bench.ack(A, 0, 9).ack(B, 0, 3);
    bench.effects();
    bench.applied(B, 4, 4, failed_for(1_000));
    let rewound = Effect::Returned {
        subscriber: B,
        range: range(5, 9),
        why: Return::Rewound,
    };
    assert!(bench.effects().contains(&rewound));
    bench.until(999);
    assert_eq!(bench.take(B), []);
    bench.until(1_000);
    assert_eq!(bench.effects(), [], "no broker is asked to seek");
    assert_eq!(bench.take(A), []);
    assert_eq!(bench.take(B), [(4, 4, 2), (5, 9, 2)]);
    bench.ack(B, 4, 9);
    assert_eq!(bench.outcomes(), [settled(4, 9)]);
}

#[test]
fn with_skip_acked_only_the_unsettled_come_again() {
    let policy = Policy {
        order: Order::Lane { skip_acked: true },
        ..policy()
    };
    let mut bench = Bench::new(policy, &[A, B]);
    bench.fetched(0, 9);
    bench.all_take(&[A, B]);
    bench.ack(A, 0, 9).ack(B, 0, 1).ack(B, 5, 6);
    bench.applied(B, 2, 2, failed_for(0)).until(1);
    assert_eq!(bench.take(B), [(2, 2, 2), (3, 4, 2), (7, 9, 2)]);
}

#[test]
fn records_that_go_on_after_a_rewind_are_received_once() {
    let mut bench = Bench::new(in_lane_order(), &[A, B]);
    bench.fetched(0, 4);
    bench.all_take(&[A, B]);
    bench.ack(B, 0, 0);
    bench.applied(B, 1, 1, failed_for(1_000)).fetched(5, 9);
    bench.ack(A, 0, 4);
    assert_eq!(bench.take(A), [(5, 9, 1)]);
    bench.until(1_000);
    assert_eq!(bench.take(B), [(1, 1, 2), (2, 4, 2), (5, 9, 1)]);
}

#[test]
fn l9_what_was_said_above_an_unsettled_record_counts_when_its_subscriber_leaves() {
    let mut bench = Bench::new(in_lane_order(), &[A, B]);
    bench.fetched(0, 2);
    bench.all_take(&[A, B]);
    bench.ack(B, 0, 2);
    bench.applied(A, 2, 2, Verdict::Rejected).closed(A);
    let letters = |effect: &Effect| matches!(effect, Effect::DeadLetter { .. });
    let mut effects = bench.outcomes();
    effects.retain(letters);
    assert_eq!(effects, [letter(2, Cause::Rejected, (1, 1))]);
    assert_eq!(bench.floor(), 2);
}

#[test]
fn l14_an_ack_above_an_unsettled_record_counts_too_when_its_subscriber_leaves() {
    let mut bench = Bench::new(in_lane_order(), &[A]);
    bench.fetched(0, 2).take(A);
    bench.ack(A, 1, 2).joined(B).closed(A);
    assert_eq!(bench.outcomes(), [settled(1, 2)]);
    assert_eq!(bench.take(B), [(0, 0, 1)], "only what nobody has answered");
}

#[test]
fn a_record_that_comes_late_from_below_does_not_lock_a_failing_subscriber() {
    let policy = Policy {
        max_attempts: 2,
        ..in_lane_order()
    };
    let mut bench = Bench::new(policy, &[A]);
    bench.fetched(0, 0).joined(B).fetched(1, 1);
    assert_eq!(bench.take(B), [(1, 1, 1)]);
    bench.applied(B, 1, 1, failed_for(0)).until(1).fetched(2, 2);
    assert_eq!(bench.take(B), [(1, 1, 2), (2, 2, 1)]);
    // 0 had only A, which leaves it to B, below what B has out.
    bench.closed(A);
    bench.applied(B, 1, 1, failed_for(0));
    bench.applied(B, 2, 2, failed_for(0)).until(2);
    assert_eq!(bench.take(B).first(), Some(&(0, 0, 1)), "B goes on");
}
