//! Without order only the failed record comes again, in its own time.

use std::time::Duration;

use ackgate_lane::{Effect, Policy, Return, Verdict};

use crate::support::{A, B, Bench, FAILED, at, failed_for, policy, returned};

#[test]
fn a_failed_record_comes_again_without_a_restart() {
    let mut bench = Bench::new(policy());
    bench.fetched(0, 2).deliver(A, 0, 2);
    bench.ack(A, 0, 0).applied(A, 1, 1, FAILED).ack(A, 2, 2);
    bench.until(2000).deliver(A, 1, 1).ack(A, 1, 1);
    assert_eq!(bench.commits_until(3000).last(), Some(&3));
}

#[test]
fn l10_a_failed_record_is_not_ready_before_its_own_delay_has_passed() {
    let mut bench = Bench::new(policy());
    bench
        .fetched(0, 0)
        .deliver(A, 0, 0)
        .applied(A, 0, 0, failed_for(3000))
        .until(2999);
    assert_eq!(bench.ready(), None);
    bench.now = at(3000);
    assert_eq!(bench.ready(), None, "only a timeout makes it ready");
    assert_eq!(bench.until(3000).ready_range(), Some((0, 0)));
}

#[test]
fn a_delay_asked_for_is_at_most_an_hour() {
    let mut bench = Bench::new(policy());
    bench
        .fetched(0, 0)
        .deliver(A, 0, 0)
        .applied(A, 0, 0, failed_for(u64::MAX));
    assert_eq!(bench.lane.poll_timeout(), Some(at(3_600_000)));
}

#[test]
fn the_backoff_is_bounded_by_its_growth() {
    let mut bench = Bench::new(policy());
    bench.fetched(0, 0);
    for bound in [1000, 2000, 4000, 8000] {
        bench.deliver(A, 0, 0).applied(A, 0, 0, FAILED);
        let until = bench.lane.poll_timeout().expect("a not-before time");
        assert!(until.since(bench.now) <= Duration::from_millis(bound));
        bench.until(u64::try_from(until.0.as_millis()).expect("small") + 1);
    }
}

#[test]
fn l8_a_failed_record_frees_its_credit_at_once_and_waits_without_any() {
    let mut bench = Bench::new(policy());
    bench
        .fetched(0, 0)
        .deliver(A, 0, 0)
        .applied(A, 0, 0, failed_for(5000));
    assert_eq!(bench.effects(), [returned(A, 0, 0, Return::Verdict)]);
    let snapshot = bench.lane.snapshot();
    assert_eq!(
        (snapshot.in_flight, snapshot.delayed, snapshot.unsettled),
        (0, 1, 1)
    );
}

#[test]
fn l14_a_failure_makes_nobody_else_receive_anything_again() {
    let mut bench = Bench::new(policy());
    bench
        .fetched(0, 9)
        .deliver(A, 0, 4)
        .deliver(B, 5, 9)
        .applied(A, 2, 2, failed_for(100));
    assert_eq!(bench.effects(), [returned(A, 2, 2, Return::Verdict)]);
    bench.ack(B, 5, 9).ack(A, 0, 1).ack(A, 3, 4).until(100);
    assert_eq!(bench.ready_range(), Some((2, 2)));
    assert!(
        bench
            .effects()
            .iter()
            .all(|effect| !matches!(effect, Effect::Seek { .. }))
    );
}

#[test]
fn records_that_come_again_go_before_newer_ones() {
    let mut bench = Bench::new(policy());
    bench
        .fetched(0, 99)
        .deliver(A, 0, 49)
        .applied(A, 10, 19, Verdict::Released);
    assert_eq!(bench.ready_range(), Some((10, 19)));
    let ready = bench.ready().expect("ready");
    assert_eq!((ready.attempt, ready.delivery), (1, 2));
    bench.deliver(B, 10, 19);
    assert_eq!(bench.ready().map(|ready| ready.delivery), Some(1));
    assert_eq!(bench.ready_range(), Some((50, 99)));
}

#[test]
fn a_release_is_ready_at_once_and_uses_no_attempt() {
    let mut bench = Bench::new(Policy {
        max_attempts: 1,
        ..policy()
    });
    bench.fetched(0, 0);
    for _ in 0..19 {
        bench.deliver(A, 0, 0).applied(A, 0, 0, Verdict::Released);
    }
    assert_eq!(
        bench.ready().map(|ready| (ready.attempt, ready.delivery)),
        Some((1, 20))
    );
    bench
        .quiet()
        .deliver(A, 0, 0)
        .applied(A, 0, 0, Verdict::Released);
    assert!(matches!(
        bench.effects().last(),
        Some(Effect::DeadLetter { deliveries: 20, .. })
    ));
}

/// Six records, each failing at every attempt, interleaved: three deliveries each.
#[test]
fn attempts_are_counted_for_each_record_by_itself() {
    let mut bench = Bench::new(Policy {
        max_attempts: 3,
        ..policy()
    });
    bench.fetched(0, 5);
    let mut deliveries = 0;
    for _ in 0..100 {
        let now = bench.now;
        bench.until(u64::try_from(now.0.as_millis()).expect("small") + 500);
        let Some((first, _)) = bench.ready_range() else {
            continue;
        };
        deliveries += 1;
        bench
            .deliver(A, first, first)
            .applied(A, first, first, FAILED);
    }
    let dead = bench
        .effects()
        .iter()
        .filter(|e| matches!(e, Effect::DeadLetter { .. }))
        .count();
    assert_eq!((deliveries, dead), (18, 6));
}

#[test]
fn the_same_inputs_and_seed_give_the_same_effects() {
    let run = || {
        let mut bench = Bench::new(policy());
        bench
            .fetched(0, 9)
            .deliver(A, 0, 9)
            .applied(A, 0, 4, FAILED)
            .lost(A)
            .until(500);
        (
            bench.lane.poll_timeout(),
            bench.effects(),
            bench.lane.snapshot(),
        )
    };
    assert_eq!(run(), run());
}
