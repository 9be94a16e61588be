//! A subscriber that goes away without a verdict.

use ackgate_lane::{Cause, Effect, Offset, Policy, Return, VerdictResult};

use crate::support::{A, B, Bench, C, FAILED, policy, returned};

#[test]
fn l6_a_lost_stream_with_open_deliveries_never_advances_the_offset() {
    let mut bench = Bench::new(policy());
    bench
        .fetched(0, 9)
        .deliver(A, 0, 4)
        .dispatch(A, 5, 9)
        .lost(A);
    assert_eq!(bench.effects(), [returned(A, 0, 9, Return::Lost)]);
    assert_eq!(bench.floor(), 0);
    assert_eq!(bench.ready_range(), Some((0, 9)));
    assert_eq!(bench.commits_until(60_000), []);
}

#[test]
fn l6_a_stream_lost_after_it_was_written_to_gives_everything_to_another_subscriber() {
    let mut bench = Bench::new(policy());
    bench.fetched(0, 9).deliver(A, 0, 9).lost(A);
    let ready = bench.ready().expect("ready");
    assert_eq!((ready.attempt, ready.delivery), (1, 2));
    bench.deliver(B, 0, 9).ack(B, 0, 9);
    assert_eq!(bench.floor(), 10);
}

#[test]
fn a_goodbye_without_verdicts_is_a_release() {
    let mut bench = Bench::new(policy());
    bench.fetched(0, 9).deliver(A, 0, 9).ack(A, 3, 3).closed(A);
    assert_eq!(bench.floor(), 0);
    assert_eq!(bench.quiet().ready_range(), Some((0, 2)));
    let ready = bench.ready().expect("ready");
    assert_eq!((ready.attempt, ready.delivery, ready.alone), (1, 2, false));
}

#[test]
fn losing_one_subscriber_leaves_the_others_alone() {
    let mut bench = Bench::new(policy());
    bench
        .fetched(0, 9)
        .deliver(A, 0, 4)
        .deliver(B, 5, 9)
        .lost(A)
        .lost(C);
    assert_eq!(bench.effects(), [returned(A, 0, 4, Return::Lost)]);
    bench.ack(B, 5, 9);
    assert_eq!(bench.ready_range(), Some((0, 4)));
}

/// Five subscribers die on offset 7; with three deliveries allowed it reaches three.
#[test]
fn a_record_that_kills_its_subscribers_is_dead_lettered_after_its_deliveries() {
    let mut bench = Bench::new(Policy {
        max_deliveries: 3,
        ..policy()
    });
    bench.fetched(7, 8);
    for subscriber in [A, B, C] {
        bench.deliver(subscriber, 7, 7).lost(subscriber);
    }
    let effects = bench.effects();
    assert_eq!(
        effects.last(),
        Some(&Effect::DeadLetter {
            offset: Offset::new(7),
            cause: Cause::DeliveriesExhausted,
            attempts: 0,
            deliveries: 3,
        })
    );
    assert_eq!(bench.ready_range(), Some((8, 8)));
}

#[test]
fn from_the_third_lost_delivery_on_a_record_goes_out_alone() {
    let mut bench = Bench::new(policy());
    bench.fetched(0, 2);
    for subscriber in [A, B, C] {
        assert!(!bench.ready().expect("ready").alone);
        bench.deliver(subscriber, 0, 2).lost(subscriber);
    }
    let ready = bench.ready().expect("ready");
    assert!(ready.alone);
    assert_eq!(bench.ready_range(), Some((0, 0)));
    bench.deliver(A, 0, 0);
    assert_eq!(bench.ready_range(), Some((1, 1)));
    bench.closed(A);
    assert!(bench.ready().expect("ready").alone);
}

#[test]
fn a_lost_delivery_uses_no_attempt() {
    let mut bench = Bench::new(Policy {
        max_attempts: 2,
        ..policy()
    });
    bench.fetched(0, 0);
    for _ in 0..5 {
        bench.deliver(A, 0, 0).lost(A);
    }
    assert_eq!(
        bench.ready().map(|ready| (ready.attempt, ready.delivery)),
        Some((1, 6))
    );
}

#[test]
fn a_verdict_from_a_lost_stream_is_stale() {
    let mut bench = Bench::new(policy());
    bench.fetched(0, 0).deliver(A, 0, 0).lost(A);
    assert_eq!(bench.result(A, 0, FAILED), VerdictResult::Stale);
    bench.deliver(B, 0, 0);
    assert_eq!(bench.result(A, 0, FAILED), VerdictResult::Stale);
}

#[test]
fn l4_a_fenced_lane_has_nothing_out_and_hands_everything_out_again_later() {
    let mut bench = Bench::new(policy());
    bench
        .fetched(0, 9)
        .deliver(A, 0, 4)
        .dispatch(B, 5, 9)
        .ack(A, 0, 1)
        .quiet()
        .fenced();
    assert_eq!(
        bench.effects(),
        [
            returned(A, 2, 4, Return::Lost),
            returned(B, 5, 9, Return::Lost)
        ]
    );
    assert_eq!(bench.lane.snapshot().in_flight, 0);
    assert_eq!(
        bench.result(A, 2, ackgate_lane::Verdict::Acked),
        VerdictResult::Stale
    );
    assert_eq!(bench.floor(), 2);
    assert_eq!(bench.fenced().effects(), [], "there is nothing left");
    let ready = bench.ready().expect("ready");
    assert_eq!((ready.attempt, ready.delivery), (1, 2));
}
